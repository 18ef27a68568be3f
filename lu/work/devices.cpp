// SPDX-License-Identifier: BSD-3-Clause
// devices.cpp: a context whose products never stay on the CPU, and a thread that calls it.
#include "work/devices.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

std::string options_of(const DeviceMeans& means) {
  // The crew's tasks call the CPU BLAS at the same time, also with one thread: calls with different
  // numbers would wait for each other.
  std::string options = "offload=always;cpu_share=off;cpu_threads=1;devices=" + means.which;
  if (!means.overlaps_transfers) options += ";rules=all,-overlap";
  return options;
}

/// The first call starts the devices and may measure the machine: nobody wants that in a rate.
void warm_up(const Blas& blas) {
  constexpr std::int64_t kEdge = 256;
  std::vector<double> zeros(3 * kEdge * kEdge);
  double* const a = zeros.data();
  blas.subtract_product(kEdge, kEdge, kEdge, a, kEdge, FLEET_TRANS, a + kEdge * kEdge, kEdge,
                        a + 2 * kEdge * kEdge, kEdge);
}

}  // namespace

Devices::Devices(const DeviceMeans& means, int cores)
    : balance(cores, means.cpu_share),
      context_(make_context(options_of(means))),
      blas_(context_.get(), means.most_flops_per_s) {
  if (config_value(context_.get(), "runs_on") != "devices")
    throw Failure("there are no devices (--devices=none: by the CPU alone)");
  warm_up(Blas(context_.get()));
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    throw Failure("the system gives no thread for devices");
  }
}

Devices::~Devices() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begins_.notify_one();
  thread_.join();
}

void Devices::begin(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  begins_.notify_one();
}

double Devices::finish(const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds kBetween{1};
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return !work_; };
  std::exception_ptr error;
  while (meanwhile && !error && !ends_.wait_for(lock, kBetween, has_ended)) {
    lock.unlock();
    try {
      meanwhile();
    } catch (...) {
      error = std::current_exception();  // the work goes on, and uses what its caller has
    }
    lock.lock();
  }
  ends_.wait(lock, has_ended);
  if (error) std::rethrow_exception(error);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return seconds_;
}

void Devices::run() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  for (;;) {
    begins_.wait(lock, [this] { return stops_ || work_; });
    if (!work_) return;
    const std::function<void()> work = work_;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    lock.lock();
    error_ = error;
    seconds_ = seconds;
    work_ = nullptr;
    ends_.notify_all();
  }
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// stager.cpp: a thread per line takes copies in order, waits for what they wait for, and has
// them done by the crew. It must not know plans.
#include "backend/cuda/stager.hpp"

#include <algorithm>
#include <thread>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "base/clock.hpp"

namespace fleet::cuda {
namespace {

constexpr std::int32_t kFirstCapacity = 4096;

/// Two operands come in for one that goes out.
int threads_for_in(int threads) { return std::max(1, threads * 2 / 3); }

}  // namespace

Stager::Stager(int threads, int ordinal)
    : ordinal_(ordinal), crew_(threads, threads_for_in(threads)) {
  servers_ = std::make_unique<WorkerCrew>(2, [this](int line) { serve(line); });
}

Stager::~Stager() {
  servers_.reset();
  DeviceScope device;
  if (!device.try_use(ordinal_)) return;
  if (flags_ != nullptr) works(cudaFreeHost(flags_));
  for (std::uint32_t* flags : outgrown_) works(cudaFreeHost(flags));
}

bool Stager::begin(std::int32_t copies) {
  if (copies > capacity_) {
    if (flags_ != nullptr) outgrown_.push_back(flags_);
    flags_ = nullptr;
    capacity_ = 0;
    const std::int32_t wanted = std::max(copies, kFirstCapacity);
    void* data = nullptr;
    const DeviceScope device(ordinal_);
    check(cudaHostAlloc(&data, static_cast<std::size_t>(wanted) * sizeof(std::uint32_t),
                        cudaHostAllocPortable),
          "cudaHostAlloc");
    flags_ = static_cast<std::uint32_t*>(data);
    std::fill_n(flags_, wanted, 0U);
    capacity_ = wanted;
    run_ = 0;
  }
  ++run_;
  spans_.assign(static_cast<std::size_t>(copies), {-1, -1});
  failed_ = false;
  failure_ = nullptr;
  if (!crew_.hire() || !servers_->hire({0, 1})) return false;
  for (LineState& line : lines_) line.closed = false;
  servers_->invite({0, 1});
  return true;
}

void Stager::enqueue(Line line, std::int32_t number, const View& from, const View& to,
                     std::int64_t element_bytes, std::vector<Awaited> awaited) {
  LineState& state = lines_[static_cast<int>(line)];
  {
    const std::lock_guard lock(state.mutex);
    state.waiting.push_back({number, {from, to, element_bytes}, std::move(awaited)});
  }
  state.bell.notify_one();
}

void Stager::hold(cudaStream_t stream, std::int32_t number) {
  memory_.wait(stream, flags_ + number, run_);
}

const char* Stager::finish() {
  for (LineState& line : lines_) {
    {
      const std::lock_guard lock(line.mutex);
      line.closed = true;
    }
    line.bell.notify_one();
  }
  servers_->wait();
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::pair<double, double> Stager::span(std::int32_t number) const {
  return spans_[static_cast<std::size_t>(number)];
}

void Stager::serve(int number) {
  LineState& line = lines_[number];
  DeviceScope device;  // events are waited for
  device.try_use(ordinal_);
  for (;;) {
    std::optional<Copy> copy;
    {
      std::unique_lock lock(line.mutex);
      line.bell.wait(lock, [&] { return line.closed || !line.waiting.empty(); });
      if (line.waiting.empty()) return;
      copy = std::move(line.waiting.front());
      line.waiting.pop_front();
    }
    // After a failure too: streams wait for the flag, and a run has to end.
    if (!failed_) do_copy(number, *copy);
    mark(copy->number);
  }
}

void Stager::do_copy(int line, const Copy& copy) {
  for (const Awaited& awaited : copy.awaited) {
    if (awaited.event != nullptr && !works(cudaEventSynchronize(awaited.event)))
      return fail("a device failed under a copy of pageable memory");
    if (awaited.copy >= 0 && !await(awaited.copy)) return;
  }
  auto& span = spans_[static_cast<std::size_t>(copy.number)];
  span.first = now_s();
  crew_.copy(line, copy.columns);
  span.second = now_s();
}

bool Stager::await(std::int32_t number) const {
  while (!done(number) && !failed_) std::this_thread::yield();
  return !failed_;  // flags are raised after a failure too
}

bool Stager::done(std::int32_t number) const {
  return std::atomic_ref(flags_[number]).load(std::memory_order_acquire) == run_;
}

void Stager::mark(std::int32_t number) {
  std::atomic_ref(flags_[number]).store(run_, std::memory_order_release);
}

void Stager::fail(const char* what) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_ == nullptr) failure_ = what;
  failed_ = true;
}

}  // namespace fleet::cuda

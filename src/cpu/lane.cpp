// SPDX-License-Identifier: BSD-3-Clause
// lane.cpp: the thread's loop. It must not know plans.
#include "cpu/lane.hpp"

#include <new>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cpu/kernels.hpp"

namespace fleet {

struct CpuLane::Line {
  explicit Line(std::shared_ptr<CpuBlas> cpu_blas) : blas(std::move(cpu_blas)) {}

  void open(std::size_t kernels, int cores) {
    waiting.clear();
    waiting.reserve(kernels);
    done = {.spans = std::vector<Span>(kernels), .failure = {}};
    closed = false;
    threads = cores;
    start_s = now_s();
  }

  /// The next kernel, or nothing when there will be none.
  std::optional<Launch> next(std::size_t at) {
    std::unique_lock lock(mutex);
    bell.wait(lock, [&] { return closed || at < waiting.size(); });
    return at < waiting.size() ? std::optional(waiting[at]) : std::nullopt;
  }

  /// After a failure nothing more is begun: what follows may need what has failed.
  void serve() {
    std::size_t at = 0;
    try {
      const CpuBlas::Lease lease(*blas, threads);
      for (auto launch = next(at); launch; launch = next(++at)) {
        done.spans[at].start_s = now_s() - start_s;
        run_kernel(*launch, *blas);
        done.spans[at].stop_s = now_s() - start_s;
      }
    } catch (const std::exception& error) {
      done.failed = true;
      try {
        done.failure = message_of(error);
      } catch (const std::bad_alloc&) {
        // The run still has to end.
      }
    }
  }

  const std::shared_ptr<CpuBlas> blas;
  std::mutex mutex;
  std::condition_variable bell;
  std::vector<Launch> waiting;  ///< all of the run
  bool closed = true;
  int threads = 1;
  double start_s = 0;
  Done done;  ///< the thread's until it is done
};

CpuLane::CpuLane(std::shared_ptr<CpuBlas> blas)
    : line_(std::make_shared<Line>(std::move(blas))),
      crew_(1, [line = line_](int) { line->serve(); }) {}

CpuLane::~CpuLane() {
  if (is_open_ && crew_.present()) finish();
}

void CpuLane::begin(std::size_t kernels, int threads) {
  if (is_open_) throw Error(Status::internal, "the CPU's lane is at another run");
  if (!crew_.present())
    throw Error(Status::device_failed, "the CPU's lane does not exist in a forked child");
  line_->open(kernels, threads);
  if (!crew_.hire({0}))
    throw Error(Status::no_memory, "the system gives no thread for the CPU's lane");
  is_open_ = true;
  crew_.invite({0});
}

void CpuLane::push(const Launch& launch) noexcept {
  {
    const std::lock_guard lock(line_->mutex);
    if (line_->waiting.size() < line_->waiting.capacity()) line_->waiting.push_back(launch);
  }
  line_->bell.notify_one();
}

CpuLane::Done CpuLane::finish() {
  if (!is_open_) return {};
  {
    const std::lock_guard lock(line_->mutex);
    line_->closed = true;
  }
  line_->bell.notify_one();
  crew_.wait();
  is_open_ = false;
  return std::move(line_->done);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// stager.cpp: a thread per line takes copies in order, waits for what they wait for, and has
// them done by its crew. It must not know plans.
#include "backend/cuda/stager.hpp"

#include <algorithm>
#include <thread>

#include "backend/cuda/check.hpp"
#include "base/clock.hpp"
#include "cpu/copies.hpp"

namespace fleet::cuda {
namespace {

constexpr std::int32_t kFirstCapacity = 4096;
/// Bytes of a tile that a thread takes at once: so large that taking them costs nothing.
constexpr std::int64_t kShareBytes = std::int64_t{512} << 10;

}  // namespace

Stager::Stager(int threads) {
  for (int line = 0; line < 2; ++line) {
    // Two operands come in for one that goes out.
    const int crew =
        std::max(1, line == static_cast<int>(Line::in) ? threads * 2 / 3 : threads / 3);
    for (int worker = 0; worker < crew; ++worker) lines_[line].all.push_back(worker);
    lines_[line].crew = std::make_unique<WorkerCrew>(crew, [this, line](int) { help(line); });
  }
  servers_ = std::make_unique<WorkerCrew>(2, [this](int line) { serve(line); });
}

Stager::~Stager() {
  servers_.reset();
  for (LineState& line : lines_) line.crew.reset();
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
  for (LineState& line : lines_) {
    if (!line.crew->hire(line.all)) return false;
    line.closed = false;
  }
  if (!servers_->hire({0, 1})) return false;
  servers_->invite({0, 1});
  return true;
}

void Stager::enqueue(Line line, std::int32_t number, const View& from, const View& to,
                     std::int64_t element_bytes, std::vector<Awaited> awaited) {
  LineState& state = lines_[static_cast<int>(line)];
  {
    const std::lock_guard lock(state.mutex);
    state.waiting.push_back({number, from, to, element_bytes, std::move(awaited)});
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
    if (!failed_) do_copy(line, *copy);
    mark(copy->number);
  }
}

void Stager::do_copy(LineState& line, const Copy& copy) {
  for (const Awaited& awaited : copy.awaited) {
    if (awaited.event != nullptr && !works(cudaEventSynchronize(awaited.event)))
      return fail("a device failed under a copy of pageable memory");
    while (awaited.copy >= 0 && !done(awaited.copy)) {
      if (failed_) return;
      std::this_thread::yield();
    }
  }
  auto& span = spans_[static_cast<std::size_t>(copy.number)];
  span.first = now_s();
  line.next_column = 0;
  line.current = &copy;
  line.crew->invite(line.all);
  line.crew->wait();
  span.second = now_s();
}

/// One of several threads at the same copy: columns, until there are none.
void Stager::help(int number) {
  LineState& line = lines_[number];
  const Copy& copy = *line.current;
  const std::int64_t column_bytes = std::max<std::int64_t>(1, copy.from.rows * copy.element_bytes);
  const std::int64_t share = std::max<std::int64_t>(1, kShareBytes / column_bytes);
  for (;;) {
    const std::int64_t first = line.next_column.fetch_add(share);
    if (first >= copy.from.cols) return;
    copy_columns_past_caches(copy.from, copy.to, copy.element_bytes, first,
                             std::min(first + share, copy.from.cols));
  }
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

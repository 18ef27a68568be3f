// SPDX-License-Identifier: BSD-3-Clause
// stream_memory.cpp: a page of numbers, one for each stream that is held at a time. It must not
// know what streams wait for.
#include "backend/cuda/stream_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"

namespace fleet::cuda {
namespace {

constexpr std::size_t kNumbers = 4096;
/// What a number says of its stream. The CPU opens it, and the stream itself says that it has gone
/// on: from then on the number may be used for another one.
constexpr std::uint32_t kHeld = 0, kOpen = 1, kPassed = 2;

CUdeviceptr address(const std::uint32_t* number) { return reinterpret_cast<CUdeviceptr>(number); }

std::atomic<int> held{0};  ///< streams, in the process

thread_local int depth = 0;  ///< instances of NoNewHold

/// Owned by whoever holds one more, shared by those who do without.
std::shared_mutex& beginnings() {
  static auto& mutex = *new std::shared_mutex;  // threads may outlive exit()
  return mutex;
}

class Holds {
 public:
  std::function<void()> hold(cudaStream_t stream) {
    std::uint32_t* const number = begin();
    const auto let_go = [number] {
      set(number, kOpen);
      held.fetch_sub(1);
    };
    try {
      memory_.wait(stream, number, kOpen);
    } catch (...) {
      let_go();
      set(number, kPassed);
      throw;
    }
    try {
      memory_.write(stream, number, kPassed);
    } catch (...) {
      let_go();  // and it is not used again
      throw;
    }
    return let_go;
  }

  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  /// One for the process, made by the first stream that is held, and never destroyed.
  static Holds& of_process() {
    static Holds& all = *new Holds;
    return all;
  }

 private:
  Holds() {
    void* data = nullptr;
    check(cudaHostAlloc(&data, kNumbers * sizeof(std::uint32_t), cudaHostAllocPortable),
          "cudaHostAlloc");
    numbers_ = static_cast<std::uint32_t*>(data);
    std::fill_n(numbers_, kNumbers, kPassed);
    std::atexit([] { of_process().open_all(); });
  }

  /// The stream is held from here on. To put something into it may take as long as what it has
  /// already: nobody else waits for that.
  std::uint32_t* begin() {
    const std::lock_guard lock(beginnings());
    std::uint32_t* const number = free_number();
    set(number, kHeld);
    held.fetch_add(1);
    return number;
  }

  static void set(std::uint32_t* number, std::uint32_t value) {
    std::atomic_ref(*number).store(value, std::memory_order_release);
  }

  std::uint32_t* free_number() {
    for (std::size_t tried = 0; tried < kNumbers; ++tried) {
      next_ = (next_ + 1) % kNumbers;
      if (std::atomic_ref(numbers_[next_]).load(std::memory_order_acquire) == kPassed)
        return &numbers_[next_];
    }
    throw Error(Status::no_memory,
                std::to_string(kNumbers) + " streams wait for calls already: no more can");
  }

  /// The calls may never be done now, and the program may still wait for its streams.
  void open_all() {
    if (getpid() != process_) return;  // a forked child has the same numbers, and not the streams
    for (std::size_t i = 0; i < kNumbers; ++i) {
      std::uint32_t expected = kHeld;
      std::atomic_ref(numbers_[i]).compare_exchange_strong(expected, kOpen);
    }
  }

  const StreamMemory memory_;
  const pid_t process_ = getpid();
  std::uint32_t* numbers_ = nullptr;  ///< pinned
  std::size_t next_ = 0;              // guarded by beginnings()
};

}  // namespace

StreamMemory::StreamMemory()
    : wait_(driver_function<Function>("cuStreamWaitValue32")),
      write_(driver_function<Function>("cuStreamWriteValue32")) {
  if (wait_ == nullptr || write_ == nullptr)
    throw Error(Status::device_failed, "this driver's streams cannot wait for memory");
}

void StreamMemory::wait(cudaStream_t stream, const std::uint32_t* number,
                        std::uint32_t least) const {
  check(wait_(stream, address(number), least, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue32");
}

void StreamMemory::write(cudaStream_t stream, std::uint32_t* number, std::uint32_t value) const {
  check(write_(stream, address(number), value, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32");
}

std::function<void()> hold_stream(cudaStream_t stream) { return Holds::of_process().hold(stream); }

bool any_stream_is_held() { return held.load() > 0; }

NoNewHold::NoNewHold() {
  if (depth++ == 0) lock_ = std::shared_lock(beginnings());
}

NoNewHold::~NoNewHold() { --depth; }

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// event.hpp: something that is going to be done, and who has to be told. It knows no calls.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace fleet {

/// The outcome of a queued call, of work in a stream, or of what the program does. Thread-safe.
class Event {
 public:
  /// Is it done, or has it failed? Never waits; also in a forked child.
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Waits until it is done, and throws its error. Throws Error(unsupported) instead of waiting in
  /// a forked child and while the process exits: whoever would finish it may not exist there.
  void wait() const;
  /// Once done: throws its error.
  void require_ok() const;
  Status status() const noexcept { return status_; }
  /// Once it has failed: why, which for a call begins with its name.
  std::string_view why() const;

  /// By whoever does it. False, with nothing changed, if it is done already.
  bool finish(Status status, std::string_view message) noexcept;
  /// Calls `then` once it is done, in the thread that finishes it, or now; never in a forked child.
  /// `then` must neither throw nor wait for anything.
  void when_done(const std::function<void()>& then);

 private:
  std::atomic_flag finishing_;
  std::atomic<bool> done_{false};
  Status status_ = Status::ok;
  std::string message_;  ///< empty if there was no memory for it
  /// Guarded by gate::StateLock, so that a forked child may finish events.
  std::vector<std::function<void()>> then_;
};

}  // namespace fleet

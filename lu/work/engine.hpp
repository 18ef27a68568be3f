// SPDX-License-Identifier: BSD-3-Clause
// engine.hpp: messages that go on while their rank computes. It knows no matrices.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/comm.hpp"
#include "work/recorder.hpp"

namespace fleet::lu {

/// Drives all messages of a rank that it is given: by a thread of its own or, without one, whenever
/// somebody waits for one of them or calls poll().
class Engine {
 public:
  struct Options {
    bool has_thread = false;
    /// The thread never rests between two looks: it has a core of its own.
    bool spins = false;
    /// What the thread does while nothing is under way; false where there is nothing to do.
    std::function<bool()> meanwhile;
    /// The longest that wait() waits.
    double patience_s = 600;
  };

  /// Of a message: what it carries, for the recorder.
  struct Label {
    What what;
    std::int64_t step;
  };

  /// Throws Failure where the system gives no thread.
  Engine(Options options, Recorder& recorder);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The message, driven from now on. The engine must outlive it.
  std::unique_ptr<Request> drive(std::unique_ptr<Request> request, Label label);
  /// Looks once at everything that is under way, unless another thread is at it.
  void poll();
  /// Something is under way.
  bool is_busy();
  /// There is work for `meanwhile`.
  void wake() { changed_.notify_one(); }

 private:
  struct Message;
  class Driven;

  void run();
  void poll_locked();

  const Options options_;
  Recorder& recorder_;
  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  std::vector<std::shared_ptr<Message>> under_way_;  // guarded by mutex_
  std::atomic<int> waiting_{0};                      ///< for a message, and so for the thread
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace fleet::lu

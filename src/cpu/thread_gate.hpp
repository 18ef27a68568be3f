// SPDX-License-Identifier: BSD-3-Clause
// thread_gate.hpp: who may use a library whose thread count is one number for the whole process.
// It must not know what the library computes.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fleet {

/// Holders with the same number are in together, others wait in the order in which they came, so
/// that nobody starves. A thread that is in and enters again joins itself, whatever its number:
/// waiting would be waiting for itself. In a forked child the gate is empty, whoever was in.
class ThreadGate {
 public:
  /// `set_threads` is called with nobody inside, before the first holder of a number goes in;
  /// `leave_all` after the last one left. Both may be empty.
  ThreadGate(std::function<void(int)> set_threads, std::function<void()> leave_all);
  ~ThreadGate();
  ThreadGate(const ThreadGate&) = delete;
  ThreadGate& operator=(const ThreadGate&) = delete;

  void enter(int threads);
  void leave();

 private:
  struct Room {
    explicit Room(pid_t owner) : process(owner) {}
    const pid_t process;
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t next_ticket = 0;
    std::uint64_t serving = 0;
    int threads = 0;
    std::vector<std::thread::id> holders;
    Room* left_before = nullptr;
  };
  Room& room();
  static void leave_to_parent(Room* room);

  /// Rooms of parents, which a child may neither enter nor destroy. Here they are reachable, so no
  /// leak checker takes them for lost.
  static std::atomic<Room*> left_;

  std::function<void(int)> set_threads_;
  std::function<void()> leave_all_;
  std::atomic<Room*> room_;
};

}  // namespace fleet

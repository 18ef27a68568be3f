// SPDX-License-Identifier: BSD-3-Clause
// thread_gate.cpp: a first-come gate over one thread count. It must not know what is computed.
#include "cpu/thread_gate.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace fleet {

std::atomic<ThreadGate::Room*> ThreadGate::left_ = nullptr;

ThreadGate::ThreadGate(std::function<void(int)> set_threads, std::function<void()> leave_all)
    : set_threads_(std::move(set_threads)),
      leave_all_(std::move(leave_all)),
      room_(new Room(getpid())) {}

ThreadGate::~ThreadGate() {
  Room* room = room_.load();
  room->process == getpid() ? delete room : leave_to_parent(room);
}

void ThreadGate::leave_to_parent(Room* room) {
  room->left_before = left_.load();
  while (!left_.compare_exchange_weak(room->left_before, room)) {
  }
}

// The room of the parent may be locked for ever by a thread that the child does not have, so the
// child leaves it alone and takes a new one.
ThreadGate::Room& ThreadGate::room() {
  Room* current = room_.load(std::memory_order_acquire);
  if (current->process == getpid()) return *current;
  Room* fresh = new Room(getpid());
  if (room_.compare_exchange_strong(current, fresh)) {
    leave_to_parent(current);
    return *fresh;
  }
  delete fresh;
  return *current;
}

void ThreadGate::enter(int threads) {
  Room& room = this->room();
  const auto me = std::this_thread::get_id();
  std::unique_lock lock(room.mutex);
  if (std::ranges::find(room.holders, me) != room.holders.end()) {
    room.holders.push_back(me);
    return;
  }
  const std::uint64_t ticket = room.next_ticket++;
  room.changed.wait(lock, [&] {
    return room.serving == ticket && (room.holders.empty() || room.threads == threads);
  });
  ++room.serving;
  room.changed.notify_all();
  // Throws where there is no memory; the turn is then over, and the next one begins.
  room.holders.reserve(room.holders.size() + 1);
  if (room.holders.empty() && set_threads_) set_threads_(threads);
  room.threads = threads;
  room.holders.push_back(me);
}

void ThreadGate::leave() {
  Room& room = this->room();
  const std::lock_guard lock(room.mutex);
  if (room.holders.empty()) return;  // entered before a fork, left in the child
  auto mine = std::ranges::find(room.holders, std::this_thread::get_id());
  if (mine == room.holders.end()) mine = room.holders.begin();
  room.holders.erase(mine);
  if (!room.holders.empty()) return;
  if (leave_all_) leave_all_();
  room.changed.notify_all();
}

}  // namespace fleet

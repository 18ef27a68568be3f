// SPDX-License-Identifier: BSD-3-Clause
// slots.hpp: the staging slots of one device while a plan is made: what each holds, and who wrote
// and read it, so that a slot used again waits for its former users.
#pragma once
#include <cstdint>
#include <vector>

#include "base/sizes.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// The use of a slot; those of `kept` outlive the plan, outside of the arena. Slots of one pool
/// have one size once they are recycled.
enum class Pool { input, output, transit, prepared, kept };
inline constexpr int kPools = 5;

class SlotStore {
 public:
  static constexpr std::int64_t kUnlimited = INT64_MAX;
  static constexpr int kNothing = -1;

  /// A pool without a limit grows by slots of just the bytes asked for (everything stays); a
  /// limited one has at most `slots` slots of `slot_bytes` and is recycled.
  void limit(Pool pool, std::int64_t slots, std::int64_t slot_bytes) {
    limits_[static_cast<std::size_t>(pool)] = {slots, slot_bytes};
  }
  bool recycles(Pool pool) const {
    return limits_[static_cast<std::size_t>(pool)].slots != kUnlimited;
  }

  /// Slots of pools without a limit are used again for contents of the same size where the arena
  /// would exceed `bytes`. As long as it does not, nothing waits for the former users of a slot.
  void reuse_beyond(std::int64_t bytes) { reuse_beyond_ = bytes; }

  /// The device has so much memory for all slots: without a limit of its own, a pool has no room
  /// beyond. Slots are used again before that.
  void cap(std::int64_t bytes) { cap_ = reuse_beyond_ = bytes; }

  /// Whether take would succeed without exceeding the cap.
  bool has_room(Pool pool, std::int64_t bytes) const {
    const FreeList& free = free_[static_cast<std::size_t>(pool)];
    if (recycles(pool))
      return used_[static_cast<std::size_t>(pool)] <
                 limits_[static_cast<std::size_t>(pool)].slots ||
             free.head < free.slots.size();
    const std::int64_t size = round_up(bytes, kAlignmentBytes);
    return size <= cap_ - arena_bytes_ - kept_bytes_ || find_free(pool, size) < free.slots.size();
  }

  /// A slot never used, else the one given back first, or -1 when there is neither.
  int take(Pool pool, std::int64_t bytes, int content) {
    const Limit& limit = limits_[static_cast<std::size_t>(pool)];
    if (used_[static_cast<std::size_t>(pool)] >= limit.slots) {
      FreeList& free = free_[static_cast<std::size_t>(pool)];
      if (free.head == free.slots.size()) return -1;
      const int slot = free.slots[free.head++];
      refill(slot, content);
      return slot;
    }
    const std::int64_t size = round_up(recycles(pool) ? limit.slot_bytes : bytes, kAlignmentBytes);
    if (arena_bytes_ + kept_bytes_ + size > reuse_beyond_ && !recycles(pool)) {
      if (const int slot = take_again(pool, size); slot >= 0) {
        refill(slot, content);
        return slot;
      }
    }
    ++used_[static_cast<std::size_t>(pool)];
    slots_.push_back({pool == Pool::kept ? Slot::kOutside : arena_bytes_, size});
    (pool == Pool::kept ? kept_bytes_ : arena_bytes_) += size;
    states_.push_back({content, pool, kNoTask, {}});
    return static_cast<int>(states_.size()) - 1;
  }

  /// Gives a slot back; first in, first out, so that its last users are long done when it is taken.
  void give_back(int slot) {
    State& state = states_[static_cast<std::size_t>(slot)];
    state.content = kNothing;
    free_[static_cast<std::size_t>(state.pool)].slots.push_back(slot);
  }

  /// Hands a slot over to other content, without a detour through the free list.
  void refill(int slot, int content) { states_[static_cast<std::size_t>(slot)].content = content; }

  int content(int slot) const { return states_[static_cast<std::size_t>(slot)].content; }
  std::int64_t bytes(int slot) const { return slots_[static_cast<std::size_t>(slot)].bytes; }
  Pool pool(int slot) const { return states_[static_cast<std::size_t>(slot)].pool; }
  int slot_count() const { return static_cast<int>(states_.size()); }

  TaskId writer(int slot) const { return states_[static_cast<std::size_t>(slot)].writer; }
  void note_write(int slot, TaskId task) {
    State& state = states_[static_cast<std::size_t>(slot)];
    state.writer = task;
    state.readers.clear();
  }
  void note_read(int slot, TaskId task) {
    State& state = states_[static_cast<std::size_t>(slot)];
    if (recycles(state.pool) || reuse_beyond_ < kUnlimited) state.readers.push_back(task);
  }
  /// Tasks that must be done before the slot may be written: its writer and all its readers.
  void former_users(int slot, std::vector<TaskId>& out) const {
    const State& state = states_[static_cast<std::size_t>(slot)];
    if (state.writer != kNoTask) out.push_back(state.writer);
    out.insert(out.end(), state.readers.begin(), state.readers.end());
  }

  /// The last task so far that uses the slot, or kNoTask.
  TaskId last_user(int slot) const {
    const State& state = states_[static_cast<std::size_t>(slot)];
    return state.readers.empty() ? state.writer : state.readers.back();
  }

  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::int64_t kept_bytes() const { return kept_bytes_; }
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  struct Limit {
    std::int64_t slots = kUnlimited;
    std::int64_t slot_bytes = 0;
  };
  struct State {
    int content = kNothing;
    Pool pool = Pool::input;
    TaskId writer = kNoTask;
    std::vector<TaskId> readers;
  };
  struct FreeList {
    std::vector<int> slots;
    std::size_t head = 0;
  };

  /// A slot of that size which was given back, or -1.
  int take_again(Pool pool, std::int64_t size) {
    FreeList& free = free_[static_cast<std::size_t>(pool)];
    const std::size_t at = find_free(pool, size);
    if (at == free.slots.size()) return -1;
    const int slot = free.slots[at];
    free.slots.erase(free.slots.begin() + static_cast<std::ptrdiff_t>(at));
    return slot;
  }

  /// Where the list of free slots has one of that size, or its end.
  std::size_t find_free(Pool pool, std::int64_t size) const {
    const FreeList& free = free_[static_cast<std::size_t>(pool)];
    std::size_t at = free.head;
    while (at < free.slots.size() && slots_[static_cast<std::size_t>(free.slots[at])].bytes != size)
      ++at;
    return at;
  }

  Limit limits_[kPools];
  std::int64_t reuse_beyond_ = kUnlimited;
  std::int64_t cap_ = kUnlimited;
  std::int64_t used_[kPools] = {};
  FreeList free_[kPools];
  std::vector<State> states_;
  std::vector<Slot> slots_;
  std::int64_t arena_bytes_ = 0;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace fleet

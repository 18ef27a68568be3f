// SPDX-License-Identifier: BSD-3-Clause
// strip_places.hpp: the slots of the devices while a factorization is planned, with the tasks that
// have written and read each. It knows no tile and no time.
#pragma once
#include <vector>

#include "base/sizes.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// A place that tasks write and read: what touches it next waits for them.
struct Used {
  TaskId writer = kNoTask;
  std::vector<TaskId> readers = {};

  void before_read(std::vector<TaskId>& after) const { after.push_back(writer); }
  void before_write(std::vector<TaskId>& after) const {
    after.push_back(writer);
    after.insert(after.end(), readers.begin(), readers.end());
  }
  void note_read(TaskId task) { readers.push_back(task); }
  void note_write(TaskId task) {
    writer = task;
    readers.clear();
  }
};

/// Slots of one device, each added for one strip, or for a ring.
class StripSlots {
 public:
  int add(std::int64_t bytes) { return add(bytes, arena_bytes_, arena_bytes_); }
  /// One that outlives the plan.
  int add_outside(std::int64_t bytes) { return add(bytes, Slot::kOutside, outside_bytes_); }
  Used& used(int slot) { return used_[static_cast<std::size_t>(slot)]; }
  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::int64_t bytes() const { return arena_bytes_ + outside_bytes_; }
  std::vector<Slot> take() { return std::move(slots_); }

 private:
  int add(std::int64_t bytes, std::int64_t offset, std::int64_t& sum) {
    const std::int64_t size = round_up(std::max<std::int64_t>(bytes, 1), kAlignmentBytes);
    slots_.push_back({offset, size});
    used_.emplace_back();
    sum += size;
    return static_cast<int>(slots_.size()) - 1;
  }

  std::vector<Slot> slots_;
  std::vector<Used> used_;
  std::int64_t arena_bytes_ = 0, outside_bytes_ = 0;
};

/// A fixed number of slots, of which the one that was taken first is taken again.
class SlotRing {
 public:
  SlotRing() = default;
  SlotRing(StripSlots& slots, int count, std::int64_t bytes) {
    for (int i = 0; i < count; ++i) ring_.push_back(slots.add(bytes));
  }
  int next() { return ring_[at_++ % ring_.size()]; }

 private:
  std::vector<int> ring_;
  std::size_t at_ = 0;
};

}  // namespace fleet

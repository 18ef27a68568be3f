// SPDX-License-Identifier: BSD-3-Clause
// probe_plan.hpp: small plans of copies and kernels that a probe runs to time them. What they
// compute means nothing. It knows no clock and no kind of backend.
#pragma once
#include <optional>
#include <vector>

#include "exec/backend.hpp"

namespace fleet {

/// Square tiles of one edge. A lies in pinned memory and B in pageable memory; where tiles are
/// small there are several, so that copies do not find their data in a cache near by. What a queue
/// writes is its own, so that queues may run in any order and at once.
class ProbePlan {
 public:
  /// Loads of host memory need operands that are larger than the caches of the largest CPUs, or
  /// they load those.
  enum class Footprint { small, large };
  ProbePlan(const Machine& machine, DataType type, std::int64_t edge,
            Footprint footprint = Footprint::small);

  /// The next tile over `link`. Copies of one link follow each other.
  TaskId copy(LinkId link, const std::vector<TaskId>& after);
  /// Fetches numbers into the slots of `device` and of its lane 0, if there is a link from the host
  /// and the tiles are not too large for it. Returns what a kernel there has to wait for.
  std::vector<TaskId> prime(DeviceId device);
  /// A multiply or an add on slots of `device`, after the earlier ones of its lane.
  TaskId kernel(DeviceId device, int lane, Kernel kernel, const std::vector<TaskId>& after);

  /// How many tiles are more than the caches of the largest CPUs hold.
  int copies_beyond_caches() const;

  const Plan& plan() const { return plan_; }
  const Machine& machine() const { return *machine_; }
  std::int64_t tile_bytes() const;
  /// Bytes of A, and of B.
  std::int64_t operand_bytes() const;

 private:
  QueueId queue(const Queue& wanted);
  TaskId add(Task task, const std::vector<TaskId>& after);
  QueueId queue_of(LinkId link);
  TaskId copy(LinkId link, Where to, const std::vector<TaskId>& after);
  /// Whether the copy reads or writes an operand at this end. Between the two kinds of host memory,
  /// the pinned side is the ring: slots of the host.
  bool in_place(LinkId link, DeviceId end) const;
  TileId operand_tile(DeviceId location, int across, int turn) const;
  int own_tiles(QueueId queue);
  int read_slots() const;
  int own_slots() const;
  Where add_slot(DeviceId device);
  Where read_slot(DeviceId device, int turn);
  Where own_slot(DeviceId device, QueueId queue, int turn);

  const Machine* machine_;
  int turns_;  ///< tiles that are read, or written, in turn
  Plan plan_;
  std::vector<std::vector<Where>> read_slots_;  ///< by device
  std::vector<std::vector<Where>> own_slots_;   ///< by queue
  std::vector<int> own_tiles_;                  ///< by queue: index along k, 0 if it has none
  int next_ = 0;
};

/// The operands of probe plans on a backend: memory that grows on demand and is given back. While
/// it lives the backend keeps the times of its tasks.
class ProbeMemory {
 public:
  explicit ProbeMemory(Backend& backend) : backend_(backend) { backend_.keep_times(true); }
  ~ProbeMemory();
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;

  /// Runs the plan; nothing if its tiles do not fit. Throws Error if a task fails.
  std::optional<Trace> run(const ProbePlan& probe);

 private:
  Arguments bind(const ProbePlan& probe);
  void* at_least(DeviceId location, std::int64_t bytes);
  void fill(DeviceId location, void* data, std::int64_t bytes);

  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  Backend& backend_;
  Block blocks_[kFirstDevice];
};

}  // namespace fleet

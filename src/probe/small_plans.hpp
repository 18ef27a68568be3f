// SPDX-License-Identifier: BSD-3-Clause
// small_plans.hpp: small plans of copies and kernels that a probe runs to time them. What they
// compute means nothing. It knows no clock and no kind of backend.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "run/backend.hpp"

namespace fleet {

/// Tiles of one size, square ones as a rule. A lies in pinned memory, or on a device, and B in
/// pageable memory; where tiles are small there are several, so that copies do not find their data
/// in a cache near by. What a queue writes is its own, so that queues may run in any order and at
/// once.
class ProbePlan {
 public:
  /// Loads of host memory need operands that are larger than the caches of the largest CPUs, or
  /// they load those.
  enum class Footprint { small, large };
  ProbePlan(const Machine& machine, DataType type, std::int64_t edge,
            Footprint footprint = Footprint::small);
  /// Of longer or shorter columns, which at A's home follow each other, or lie so many rows apart
  /// (or twice their own, if that is more).
  struct Columns {
    std::int64_t rows = 1, columns = 1;
    std::int64_t rows_apart = 0;
    DeviceId home = kHost;
  };
  ProbePlan(const Machine& machine, DataType type, const Columns& columns);

  /// The next tile over `link`. Copies of one link follow each other.
  TaskId copy(LinkId link, const std::vector<TaskId>& after);
  /// The same after all copies so far that were added in turn. These share what they write at each
  /// target, so that a plan over many links takes no more memory than one over few.
  TaskId copy_in_turn(LinkId link);
  /// Fetches numbers into the slots of `device` and of its lane 0, if there is a link from the host
  /// and the tiles are not too large for it. Returns what a kernel there has to wait for.
  std::vector<TaskId> prime(DeviceId device);
  /// A multiply or an add on slots of `device`, after the earlier ones of its lane.
  TaskId kernel(DeviceId device, int lane, Kernel kernel, const std::vector<TaskId>& after);

  /// How many tiles are more than the caches of the largest CPUs hold.
  int copies_beyond_caches() const;

  /// With all operands as they are by now.
  const Plan& plan() const;
  DeviceId home() const { return home_; }
  const Machine& machine() const { return *machine_; }
  std::int64_t tile_bytes() const;
  /// Bytes of A, and of B.
  std::int64_t operand_bytes() const;

 private:
  void size_up(DataType type, std::int64_t rows, std::int64_t columns, int tiles_down);
  QueueId queue(const Queue& wanted);
  TaskId add(Task task, const std::vector<TaskId>& after);
  QueueId queue_of(LinkId link);
  TaskId copy_as(QueueId writer, LinkId link, const std::vector<TaskId>& after);
  TaskId copy(LinkId link, Where to, QueueId writer, const std::vector<TaskId>& after);
  /// Whether the copy reads or writes an operand at this end. Between the two kinds of host memory,
  /// the pinned side is the ring: slots of the host.
  bool in_place(LinkId link, DeviceId end) const;
  TileId operand_tile(DeviceId location, int along_k) const;
  int own_tiles(QueueId queue);
  int read_slots() const;
  int own_slots() const;
  Where add_slot(DeviceId device);
  Where read_slot(DeviceId device, int turn);
  Where own_slot(DeviceId device, QueueId queue, int turn);

  const Machine* machine_;
  int turns_;  ///< tiles that each queue writes in turn; its square: that are read in turn
  DeviceId home_ = kHost;        ///< of A
  std::int64_t slot_bytes_ = 0;  ///< a tile of A, B or C
  DataType type_ = DataType::f64;
  CallCuts cuts_;  ///< along k they grow with the queues that write tiles
  mutable Plan plan_;
  std::vector<std::vector<Where>> read_slots_;   ///< by device
  std::vector<std::vector<Where>> own_slots_;    ///< by queue
  std::vector<int> own_tiles_;                   ///< by queue: index along k, 0 if it has none
  std::map<DeviceId, QueueId> writers_in_turn_;  ///< by target
  std::vector<TaskId> last_in_turn_;
  int next_ = 0;
};

/// The operands of probe plans on a backend: memory that grows on demand and is given back. While
/// it lives the backend keeps the times of its tasks.
class ProbeMemory {
 public:
  explicit ProbeMemory(Backend& backend)
      : backend_(backend), blocks_(backend.machine().devices.size()) {
    backend_.keep_times(true);
  }
  ~ProbeMemory();
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;

  /// Runs the plan; nothing if its tiles do not fit. Throws Error if a task fails.
  std::optional<Trace> run(const ProbePlan& probe);

 private:
  Arguments bind(const ProbePlan& probe);
  struct RandomBits;
  static RandomBits random_bits(Storage storage);
  void* at_least(DeviceId location, std::int64_t bytes, Storage storage);
  void let_go(DeviceId location);
  void fill(DeviceId location, void* data, std::int64_t bytes, const RandomBits& bits);

  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
    std::int64_t filled = 0;
    std::uint64_t pattern = 0;  ///< of what it is filled with
  };
  Backend& backend_;
  std::vector<Block> blocks_;  ///< by location
};

}  // namespace fleet

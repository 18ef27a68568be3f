// SPDX-License-Identifier: BSD-3-Clause
// small_plans.hpp: small plans of copies and kernels that a probe runs to time them. Their results
// are not used. It knows no clock and no kind of backend.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "run/backend.hpp"

namespace fleet {

/// A plan on tiles of one size, usually square. A lies in pinned memory or on a device, and B in
/// pageable memory. Small tiles alternate, so that copies do not find their data in a cache. Every
/// queue writes tiles of its own, so that queues may run concurrently and in any order.
class ProbePlan {
 public:
  /// Loads of host memory need operands larger than the caches of the largest CPUs; otherwise they
  /// load the caches.
  enum class Footprint { small, large };
  /// `reads`: the least number of tiles of an operand that are read before the first is read again.
  ProbePlan(const Machine& machine, DataType type, std::int64_t edge,
            Footprint footprint = Footprint::small, int reads = 0);
  /// The columns of a tile. At the home of A they are contiguous, or this many rows apart (or twice
  /// their length, if that is more).
  struct Columns {
    std::int64_t rows = 1, columns = 1;
    std::int64_t rows_apart = 0;
    bool many = false;  ///< copies are of other columns in turn, of which a device remembers few
    DeviceId home = kHost;
  };
  ProbePlan(const Machine& machine, DataType type, const Columns& columns);

  /// From now on the sources of copies between devices send them in turn (Queue::in_turn).
  void send_in_turn() { in_turn_ = true; }
  /// Copies the next tile over `link`. Copies over one link are sequential.
  TaskId copy(LinkId link, const std::vector<TaskId>& after);
  /// Copies the next tile over `first` into a slot, and from there over `second`. Returns the
  /// second copy. All such copies share kLeastRingSlots.
  TaskId copy_through(LinkId first, LinkId second, const std::vector<TaskId>& after);
  /// The same as copy(), after all earlier copies added by copy_in_turn. They share the tiles
  /// written at each target, so that a plan over many links takes no more memory than one over few.
  TaskId copy_in_turn(LinkId link);
  /// Copies numbers into the slots of `device` and of its lane 0, if there is a link from the host
  /// and the tiles are not too large. Returns the tasks that a kernel there must wait for.
  std::vector<TaskId> prime(DeviceId device);
  /// A multiply or an add on slots of `device`, after the earlier kernels of its lane.
  TaskId kernel(DeviceId device, int lane, Kernel kernel, const std::vector<TaskId>& after);

  /// The number of tiles that exceeds the caches of the largest CPUs.
  int copies_beyond_caches() const;

  /// The plan, with the current sizes of all operands.
  const Plan& plan() const;
  DeviceId home() const { return home_; }
  const Machine& machine() const { return *machine_; }
  std::int64_t tile_bytes() const;
  /// Bytes of A, and equally of B.
  std::int64_t operand_bytes() const;

 private:
  void size_up(DataType type, std::int64_t rows, std::int64_t columns, int tiles_down);
  QueueId queue(const Queue& wanted);
  TaskId add(Task task, const std::vector<TaskId>& after);
  QueueId queue_of(LinkId link);
  TaskId copy_as(QueueId writer, LinkId link, const std::vector<TaskId>& after);
  TaskId copy(LinkId link, Where to, QueueId writer, const std::vector<TaskId>& after, int turn);
  /// Whether the copy reads or writes an operand in place at this end. For copies between pageable
  /// and pinned host memory, the pinned end is the ring, whose tiles are slots of the host.
  bool in_place(LinkId link, DeviceId end) const;
  TileId operand_tile(DeviceId location, int along_k) const;
  int own_tiles(QueueId queue);
  int read_slots() const;
  int own_slots() const;
  Where add_slot(DeviceId device);
  Where read_slot(DeviceId device, int turn);
  Where own_slot(DeviceId device, QueueId queue, int turn);

  const Machine* machine_;
  int turns_;                    ///< tiles that each queue writes in turn
  int reads_;                    ///< tiles that are read in turn
  DeviceId home_ = kHost;        ///< home of A
  std::int64_t slot_bytes_ = 0;  ///< bytes of a tile of A, B or C
  DataType type_ = DataType::f64;
  CallCuts cuts_;  ///< along k they grow with each queue that writes tiles
  mutable Plan plan_;
  std::vector<std::vector<Where>> read_slots_;  ///< by device
  std::vector<std::vector<Where>> own_slots_;   ///< by queue
  std::vector<int> own_tiles_;                  ///< by queue: index along k, 0: none
  /// Slots between two copies, and who reads each: the next writer waits for it.
  std::vector<std::pair<Where, TaskId>> through_;
  int throughs_ = 0, through_reads_ = 0;
  std::map<DeviceId, QueueId> writers_in_turn_;  ///< by target
  std::vector<TaskId> last_in_turn_;
  bool in_turn_ = false;
  int next_ = 0;
};

/// The operands of probe plans on a backend. Their memory grows on demand and is freed by the
/// destructor. While it lives, the backend records the times of tasks.
class ProbeMemory {
 public:
  explicit ProbeMemory(Backend& backend)
      : backend_(backend), blocks_(backend.machine().devices.size()) {
    backend_.keep_times(true);
  }
  ~ProbeMemory();
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;

  /// Runs the plan; nullopt if its tiles do not fit into memory. Throws Error if a task fails.
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
    std::uint64_t pattern = 0;  ///< identifies its contents
  };
  Backend& backend_;
  std::vector<Block> blocks_;  ///< by location
};

}  // namespace fleet

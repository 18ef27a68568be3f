// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: the schedule of levels 1 and 2. Each column of the grid computes tiles of C, its
// rows a part of k each; their sums meet at the first row, in the order of k, so that the same plan
// gives the same bits. It must not know kernels.
#include "plan/vectors.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "plan/mover.hpp"
#include "plan/queues.hpp"

namespace fleet {
namespace {

// A kernel that streams has all of a device's memory: one runs, one is being launched.
constexpr int kLanes = 2;

/// What one row of the grid sums up of a tile of C.
struct Sum {
  Where where;  ///< in place only at the first row
  QueueId queue = -1;
  double ready_s = 0;
};

class VectorPlanner {
 public:
  VectorPlanner(const Problem& problem, const Machine& machine, const Tuning& tuning)
      : machine_(machine),
        plan_{.problem = problem, .tuning = tuning},
        cut_(decompose(problem, tuning)),
        grid_(tuning.grid) {
    plan_.m_cuts = cut_.m;
    plan_.n_cuts = cut_.n;
    plan_.k_cuts = cut_.k;
    first_lane_ = add_queues(plan_, machine_);
    tasks_.emplace(plan_, plan_.queues.size());
    mover_.emplace(plan_, machine_, cut_, *tasks_);
    free_s_.resize(tuning.workers.size(), 0.0);
    for (std::size_t k = 0; k < cut_.k_owner.size(); ++k)
      if (k == 0 || cut_.k_owner[k] != cut_.k_owner[k - 1]) parts_.push_back(static_cast<int>(k));
    parts_.push_back(tile_count(cut_.k));
  }

  Plan run() {
    for (int col = 0; col < tile_count(cut_.n); col += grid_.cols)
      compute(col, std::min(col + grid_.cols, tile_count(cut_.n)));
    mover_->finish();
    return std::move(plan_);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int parts() const { return static_cast<int>(parts_.size()) - 1; }  ///< of k, one per grid row
  int first_step(int part) const { return parts_[index(part)]; }
  int steps_of(int part) const { return parts_[index(part + 1)] - parts_[index(part)]; }
  int worker(int part, int col) const { return part * grid_.cols + col % grid_.cols; }
  QueueId lane(int worker, int col) const;
  void compute(int first, int last);
  Accumulate begin(int part, int col, Sum& sum, double& arrival_s);
  void multiply(int part, int col, int k, Sum& sum);
  void collect(int col, std::span<Sum> sums);
  void add_compute(const Task& task);
  double stream_s(int worker, std::int64_t n, std::int64_t k) const {
    return machine_.stream_s(mover_->device_of(worker), streamed_bytes(plan_.problem, n, k));
  }

  const Machine& machine_;
  Plan plan_;
  const Decomposition cut_;
  const Grid grid_;
  std::vector<QueueId> first_lane_;  ///< per device
  std::optional<TaskList> tasks_;
  std::optional<Mover> mover_;
  std::vector<double> free_s_;  ///< per worker
  std::vector<int> parts_;      ///< the first step of each, and the number of steps
};

// Neighbours in turn, so that a tile begins while the one before it is on its way home.
QueueId VectorPlanner::lane(int worker, int col) const {
  const std::size_t device = index(mover_->device_of(worker));
  const int lanes = plan_.tuning.rules.has(Rule::overlap)
                        ? std::clamp(machine_.devices[device].lanes, 1, kLanes)
                        : 1;
  return first_lane_[device] + col / grid_.cols % lanes;
}

// One tile of C per column of the grid, all workers side by side.
void VectorPlanner::compute(int first, int last) {
  std::vector<Sum> sums(index((last - first) * parts()));
  const auto sums_of = [&](int col) {
    return std::span(sums).subspan(index((col - first) * parts()), index(parts()));
  };
  int longest = 0;
  for (int part = 0; part < parts(); ++part) longest = std::max(longest, steps_of(part));
  for (int step = 0; step < longest; ++step)
    for (int col = first; col < last; ++col)
      for (int part = 0; part < parts(); ++part)
        if (step < steps_of(part))
          multiply(part, col, first_step(part) + step, sums_of(col)[index(part)]);
  for (int col = first; col < last; ++col) collect(col, sums_of(col));
}

// Where the sum goes, and what its first product does with what is there: only that of the first
// part has the caller's C in it.
Accumulate VectorPlanner::begin(int part, int col, Sum& sum, double& arrival_s) {
  const int w = worker(part, col);
  const TileId tile{kC, 0, col};
  const bool updates = part == 0 && plan_.problem.operands[kC].access == Access::update;
  sum.queue = lane(w, col);
  sum.where = {mover_->device_of(w), -1};
  if (part > 0 || !mover_->in_place(kC, w)) {
    sum.where = mover_->take_output(w, plan_.bytes_of(tile));
    if (updates) arrival_s = std::max(arrival_s, mover_->fetch_output(tile, sum.where, kNoTask));
  }
  return updates ? Accumulate::beta : Accumulate::overwrite;
}

void VectorPlanner::multiply(int part, int col, int k, Sum& sum) {
  const int w = worker(part, col);
  const bool has_b = plan_.problem.traits().has_b;
  const int a = mover_->key_b(0, k, col), b = has_b ? mover_->key_a(0, k) : a;
  Task task;
  task.inputs[0] = mover_->acquire(a, w, b, Side::right);
  task.inputs[1] = has_b ? mover_->acquire(b, w, a, Side::left) : task.inputs[0];
  double arrival_s = std::max(mover_->held_s(a, w), mover_->held_s(b, w));
  task.accumulate = k == first_step(part) ? begin(part, col, sum, arrival_s) : Accumulate::sum;
  task.queue = sum.queue;
  task.tile = {kC, 0, col};
  task.to = sum.where;
  const Factor left = plan_.col_factor(0, k, col);
  task.input_tiles = {left.tile, has_b ? plan_.row_factor(0, k).tile : left.tile};
  task.ops = {left.op, Op::none};
  task.k_index = k;
  add_compute(task);
  mover_->drop(a, w);
  if (has_b) mover_->drop(b, w);

  double& free_s = free_s_[index(w)];
  free_s = std::max(free_s, arrival_s) + stream_s(w, cut_.n[index(col + 1)] - cut_.n[index(col)],
                                                  cut_.k[index(k + 1)] - cut_.k[index(k)]);
  sum.ready_s = free_s;
  plan_.planned_s = std::max(plan_.planned_s, free_s);
}

// Adds the sums of the later parts to the first's, and sends that home.
void VectorPlanner::collect(int col, std::span<Sum> sums) {
  Sum& all = sums[0];
  const int w = worker(0, col);
  const TileId tile{kC, 0, col};
  for (int part = 1; part < parts(); ++part) {
    const Sum& other = sums[index(part)];
    const Where brought = mover_->take_output(w, plan_.bytes_of(tile));
    const double arrival_s = mover_->bring_sum(tile, other.where, brought, other.ready_s);
    Task task;
    task.kernel = Kernel::add;
    task.accumulate = Accumulate::sum;
    task.queue = all.queue;
    task.tile = tile;
    task.to = all.where;
    task.input_tiles[0] = tile;
    task.inputs[0] = brought;
    task.k_index = first_step(part);
    add_compute(task);
    mover_->give_back_output(brought);
    mover_->give_back_output(other.where);
    all.ready_s = std::max(all.ready_s, arrival_s);
  }
  if (all.where.in_place()) return;
  TaskId last = kNoTask;
  const double home_s = mover_->write_back(tile, all.where, all.ready_s, last);
  plan_.planned_s = std::max(plan_.planned_s, home_s);
  mover_->give_back_output(all.where);
}

void VectorPlanner::add_compute(const Task& task) {
  const std::size_t inputs = task.kernel == Kernel::multiply ? 2 : 1;
  for (std::size_t x = 0; x < inputs; ++x) mover_->before_read(task.inputs[x], task.input_tiles[x]);
  mover_->before_write(task.to, task.tile);
  const TaskId id = tasks_->add(task, mover_->after());
  for (std::size_t x = 0; x < inputs; ++x)
    mover_->note_read(task.inputs[x], task.input_tiles[x], id);
  mover_->note_write(task.to, task.tile, id);
}

}  // namespace

Plan plan_vectors(const Problem& problem, const Machine& machine, const Tuning& tuning) {
  return VectorPlanner(problem, machine, tuning).run();
}

}  // namespace fleet

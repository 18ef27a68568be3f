// SPDX-License-Identifier: BSD-3-Clause
// planner.cpp: make_plan, the static schedule of paper 1, Algorithm 1: workers in turn, each with
// its next tile product; the fetches that it needs, the product, and at a tile's end its way home.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "machine/product_times.hpp"
#include "plan/mover.hpp"
#include "plan/queues.hpp"
#include "plan/vectors.hpp"
#include "plan/walk.hpp"

namespace fleet {
namespace {

// What is known of a tile of C while it is being computed.
struct Output {
  int slot = -1;
  QueueId queue = -1;            ///< the lane that computes it, all k steps long
  double ready_s = 0;            ///< its last product stops
  TaskId home_writer = kNoTask;  ///< its last writeback
  bool add_at_end = false;       ///< lazy: the caller's C still has to be added
};

// Twice as many tasks as products is room for most plans, and not more than growing ends with.
constexpr std::size_t kTasksOfProduct = 2, kMostReserved = 1 << 16;

// Elements of C that keep a GPU busy at a time. A product of fewer leaves some of its processors
// idle; further ones beside a product of as many cost power and caches and gain nothing
// (docs/performance/lessons.md: 7 to 17 % at tiles of 4096).
constexpr std::int64_t kFillingElements = std::int64_t{8} << 20;

// To solve for a tile keeps few of a GPU's processors busy for long: products of other tiles run
// beside it (measured on four H200: 2 % of a trsm of 16384).
constexpr int kLanesBesideSolves = 4;

int lanes_of(const Decomposition& cut, bool solves) {
  const auto longest = [](const Cuts& cuts) {
    std::int64_t edge = 1;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) edge = std::max(edge, cuts[i + 1] - cuts[i]);
    return edge;
  };
  const std::int64_t elements = longest(cut.m) * longest(cut.n);
  const auto lanes = static_cast<int>((kFillingElements + elements - 1) / elements);
  return solves ? std::max(lanes, kLanesBesideSolves) : lanes;
}

class Planner {
 public:
  Planner(const Problem& problem, const Machine& machine, const Tuning& tuning)
      : machine_(machine), product_times_(machine, problem.type) {
    plan_.problem = problem;
    plan_.tuning = tuning;
    cut_ = decompose(problem, tuning);
    plan_.m_cuts = cut_.m;
    plan_.n_cuts = cut_.n;
    plan_.k_cuts = cut_.k;
    make_queues();
    tasks_.emplace(plan_, plan_.queues.size());
    mover_.emplace(plan_, machine_, cut_, *tasks_);
    const std::size_t products =
        cut_.row_owner.size() * cut_.col_owner.size() * static_cast<std::size_t>(plan_.steps());
    const std::size_t tasks = std::min(kTasksOfProduct * products, kMostReserved);
    plan_.tasks.reserve(tasks);
    plan_.after_pool.reserve(tasks);
    outputs_.resize(cut_.row_owner.size() * static_cast<std::size_t>(tile_count(cut_.n)));
    compute_free_s_.resize(tuning.workers.size(), 0.0);
    next_lane_.resize(tuning.workers.size(), 0);
  }

  Plan run() {
    if (plan_.problem.k == 0) {
      scale_in_place();
    } else {
      multiply();
    }
    mover_->finish();
    return std::move(plan_);
  }

 private:
  void make_queues();
  void scale_in_place();
  void multiply();
  int enter_group(std::vector<Walk>& walks, int before);
  void emit(int worker, const Product& product);
  Accumulate begin_tile(int worker, const Product& product, const TileId& tile, Output& out,
                        double& arrival_s);
  void end_tile(int worker, const Product& product, const TileId& tile, Output& out);
  void solve(int worker, const Product& product, const TileId& tile, Output& out);
  void take_time(int worker, const Product& product, const TileId& tile, double arrival_s,
                 Output& out);
  void add_compute(const Task& task);
  QueueId next_lane(int worker);
  double multiply_s(int worker, const Product& product);
  bool lazy(int worker) const;
  Where where_of(int worker, const Output& out) const {
    return {mover_->device_of(worker), out.slot};
  }

  const Machine& machine_;
  Plan plan_;
  Decomposition cut_;
  std::optional<TaskList> tasks_;
  std::optional<Mover> mover_;
  std::vector<Output> outputs_;  ///< per tile of C, row by row
  std::vector<double> compute_free_s_;
  int lanes_in_use_ = 1;  ///< of each device, if it has as many
  std::vector<int> next_lane_;
  std::vector<QueueId> first_lane_;  ///< per device
  ProductTimes product_times_;
};

void Planner::make_queues() {
  lanes_in_use_ = lanes_of(cut_, plan_.problem.traits().solves);
  first_lane_ = add_queues(plan_, machine_);
}

// C = beta*C where it lies: no tile has to move.
void Planner::scale_in_place() {
  if (plan_.problem.m == 0 || plan_.problem.n == 0) return;
  const DeviceId home = plan_.problem.operands[kC].home;
  const DeviceId device = on_host(home) ? kHost : home;
  std::vector<TaskId> after;
  for (int row = 0; row < static_cast<int>(cut_.row_owner.size()); ++row)
    for (int col = 0; col < tile_count(cut_.n); ++col) {
      if (!plan_.has_tile(row, col)) continue;
      Task task;
      task.kernel = Kernel::scale;
      task.accumulate = Accumulate::beta;
      task.queue = first_lane_[static_cast<std::size_t>(device)];
      task.tile = {kC, row, col};
      task.to = {device, -1};
      tasks_->add(task, after);
      plan_.planned_s += machine_.stream_s(device, 2 * plan_.bytes_of(task.tile));
    }
}

void Planner::multiply() {
  std::vector<Walk> walks;
  const int workers = static_cast<int>(plan_.tuning.workers.size());
  for (int w = 0; w < workers; ++w) walks.emplace_back(plan_, cut_, *mover_, w);
  const bool cubes = plan_.tuning.out_of_core == OutOfCore::cube;
  const bool in_turn = plan_.problem.traits().triangular;
  int group = 0;
  for (bool more = true; more;) {
    more = false;
    if (in_turn) group = enter_group(walks, group);
    for (int w = 0; w < workers; ++w) {
      if (in_turn && walks[static_cast<std::size_t>(w)].next_group() != group) continue;
      const auto product = walks[static_cast<std::size_t>(w)].next();
      if (!product) continue;
      more = true;
      if (cubes && walks[static_cast<std::size_t>(w)].new_cube()) mover_->forget_inputs(w);
      emit(w, *product);
    }
  }
}

// Groups take part of those before them, or replace what those took part of: a worker that is ahead
// waits. Returns the one that is next.
int Planner::enter_group(std::vector<Walk>& walks, int before) {
  int next = walks.front().next_group();
  for (Walk& walk : walks) next = std::min(next, walk.next_group());
  const bool left = plan_.problem.side == Side::left;
  const int along = left ? cut_.row_groups : cut_.col_groups;
  if (!plan_.problem.traits().solves || next / along == before / along) return next;
  // Other columns (or rows): what was solved for in the last ones is not needed any more.
  const int done = before / along;
  for (int row = 0; row < tile_count(cut_.m); ++row)
    for (int col = 0; col < tile_count(cut_.n); ++col)
      if (const auto& group = left ? cut_.col_group : cut_.row_group;
          group[static_cast<std::size_t>(left ? col : row)] == done)
        mover_->forget_solved({kC, row, col});
  return next;
}

// Tiles of C take the lanes of their device in turn, so that neighbours overlap.
QueueId Planner::next_lane(int worker) {
  const std::size_t device = static_cast<std::size_t>(mover_->device_of(worker));
  const int lanes = plan_.tuning.rules.has(Rule::overlap)
                        ? std::clamp(lanes_in_use_, 1, std::max(1, machine_.devices[device].lanes))
                        : 1;
  return first_lane_[device] + next_lane_[static_cast<std::size_t>(worker)]++ % lanes;
}

bool Planner::lazy(int worker) const {
  const auto& operands = plan_.problem.operands;
  const auto same_home = [&](int x) {
    return operands[static_cast<std::size_t>(x)].home == operands[kC].home;
  };
  return plan_.tuning.rules.has(Rule::lazy) && operands[kC].access == Access::update &&
         !plan_.problem.traits().triangular && !mover_->in_place(kC, worker) &&
         (same_home(kA) || same_home(kB));
}

double Planner::multiply_s(int worker, const Product& product) {
  const std::size_t row = static_cast<std::size_t>(product.row % tile_count(cut_.m));
  const std::size_t col = static_cast<std::size_t>(product.col),
                    k = static_cast<std::size_t>(plan_.k_tile(product.k));
  const std::int64_t m = cut_.m[row + 1] - cut_.m[row], n = cut_.n[col + 1] - cut_.n[col];
  const std::int64_t depth = cut_.k[k + 1] - cut_.k[k];
  return product_times_.seconds(mover_->device_of(worker), m, n, depth);
}

// Makes room for a tile of C at its first product (of the call, or of a cube), and says what that
// product does with what is there.
Accumulate Planner::begin_tile(int worker, const Product& product, const TileId& tile, Output& out,
                               double& arrival_s) {
  const RoutineTraits& traits = plan_.problem.traits();
  const bool replaces = traits.triangular && !traits.solves;
  const bool first = product.k == plan_.first_step(tile.row, tile.col);
  const bool in_place = mover_->in_place(kC, worker);
  if (!in_place && out.slot < 0) {
    out.slot = mover_->take_output(worker, plan_.bytes_of(tile)).slot;
    out.queue = next_lane(worker);
    out.add_at_end = first && lazy(worker);
    const bool fetch =
        first ? plan_.problem.operands[kC].access == Access::update && !out.add_at_end && !replaces
              : true;
    if (fetch)
      arrival_s =
          std::max(arrival_s, mover_->fetch_output(tile, where_of(worker, out), out.home_writer));
  } else if (in_place && first) {
    out.queue = next_lane(worker);
  }
  if (!first) return Accumulate::sum;
  return plan_.problem.operands[kC].access == Access::write || out.add_at_end || replaces
             ? Accumulate::overwrite
             : Accumulate::beta;
}

void Planner::add_compute(const Task& task) {
  auto& after = mover_->after();
  const int inputs = task.kernel == Kernel::multiply ? 2 : 1;
  for (std::size_t x = 0; x < static_cast<std::size_t>(inputs); ++x)
    mover_->before_read(task.inputs[x], task.input_tiles[x]);
  mover_->before_write(task.to, task.tile);
  const TaskId id = tasks_->add(task, after);
  for (std::size_t x = 0; x < static_cast<std::size_t>(inputs); ++x)
    mover_->note_read(task.inputs[x], task.input_tiles[x], id);
  mover_->note_write(task.to, task.tile, id);
}

void Planner::emit(int worker, const Product& product) {
  const TileId tile{kC, product.row, product.col};
  Output& out = outputs_[static_cast<std::size_t>(product.row) *
                             static_cast<std::size_t>(tile_count(cut_.n)) +
                         static_cast<std::size_t>(product.col)];
  if (plan_.problem.traits().solves && plan_.is_diagonal(tile.row, tile.col, product.k))
    return solve(worker, product, tile, out);
  const Factor left = plan_.row_factor(product.row, product.k);
  const Factor right = plan_.col_factor(product.row / tile_count(cut_.m), product.k, product.col);
  const int a = mover_->key_of(left.tile), b = mover_->key_of(right.tile);
  Task task;
  task.inputs[0] = mover_->acquire(a, worker, b, Side::left);
  task.inputs[1] = mover_->acquire(b, worker, a, Side::right);
  double arrival_s = std::max(mover_->held_s(a, worker), mover_->held_s(b, worker));
  task.accumulate = begin_tile(worker, product, tile, out, arrival_s);
  task.queue = out.queue;
  task.tile = tile;
  task.to = where_of(worker, out);
  task.input_tiles = {left.tile, right.tile};
  task.ops = {left.op, right.op};
  task.k_index = product.k;
  add_compute(task);

  take_time(worker, product, tile, arrival_s, out);
  if (!plan_.tuning.rules.has(Rule::caching)) {
    mover_->drop(a, worker);
    mover_->drop(b, worker);
  }
  const std::size_t k = static_cast<std::size_t>(product.k);
  const bool last = product.k == plan_.last_step(tile.row, tile.col);
  if (last || cut_.k_group[k + 1] != cut_.k_group[k]) end_tile(worker, product, tile, out);
}

void Planner::take_time(int worker, const Product& product, const TileId& tile, double arrival_s,
                        Output& out) {
  double& free_s = compute_free_s_[static_cast<std::size_t>(worker)];
  free_s =
      std::max(free_s, arrival_s) + multiply_s(worker, product) * plan_.work_of(tile, product.k);
  out.ready_s = free_s;
  plan_.planned_s = std::max(plan_.planned_s, free_s);
}

// The last step of a tile of trsm. It stays where it is for those that take part of it.
void Planner::solve(int worker, const Product& product, const TileId& tile, Output& out) {
  const bool left = plan_.problem.side == Side::left;
  const Factor triangle =
      left ? plan_.row_factor(product.row, product.k) : plan_.col_factor(0, product.k, product.col);
  const int key = mover_->key_of(triangle.tile);
  Task task;
  task.kernel = Kernel::solve;
  task.inputs[0] = mover_->acquire(key, worker, -1, left ? Side::left : Side::right);
  double arrival_s = mover_->held_s(key, worker);
  task.accumulate = begin_tile(worker, product, tile, out, arrival_s);
  task.queue = out.queue;
  task.tile = tile;
  task.to = where_of(worker, out);
  task.input_tiles[0] = triangle.tile;
  task.ops[0] = triangle.op;
  task.k_index = product.k;
  add_compute(task);
  take_time(worker, product, tile, arrival_s, out);
  if (!plan_.tuning.rules.has(Rule::caching)) mover_->drop(key, worker);
  mover_->note_solved(tile, worker, task.to, out.ready_s);
  if (out.slot < 0) return;
  const double home_s = mover_->write_back(tile, task.to, out.ready_s, out.home_writer);
  plan_.planned_s = std::max(plan_.planned_s, home_s);
}

// Adds the caller's C where that was put off, and sends the tile home.
void Planner::end_tile(int worker, const Product& product, const TileId& tile, Output& out) {
  if (out.slot < 0) return;
  const Where accumulator = where_of(worker, out);
  if (out.add_at_end) {
    const Where original = mover_->take_output(worker, plan_.bytes_of(tile));
    const double arrival_s = mover_->fetch_output(tile, original, kNoTask);
    Task task;
    task.kernel = Kernel::add;
    task.accumulate = Accumulate::beta;
    task.queue = out.queue;
    task.tile = tile;
    task.to = accumulator;
    task.input_tiles[0] = tile;
    task.inputs[0] = original;
    task.k_index = product.k;
    add_compute(task);
    mover_->give_back_output(original);
    out.ready_s = std::max(out.ready_s, arrival_s);
    out.add_at_end = false;
  }
  const double home_s = mover_->write_back(tile, accumulator, out.ready_s, out.home_writer);
  plan_.planned_s = std::max(plan_.planned_s, home_s);
  mover_->give_back_output(accumulator);
  out.slot = -1;
}

void validate(const Problem& problem, const Machine& machine, const Tuning& tuning) {
  if (tuning.workers.empty()) throw Error(Status::bad_argument, "a plan needs at least one worker");
  if (tuning.grid.rows * tuning.grid.cols != static_cast<int>(tuning.workers.size()))
    throw Error(Status::bad_argument, "the grid does not hold the workers");
  for (const auto& [shares, count] : {std::pair(&tuning.row_shares, tuning.grid.rows),
                                      std::pair(&tuning.col_shares, tuning.grid.cols)}) {
    if (shares->empty()) continue;
    if (std::ssize(*shares) != count || problem.batch > 1 || problem.traits().triangle ||
        problem.traits().triangular ||
        !std::ranges::all_of(*shares, [](double share) { return share > 0 && share < 1e6; }))
      throw Error(Status::bad_argument, "the shares are not those of the grid");
  }
  if (tuning.tile < 1) throw Error(Status::bad_argument, "the tile edge must be positive");
  if (tuning.out_of_core != OutOfCore::none && tuning.memory_cap.size() < machine.devices.size())
    throw Error(Status::bad_argument, "an out-of-core plan needs a memory cap for every device");
  const auto known = [&](DeviceId d) {
    return d >= 0 && d < static_cast<DeviceId>(machine.devices.size());
  };
  for (DeviceId worker : tuning.workers)
    if (!known(worker) || worker == kPageable)
      throw Error(Status::bad_argument, "a worker is no device of the machine");
  for (const Operand& operand : problem.operands)
    if (!known(operand.home))
      throw Error(Status::bad_argument, "an operand is at device " + place_word(operand.home) +
                                            ", which the machine does not have");
}

}  // namespace

Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning) {
  validate(problem, machine, tuning);
  if (problem.traits().vectors && problem.k > 0) return plan_vectors(problem, machine, tuning);
  return Planner(problem, machine, tuning).run();
}

}  // namespace fleet

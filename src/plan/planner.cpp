// SPDX-License-Identifier: BSD-3-Clause
// planner.cpp: schedule, the static schedule of paper 1, Algorithm 1: workers in turn, each with
// its next op; the fetches that it needs, the kernel, and at a tile's end its way home.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "plan/kernel_times.hpp"
#include "plan/lanes.hpp"
#include "plan/mover.hpp"
#include "plan/pacing.hpp"
#include "plan/queues.hpp"
#include "plan/stealing.hpp"
#include "plan/validate.hpp"
#include "plan/walk.hpp"

namespace fleet {
namespace {

// A target, or one worker's sums of it, while it is being computed.
struct Output {
  Where where{kHost, -1};
  QueueId queue = -1;            ///< the lane that computes it, all ops long
  double ready_s = 0;            ///< its last op stops
  TaskId home_writer = kNoTask;  ///< its last writeback
  TaskId last_kernel = kNoTask;  ///< so far
  bool open = false;             ///< some of its ops are emitted, and it is not at home again
  bool add_at_end = false;       ///< lazy: the caller's tile still has to be added
};

// A result that goes home when the turn is over.
struct LateResult {
  int chain;
  Where where;
  double ready_s;
};

// Most plans have at most two tasks for each op, and growing would end with no less room.
constexpr std::size_t kTasksOfOp = 2, kMostReserved = 1 << 16;

class Planner {
 public:
  Planner(std::shared_ptr<const TileProgram> program, std::span<const Dealing> deals,
          const Machine& machine, const Tuning& tuning, const Residency& before)
      : machine_(machine), deals_(deals), times_(*program, machine, tuning) {
    plan_.program = std::move(program);
    plan_.tuning = tuning;
    lanes_.emplace(add_queues(plan_, machine_), machine_, tuning);
    SentQueues sent = send_in_turn(plan_, machine_);
    tasks_.emplace(plan_, plan_.queues.size());
    mover_.emplace(plan_, machine_, deals, before, *tasks_, std::move(sent));
    const std::size_t tasks = std::min(kTasksOfOp * plan_.program->ops.size(), kMostReserved);
    plan_.tasks.reserve(tasks);
    plan_.after_pool.reserve(tasks);
    compute_free_s_.resize(tuning.workers.size(), 0.0);
  }

  Plan run() {
    for (std::size_t c = 0; c < deals_.size(); ++c) {
      const CallLayout layout(*plan_.program, static_cast<int>(c), deals_[c]);
      layout_ = &layout;
      if (layout.call().chains == 0) continue;
      const Kernel first = layout.op(layout.call().first_chain, 0).kernel;
      first == Kernel::scale ? scale_in_place() : compute();
      send_late();
    }
    mover_->finish();
    return std::move(plan_);
  }

 private:
  void scale_in_place();
  void compute();
  void compute_stealing();
  std::vector<int> round() const;
  int enter_group(std::vector<Walk>& walks, int before);
  void leave_group(int group);
  int next_group(std::vector<Walk>& walks) const;
  void emit(int worker, const Next& next);
  Accumulate begin_part(int worker, const OpChain& chain, int at, Output& out, double& arrival_s);
  void end_part(int worker, int chain, int at, Output& out);
  void prepare(int worker, const Factor& input, std::size_t x, Task& task, double& arrival_s);
  void add_callers_tile(int worker, const OpChain& chain, Output& out);
  void collect(int chain);
  void send_home(int worker, const TileId& tile, Output& out);
  void send_late();
  void take_time(int worker, double seconds, double arrival_s, Output& out);
  double fetch_output(int worker, const TileId& tile, const Where& to, const Output& out);
  TaskId add_compute(const Task& task, const std::array<TileId, 2>& inputs);
  bool lazy(int worker, const OpChain& chain) const;
  int parts() const { return layout_->is_split() ? layout_->deal().grid.rows : 1; }
  int part_of(int worker) const {
    return layout_->is_split() ? worker / layout_->deal().grid.cols : 0;
  }
  /// The first op of a chain in this part.
  int begin_of(int part) const;
  Output& output_of(const TileId& tile, int part) {
    return outputs_[layout_->place_of(tile) * static_cast<std::size_t>(parts()) +
                    static_cast<std::size_t>(part)];
  }

  const Machine& machine_;
  const std::span<const Dealing> deals_;
  KernelTimes times_;
  Plan plan_;
  const CallLayout* layout_ = nullptr;
  std::optional<TaskList> tasks_;
  std::optional<Mover> mover_;
  std::optional<Lanes> lanes_;
  std::vector<Output> outputs_;  ///< per target and part
  Pacing pacing_;
  std::vector<LateResult> late_;  ///< results of this turn, where they are late
  std::vector<double> compute_free_s_;
};

// C = beta*C where it lies: no tile has to move.
void Planner::scale_in_place() {
  mover_->enter(*layout_);
  for (int c = 0; c < layout_->call().chains; ++c) {
    const OpChain& chain = layout_->chain(layout_->call().first_chain + c);
    Task task;
    task.kernel = Kernel::scale;
    task.accumulate = Accumulate::beta;
    task.tile = chain.target;
    task.to = mover_->newest(chain.target);
    task.queue = lanes_->first_of(task.to.device);
    task.op = chain.first;
    add_compute(task, {kNoTile, kNoTile});
    plan_.planned_s += machine_.stream_s(task.to.device, 2 * plan_.program->bytes_of(task.tile));
    mover_->note_changed(chain.target, task.to, plan_.planned_s);
  }
}

// The workers in the order in which each emits its next op: where sums are split, all parts of a
// tile one after another.
std::vector<int> Planner::round() const {
  const Grid& grid = layout_->deal().grid;
  std::vector<int> order;
  for (int i = 0; i < grid.rows * grid.cols; ++i)
    order.push_back(layout_->is_split() ? i % grid.rows * grid.cols + i / grid.rows : i);
  if (plan_.tuning.has_cpu()) order.push_back(plan_.tuning.places());
  return order;
}

void Planner::compute() {
  mover_->enter(*layout_);
  lanes_->enter(*layout_, mover_->device_of(0));
  pacing_.enter(plan_.tuning.workers.size());
  outputs_.assign(layout_->places() * static_cast<std::size_t>(parts()), {});
  if (plan_.tuning.steals && Stealing::is_possible(*layout_)) return compute_stealing();
  std::vector<Walk> walks;
  for (int w = 0; w < std::ssize(plan_.tuning.workers); ++w)
    walks.emplace_back(*layout_, *mover_, plan_.tuning.rules.has(Rule::order), w);
  const bool cubes = layout_->deal().cubes > 1;
  // Groups read what earlier ones made, or replace what those read, or their sums are added: a
  // worker that is ahead waits.
  const bool in_turn = layout_->call().reads_target || layout_->is_split();
  int group = 0;
  const std::vector<int> order = round();
  for (bool more = true; more;) {
    more = false;
    if (in_turn) group = enter_group(walks, group);
    for (const int w : order) {
      Walk& walk = walks[static_cast<std::size_t>(w)];
      if (in_turn && walk.next_group() != group) continue;
      const auto next = walk.next();
      if (!next) continue;
      more = true;
      if (cubes && walk.new_cube()) mover_->forget_inputs(w);
      emit(w, *next);
    }
  }
}

void Planner::compute_stealing() {
  const auto workers = static_cast<int>(plan_.tuning.workers.size());
  Stealing stealing(*layout_, workers, std::max(1, machine_.devices[kFirstDevice].lanes));
  while (const auto turn = stealing.next(compute_free_s_)) {
    const int row = layout_->chain(turn->next.chain).target.row;
    mover_->set_position(turn->worker, {.item = layout_->item_of(row), .at = turn->next.at});
    emit(turn->worker, turn->next);
  }
}

int Planner::next_group(std::vector<Walk>& walks) const {
  int next = walks.front().next_group();
  for (Walk& walk : walks) next = std::min(next, walk.next_group());
  return next;
}

// Returns the group that is next, and closes the one before it.
int Planner::enter_group(std::vector<Walk>& walks, int before) {
  const int next = next_group(walks);
  if (next == before) return next;
  const Dealing& deal = layout_->deal();
  if (layout_->is_split()) {
    leave_group(before);
  } else if (deal.turn_of(next) != deal.turn_of(before)) {
    send_late();
    if (layout_->call().reads_results) leave_group(before);
  }
  return next;
}

// Adds the parts of sums; or, where other columns (or rows) follow, forgets the results of these,
// which nobody reads from slots any more.
void Planner::leave_group(int group) {
  const ProgramCall& call = layout_->call();
  const Dealing& deal = layout_->deal();
  const auto leaves = [&](int other) {
    return layout_->is_split() ? other == group : deal.turn_of(other) == deal.turn_of(group);
  };
  for (int c = call.first_chain; c < call.first_chain + call.chains; ++c) {
    const TileId& tile = layout_->chain(c).target;
    if (!leaves(layout_->group_of(tile))) continue;
    layout_->is_split() ? collect(c) : mover_->forget_result(tile);
  }
}

// Does the caller's tile come late, to be added? It does where it would travel with the inputs.
bool Planner::lazy(int worker, const OpChain& chain) const {
  const TileProgram& program = *plan_.program;
  const TileOp& first = program.op(chain.first);
  const bool only_sums = is_product(program.op(chain.first + chain.ops - 1).kernel);
  if (!plan_.tuning.rules.has(Rule::lazy) || first.accumulate != Accumulate::beta || !only_sums ||
      layout_->call().reads_target || layout_->is_split() ||
      mover_->in_place(chain.target.matrix, worker))
    return false;
  const DeviceId home = program.matrix_of(chain.target).home;
  return std::ranges::any_of(first.inputs, [&](const Factor& input) {
    return input.tile.exists() && program.matrix_of(input.tile).home == home;
  });
}

int Planner::begin_of(int part) const {
  const auto& owners = layout_->deal().step_owner;
  return static_cast<int>(std::ranges::lower_bound(owners, part) - owners.begin());
}

// Makes room for a target at the first op of the chain, of a cube, or of a worker's part of the
// sums, and says what that op does with what is there.
Accumulate Planner::begin_part(int worker, const OpChain& chain, int at, Output& out,
                               double& arrival_s) {
  const int part = part_of(worker);
  const bool first = at == 0;
  const bool first_of_part = part > 0 && at == begin_of(part);
  const bool in_place =
      mover_->in_place(chain.target.matrix, worker) && part == 0 && !mover_->is_away(chain.target);
  const bool reads_old = plan_.program->op(chain.first).accumulate == Accumulate::beta;
  // trmm reads the old tile as an input.
  const bool goes_on = first && (reads_old || !layout_->call().reads_target);
  if (!out.open) {
    out.open = true;
    out.queue = lanes_->next(worker, mover_->device_of(worker));
    out.where = {mover_->device_of(worker), -1};
    if (!in_place && !(goes_on && mover_->take_over(chain.target, worker, out.where, arrival_s))) {
      out.where = part == 0 ? mover_->take_target(worker, chain.target)
                            : mover_->take_output(worker, plan_.program->bytes_of(chain.target));
      out.add_at_end = first && lazy(worker, chain);
      const bool continues = !first && !first_of_part;
      if (continues || (first && reads_old && !out.add_at_end))
        arrival_s = std::max(arrival_s, fetch_output(worker, chain.target, out.where, out));
    }
  }
  if (first_of_part) return Accumulate::overwrite;
  if (!first) return Accumulate::sum;
  return reads_old && !out.add_at_end ? Accumulate::beta : Accumulate::overwrite;
}

// Copies the caller's tile into a slot. Not paced are calls that read what they write, where other
// workers wait for the results, and copies that wait for a writeback anyway.
double Planner::fetch_output(int worker, const TileId& tile, const Where& to, const Output& out) {
  if (mover_->is_sent_from_home(tile) && out.home_writer == kNoTask &&
      !layout_->call().reads_target)
    mover_->after().push_back(pacing_.send(worker, out.last_kernel));
  return mover_->fetch_output(tile, to, out.home_writer);
}

TaskId Planner::add_compute(const Task& task, const std::array<TileId, 2>& inputs) {
  for (std::size_t x = 0; x < 2; ++x)
    if (inputs[x].exists()) mover_->before_read(task.inputs[x], inputs[x]);
  mover_->before_write(task.to, task.tile);
  const TaskId id = tasks_->add(task, mover_->after());
  for (std::size_t x = 0; x < 2; ++x)
    if (inputs[x].exists()) {
      mover_->note_read(task.inputs[x], inputs[x], id);
      mover_->note_use(inputs[x], task.tile);
    }
  mover_->note_write(task.to, task.tile, id);
  return id;
}

void Planner::emit(int worker, const Next& next) {
  const OpChain& chain = layout_->chain(next.chain);
  const TileOp& op = plan_.program->op(chain.first + next.at);
  Output& out = output_of(chain.target, part_of(worker));
  int keys[2] = {kNoKey, kNoKey};
  for (std::size_t x = 0; x < 2; ++x)
    if (op.inputs[x].is_stored_tile()) keys[x] = mover_->key_of(op.inputs[x].tile);

  Task task;
  double arrival_s = 0;
  for (std::size_t x = 0; x < 2; ++x) {
    if (keys[x] == kNoKey) continue;
    const FactorUse use =
        x == 0 ? FactorUse{Side::left, chain.target.row} : FactorUse{Side::right, chain.target.col};
    task.inputs[x] = mover_->acquire(keys[x], worker, keys[1 - x], use);
  }
  for (const int key : keys)
    if (key != kNoKey) arrival_s = std::max(arrival_s, mover_->held_s(key, worker));
  task.accumulate = begin_part(worker, chain, next.at, out, arrival_s);
  task.queue = out.queue;
  task.kernel = op.kernel;
  task.tile = chain.target;
  task.to = out.where;
  task.op = chain.first + next.at;
  std::array<TileId, 2> inputs{kNoTile, kNoTile};
  for (std::size_t x = 0; x < 2; ++x) {
    if (op.inputs[x].form != Form::stored) prepare(worker, op.inputs[x], x, task, arrival_s);
    if (is_read(op.inputs[x], task.inputs[x])) inputs[x] = op.inputs[x].tile;
  }
  out.last_kernel = add_compute(task, inputs);
  take_time(worker, times_.seconds(mover_->device_of(worker), op, chain.target), arrival_s, out);

  if (!plan_.tuning.rules.has(Rule::caching) || layout_->deal().streams)
    for (const int key : keys)
      if (key != kNoKey) mover_->drop(key, worker);
  end_part(worker, next.chain, next.at, out);
}

// Makes the form in which the task asks for input x, once for each tile and device. The other input
// is the stored tile.
void Planner::prepare(int worker, const Factor& input, std::size_t x, Task& task,
                      double& arrival_s) {
  const Device& device = machine_.devices[static_cast<std::size_t>(mover_->device_of(worker))];
  if (!plan_.program->is_prepared(input.tile, input.form, device)) return;
  bool made = false;
  task.inputs[x] = mover_->take_prepared(input.tile, input.form, worker, made);
  if (made) return;
  Task prepares;
  prepares.kernel = Kernel::prepare;
  prepares.accumulate = Accumulate::overwrite;
  prepares.queue = task.queue;
  prepares.tile = input.tile;
  prepares.form = input.form;
  prepares.to = task.inputs[x];
  prepares.inputs[0] = task.inputs[1 - x];
  add_compute(prepares, {input.tile, kNoTile});
  arrival_s =
      std::max(arrival_s, compute_free_s_[static_cast<std::size_t>(worker)]) + device.prepare_s;
}

void Planner::take_time(int worker, double seconds, double arrival_s, Output& out) {
  double& free_s = compute_free_s_[static_cast<std::size_t>(worker)];
  free_s = std::max(free_s, arrival_s) + seconds;
  out.ready_s = free_s;
  plan_.planned_s = std::max(plan_.planned_s, free_s);
}

// Sends the result home at the end of a chain or of a cube of it. Parts of sums wait for each
// other.
void Planner::end_part(int worker, int chain_id, int at, Output& out) {
  const OpChain& chain = layout_->chain(chain_id);
  const bool last = at == chain.ops - 1;
  const auto step = static_cast<std::size_t>(at);
  const auto& cubes = layout_->deal().step_cube;
  const bool cube_ends = !last && cubes[step + 1] != cubes[step];
  if ((!last && !cube_ends) || layout_->is_split()) return;
  const bool reads_results = layout_->call().reads_results;
  // It stays where it is for the ops that read it.
  if (reads_results) mover_->note_result(chain.target, worker, out.where, out.ready_s);
  if (layout_->deal().is_late) {
    out.open = false;
    late_.push_back({chain_id, out.where, out.ready_s});
    return;
  }
  if (reads_results) {
    out.open = false;
    if (!out.where.in_place() && mover_->may_wait(chain.target)) return;
    double home_s = out.ready_s;
    if (!out.where.in_place())
      home_s = mover_->write_back(chain.target, out.where, out.ready_s, out.home_writer);
    plan_.planned_s = std::max(plan_.planned_s, home_s);
    mover_->note_home(chain.target, home_s);
    return;
  }
  if (out.add_at_end && !out.where.in_place()) add_callers_tile(worker, chain, out);
  send_home(worker, chain.target, out);
}

void Planner::send_home(int worker, const TileId& tile, Output& out) {
  if (out.where.in_place()) {
    // The next cube of the tile goes on in place, in the same lane.
    mover_->note_home(tile, out.ready_s);
    return;
  }
  out.open = false;
  const bool keeps = mover_->keeps_results() && mover_->is_tracked(tile);
  if (keeps) mover_->note_result(tile, worker, out.where, out.ready_s);
  if (!mover_->may_wait(tile)) {
    const double home_s = mover_->write_back(tile, out.where, out.ready_s, out.home_writer);
    plan_.planned_s = std::max(plan_.planned_s, home_s);
    if (!keeps) mover_->give_back_output(out.where);
    mover_->note_home(tile, home_s);
  }
  if (keeps) mover_->forget_result(tile);
}

// Sends the results of a turn home behind its inputs, in the order of the program, in which none
// replaces what another is still to be computed from.
void Planner::send_late() {
  std::ranges::sort(late_, {}, &LateResult::chain);
  for (const LateResult& result : late_) {
    const TileId& tile = layout_->chain(result.chain).target;
    mover_->after_inputs(result.where.device);
    TaskId last = kNoTask;
    const double home_s = mover_->write_back(tile, result.where, result.ready_s, last);
    plan_.planned_s = std::max(plan_.planned_s, home_s);
    if (!layout_->call().reads_results) mover_->give_back_output(result.where);
    mover_->note_home(tile, home_s);
  }
  late_.clear();
}

void Planner::add_callers_tile(int worker, const OpChain& chain, Output& out) {
  const Where original = mover_->take_output(worker, plan_.program->bytes_of(chain.target));
  const double arrival_s = fetch_output(worker, chain.target, original, out);
  Task task;
  task.kernel = Kernel::add;
  task.accumulate = Accumulate::beta;
  task.queue = out.queue;
  task.tile = chain.target;
  task.to = out.where;
  task.inputs[0] = original;
  task.op = chain.first;
  add_compute(task, {chain.target, kNoTile});
  mover_->give_back_output(original);
  out.ready_s = std::max(out.ready_s, arrival_s);
  out.add_at_end = false;
}

// Adds the sums of the later parts to those of the first, and sends them home.
void Planner::collect(int chain_id) {
  const OpChain& chain = layout_->chain(chain_id);
  const int owner = layout_->owner_of(chain.target);
  Output& all = output_of(chain.target, 0);
  for (int part = 1; part < parts() && begin_of(part) < chain.ops; ++part) {
    Output& other = output_of(chain.target, part);
    const Where brought = mover_->take_output(owner, plan_.program->bytes_of(chain.target));
    const double arrival_s = mover_->bring_sum(chain.target, other.where, brought, other.ready_s);
    Task task;
    task.kernel = Kernel::add;
    task.accumulate = Accumulate::sum;
    task.queue = all.queue;
    task.tile = chain.target;
    task.to = all.where;
    task.inputs[0] = brought;
    task.op = chain.first + begin_of(part);
    add_compute(task, {chain.target, kNoTile});
    mover_->give_back_output(brought);
    mover_->give_back_output(other.where);
    all.ready_s = std::max(all.ready_s, arrival_s) +
                  machine_.stream_s(all.where.device, 3 * plan_.program->bytes_of(chain.target));
  }
  send_home(owner, chain.target, all);
}

}  // namespace

Plan schedule(std::shared_ptr<const TileProgram> program, std::span<const Dealing> deals,
              const Machine& machine, const Tuning& tuning, const Residency& before) {
  require_valid(*program, deals, machine, tuning);
  return Planner(std::move(program), deals, machine, tuning, before).run();
}

Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning,
               Expansions& expansions) {
  const Decomposition cut = decompose(problem, tuning);
  return schedule(expansions.of(problem, cut.cuts), {&cut.deal, 1}, machine, tuning);
}

Plan make_plan(const Problem& problem, const Machine& machine, const Tuning& tuning) {
  Expansions expansions;
  return make_plan(problem, machine, tuning, expansions);
}

}  // namespace fleet

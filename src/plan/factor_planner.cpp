// SPDX-License-Identifier: BSD-3-Clause
// factor_planner.cpp: the order of a factorization's tasks: each worker updates the strips that are
// factored soonest first, and panels are made as soon as their strips are up to date.
#include "plan/factor_planner.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "plan/factor_lanes.hpp"
#include "plan/kernel_times.hpp"
#include "plan/queues.hpp"
#include "plan/strip_bytes.hpp"
#include "plan/strip_mover.hpp"
#include "plan/validate.hpp"

namespace fleet {
namespace {

/// Panels that a worker holds at a time. More let panels run ahead of the updates of later strips,
/// above all while these are still on their way to the devices.
constexpr int kMostPanels = 64;
/// Updates are in two lanes at least, so that thread blocks of one begin while the last ones of
/// another end; but in one where many devices wait for each panel, which is beside no update then.
constexpr int kLeastLanes = 2, kFewWorkers = 2;

class FactorPlanner {
 public:
  FactorPlanner(std::shared_ptr<const TileProgram> program, const Machine& machine,
                const Tuning& tuning)
      : machine_(machine),
        program_(*program),
        strips_(*program_.strips),
        stage_(strips_.stage),
        times_(program_, machine, tuning) {
    plan_.program = std::move(program);
    plan_.tuning = tuning;
    first_lane_ = add_queues(plan_, machine_);
    tasks_.emplace(plan_, plan_.queues.size());
    mover_.emplace(plan_, machine_, *tasks_);
    exchanges_ = std::ranges::any_of(
        program_.ops, [](const TileOp& op) { return op.kernel == Kernel::exchange; });
  }

  Plan run();

 private:
  /// A worker's own view of the run.
  struct Worker {
    DeviceId device = kHost;
    SlotRing panels, reloaded;
    FactorLanes lanes;
    std::vector<TileCopy> panel, outcome;       ///< per panel
    std::vector<int> strips;                    ///< that it has been dealt, in their order
    std::deque<std::pair<int, int>> exchanges;  ///< of its strips by panels, still to come
  };
  /// An update that may come next.
  struct Next {
    int strip = -1;
    double start_s = 0;
  };

  void deal();
  int lanes_of_updates() const;
  void require_room() const;
  void take_slots();
  void fetch_strips();
  void factor();
  bool make_next_panel();
  bool has_slots(int k) const;
  std::vector<int> users_of(int k) const;
  Next next_of(int w) const;
  void emit_exchange(int w);
  void finish(int j);
  void make_panel(int k);
  void reload(int k);
  void exchange_only();
  void send(const TileId& tile, const std::vector<int>& users, bool is_panel);
  void update(int j);
  void exchange(int j, int k);
  void change(int j, const TileCopy& by);
  void keep_strips();
  void write_back(int j);
  void write_back_outcome(int k, int worker);
  double compute(int worker, OpId op, const TileCopy& target,
                 const std::array<const TileCopy*, 2>& inputs, int lane);
  double fetch(const TileId& tile, const TileCopy& from, const Where& to, TaskKind kind);
  int owner_of(int j) const { return (j - stage_.begin) % static_cast<int>(workers_.size()); }
  Worker& worker(int w) { return workers_[index(w)]; }
  int owner_of_panel(int k) const {
    return k < stage_.begin ? k % static_cast<int>(workers_.size()) : owner_of(k);
  }
  int last_panel() const { return std::min(stage_.end, strips_.panels); }
  bool in_place(const TileId& tile, int w) const {
    return program_.in_place(tile.matrix, workers_[index(w)].device, plan_.tuning);
  }
  /// The ops on a tile so far, in the order of the program.
  OpId next_op(const TileId& tile);

  const Machine& machine_;
  const TileProgram& program_;
  const Strips& strips_;
  const Stage stage_;
  KernelTimes times_;
  Plan plan_;
  std::optional<TaskList> tasks_;
  std::optional<StripMover> mover_;
  std::vector<QueueId> first_lane_;
  bool exchanges_ = false;  ///< row exchanges by later panels are a part of the stage
  std::vector<Worker> workers_;
  std::vector<TileCopy> strip_;  ///< where each is
  std::vector<int> updates_;     ///< of each strip so far
  int panels_made_ = 0, panels_held_ = kLeastPanels;
  std::vector<std::vector<OpId>> ops_;  ///< per matrix, those still to come, last first
};

Plan FactorPlanner::run() {
  deal();
  take_slots();
  if (stage_.only_exchanges) {
    exchange_only();
  } else {
    fetch_strips();
    factor();
  }
  if (strips_.what.kept) keep_strips();
  mover_->finish();
  return std::move(plan_);
}

void FactorPlanner::deal() {
  const int wanted = lanes_of_updates();
  // A panel beside products takes about twice as long as alone. Where other devices wait for it,
  // that loses more than the products gain; a device without others does both at the same time
  // (docs/performance, "Factorizations on two H100").
  const bool alone = plan_.tuning.workers.size() == 1;
  for (const DeviceId device : plan_.tuning.workers) {
    Worker worker{.device = device};
    const bool overlap = plan_.tuning.rules.has(Rule::overlap);
    const int lanes = overlap ? std::max(1, machine_.devices[index(device)].lanes) : 1;
    const int updates = std::min(lanes, wanted);
    worker.lanes = FactorLanes(updates, alone && lanes > updates);
    if (alone && lanes > updates)
      plan_.queues[index(first_lane_[index(device)] + worker.lanes.of_panel())].is_ahead = true;
    worker.panel.resize(index(strips_.panels));
    worker.outcome.resize(index(strips_.panels));
    workers_.push_back(std::move(worker));
  }
  strip_.resize(index(strips_.count()));
  updates_.resize(index(strips_.count()));
  ops_.resize(program_.matrices.size());
  for (const OpChain& chain : program_.chains)
    for (OpId op = chain.first; op < chain.first + chain.ops; ++op)
      ops_[index(chain.target.matrix)].push_back(op);
  for (auto& ops : ops_) std::ranges::reverse(ops);
}

// As many as it takes strips to fill a device.
int FactorPlanner::lanes_of_updates() const {
  const auto& workers = plan_.tuning.workers;
  const TileId middle =
      strips_.strip(std::min((stage_.begin + stage_.end) / 2, strips_.count() - 1));
  const std::int64_t elements = program_.rows_of(middle) * program_.cols_of(middle);
  const std::int64_t least = std::ssize(workers) <= kFewWorkers ? kLeastLanes : 1;
  return static_cast<int>(std::max(
      least, ceil_div(machine_.devices[index(workers.front())].filling_elements, elements)));
}

OpId FactorPlanner::next_op(const TileId& tile) {
  auto& ops = ops_[index(tile.matrix)];
  const OpId op = ops.back();
  ops.pop_back();
  return op;
}

// Strips of the stage, rings for panels, and what is small. All of it is known before the first
// task.
void FactorPlanner::take_slots() {
  const std::int64_t panel_bytes = longest_panel(program_, strips_);
  for (int j = stage_.begin; j < stage_.end; ++j) {
    const int w = owner_of(j);
    const TileId tile = strips_.strip(j);
    TileCopy& strip = strip_[index(j)];
    strip.where = {worker(w).device, -1};
    if (!in_place(tile, w)) {
      StripSlots& slots = mover_->slots(worker(w).device);
      const std::int64_t bytes = program_.bytes_of(tile);
      strip.where.slot = strips_.what.kept ? slots.add_outside(bytes) : slots.add(bytes);
    }
    worker(w).strips.push_back(j);
  }
  std::int64_t strip_bytes = 1;
  for (int j = 0; j < strips_.count(); ++j)
    strip_bytes = std::max(strip_bytes, program_.bytes_of(strips_.strip(j)));
  const bool reloads = !stage_.only_exchanges && stage_.begin > 0;
  for (Worker& worker : workers_) {
    StripSlots& slots = mover_->slots(worker.device);
    if (reloads) worker.reloaded = SlotRing(slots, kStripsReloaded, strip_bytes);
    for (int k = 0; k < strips_.panels; ++k)
      worker.outcome[index(k)].where = {worker.device,
                                        slots.add(program_.bytes_of(strips_.outcome(k)))};
  }
  mover_->make_ring(strips_.what.home, std::max(strip_bytes, panel_bytes));
  if (stage_.only_exchanges) return require_room();
  panels_held_ = std::min(kMostPanels, strips_.panels);
  const std::int64_t aligned = round_up(panel_bytes, kAlignmentBytes);
  for (const Worker& worker : workers_) {
    const auto d = index(worker.device);
    if (d >= plan_.tuning.memory_cap.size()) continue;
    // Half of what is left: other calls keep the rest. Strips that devices hold are there beside
    // the matrix, which has elements of twice their size where they are refined with.
    std::int64_t left = plan_.tuning.memory_cap[d] - mover_->slots(worker.device).bytes();
    const std::int64_t as_long = strips_.what.refined ? 3 : 2;
    if (!strips_.what.holders().empty()) left -= as_long * strip_bytes * std::ssize(worker.strips);
    panels_held_ = static_cast<int>(std::clamp<std::int64_t>(
        left / 2 / aligned, std::min(kLeastPanels, strips_.panels), panels_held_));
  }
  for (Worker& worker : workers_)
    worker.panels = SlotRing(mover_->slots(worker.device), panels_held_, panel_bytes);
  require_room();
}

void FactorPlanner::require_room() const {
  const auto& caps = plan_.tuning.memory_cap;
  for (const Worker& worker : workers_) {
    const auto d = index(worker.device);
    const std::int64_t bytes = mover_->slots(worker.device).bytes();
    if (d < caps.size() && bytes > caps[d])
      throw Error(Status::no_memory, "device " + machine_.devices[d].name +
                                         " has no room for its strips: " + std::to_string(bytes) +
                                         " bytes");
  }
}

void FactorPlanner::fetch_strips() {
  for (int j = stage_.begin; j < stage_.end; ++j) {
    TileCopy& strip = strip_[index(j)];
    if (strip.where.in_place()) continue;
    const TileId tile = strips_.strip(j);
    const TileCopy home{.where = {strips_.home_of(j), -1}};
    strip.ready_s = fetch(tile, home, strip.where, TaskKind::fetch);
  }
}

void FactorPlanner::factor() {
  for (;;) {
    while (make_next_panel()) {
    }
    // The worker that is free first; of its strips the one that is factored first, but none that
    // it would have to wait for while another is ready.
    int best = -1;
    for (int w = 0; w < std::ssize(workers_); ++w) {
      if (next_of(w).strip < 0) continue;
      if (best < 0 || worker(w).lanes.next_s() < worker(best).lanes.next_s()) best = w;
    }
    if (best < 0) break;
    update(next_of(best).strip);
    emit_exchange(best);
  }
  for (int w = 0; w < std::ssize(workers_); ++w)
    for (const auto& [j, k] : std::exchange(worker(w).exchanges, {})) exchange(j, k);
}

// Has every worker that takes part in panel k a slot for it? Those that its slots had before are
// done with.
bool FactorPlanner::has_slots(int k) const {
  const int before = k - panels_held_;
  if (before < 0) return true;
  return std::ranges::all_of(workers_, [&](const Worker& worker) {
    return std::ranges::all_of(worker.strips,
                               [&](int j) { return j <= before || updates_[index(j)] > before; });
  });
}

std::vector<int> FactorPlanner::users_of(int k) const {
  std::vector<int> users;
  for (int w = 0; w < std::ssize(workers_); ++w)
    if (w != owner_of_panel(k) && !workers_[index(w)].strips.empty() &&
        workers_[index(w)].strips.back() > k)
      users.push_back(w);
  return users;
}

bool FactorPlanner::make_next_panel() {
  const int k = panels_made_;
  if (k >= last_panel() || !has_slots(k)) return false;
  if (k >= stage_.begin && updates_[index(k)] < k) return false;
  k < stage_.begin ? reload(k) : make_panel(k);
  ++panels_made_;
  if (const auto users = users_of(k); !users.empty()) send(strips_.panel(k), users, true);
  if (k < stage_.begin) return true;
  if (exchanges_) {
    std::vector<int> users;
    for (int w = 0; w < std::ssize(workers_); ++w) {
      if (worker(w).strips.empty() || worker(w).strips.front() >= k) continue;
      if (w != owner_of(k)) users.push_back(w);
      for (const int j : worker(w).strips)
        if (j < k) worker(w).exchanges.emplace_back(j, k);
    }
    if (!users.empty()) send(strips_.outcome(k), users, false);
  }
  finish(k);
  return true;
}

FactorPlanner::Next FactorPlanner::next_of(int w) const {
  const Worker& me = workers_[index(w)];
  const double free_s = me.lanes.next_s();
  Next best;
  for (const int j : me.strips) {
    const int k = updates_[index(j)];
    if (k >= std::min(j, strips_.panels) || k >= panels_made_) continue;
    const double start_s = std::max({free_s, strip_[index(j)].ready_s, me.panel[index(k)].ready_s});
    if (best.strip >= 0 && start_s >= best.start_s) continue;
    best = {j, start_s};
    if (start_s <= free_s) break;
  }
  return best;
}

/// Short tasks that fit between others, where nothing would wait for them.
void FactorPlanner::emit_exchange(int w) {
  Worker& me = worker(w);
  if (me.exchanges.empty()) return;
  const auto [j, k] = me.exchanges.front();
  if (me.outcome[index(k)].ready_s > me.lanes.next_s()) return;
  me.exchanges.pop_front();
  exchange(j, k);
}

/// Sends a strip home that no op is left for.
void FactorPlanner::finish(int j) {
  if (strips_.what.kept) return;
  if (ops_[index(j)].empty() && !on_host(strip_[index(j)].where.device)) write_back(j);
}

void FactorPlanner::make_panel(int k) {
  const int w = owner_of(k);
  Worker& me = worker(w);
  TileCopy& strip = strip_[index(k)];
  TileCopy& panel = me.panel[index(k)];
  TileCopy& outcome = me.outcome[index(k)];
  panel.where = {me.device, me.panels.next()};
  const int lane = me.lanes.of_panel();
  const auto make = [&](const TileId& tile, TileCopy& target, const TileCopy& input) {
    target.ready_s = compute(w, next_op(tile), target, {&input, nullptr}, lane);
  };
  make(strips_.panel(k), panel, strip);
  make(strips_.outcome(k), outcome, panel);
  make(strips_.strip(k), strip, panel);
  write_back_outcome(k, w);
}

// Of an earlier stage: the strip has been factored and is at home.
void FactorPlanner::reload(int k) {
  const int w = owner_of_panel(k);
  Worker& me = worker(w);
  const TileId tile = strips_.strip(k);
  TileCopy strip{.where = {me.device, -1}};
  if (!in_place(tile, w)) {
    strip.where.slot = me.reloaded.next();
    strip.ready_s = fetch(tile, {.where = {strips_.home_of(k), -1}}, strip.where, TaskKind::fetch);
  }
  TileCopy& outcome = me.outcome[index(k)];
  outcome.ready_s =
      fetch(strips_.outcome(k), {.where = {kHost, -1}}, outcome.where, TaskKind::fetch);
  TileCopy& panel = me.panel[index(k)];
  panel.where = {me.device, me.panels.next()};
  panel.ready_s =
      compute(w, next_op(strips_.panel(k)), panel, {&strip, &outcome}, me.lanes.of_panel());
}

// Each strip comes, is exchanged by all later panels, and goes home.
void FactorPlanner::exchange_only() {
  fetch_strips();
  for (int w = 0; w < std::ssize(workers_); ++w)
    for (int k = stage_.begin + 1; k < strips_.panels; ++k) {
      TileCopy& outcome = worker(w).outcome[index(k)];
      outcome.ready_s =
          fetch(strips_.outcome(k), {.where = {kHost, -1}}, outcome.where, TaskKind::fetch);
    }
  for (int j = stage_.begin; j < std::min(stage_.end, strips_.panels); ++j) {
    for (int k = j + 1; k < strips_.panels; ++k) exchange(j, k);
  }
}

void FactorPlanner::update(int j) {
  const int k = updates_[index(j)]++;
  change(j, worker(owner_of(j)).panel[index(k)]);
}

void FactorPlanner::exchange(int j, int k) { change(j, worker(owner_of(j)).outcome[index(k)]); }

// The next op of a strip, by what its worker has of a panel.
void FactorPlanner::change(int j, const TileCopy& by) {
  const int w = owner_of(j);
  TileCopy& strip = strip_[index(j)];
  const int lane = worker(w).lanes.of_update();
  strip.ready_s = compute(w, next_op(strips_.strip(j)), strip, {&by, nullptr}, lane);
  finish(j);
}

/// All strips, which are in the order of their tiles.
void FactorPlanner::keep_strips() {
  for (int j = 0; j < strips_.count(); ++j) {
    plan_.kept.push_back({strips_.strip(j), strip_[index(j)].where});
    plan_.away_after.push_back(strips_.strip(j));
  }
}

void FactorPlanner::write_back(int j) {
  TileCopy& strip = strip_[index(j)];
  if (!strip.where.in_place())
    fetch(strips_.strip(j), strip, {strips_.home_of(j), -1}, TaskKind::writeback);
  strip.where = {kHost, -1};  // done with
}

void FactorPlanner::write_back_outcome(int k, int w) {
  fetch(strips_.outcome(k), worker(w).outcome[index(k)], {kHost, -1}, TaskKind::writeback);
}

double FactorPlanner::compute(int w, OpId op, const TileCopy& target,
                              const std::array<const TileCopy*, 2>& inputs, int lane) {
  Worker& me = worker(w);
  const TileOp& of = program_.op(op);
  Task task;
  task.kernel = of.kernel;
  task.accumulate = of.accumulate;
  task.queue = first_lane_[index(me.device)] + lane;
  task.op = op;
  task.to = target.where;
  task.tile = (std::ranges::upper_bound(program_.chains, op, {}, &OpChain::first) - 1)->target;
  double start_s = std::max(me.lanes.free_s(lane), target.ready_s);
  std::array<TileId, 2> read{kNoTile, kNoTile};
  for (const std::size_t x : {0, 1}) {
    if (inputs[x] == nullptr) continue;
    task.inputs[x] = inputs[x]->where;
    read[x] = of.inputs[x].tile;
    start_s = std::max(start_s, inputs[x]->ready_s);
  }
  mover_->add(task, read);
  const double stop_s = start_s + times_.seconds(me.device, of, task.tile);
  me.lanes.take(lane, stop_s);
  plan_.planned_s = std::max(plan_.planned_s, stop_s);
  return stop_s;
}

double FactorPlanner::fetch(const TileId& tile, const TileCopy& from, const Where& to,
                            TaskKind kind) {
  const double stop_s = mover_->fetch(tile, from, to, kind);
  plan_.planned_s = std::max(plan_.planned_s, stop_s);
  return stop_s;
}

// One chain for all users.
void FactorPlanner::send(const TileId& tile, const std::vector<int>& users, bool is_panel) {
  const int k = tile.matrix - strips_.count() - (is_panel ? 0 : strips_.panels);
  const auto of_device = [&](DeviceId device) -> Worker& {
    return *std::ranges::find(workers_, device, &Worker::device);
  };
  const auto copy_of = [&](Worker& worker) -> TileCopy& {
    return is_panel ? worker.panel[index(k)] : worker.outcome[index(k)];
  };
  std::vector<DeviceId> devices;
  for (const int w : users) devices.push_back(worker(w).device);
  mover_->send(
      tile, copy_of(worker(owner_of_panel(k))), devices,
      [&](DeviceId device) {
        Worker& user = of_device(device);
        if (is_panel) copy_of(user).where = {device, user.panels.next()};
        return copy_of(user).where;
      },
      [&](DeviceId device, double stop_s) { copy_of(of_device(device)).ready_s = stop_s; });
}

}  // namespace

Plan schedule_factorization(std::shared_ptr<const TileProgram> program, const Machine& machine,
                            const Tuning& tuning) {
  require_valid(*program, {}, machine, tuning);
  return FactorPlanner(std::move(program), machine, tuning).run();
}

}  // namespace fleet

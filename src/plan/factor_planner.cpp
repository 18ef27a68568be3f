// SPDX-License-Identifier: BSD-3-Clause
// factor_planner.cpp: the order of a factorization's tasks: right-looking, with the next panel
// ahead of everything else.
#include "plan/factor_planner.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "plan/kernel_times.hpp"
#include "plan/queues.hpp"
#include "plan/router.hpp"
#include "plan/strip_places.hpp"
#include "plan/task_list.hpp"
#include "plan/validate.hpp"

namespace fleet {
namespace {

/// Panels that a worker holds at a time: one that updates read, one that arrives, one that is made.
constexpr int kPanelsHeld = 3;
/// Strips of earlier stages on their way to be panels again.
constexpr int kStripsReloaded = 2;

class FactorPlanner {
 public:
  FactorPlanner(std::shared_ptr<const TileProgram> program, const Machine& machine,
                const Tuning& tuning)
      : machine_(machine),
        program_(*program),
        strips_(*program_.strips),
        stage_(strips_.stage),
        times_(program_, machine, tuning),
        router_(machine, tuning),
        slots_(machine.devices.size()) {
    plan_.program = std::move(program);
    plan_.tuning = tuning;
    first_lane_ = add_queues(plan_, machine_);
    tasks_.emplace(plan_, plan_.queues.size());
  }

  Plan run();

 private:
  /// Where a tile is on a device, or at home.
  struct Copy {
    Where where;
    double ready_s = 0;
  };
  /// A worker's own view of the run.
  struct Worker {
    DeviceId device = kHost;
    SlotRing panels, reloaded;
    std::vector<double> lane_free_s;
    std::vector<Copy> panel, outcome;  ///< per panel
    int strips = 0;                    ///< that it has been dealt
  };

  void deal();
  bool passes_host() const;
  void require_room() const;
  void take_slots();
  void fetch_strips();
  void step(int k);
  void make_panel(int k);
  void reload(int k);
  void exchange_only();
  void send(const TileId& tile, int from, std::vector<int> users, bool is_panel);
  void update(int j, int k);
  void exchange(int j, int k);
  void write_back(int j);
  void write_back_outcome(int k, int worker);
  TaskId compute(int worker, OpId op, const Copy& target, const std::array<const Copy*, 2>& inputs,
                 int lane);
  double fetch(const TileId& tile, const Copy& from, const Where& to, TaskKind kind);
  TaskId emit_leg(TaskKind kind, const TileId& tile, const Leg& leg, const Where& from,
                  const Where& to, int chunks, TaskId upstream);
  Used& used(const Where& where, const TileId& tile) {
    if (!where.in_place()) return slots_[index(where.device)].used(where.slot);
    return homes_[index(tile.matrix)];
  }
  int owner_of(int j) const { return (j - stage_.begin) % static_cast<int>(workers_.size()); }
  Worker& worker(int w) { return workers_[index(w)]; }
  int lanes() const { return static_cast<int>(workers_.front().lane_free_s.size()); }
  int lane_of_panels() const { return lanes() - 1; }
  int lane_of(int j) const {
    const int others = std::max(1, std::min(lanes() - 1, lanes_in_use_));
    return (j - stage_.begin) / static_cast<int>(workers_.size()) % others;
  }
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
  Router router_;
  Plan plan_;
  std::optional<TaskList> tasks_;
  std::vector<QueueId> first_lane_;
  std::vector<StripSlots> slots_;  ///< per device
  std::vector<Used> homes_;        ///< per matrix
  SlotRing ring_;                  ///< pinned, for what has no way of its own
  std::vector<Worker> workers_;
  std::vector<Copy> strip_;  ///< where each is
  std::vector<std::vector<OpId>> ops_;  ///< per matrix, those still to come, last first
  std::vector<TaskId> after_;
  int lanes_in_use_ = 1;
};

std::int64_t longest_panel(const TileProgram& program, const Strips& strips) {
  std::int64_t bytes = 0;
  for (int k = 0; k < strips.panels; ++k)
    bytes = std::max(bytes, program.bytes_of(strips.panel(k)));
  return bytes;
}

Plan FactorPlanner::run() {
  deal();
  take_slots();
  if (stage_.only_exchanges) {
    exchange_only();
  } else {
    fetch_strips();
    for (int k = 0; k < std::min(stage_.end, strips_.panels); ++k) step(k);
  }
  for (std::size_t d = 0; d < slots_.size(); ++d) {
    plan_.arena_bytes.push_back(slots_[d].bytes());
    plan_.slots.push_back(slots_[d].take());
  }
  return std::move(plan_);
}

void FactorPlanner::deal() {
  for (const DeviceId device : plan_.tuning.workers) {
    Worker worker{.device = device};
    const bool overlap = plan_.tuning.rules.has(Rule::overlap);
    worker.lane_free_s.resize(
        overlap ? index(std::max(1, machine_.devices[index(device)].lanes)) : 1, 0.0);
    worker.panel.resize(index(strips_.panels));
    worker.outcome.resize(index(strips_.panels));
    workers_.push_back(std::move(worker));
  }
  const std::size_t least = std::ranges::min_element(workers_, {}, [](const Worker& w) {
                              return w.lane_free_s.size();
                            })->lane_free_s.size();
  for (Worker& worker : workers_) worker.lane_free_s.resize(least);
  homes_.resize(program_.matrices.size());
  strip_.resize(index(strips_.count()));
  ops_.resize(program_.matrices.size());
  for (const OpChain& chain : program_.chains)
    for (OpId op = chain.first; op < chain.first + chain.ops; ++op)
      ops_[index(chain.target.matrix)].push_back(op);
  for (auto& ops : ops_) std::ranges::reverse(ops);
  const TileId middle = strips_.strip((stage_.begin + stage_.end) / 2 < strips_.count()
                                          ? (stage_.begin + stage_.end) / 2
                                          : strips_.count() - 1);
  const std::int64_t elements = program_.rows_of(middle) * program_.cols_of(middle);
  lanes_in_use_ = static_cast<int>(
      ceil_div(machine_.devices[index(workers_.front().device)].filling_elements, elements));
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
    Copy& strip = strip_[index(j)];
    strip.where = {worker(w).device, -1};
    if (!in_place(tile, w))
      strip.where.slot = slots_[index(worker(w).device)].add(program_.bytes_of(tile));
    ++worker(w).strips;
  }
  std::int64_t strip_bytes = 1;
  for (int j = 0; j < strips_.count(); ++j)
    strip_bytes = std::max(strip_bytes, program_.bytes_of(strips_.strip(j)));
  const bool reloads = !stage_.only_exchanges && stage_.begin > 0;
  for (Worker& worker : workers_) {
    StripSlots& slots = slots_[index(worker.device)];
    if (!stage_.only_exchanges) {
      const int held = std::min(kPanelsHeld, strips_.panels);
      worker.panels = SlotRing(slots, held, panel_bytes);
    }
    if (reloads) worker.reloaded = SlotRing(slots, kStripsReloaded, strip_bytes);
    for (int k = 0; k < strips_.panels; ++k)
      worker.outcome[index(k)].where = {worker.device,
                                        slots.add(program_.bytes_of(strips_.outcome(k)))};
  }
  if (passes_host()) {
    const int ring = std::max(4, 2 * static_cast<int>(workers_.size()));
    ring_ = SlotRing(slots_[kHost], ring, std::max(strip_bytes, panel_bytes));
  }
  require_room();
}

// Does some copy go through pinned memory of the host: from pageable memory, between devices
// without a link, or from a device to itself?
bool FactorPlanner::passes_host() const {
  if (plan_.tuning.routing == Routing::over_host) return true;
  const auto lacks_link = [&](DeviceId from, DeviceId to) {
    return from != to && machine_.find_link(from, to) < 0;
  };
  return std::ranges::any_of(workers_, [&](const Worker& a) {
    const bool copies_own = plan_.tuning.own_copies && a.device == strips_.what.home;
    return copies_own || lacks_link(strips_.what.home, a.device) ||
           std::ranges::any_of(workers_,
                               [&](const Worker& b) { return lacks_link(a.device, b.device); });
  });
}

void FactorPlanner::require_room() const {
  const auto& caps = plan_.tuning.memory_cap;
  for (const Worker& worker : workers_) {
    const auto d = index(worker.device);
    if (d < caps.size() && slots_[d].bytes() > caps[d])
      throw Error(Status::no_memory,
                  "device " + machine_.devices[d].name + " has no room for its strips: " +
                      std::to_string(slots_[d].bytes()) + " bytes");
  }
}

void FactorPlanner::fetch_strips() {
  for (int j = stage_.begin; j < stage_.end; ++j) {
    Copy& strip = strip_[index(j)];
    if (strip.where.in_place()) continue;
    const TileId tile = strips_.strip(j);
    const Copy home{.where = {strips_.what.home, -1}};
    strip.ready_s = fetch(tile, home, strip.where, TaskKind::fetch);
  }
}

void FactorPlanner::step(int k) {
  const bool earlier = k < stage_.begin;
  earlier ? reload(k) : make_panel(k);
  const int owner = earlier ? k % static_cast<int>(workers_.size()) : owner_of(k);
  const int first = std::max(k + 1, stage_.begin);
  std::vector<int> users;
  const auto note = [&](int w) {
    if (w != owner && std::ranges::find(users, w) == users.end()) users.push_back(w);
  };
  for (int j = first; j < stage_.end; ++j) note(owner_of(j));
  if (!users.empty()) send(strips_.panel(k), owner, users, true);
  for (int j = first; j < stage_.end; ++j) update(j, k);
  const bool exchanges = !earlier && strips_.what.routine == Factoring::getrf && stage_.begin == 0 &&
                         stage_.end == strips_.count();
  if (exchanges) {
    users.clear();
    for (int j = 0; j < k; ++j) note(owner_of(j));
    if (!users.empty()) send(strips_.outcome(k), owner, users, false);
    for (int j = 0; j < k; ++j) exchange(j, k);
  }
  // Strips that no op is left for.
  for (int j = stage_.begin; j < stage_.end; ++j)
    if (strip_[index(j)].where.device != kHost && ops_[index(j)].empty()) write_back(j);
}

void FactorPlanner::make_panel(int k) {
  const int w = owner_of(k);
  Worker& me = worker(w);
  Copy& strip = strip_[index(k)];
  Copy& panel = me.panel[index(k)];
  Copy& outcome = me.outcome[index(k)];
  panel.where = {me.device, me.panels.next()};
  const int lane = lane_of_panels();
  const auto make = [&](const TileId& tile, Copy& target, const Copy& input) {
    const OpId op = next_op(tile);
    compute(w, op, target, {&input, nullptr}, lane);
    target.ready_s = me.lane_free_s[index(lane)];
  };
  make(strips_.panel(k), panel, strip);
  make(strips_.outcome(k), outcome, panel);
  make(strips_.strip(k), strip, panel);
  write_back_outcome(k, w);
}

// Of an earlier stage: the strip has been factored and is at home.
void FactorPlanner::reload(int k) {
  const int w = k % static_cast<int>(workers_.size());
  Worker& me = worker(w);
  const TileId tile = strips_.strip(k);
  Copy strip{.where = {me.device, -1}};
  if (!in_place(tile, w)) {
    strip.where.slot = me.reloaded.next();
    strip.ready_s =
        fetch(tile, {.where = {strips_.what.home, -1}}, strip.where, TaskKind::fetch);
  }
  Copy& outcome = me.outcome[index(k)];
  outcome.ready_s =
      fetch(strips_.outcome(k), {.where = {kHost, -1}}, outcome.where, TaskKind::fetch);
  Copy& panel = me.panel[index(k)];
  panel.where = {me.device, me.panels.next()};
  compute(w, next_op(strips_.panel(k)), panel, {&strip, &outcome}, lane_of_panels());
  panel.ready_s = me.lane_free_s[index(lane_of_panels())];
}

// Each strip comes, is exchanged by all later panels, and goes home.
void FactorPlanner::exchange_only() {
  fetch_strips();
  for (int w = 0; w < std::ssize(workers_); ++w)
    for (int k = stage_.begin + 1; k < strips_.panels; ++k) {
      Copy& outcome = worker(w).outcome[index(k)];
      outcome.ready_s =
          fetch(strips_.outcome(k), {.where = {kHost, -1}}, outcome.where, TaskKind::fetch);
    }
  for (int j = stage_.begin; j < std::min(stage_.end, strips_.panels); ++j) {
    for (int k = j + 1; k < strips_.panels; ++k) exchange(j, k);
    if (j + 1 < strips_.panels) write_back(j);
  }
}

void FactorPlanner::update(int j, int k) {
  const int w = owner_of(j);
  Copy& strip = strip_[index(j)];
  const int lane = lane_of(j);
  compute(w, next_op(strips_.strip(j)), strip, {&worker(w).panel[index(k)], nullptr}, lane);
  strip.ready_s = worker(w).lane_free_s[index(lane)];
}

void FactorPlanner::exchange(int j, int k) {
  const int w = owner_of(j);
  Copy& strip = strip_[index(j)];
  const int lane = lane_of(j);
  compute(w, next_op(strips_.strip(j)), strip, {&worker(w).outcome[index(k)], nullptr}, lane);
  strip.ready_s = worker(w).lane_free_s[index(lane)];
}

void FactorPlanner::write_back(int j) {
  Copy& strip = strip_[index(j)];
  if (!strip.where.in_place())
    fetch(strips_.strip(j), strip, {strips_.what.home, -1}, TaskKind::writeback);
  strip.where = {kHost, -1};  // done with
}

void FactorPlanner::write_back_outcome(int k, int w) {
  fetch(strips_.outcome(k), worker(w).outcome[index(k)], {kHost, -1}, TaskKind::writeback);
}

TaskId FactorPlanner::compute(int w, OpId op, const Copy& target,
                              const std::array<const Copy*, 2>& inputs, int lane) {
  Worker& me = worker(w);
  const TileOp& of = program_.op(op);
  Task task;
  task.kernel = of.kernel;
  task.accumulate = of.accumulate;
  task.queue = first_lane_[index(me.device)] + lane;
  task.op = op;
  task.to = target.where;
  task.tile = kNoTile;
  double start_s = std::max(me.lane_free_s[index(lane)], target.ready_s);
  for (const std::size_t x : {0, 1}) {
    if (inputs[x] == nullptr) continue;
    task.inputs[x] = inputs[x]->where;
    start_s = std::max(start_s, inputs[x]->ready_s);
    used(inputs[x]->where, of.inputs[x].tile).before_read(after_);
  }
  const auto chain =
      std::ranges::upper_bound(program_.chains, op, {}, &OpChain::first) - 1;
  task.tile = chain->target;
  used(task.to, task.tile).before_write(after_);
  const TaskId id = tasks_->add(task, after_);
  for (const std::size_t x : {0, 1})
    if (inputs[x] != nullptr) used(inputs[x]->where, of.inputs[x].tile).note_read(id);
  used(task.to, task.tile).note_write(id);
  const double stop_s = start_s + times_.seconds(me.device, of, task.tile);
  me.lane_free_s[index(lane)] = stop_s;
  plan_.planned_s = std::max(plan_.planned_s, stop_s);
  return id;
}

double FactorPlanner::fetch(const TileId& tile, const Copy& from, const Where& to, TaskKind kind) {
  if (from.where.device == to.device && on_host(to.device)) return from.ready_s;
  const Holder holder{from.where.device, from.ready_s};
  const Cargo cargo = program_.cargo_of(tile);
  const Chain& chain = router_.route({&holder, 1}, {&to.device, 1}, cargo);
  used(from.where, tile).before_read(after_);
  emit_leg(kind, tile, chain.legs[0], from.where, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  plan_.planned_s = std::max(plan_.planned_s, chain.legs[0].stop_s());
  return chain.legs[0].stop_s();
}

// One chain for all users.
void FactorPlanner::send(const TileId& tile, int from, std::vector<int> users, bool is_panel) {
  const int k = tile.matrix - strips_.count() - (is_panel ? 0 : strips_.panels);
  const auto copy_of = [&](int w) -> Copy& {
    return is_panel ? worker(w).panel[index(k)] : worker(w).outcome[index(k)];
  };
  std::vector<DeviceId> devices;
  for (const int w : users) devices.push_back(worker(w).device);
  const Copy& source = copy_of(from);
  const Holder holder{source.where.device, source.ready_s};
  const Cargo cargo = program_.cargo_of(tile);
  const Chain chain = router_.route({&holder, 1}, devices, cargo);
  Where at = source.where;
  TaskId upstream = kNoTask;
  used(at, tile).before_read(after_);
  for (std::size_t u = 0; u < chain.users.size(); ++u) {
    const auto w = std::ranges::find(workers_, chain.users[u], &Worker::device) - workers_.begin();
    Copy& copy = copy_of(static_cast<int>(w));
    if (is_panel) copy.where = {chain.users[u], worker(static_cast<int>(w)).panels.next()};
    upstream = emit_leg(TaskKind::fetch, tile, chain.legs[u], at, copy.where, chain.chunks,
                        upstream);
    router_.commit(chain.legs[u], cargo.bytes);
    copy.ready_s = chain.legs[u].stop_s();
    at = copy.where;
  }
}

TaskId FactorPlanner::emit_leg(TaskKind kind, const TileId& tile, const Leg& leg,
                               const Where& from, const Where& to, int chunks, TaskId upstream) {
  Where at = from;
  const bool overlap = plan_.tuning.rules.has(Rule::overlap);
  for (int h = 0; h < leg.hop_count; ++h) {
    const Link& link = machine_.links[index(leg.hops[h].link)];
    const bool is_last = h + 1 == leg.hop_count;
    const Where next = is_last ? to : Where{link.target, ring_.next()};
    const DeviceId device = kind == TaskKind::writeback ? link.source : link.target;
    Task task;
    task.kind = kind;
    task.chunks = static_cast<std::uint8_t>(chunks);
    task.queue = overlap ? static_cast<QueueId>(leg.hops[h].link)
                         : static_cast<QueueId>(machine_.links.size()) + device;
    task.link = leg.hops[h].link;
    task.upstream = upstream;
    task.tile = tile;
    task.from = at;
    task.to = next;
    used(next, tile).before_write(after_);
    upstream = tasks_->add(task, after_);
    used(at, tile).note_read(upstream);
    used(next, tile).note_write(upstream);
    at = next;
  }
  return upstream;
}

}  // namespace

Plan schedule_factorization(std::shared_ptr<const TileProgram> program, const Machine& machine,
                            const Tuning& tuning) {
  require_valid(*program, {}, machine, tuning);
  return FactorPlanner(std::move(program), machine, tuning).run();
}

StripBytes strip_bytes(const TileProgram& program) {
  const Strips& strips = *program.strips;
  StripBytes bytes;
  for (int j = 0; j < strips.count(); ++j)
    bytes.strip =
        std::max(bytes.strip, round_up(program.bytes_of(strips.strip(j)), kAlignmentBytes));
  bytes.beside = kPanelsHeld * round_up(longest_panel(program, strips), kAlignmentBytes) +
                 kStripsReloaded * bytes.strip;
  for (int k = 0; k < strips.panels; ++k)
    bytes.beside += round_up(program.bytes_of(strips.outcome(k)), kAlignmentBytes);
  return bytes;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// factor_planner.cpp: the order of a factorization's tasks: each worker updates the strips that are
// factored soonest first, and panels are made as soon as their strips are up to date.
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

/// Panels that a worker holds at a time: at least one that updates read, one that arrives, and one
/// that is made; more let panels run ahead of the updates of later strips.
constexpr int kLeastPanels = 3, kMostPanels = 12;
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
    std::vector<int> strips;           ///< that it has been dealt, in their order
    std::vector<std::pair<int, int>> exchanges;  ///< of its strips by panels, still to come
  };
  /// An update that may come next.
  struct Next {
    int strip = -1;
    double start_s = 0;
  };

  void deal();
  bool passes_host() const;
  void require_room() const;
  void take_slots();
  void fetch_strips();
  void factor();
  bool make_next_panel();
  bool has_slots(int k) const;
  std::vector<int> users_of(int k) const;
  Next next_of(int w) const;
  void emit_exchanges(int w, std::size_t most);
  void finish(int j);
  void make_panel(int k);
  void reload(int k);
  void exchange_only();
  void send(const TileId& tile, const std::vector<int>& users, bool is_panel);
  void update(int j);
  void exchange(int j, int k);
  int free_lane(int w) const;
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
  int owner_of_panel(int k) const {
    return k < stage_.begin ? k % static_cast<int>(workers_.size()) : owner_of(k);
  }
  int last_panel() const { return std::min(stage_.end, strips_.panels); }
  /// Are row exchanges by later panels a part of the stage?
  bool exchanges() const {
    return strips_.what.routine == Factoring::getrf &&
           (stage_.only_exchanges || (stage_.begin == 0 && stage_.end == strips_.count()));
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
  std::vector<int> updates_;  ///< of each strip so far
  int panels_made_ = 0, panels_held_ = kLeastPanels;
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
    factor();
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
  for (Worker& worker : workers_) {
    worker.lane_free_s.resize(least);
    if (least > 1)
      plan_.queues[index(first_lane_[index(worker.device)] + static_cast<int>(least) - 1)]
          .is_ahead = true;
  }
  homes_.resize(program_.matrices.size());
  strip_.resize(index(strips_.count()));
  updates_.resize(index(strips_.count()));
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
    worker(w).strips.push_back(j);
  }
  std::int64_t strip_bytes = 1;
  for (int j = 0; j < strips_.count(); ++j)
    strip_bytes = std::max(strip_bytes, program_.bytes_of(strips_.strip(j)));
  const bool reloads = !stage_.only_exchanges && stage_.begin > 0;
  for (Worker& worker : workers_) {
    StripSlots& slots = slots_[index(worker.device)];
    if (reloads) worker.reloaded = SlotRing(slots, kStripsReloaded, strip_bytes);
    for (int k = 0; k < strips_.panels; ++k)
      worker.outcome[index(k)].where = {worker.device,
                                        slots.add(program_.bytes_of(strips_.outcome(k)))};
  }
  if (passes_host()) {
    const int ring = std::max(4, 2 * static_cast<int>(workers_.size()));
    ring_ = SlotRing(slots_[kHost], ring, std::max(strip_bytes, panel_bytes));
  }
  if (stage_.only_exchanges) return require_room();
  panels_held_ = std::min(kMostPanels, strips_.panels);
  const std::int64_t aligned = round_up(panel_bytes, kAlignmentBytes);
  for (const Worker& worker : workers_) {
    const auto d = index(worker.device);
    if (d >= plan_.tuning.memory_cap.size()) continue;
    const std::int64_t left = plan_.tuning.memory_cap[d] - slots_[d].bytes();
    panels_held_ = static_cast<int>(std::clamp<std::int64_t>(
        left / aligned, std::min(kLeastPanels, strips_.panels), panels_held_));
  }
  for (Worker& worker : workers_)
    worker.panels = SlotRing(slots_[index(worker.device)], panels_held_, panel_bytes);
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

void FactorPlanner::factor() {
  for (;;) {
    while (make_next_panel()) {
    }
    // The worker that is free first; of its strips the one that is factored first, but none that
    // it would have to wait for while another is ready.
    int best = -1;
    for (int w = 0; w < std::ssize(workers_); ++w) {
      if (next_of(w).strip < 0) continue;
      const auto free_s = [&](int of) {
        return worker(of).lane_free_s[index(free_lane(of))];
      };
      if (best < 0 || free_s(w) < free_s(best)) best = w;
    }
    if (best < 0) break;
    update(next_of(best).strip);
    emit_exchanges(best, 1);
  }
  for (int w = 0; w < std::ssize(workers_); ++w) emit_exchanges(w, worker(w).exchanges.size());
}

// Has every worker that takes part in panel k a slot for it? Those that its slots had before are
// done with.
bool FactorPlanner::has_slots(int k) const {
  const int before = k - panels_held_;
  if (before < 0) return true;
  return std::ranges::all_of(workers_, [&](const Worker& worker) {
    return std::ranges::all_of(worker.strips, [&](int j) {
      return j <= before || updates_[index(j)] > before;
    });
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
  if (exchanges()) {
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
  const double free_s = me.lane_free_s[index(free_lane(w))];
  Next best;
  for (const int j : me.strips) {
    const int k = updates_[index(j)];
    if (k >= std::min(j, strips_.panels) || k >= panels_made_) continue;
    const double start_s =
        std::max({free_s, strip_[index(j)].ready_s, me.panel[index(k)].ready_s});
    if (best.strip >= 0 && start_s >= best.start_s) continue;
    best = {j, start_s};
    if (start_s <= free_s) break;
  }
  return best;
}

/// Short tasks that fit between others.
void FactorPlanner::emit_exchanges(int w, std::size_t most) {
  auto& waiting = worker(w).exchanges;
  const std::size_t count = std::min(most, waiting.size());
  for (std::size_t i = 0; i < count; ++i) {
    exchange(waiting[i].first, waiting[i].second);
    finish(waiting[i].first);
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
}

/// Sends a strip home that no op is left for.
void FactorPlanner::finish(int j) {
  if (ops_[index(j)].empty() && !on_host(strip_[index(j)].where.device)) write_back(j);
}

int FactorPlanner::free_lane(int w) const {
  const Worker& me = workers_[index(w)];
  const int count = std::max(1, std::min(lanes() - 1, lanes_in_use_));
  const auto begin = me.lane_free_s.begin();
  return static_cast<int>(std::min_element(begin, begin + count) - begin);
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
  const int w = owner_of_panel(k);
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

void FactorPlanner::update(int j) {
  const int w = owner_of(j), k = updates_[index(j)]++;
  Copy& strip = strip_[index(j)];
  const int lane = free_lane(w);
  compute(w, next_op(strips_.strip(j)), strip, {&worker(w).panel[index(k)], nullptr}, lane);
  strip.ready_s = worker(w).lane_free_s[index(lane)];
  finish(j);
}

void FactorPlanner::exchange(int j, int k) {
  const int w = owner_of(j);
  Copy& strip = strip_[index(j)];
  const int lane = free_lane(w);
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
void FactorPlanner::send(const TileId& tile, const std::vector<int>& users, bool is_panel) {
  const int k = tile.matrix - strips_.count() - (is_panel ? 0 : strips_.panels);
  const int from = owner_of_panel(k);
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
  bytes.beside = kLeastPanels * round_up(longest_panel(program, strips), kAlignmentBytes) +
                 kStripsReloaded * bytes.strip;
  for (int k = 0; k < strips.panels; ++k)
    bytes.beside += round_up(program.bytes_of(strips.outcome(k)), kAlignmentBytes);
  return bytes;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// mover.cpp: residency of tiles, and the copies between places.
#include "plan/mover.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kNoUse = std::numeric_limits<std::int64_t>::max();

std::int64_t largest_edge(const Cuts& cuts) {
  std::int64_t edge = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) edge = std::max(edge, cuts[i + 1] - cuts[i]);
  return edge;
}

}  // namespace

Mover::Mover(Plan& plan, const Machine& machine, const Decomposition& decomposition,
             TaskList& tasks)
    : plan_(plan),
      problem_(plan.problem),
      machine_(machine),
      tuning_(plan.tuning),
      cut_(decomposition),
      tasks_(tasks),
      router_(machine, plan.tuning),
      stores_(machine.devices.size()),
      positions_(plan.tuning.workers.size()) {
  number_tiles();
  if (problem_.traits().triangular)
    at_home_.resize(tiles_.size() - static_cast<std::size_t>(b_base_));
  else if (problem_.routine != Routine::gemm && !problem_.traits().vectors)
    note_uses();
  held_.resize(tuning_.workers.size() * tiles_.size());
  row_present_.assign(static_cast<std::size_t>(cut_.row_groups),
                      std::vector<char>(static_cast<std::size_t>(tuning_.grid.rows), 0));
  col_present_.assign(static_cast<std::size_t>(cut_.col_groups),
                      std::vector<char>(static_cast<std::size_t>(tuning_.grid.cols), 0));
  for (std::size_t i = 0; i < cut_.row_owner.size(); ++i)
    row_present_[static_cast<std::size_t>(cut_.row_group[i])]
                [static_cast<std::size_t>(cut_.row_owner[i])] = 1;
  for (std::size_t j = 0; j < cut_.col_owner.size(); ++j)
    col_present_[static_cast<std::size_t>(cut_.col_group[j])]
                [static_cast<std::size_t>(cut_.col_owner[j])] = 1;
  limit_pools();
}

void Mover::number_tiles() {
  if (problem_.traits().triangular) other_ = kC;
  const int items[2] = {problem_.operands[kA].shared ? 1 : static_cast<int>(problem_.batch),
                        problem_.operands[kB].shared ? 1 : static_cast<int>(problem_.batch)};
  for (int operand : {kA, other_}) {
    if (operand != kA) b_base_ = static_cast<int>(tiles_.size());
    (operand == kA ? a_cols_ : b_cols_) = tile_count(plan_.col_cuts(operand));
    if (operand == kB && !problem_.traits().has_b) break;
    const int rows = plan_.tile_rows(operand) * items[operand == kA ? 0 : 1];
    const int cols = tile_count(plan_.col_cuts(operand));
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) {
        tiles_.push_back({operand, r, c});
        cargos_.push_back(plan_.cargo_of(tiles_.back()));
      }
  }
}

// Symmetric matrices are factors of rows and of columns.
void Mover::note_uses() {
  uses_.resize(tiles_.size());
  const int rows = static_cast<int>(cut_.row_owner.size());
  const int cols = static_cast<int>(cut_.col_owner.size());
  for (int step = 0; step < plan_.steps(); ++step) {
    for (int row = 0; row < rows; ++row)
      uses_[static_cast<std::size_t>(key_a(row, step))].push_back({Side::left, row, step});
    for (int col = 0; col < cols; ++col)
      uses_[static_cast<std::size_t>(key_b(0, step, col))].push_back({Side::right, col, step});
  }
}

bool Mover::in_place(int operand, int worker) const {
  const DeviceId home = problem_.operands[static_cast<std::size_t>(operand)].home;
  const DeviceId device = device_of(worker);
  if (tuning_.own_copies && !on_host(device)) return false;
  return home == device || (device == kHost && home == kPageable);
}

bool Mover::lies_in_place(int key, int worker) const {
  const int operand = operand_of(key);
  if (!in_place(operand, worker)) return false;
  // What is solved for comes home late: its owner only has it there at once.
  return operand != kC || !problem_.traits().solves ||
         owner_of(tiles_[static_cast<std::size_t>(key)]) == worker;
}

int Mover::owner_of(const TileId& tile) const {
  return cut_.row_owner[static_cast<std::size_t>(tile.row)] * tuning_.grid.cols +
         cut_.col_owner[static_cast<std::size_t>(tile.col)];
}

double Mover::held_s(int key, int worker) const {
  const Held& h = held(key, worker);
  return h.slot < 0 && lies_in_place(key, worker) ? std::max(0.0, h.arrival_s) : h.arrival_s;
}

std::span<const Holder> Mover::holders_of(int key) {
  if (operand_of(key) == kC && problem_.traits().solves) {
    const int owner = owner_of(tiles_[static_cast<std::size_t>(key)]);
    holders_.assign(1, {device_of(owner), held_s(key, owner)});
  } else {
    holders_.assign(1, {problem_.operands[static_cast<std::size_t>(operand_of(key))].home, 0.0});
  }
  if (tuning_.rules.has(Rule::eta) || tuning_.rules.has(Rule::bandwidth))
    for (int w = 0; w < static_cast<int>(tuning_.workers.size()); ++w)
      if (const Held& h = held(key, w); h.slot >= 0 && device_of(w) != holders_[0].device)
        holders_.push_back({device_of(w), h.arrival_s});
  return holders_;
}

double Mover::estimate_s(int key, int worker) const {
  return router_.arrival_s(const_cast<Mover*>(this)->holders_of(key), device_of(worker),
                           cargos_[static_cast<std::size_t>(key)]);
}

// The other workers of the grid row (for the left factor) or grid column (for the right one) that
// will need the tile.
void Mover::find_users(int key, int worker, Side side) {
  users_.assign(1, worker);
  // With vectors a worker keeps no tile beyond its use, so none comes before it is asked for.
  if (!tuning_.rules.has(Rule::batching) || problem_.traits().vectors) return;
  const bool is_a = side == Side::left;
  if (problem_.batch > 1 && !problem_.operands[is_a ? kA : kB].shared && is_a == false) return;
  const Grid& grid = tuning_.grid;
  const Step& at = positions_[static_cast<std::size_t>(worker)];
  for (int other = 0; other < static_cast<int>(tuning_.workers.size()); ++other) {
    if (other == worker || held_s(key, other) >= 0) continue;
    const int row = other / grid.cols, col = other % grid.cols;
    if (is_a ? row != worker / grid.cols : col != worker % grid.cols) continue;
    if (!row_present_[static_cast<std::size_t>(at.row_group)][static_cast<std::size_t>(row)] ||
        !col_present_[static_cast<std::size_t>(at.col_group)][static_cast<std::size_t>(col)])
      continue;
    if (other_ == kC) {
      if (next_use(key, other) != kNoUse && may_take(key, other, -1)) users_.push_back(other);
      continue;
    }
    const Step& theirs = positions_[static_cast<std::size_t>(other)];
    if (theirs.row_group != at.row_group || theirs.col_group != at.col_group || theirs.k > at.k)
      continue;
    if (!may_take(key, other, -1)) continue;
    users_.push_back(other);
  }
}

// A worker that did not ask yet takes a tile only if that throws out nothing it needs sooner.
bool Mover::may_take(int key, int worker, int pinned) {
  const SlotStore& slots = store(device_of(worker));
  if (!slots.recycles(Pool::input) || slots.has_room(Pool::input)) return true;
  std::int64_t victim_use = 0;
  return furthest(worker, pinned, victim_use) >= 0 && victim_use > next_use(key, worker);
}

// Of trmm and trsm: A's tiles are used by one tile of C along its side in every group of the
// others, C's by those of the same group that take part of them.
std::int64_t Mover::next_use_by_triangle(const TileId& tile, int worker) const {
  const bool left = problem_.side == Side::left, solves = problem_.traits().solves;
  const auto& along_owner = left ? cut_.row_owner : cut_.col_owner;
  const auto& other_group = left ? cut_.col_group : cut_.row_group;
  const Step& at = positions_[static_cast<std::size_t>(worker)];
  const int mine = left ? worker / tuning_.grid.cols : worker % tuning_.grid.cols;
  const std::int64_t steps = std::max(1, plan_.steps());
  const std::int64_t now = cut_.position(at.row_group, at.col_group) * steps + at.k;
  std::int64_t least = kNoUse;
  const auto consider = [&](int rank, int outer, int step) {
    const std::int64_t then =
        (left ? cut_.position(rank, outer) : cut_.position(outer, rank)) * steps + step;
    if (then >= now) least = std::min(least, then);
  };
  if (tile.operand == kC) {
    const int step = plan_.rank(left ? tile.row : tile.col);
    const int outer = other_group[static_cast<std::size_t>(left ? tile.col : tile.row)];
    for (int i = 0; i < static_cast<int>(along_owner.size()); ++i)
      if (const int rank = plan_.rank(i);
          along_owner[static_cast<std::size_t>(i)] == mine && (solves ? rank > step : rank <= step))
        consider(rank, outer, step);
    return least;
  }
  const Factor as_is{tile, problem_.op_a};
  const int i = as_is.op == Op::none ? tile.row : tile.col;  // of op(A)
  const int j = as_is.op == Op::none ? tile.col : tile.row;
  const int taker = left ? i : j, given = left ? j : i;
  if (along_owner[static_cast<std::size_t>(taker)] != mine) return kNoUse;
  for (int outer = 0; outer < (left ? cut_.col_groups : cut_.row_groups); ++outer)
    consider(plan_.rank(taker), outer, plan_.rank(given));
  return least;
}

// Steps are numbered group by group, k within.
std::int64_t Mover::next_use(int key, int worker) const {
  if (other_ == kC) return next_use_by_triangle(tiles_[static_cast<std::size_t>(key)], worker);
  const Step& at = positions_[static_cast<std::size_t>(worker)];
  const std::int64_t steps = std::max(1, plan_.steps());
  const std::int64_t groups = cut_.col_groups;
  const auto number = [&](std::int64_t row_group, std::int64_t col_group) {
    return cut_.position(static_cast<int>(row_group), static_cast<int>(col_group)) * steps;
  };
  const std::int64_t now = number(at.row_group, at.col_group) + at.k;
  if (!uses_.empty()) {
    std::int64_t least = kNoUse;
    for (const Use& use : uses_[static_cast<std::size_t>(key)])
      for (std::int64_t row_group = at.row_group; row_group < cut_.row_groups; ++row_group)
        for (std::int64_t col_group = 0; col_group < groups; ++col_group) {
          const auto place = static_cast<std::size_t>(use.at);
          const bool concerns = use.side == Side::left ? cut_.row_group[place] == row_group
                                                       : cut_.col_group[place] == col_group;
          const std::int64_t then = number(row_group, col_group) + use.step;
          if (concerns && then >= now) least = std::min(least, then);
        }
    return least;
  }
  const TileId tile = tiles_[static_cast<std::size_t>(key)];
  if (key < b_base_) {
    const int row = problem_.op_a == Op::none ? tile.row : tile.col;
    const int k = problem_.op_a == Op::none ? tile.col : tile.row;
    const std::int64_t row_group = cut_.row_group[static_cast<std::size_t>(row)];
    std::int64_t use = row_group * groups * steps + k % steps;
    while (use < now) use += steps;
    return use < (row_group + 1) * groups * steps ? use : kNoUse;
  }
  const int col = problem_.op_b == Op::none ? tile.col : tile.row % tile_count(cut_.n);
  const int k = problem_.op_b == Op::none ? tile.row : tile.col;
  const std::int64_t col_group = cut_.col_group[static_cast<std::size_t>(col)];
  for (std::int64_t row_group = at.row_group; row_group < cut_.row_groups; ++row_group)
    if (const std::int64_t use = number(row_group, col_group) + k % steps; use >= now) return use;
  return kNoUse;
}

int Mover::furthest(int worker, int pinned, std::int64_t& use) const {
  const SlotStore& slots = stores_[static_cast<std::size_t>(device_of(worker))];
  int victim = -1;
  use = -1;
  for (int s = 0; s < slots.slot_count(); ++s) {
    const int content = slots.content(s);
    if (slots.pool(s) != Pool::input || content == SlotStore::kNothing || content == pinned)
      continue;
    const std::int64_t next = next_use(content, worker);
    if (next > use) {
      use = next;
      victim = s;
    }
  }
  return victim;
}

int Mover::take_input(int key, int worker, int pinned) {
  SlotStore& slots = store(device_of(worker));
  const int slot = slots.take(Pool::input, plan_.bytes_of(tile_of(key)), key);
  if (slot >= 0) return slot;
  std::int64_t use = 0;
  const int victim = furthest(worker, pinned, use);
  if (victim < 0)
    throw Error(Status::no_memory,
                "the memory cap of device " +
                    machine_.devices[static_cast<std::size_t>(device_of(worker))].name +
                    " does not hold one tile of each operand");
  held(slots.content(victim), worker) = {};
  slots.refill(victim, key);
  return victim;
}

Where Mover::acquire(int key, int worker, int pinned, Side side) {
  if (lies_in_place(key, worker)) return {device_of(worker), -1};
  if (const Held& h = held(key, worker); h.slot >= 0) return {device_of(worker), h.slot};
  find_users(key, worker, side);
  user_devices_.clear();
  for (int user : users_) user_devices_.push_back(device_of(user));
  const TileId tile = tiles_[static_cast<std::size_t>(key)];
  const Cargo& cargo = cargos_[static_cast<std::size_t>(key)];
  const Chain& chain = router_.route(holders_of(key), user_devices_, cargo);

  Where from{chain.source, -1};
  for (int w = 0; w < static_cast<int>(tuning_.workers.size()); ++w)
    if (device_of(w) == chain.source && held(key, w).slot >= 0) from.slot = held(key, w).slot;
  TaskId upstream = kNoTask;
  for (std::size_t u = 0; u < chain.users.size(); ++u) {
    const auto at = std::find(user_devices_.begin(), user_devices_.end(), chain.users[u]);
    const int user = users_[static_cast<std::size_t>(at - user_devices_.begin())];
    const Where to{chain.users[u], take_input(key, user, pinned)};
    if (upstream == kNoTask) before_read(from, tile);
    upstream = emit_leg(TaskKind::fetch, tile, chain.legs[u], from, to, chain.chunks, upstream);
    router_.commit(chain.legs[u], cargo.bytes);
    held(key, user) = {to.slot, chain.legs[u].stop_s()};
    from = to;
  }
  return {device_of(worker), held(key, worker).slot};
}

void Mover::drop(int key, int worker) {
  Held& h = held(key, worker);
  SlotStore& slots = store(device_of(worker));
  if (h.slot < 0 || slots.pool(h.slot) != Pool::input) return;
  slots.give_back(h.slot);
  h = {};
}

void Mover::note_solved(const TileId& tile, int worker, const Where& where, double ready_s) {
  held(key_of(tile), worker) = {where.slot, ready_s};
}

void Mover::forget_solved(const TileId& tile) {
  const int worker = owner_of(tile);
  Held& h = held(key_of(tile), worker);
  if (h.slot >= 0) store(device_of(worker)).give_back(h.slot);
  h = {};
}

void Mover::forget_inputs(int worker) {
  for (int key = 0; key < static_cast<int>(tiles_.size()); ++key) drop(key, worker);
}

Where Mover::take_output(int worker, std::int64_t bytes) {
  const DeviceId device = device_of(worker);
  const int slot = store(device).take(Pool::output, bytes, 0);
  if (slot < 0)
    throw Error(Status::no_memory, "the memory cap of device " +
                                       machine_.devices[static_cast<std::size_t>(device)].name +
                                       " does not hold its tiles of C");
  return {device, slot};
}

void Mover::give_back_output(const Where& where) { store(where.device).give_back(where.slot); }

double Mover::fetch_output(const TileId& tile, const Where& to, TaskId after_writer) {
  const Holder home{problem_.operands[kC].home, 0.0};
  const Cargo cargo = plan_.cargo_of(tile);
  const Chain& chain = router_.route({&home, 1}, {&to.device, 1}, cargo);
  after_.push_back(after_writer);
  emit_leg(TaskKind::fetch, tile, chain.legs[0], {home.device, -1}, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

double Mover::write_back(const TileId& tile, const Where& from, double ready_s, TaskId& last) {
  const Holder worker{from.device, ready_s};
  const DeviceId home = problem_.operands[kC].home;
  const Cargo cargo = plan_.cargo_of(tile);
  const Chain& chain = router_.route({&worker, 1}, {&home, 1}, cargo);
  before_read(from, tile);
  last =
      emit_leg(TaskKind::writeback, tile, chain.legs[0], from, {home, -1}, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

TaskId Mover::emit_leg(TaskKind kind, const TileId& tile, const Leg& leg, const Where& from,
                       const Where& to, int chunks, TaskId upstream) {
  if (leg.hop_count == 1) return emit_hop(kind, tile, leg.hops[0].link, from, to, chunks, upstream);
  const Where ring{kHost, store(kHost).take(Pool::transit, 0, 0)};
  const TaskId first = emit_hop(kind, tile, leg.hops[0].link, from, ring, chunks, upstream);
  const TaskId second = emit_hop(kind, tile, leg.hops[1].link, ring, to, chunks, first);
  store(kHost).give_back(ring.slot);
  return second;
}

TaskId Mover::emit_hop(TaskKind kind, const TileId& tile, LinkId link, const Where& from,
                       const Where& to, int chunks, TaskId upstream) {
  Task task;
  task.kind = kind;
  task.chunks = static_cast<std::uint8_t>(chunks);
  task.queue = queue_of(kind, link);
  task.link = link;
  task.upstream = upstream;
  task.tile = tile;
  task.from = from;
  task.to = to;
  before_write(to, tile);
  const TaskId id = tasks_.add(task, after_);
  note_read(from, tile, id);
  note_write(to, tile, id);
  return id;
}

QueueId Mover::queue_of(TaskKind kind, LinkId link) const {
  if (tuning_.rules.has(Rule::overlap)) return link;
  const Link& l = machine_.links[static_cast<std::size_t>(link)];
  const DeviceId device = kind == TaskKind::writeback ? l.source : l.target;
  return static_cast<QueueId>(machine_.links.size()) + device;
}

Mover::AtHome* Mover::at_home(const Where& where, const TileId& tile) {
  if (!where.in_place() || tile.operand != kC || other_ != kC) return nullptr;
  return &at_home_[static_cast<std::size_t>(key_of(tile) - b_base_)];
}

void Mover::before_write(const Where& where, const TileId& tile) {
  if (!where.in_place()) return store(where.device).former_users(where.slot, after_);
  if (const AtHome* home = at_home(where, tile)) {
    after_.push_back(home->writer);
    after_.insert(after_.end(), home->readers.begin(), home->readers.end());
    // What trmm replaces is needed until those before it are home: devices may fail.
    const bool left = problem_.side == Side::left;
    const int rank = plan_.rank_of(tile.row, tile.col);
    if (problem_.traits().solves || rank == 0) return;
    TileId former = tile;
    (left ? former.row : former.col) = plan_.rank(rank - 1);
    after_.push_back(at_home(where, former)->writer);
  }
}

void Mover::before_read(const Where& where, const TileId& tile) {
  if (!where.in_place()) after_.push_back(store(where.device).writer(where.slot));
  if (const AtHome* home = at_home(where, tile)) after_.push_back(home->writer);
}

void Mover::note_read(const Where& where, const TileId& tile, TaskId task) {
  if (!where.in_place()) store(where.device).note_read(where.slot, task);
  if (AtHome* home = at_home(where, tile)) home->readers.push_back(task);
}

void Mover::note_write(const Where& where, const TileId& tile, TaskId task) {
  if (!where.in_place()) store(where.device).note_write(where.slot, task);
  if (AtHome* home = at_home(where, tile)) *home = {.writer = task, .readers = {}};
}

void Mover::limit_pools() {
  const std::int64_t element = fleet::bytes_of(problem_.type);
  const std::int64_t m = largest_edge(cut_.m), n = largest_edge(cut_.n), k = largest_edge(cut_.k);
  // At least one unit, so that an empty problem divides by something.
  const std::int64_t input_bytes = std::max<std::int64_t>(1, std::max(m * k, k * n) * element);
  const std::int64_t output_bytes = std::max<std::int64_t>(1, m * n * element);
  // Two transit slots per worker: one fills while the other empties, in each direction.
  store(kHost).limit(Pool::transit, std::max<std::int64_t>(4, 2 * std::ssize(tuning_.workers)),
                     std::max(input_bytes, output_bytes));
  if (problem_.traits().vectors) return limit_stream(input_bytes, output_bytes);
  if (tuning_.out_of_core == OutOfCore::none && tuning_.rules.has(Rule::caching)) return;
  for (int w = 0; w < static_cast<int>(tuning_.workers.size()); ++w)
    limit_worker(w, (input_bytes + 255) / 256 * 256, (output_bytes + 255) / 256 * 256);
}

// Divides a worker's cap: C's tiles of the largest group first (twice, so that one group drains
// while the next begins, if that leaves room for the inputs of three steps), inputs take the rest.
void Mover::limit_worker(int worker, std::int64_t input_bytes, std::int64_t output_bytes) {
  const DeviceId device = device_of(worker);
  if (!tuning_.rules.has(Rule::caching)) {
    // Every product fetches its own tiles: as many as the lanes work on, twice.
    const int lanes = std::max(1, machine_.devices[static_cast<std::size_t>(device)].lanes);
    store(device).limit(Pool::input, 4 * lanes, input_bytes);
    return;
  }
  std::int64_t rows = 0, cols = 0;
  for (int g = 0; g < cut_.row_groups; ++g) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < cut_.row_owner.size(); ++i)
      count += cut_.row_group[i] == g && cut_.row_owner[i] == worker / tuning_.grid.cols;
    rows = std::max(rows, count);
  }
  for (int g = 0; g < cut_.col_groups; ++g) {
    std::int64_t count = 0;
    for (std::size_t j = 0; j < cut_.col_owner.size(); ++j)
      count += cut_.col_group[j] == g && cut_.col_owner[j] == worker % tuning_.grid.cols;
    cols = std::max(cols, count);
  }
  // What is solved for stays until all that takes part of it is.
  if (problem_.traits().solves) {
    const bool left = problem_.side == Side::left;
    const auto& along = left ? cut_.row_owner : cut_.col_owner;
    (left ? rows : cols) =
        std::ranges::count(along, left ? worker / tuning_.grid.cols : worker % tuning_.grid.cols);
  }
  const std::int64_t cap = tuning_.memory_cap[static_cast<std::size_t>(device)];
  // The lazily fetched original of C needs room beside the accumulator, two at a time.
  const std::int64_t once = in_place(kC, worker) ? 0 : rows * cols + 2;
  const std::int64_t step_bytes = 3 * (rows + cols) * input_bytes;
  const std::int64_t outputs = cap - 2 * once * output_bytes >= step_bytes ? 2 * once : once;
  store(device).limit(Pool::output, outputs, output_bytes);
  const std::int64_t left = cap - outputs * output_bytes;
  store(device).limit(Pool::input, std::max<std::int64_t>(0, left / input_bytes), input_bytes);
}

void Mover::finish() {
  plan_.slots.resize(stores_.size());
  plan_.arena_bytes.resize(stores_.size());
  for (std::size_t d = 0; d < stores_.size(); ++d) {
    plan_.slots[d] = stores_[d].slots();
    plan_.arena_bytes[d] = stores_[d].arena_bytes();
    if (d < tuning_.memory_cap.size() && plan_.arena_bytes[d] > tuning_.memory_cap[d])
      throw Error(Status::no_memory, "the plan needs " + std::to_string(plan_.arena_bytes[d]) +
                                         " bytes on device " + machine_.devices[d].name +
                                         ", its cap is " + std::to_string(tuning_.memory_cap[d]));
  }
}

}  // namespace fleet

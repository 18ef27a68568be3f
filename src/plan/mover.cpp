// SPDX-License-Identifier: BSD-3-Clause
// mover.cpp: residency of tiles, and the copies between places.
#include "plan/mover.hpp"

#include <algorithm>
#include <utility>

namespace fleet {

Mover::Mover(Plan& plan, const Machine& machine, std::span<const Dealing> deals,
             const Residency& before, TaskList& tasks, SentQueues sent)
    : plan_(plan),
      program_(*plan.program),
      machine_(machine),
      tuning_(plan.tuning),
      is_composed_(program_.calls.size() != 1 || !before.empty() ||
                   std::ranges::any_of(program_.matrices, &Matrix::stays)),
      later_(program_, is_composed_),
      tasks_(tasks),
      sent_queues_(std::move(sent)),
      // Where data lie on several devices the clock keeps the latency of fetches.
      router_(machine, plan.tuning, sends_in_turn(plan) && !sent_queues_.any()),
      stores_(machine.devices.size()),
      last_input_(machine.devices.size(), kNoTask),
      devices_(plan.tuning.workers),
      positions_(plan.tuning.workers.size()) {
  number_tiles();
  for (const Residency::Copy& copy : before.copies)
    if (std::ranges::find(devices_, copy.device) == devices_.end()) devices_.push_back(copy.device);
  held_.resize(devices_.size() * tiles_.size());
  limit_pools(stores_, plan, machine, deals);
  if (!is_composed_) return;
  for (std::size_t d = 0; d < stores_.size(); ++d)
    if (d < tuning_.memory_cap.size())
      stores_[d].cap(tuning_.memory_cap[d]);
    else
      stores_[d].reuse_beyond(0);
  // Where slots are few, each call has them for itself.
  keeps_results_ = std::ranges::none_of(
      stores_, [](const SlotStore& store) { return store.recycles(Pool::input); });
  adopt(before);
}

void Mover::number_tiles() {
  bool tracks = std::ranges::any_of(program_.matrices, [&](const Matrix& m) {
    return m.is_written && (m.is_read || is_composed_);
  });
  for (auto call = program_.calls.begin(); call != program_.calls.end(); ++call)
    tracks |= std::any_of(program_.calls.begin(), call, [&](const ProgramCall& earlier) {
      return earlier.target() == call->target();
    });
  keys_.resize(program_.matrices.size());
  for (MatrixId id = 0; id < std::ssize(program_.matrices); ++id) {
    const Matrix& matrix = program_.matrices[static_cast<std::size_t>(id)];
    // What no op uses may lie on devices all the same.
    if (!matrix.is_read && !(tracks && matrix.is_written) && !is_composed_) continue;
    keys_[static_cast<std::size_t>(id)] = {.first = static_cast<int>(tiles_.size()),
                                           .cols = matrix.tile_cols(),
                                           .tracked = tracks && matrix.is_written};
    for (int row = 0; row < matrix.tile_rows() * matrix.items; ++row)
      for (int col = 0; col < matrix.tile_cols(); ++col) {
        tiles_.push_back({id, row, col});
        cargos_.push_back(program_.cargo_of(tiles_.back()));
      }
  }
  if (tracks) changing_.resize(tiles_.size());
}

void Mover::enter(const CallLayout& layout) {
  layout_ = &layout;
  call_ = static_cast<int>(&layout.call() - program_.calls.data());
  uses_.clear();
  positions_.assign(positions_.size(), {});
  note_presence();
  if (keeps_results_) release_unused();
}

// Results of earlier calls are at home by now, where that was asked for, as well as where they were
// made.
void Mover::release_unused() {
  for (int key = 0; key < std::ssize(tiles_); ++key) {
    const TileId& tile = tile_of(key);
    if (Changing* change = changing(tile); change != nullptr && change->is_home)
      change->producer = -1;
    if (stays(tile) || is_away(tile) || later_.use(tile, call_ - 1)) continue;
    for (int w = 0; w < holders(); ++w) release(key, w);
  }
}

void Mover::release(int key, int worker) {
  Held& h = held(key, worker);
  if (h.slot >= 0) store(device_of(worker)).give_back(h.slot);
  h = {};
}

void Mover::note_presence() {
  const Dealing& deal = layout_->deal();
  row_present_.assign(static_cast<std::size_t>(deal.row_groups),
                      std::vector<char>(static_cast<std::size_t>(deal.grid.rows), 0));
  col_present_.assign(static_cast<std::size_t>(deal.col_groups),
                      std::vector<char>(static_cast<std::size_t>(deal.grid.cols), 0));
  for (std::size_t i = 0; i < deal.row_owner.size(); ++i) {
    auto& present = row_present_[static_cast<std::size_t>(deal.row_group[i])];
    if (layout_->is_split())
      present.assign(present.size(), 1);  // each has a part of every row
    else if (deal.row_owner[i] != Dealing::kCpu)
      present[static_cast<std::size_t>(deal.row_owner[i])] = 1;
  }
  for (std::size_t j = 0; j < deal.col_owner.size(); ++j)
    if (deal.col_owner[j] != Dealing::kCpu)
      col_present_[static_cast<std::size_t>(deal.col_group[j])]
                  [static_cast<std::size_t>(deal.col_owner[j])] = 1;
}

// Steps are numbered group by group, item by item, ops within.
std::int64_t Mover::position_of(const Step& step) const {
  const std::int64_t group = layout_->deal().position(step.row_group, step.col_group);
  const std::int64_t items =
      program_.matrices[static_cast<std::size_t>(layout_->call().target())].items;
  return (group * items + step.item) * layout_->call().longest_chain + step.at;
}

bool Mover::in_place(MatrixId matrix, int worker) const {
  return program_.in_place(matrix, device_of(worker), tuning_);
}

bool Mover::lies_in_place(int key, int worker) const {
  const TileId& tile = tiles_[static_cast<std::size_t>(key)];
  if (!in_place(tile.matrix, worker)) return false;
  if (is_away(tile)) return false;
  if (changing_.empty()) return true;
  // A result comes home late; the worker that made it has it at once.
  const int producer = changing_[static_cast<std::size_t>(key)].producer;
  return producer < 0 || producer == worker;
}

double Mover::held_s(int key, int worker) const {
  const Held& h = held(key, worker);
  if (h.slot >= 0 || !lies_in_place(key, worker)) return h.arrival_s;
  const double home_s = changing_.empty() ? 0.0 : changing_[static_cast<std::size_t>(key)].home_s;
  return std::max(home_s, h.arrival_s);
}

std::span<const Holder> Mover::holders_of(int key) {
  const Changing* change = changing(tiles_[static_cast<std::size_t>(key)]);
  const TileId& tile = tiles_[static_cast<std::size_t>(key)];
  holders_.clear();
  if (change != nullptr && change->producer >= 0)
    holders_.push_back({device_of(change->producer), held_s(key, change->producer)});
  else if (!is_away(tile))
    holders_.push_back({program_.matrix_of(tile).home, change != nullptr ? change->home_s : 0.0});
  if (holders_.empty() || tuning_.rules.has(Rule::eta) || tuning_.rules.has(Rule::bandwidth))
    for (int w = 0; w < holders(); ++w)
      if (const Held& h = held(key, w);
          h.slot >= 0 && (holders_.empty() || device_of(w) != holders_[0].device))
        holders_.push_back({device_of(w), h.arrival_s});
  return holders_;
}

double Mover::estimate_s(int key, int worker) {
  return router_.arrival_s(holders_of(key), device_of(worker),
                           cargos_[static_cast<std::size_t>(key)]);
}

// Does the worker compute a target of its group in this row of C, or in this column?
bool Mover::multiplies(int worker, int line) const {
  const Dealing& deal = layout_->deal();
  const Step& at = positions_[index(worker)];
  const auto is_its = [&](int row, int col) {
    return deal.row_group[index(row)] == at.row_group &&
           deal.col_group[index(col)] == at.col_group && layout_->chain_at(row, col) >= 0 &&
           layout_->owner_of({0, row, col}) == worker;
  };
  for (int other = 0; other < std::ssize(deal.row_owner); ++other)
    if (is_its(other, line) || is_its(line, other)) return true;
  return false;
}

/// Workers of one row of the grid have left factors in common, those of one column right ones; all
/// of both have them where C is symmetric (Tuning::both_sides).
bool Mover::reads_alike(int worker, int other, const FactorUse& use) const {
  const int cols = tuning_.grid.cols;
  if (layout_->is_cpu(worker) || layout_->is_cpu(other)) return false;  // all is in place for it
  // Parts of sums have no right factor in common.
  if (layout_->is_split() && use.side == Side::right) return false;
  if (tuning_.both_sides) return multiplies(other, use.line);
  return use.side == Side::left ? worker / cols == other / cols : worker % cols == other % cols;
}

// The other workers that read alike and will need the tile.
void Mover::find_users(int key, int worker, const FactorUse& use) {
  users_.assign(1, worker);
  // Where tiles stream, a worker keeps none beyond its use, so none comes before it is asked for.
  if (!tuning_.rules.has(Rule::batching) || layout_->deal().streams || !layout_->is_grid()) return;
  const bool along_rows = use.side == Side::left;
  // An item's own right factor is of use to no other rows.
  if (!along_rows && program_.matrix_of(tiles_[static_cast<std::size_t>(key)]).items > 1) return;
  const Grid& grid = tuning_.grid;
  const Step& at = positions_[static_cast<std::size_t>(worker)];
  for (int other = 0; other < static_cast<int>(tuning_.workers.size()); ++other) {
    if (other == worker || held_s(key, other) >= 0) continue;
    if (!reads_alike(worker, other, use)) continue;
    const int row = other / grid.cols, col = other % grid.cols;
    if (!row_present_[static_cast<std::size_t>(at.row_group)][static_cast<std::size_t>(row)] ||
        !col_present_[static_cast<std::size_t>(at.col_group)][static_cast<std::size_t>(col)])
      continue;
    // Groups that read each other's tiles are computed in turn: all workers are at the same one.
    if (layout_->call().reads_target) {
      if (!is_used_again(key, other)) continue;
    } else {
      const Step& theirs = positions_[static_cast<std::size_t>(other)];
      if (theirs.row_group != at.row_group || theirs.col_group != at.col_group || theirs.at > at.at)
        continue;
    }
    if (may_take(key, other, kNoKey)) users_.push_back(other);
  }
}

Where Mover::acquire(int key, int worker, int pinned, const FactorUse& use) {
  if (lies_in_place(key, worker)) return {device_of(worker), -1};
  if (const Held& h = held(key, worker); h.slot >= 0) return {device_of(worker), h.slot};
  find_users(key, worker, use);
  user_devices_.clear();
  for (int user : users_) user_devices_.push_back(device_of(user));
  const TileId tile = tiles_[static_cast<std::size_t>(key)];
  const Cargo& cargo = cargos_[static_cast<std::size_t>(key)];
  const Chain& chain = router_.route(holders_of(key), user_devices_, cargo);

  Where from = place_of(chain.source, key);
  const bool passes = std::ranges::any_of(chain.legs, [](const Leg& l) { return l.hop_count > 1; });
  keepers_.clear();
  if (passes && tuning_.max_hops > 0) find_keepers(key, worker, pinned, use);
  TaskId upstream = kNoTask;
  for (std::size_t u = 0; u < chain.users.size(); ++u) {
    const auto at = std::find(user_devices_.begin(), user_devices_.end(), chain.users[u]);
    const int user = users_[static_cast<std::size_t>(at - user_devices_.begin())];
    const Where to{chain.users[u], take_input(key, user, pinned)};
    if (upstream == kNoTask) before_read(from, tile);
    const Sent what = from.in_place() && !is_changed(tile) ? Sent::inputs : Sent::passed;
    upstream = emit_leg(what, tile, chain.legs[u], from, to, chain.chunks, upstream);
    router_.commit(chain.legs[u], cargo.bytes);
    held(key, user) = {to.slot, chain.legs[u].stop_s()};
    from = to;
  }
  keepers_.clear();
  return {device_of(worker), held(key, worker).slot};
}

// Where the source of a chain has the tile.
Where Mover::place_of(DeviceId source, int key) const {
  for (int w = holders() - 1; w >= 0; --w)
    if (device_of(w) == source && held(key, w).slot >= 0) return {source, held(key, w).slot};
  return {source, -1};
}

/// Workers that will need the tile, but are not at its step yet: where it passes through them, it
/// stays (paper 2, 3.2).
void Mover::find_keepers(int key, int worker, int pinned, const FactorUse& use) {
  keepers_pin_ = pinned;
  if (layout_->deal().streams || !tuning_.rules.has(Rule::caching) || !layout_->is_grid()) return;
  for (int other = 0; other < static_cast<int>(tuning_.workers.size()); ++other)
    if (std::ranges::find(users_, other) == users_.end() && held_s(key, other) < 0 &&
        reads_alike(worker, other, use) && may_take(key, other, pinned))
      keepers_.push_back({device_of(other), other});
}

void Mover::drop(int key, int worker) {
  Held& h = held(key, worker);
  SlotStore& slots = store(device_of(worker));
  if (h.slot < 0 || slots.pool(h.slot) != Pool::input) return;
  // A result may be in the slot of an input, which a call went on in.
  const Changing* change = changing(tile_of(key));
  if (keeps_results_ && change != nullptr && change->producer == worker) return;
  slots.give_back(h.slot);
  h = {};
}

void Mover::note_result(const TileId& tile, int worker, const Where& where, double ready_s) {
  const int key = key_of(tile);
  for (int w = 0; keeps_results_ && w < holders(); ++w)
    if (w != worker || held(key, w).slot != where.slot) release(key, w);
  held(key, worker) = {where.slot, ready_s};
  Changing& change = changing_[static_cast<std::size_t>(key)];
  change.producer = worker;
  change.is_home = false;
}

bool Mover::may_wait(const TileId& tile) const {
  const Matrix& matrix = program_.matrix_of(tile);
  if (keeps_results_ && matrix.stays && !matrix.returns) return true;
  // A device that is home may have the next version there.
  return keeps_results_ && on_host(matrix.home) && later_.replace(tile, call_);
}

bool Mover::take_over(const TileId& tile, int worker, Where& where, double& arrival_s) {
  if (!keeps_results_ || changing(tile) == nullptr) return false;
  Held& h = held(key_of(tile), worker);
  if (h.slot < 0) return false;
  where = {device_of(worker), h.slot};
  arrival_s = std::max(arrival_s, h.arrival_s);
  h = {};
  return true;
}

void Mover::forget_result(const TileId& tile) {
  const int key = key_of(tile);
  Changing& change = changing_[static_cast<std::size_t>(key)];
  int& producer = change.producer;
  if (producer < 0) return;
  if (keeps_results_ && (stays(tile) || later_.use(tile, call_))) {
    if (change.is_home) producer = -1;
    return;
  }
  Held& h = held(key, producer);
  if (h.slot >= 0) store(device_of(producer)).give_back(h.slot);
  h = {};
  producer = -1;
}

void Mover::note_home(const TileId& tile, double home_s) {
  Changing* change = changing(tile);
  if (change == nullptr) return;
  change->home_s = home_s;
  change->is_home = true;
  change->nearest_user = kNoTile;
  change->users.clear();
  for (int w = 0; w < holders(); ++w)
    if (w != change->producer) keeps_results_ ? release(key_of(tile), w) : drop(key_of(tile), w);
}

void Mover::forget_inputs(int worker) {
  for (int key = 0; key < static_cast<int>(tiles_.size()); ++key) drop(key, worker);
}

void Mover::give_back_output(const Where& where) { store(where.device).give_back(where.slot); }

double Mover::fetch_output(const TileId& tile, const Where& to, TaskId after_writer) {
  const Changing* change = changing(tile);
  const Holder home{program_.matrix_of(tile).home, change != nullptr ? change->home_s : 0.0};
  const Cargo cargo = program_.cargo_of(tile);
  const bool is_kept = keeps_results_ && change != nullptr;
  const Chain& chain = router_.route(is_kept ? holders_of(key_of(tile)) : std::span(&home, 1),
                                     {&to.device, 1}, cargo);
  const Where from = is_kept ? place_of(chain.source, key_of(tile)) : Where{home.device, -1};
  after_.push_back(after_writer);
  before_read(from, tile);
  const bool is_ready = from.in_place() && after_writer == kNoTask && !is_changed(tile);
  emit_leg(is_ready ? Sent::inputs : Sent::passed, tile, chain.legs[0], from, to, chain.chunks,
           kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

double Mover::write_back(const TileId& tile, const Where& from, double ready_s, TaskId& last) {
  const Holder worker{from.device, ready_s};
  const DeviceId home = program_.matrix_of(tile).home;
  const Cargo cargo = program_.cargo_of(tile);
  const Chain& chain = router_.route({&worker, 1}, {&home, 1}, cargo);
  before_read(from, tile);
  last = emit_leg(Sent::results, tile, chain.legs[0], from, {home, -1}, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

double Mover::bring_sum(const TileId& tile, const Where& from, const Where& to, double ready_s) {
  const Holder holder{from.device, ready_s};
  Cargo cargo = program_.cargo_of(tile);
  cargo.column_bytes = 0;
  const Chain& chain = router_.route({&holder, 1}, {&to.device, 1}, cargo);
  before_read(from, tile);
  emit_leg(Sent::passed, tile, chain.legs[0], from, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

TaskId Mover::emit_leg(Sent what, const TileId& tile, const Leg& leg, const Where& from,
                       const Where& to, int chunks, TaskId upstream) {
  Where at = from;
  for (int h = 0; h < leg.hop_count; ++h) {
    const LinkClock::Hop& hop = leg.hops[h];
    const Where next = h + 1 < leg.hop_count ? passed_place(tile, hop) : to;
    if (h > 0 && what == Sent::inputs) what = Sent::passed;
    upstream = emit_hop(what, tile, hop.link, at, next, chunks, upstream);
    if (h > 0 && store(at.device).pool(at.slot) == Pool::transit)
      store(at.device).give_back(at.slot);
    at = next;
  }
  return upstream;
}

/// A slot where a tile passes through. A worker that will need the tile keeps it.
Where Mover::passed_place(const TileId& tile, const LinkClock::Hop& hop) {
  const DeviceId place = machine_.links[static_cast<std::size_t>(hop.link)].target;
  const auto worker = std::ranges::find(keepers_, place, &Keeper::device);
  if (worker != keepers_.end()) {
    const int key = key_of(tile);
    const int slot = take_input(key, worker->worker, keepers_pin_);
    held(key, worker->worker) = {slot, hop.stop_s};
    keepers_.erase(worker);
    return {place, slot};
  }
  return {place, store(place).take(Pool::transit, 0, 0)};
}

TaskId Mover::emit_hop(Sent what, const TileId& tile, LinkId link, const Where& from,
                       const Where& to, int chunks, TaskId upstream) {
  Task task;
  task.kind = what == Sent::results ? TaskKind::writeback : TaskKind::fetch;
  task.chunks = static_cast<std::uint8_t>(chunks);
  task.queue = queue_of(what, link);
  task.link = link;
  task.upstream = upstream;
  task.tile = tile;
  task.from = from;
  task.to = to;
  before_write(to, tile);
  const TaskId id = tasks_.add(task, after_);
  note_read(from, tile, id);
  note_write(to, tile, id);
  if (on_host(from.device)) last_input_[static_cast<std::size_t>(to.device)] = id;
  return id;
}

QueueId Mover::queue_of(Sent what, LinkId link) const {
  if (tuning_.rules.has(Rule::overlap)) return sent_queues_.of(link, what);
  const Link& l = machine_.links[static_cast<std::size_t>(link)];
  return static_cast<QueueId>(machine_.links.size()) +
         (what == Sent::results ? l.source : l.target);
}

/// Does the plan change the tile at home before now?
bool Mover::is_changed(const TileId& tile) const {
  const Changing* change = changing(tile);
  return change != nullptr && change->writer != kNoTask;
}

Mover::Changing* Mover::at_home(const Where& where, const TileId& tile) {
  return where.in_place() ? changing(tile) : nullptr;
}

void Mover::before_write(const Where& where, const TileId& tile) {
  if (!where.in_place()) return store(where.device).former_users(where.slot, after_);
  const Changing* home = at_home(where, tile);
  if (home == nullptr) return;
  after_.push_back(home->writer);
  after_.insert(after_.end(), home->readers.begin(), home->readers.end());
  // Results of the old contents have to be at home first: devices may fail.
  for (const TileId& user : home->users) after_.push_back(changing(user)->writer);
  if (home->nearest_user.exists()) after_.push_back(changing(home->nearest_user)->writer);
}

void Mover::before_read(const Where& where, const TileId& tile) {
  if (!where.in_place()) after_.push_back(store(where.device).writer(where.slot));
  if (const Changing* home = at_home(where, tile)) after_.push_back(home->writer);
}

void Mover::note_read(const Where& where, const TileId& tile, TaskId task) {
  if (!where.in_place()) store(where.device).note_read(where.slot, task);
  if (Changing* home = at_home(where, tile)) home->readers.push_back(task);
}

void Mover::note_write(const Where& where, const TileId& tile, TaskId task) {
  if (!where.in_place()) store(where.device).note_write(where.slot, task);
  if (Changing* home = at_home(where, tile)) {
    home->writer = task;
    home->readers.clear();
  }
}

}  // namespace fleet

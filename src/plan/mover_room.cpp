// SPDX-License-Identifier: BSD-3-Clause
// mover_room.cpp: slots for tiles that come to a worker, and which copies leave where its memory is
// full. It moves nothing.
#include <algorithm>

#include "base/error.hpp"
#include "plan/mover.hpp"

namespace fleet {

void Mover::note_uses() {
  uses_.assign(tiles_.size(), {});
  const Dealing& deal = layout_->deal();
  const ProgramCall& call = layout_->call();
  for (int c = call.first_chain; c < call.first_chain + call.chains; ++c) {
    const OpChain& chain = layout_->chain(c);
    const int worker = user_of(layout_->owner_of(chain.target));
    Step step{.row_group = deal.row_group[static_cast<std::size_t>(chain.target.row)],
              .col_group = deal.col_group[static_cast<std::size_t>(chain.target.col)],
              .item = layout_->item_of(chain.target.row)};
    const std::int64_t begin = position_of(step);
    for (int at = 0; at < chain.ops; ++at)
      for (const Factor& input : layout_->op(c, at).inputs) {
        if (!input.tile.exists()) continue;
        auto& uses = uses_[static_cast<std::size_t>(key_of(input.tile))];
        if (const Use use{worker, begin + at}; uses.empty() || uses.back() != use)
          uses.push_back(use);
      }
  }
  for (auto& uses : uses_) std::ranges::sort(uses);
}

bool Mover::is_used_again(int key, int worker) { return next_use(key, worker) < kNoUse; }

std::int64_t Mover::next_use(int key, int worker) {
  if (uses_.empty()) note_uses();
  const auto& uses = uses_[static_cast<std::size_t>(key)];
  const Use now = use_now(worker);
  const auto next = std::ranges::lower_bound(uses, now);
  return next != uses.end() && next->worker == now.worker ? next->at : kNoUse;
}

Mover::Use Mover::use_now(int worker) const {
  return {user_of(worker), position_of(positions_[static_cast<std::size_t>(worker)])};
}

// A copy of a tile that is elsewhere too. What the plan finds is none, so that what it found is
// there after a fault, and the only version of a tile never leaves.
bool Mover::is_copy(int slot, int worker) const {
  const DeviceId device = device_of(worker);
  const int key = stores_[static_cast<std::size_t>(device)].content(slot);
  if (key == SlotStore::kNothing || held(key, worker).slot != slot) return false;
  if (slot < found_slots_[static_cast<std::size_t>(device)]) return false;
  const Changing* change = changing(tile_of(key));
  return change == nullptr || change->producer != worker;
}

bool Mover::may_leave(int slot, int worker, Pool wanted) const {
  const SlotStore& slots = stores_[static_cast<std::size_t>(device_of(worker))];
  const Pool pool = slots.pool(slot);
  if (slots.recycles(Pool::input) || slots.recycles(wanted))
    return wanted == Pool::input && pool == wanted && slots.content(slot) != SlotStore::kNothing;
  if (!tuning_.rules.has(Rule::outofcore)) return false;
  // What outlives the plan is outside of the arena.
  const bool is_usable = pool == Pool::kept || (pool == Pool::input && wanted != Pool::kept);
  return is_usable && is_copy(slot, worker);
}

/// When the tile of a slot is needed again, by this call or a later one.
std::int64_t Mover::use_of_slot(int slot, int worker) {
  const int key = store(device_of(worker)).content(slot);
  const std::int64_t next = next_use(key, worker);
  return next == kNoUse && keeps_results_ && later_.use(tile_of(key), call_) ? kNoUse - 1 : next;
}

bool Mover::serves(int slot, int worker, const Wanted& wanted) const {
  const SlotStore& slots = stores_[static_cast<std::size_t>(device_of(worker))];
  return slots.content(slot) != wanted.pinned && slots.bytes(slot) >= wanted.bytes &&
         may_leave(slot, worker, wanted.pool);
}

// Among equals, the least slot that is large enough; and among these the one whose last user is
// longest ago: the next copy need not wait for it.
int Mover::furthest(int worker, const Wanted& wanted, std::int64_t& use) {
  const SlotStore& slots = store(device_of(worker));
  const auto rank = [&](int slot) { return std::pair(slots.bytes(slot), slots.last_user(slot)); };
  int victim = -1;
  use = -1;
  for (int s = 0; s < slots.slot_count(); ++s) {
    if (!serves(s, worker, wanted)) continue;
    const bool ranks_first = victim < 0 || rank(s) < rank(victim);
    if (use == kNoUse && !ranks_first) continue;  // it cannot be better
    const std::int64_t next = use_of_slot(s, worker);
    if (next < use || (next == use && !ranks_first)) continue;
    use = next;
    victim = s;
  }
  return victim;
}

// A worker that did not ask yet takes a tile only if that throws out nothing it needs sooner.
bool Mover::may_take(int key, int worker, int pinned) {
  const SlotStore& slots = store(device_of(worker));
  const Wanted wanted{input_pool(key, worker), program_.bytes_of(tile_of(key)), pinned};
  if (slots.has_room(wanted.pool, wanted.bytes)) return true;
  const std::int64_t use = next_use(key, worker);
  for (int s = 0; s < slots.slot_count(); ++s)
    if (serves(s, worker, wanted) && use_of_slot(s, worker) > use) return true;
  return false;
}

Pool Mover::input_pool(int key, int worker) const {
  const bool recycles = stores_[static_cast<std::size_t>(device_of(worker))].recycles(Pool::input);
  return stays(tile_of(key)) && !recycles ? Pool::kept : Pool::input;
}

// A slot for `content`, from a copy that is not used before `soonest` where there is no other. -1
// if there is none.
int Mover::take_slot(int worker, const Wanted& wanted, int content, std::int64_t soonest) {
  SlotStore& slots = store(device_of(worker));
  if (slots.has_room(wanted.pool, wanted.bytes))
    return slots.take(wanted.pool, wanted.bytes, content);
  std::int64_t use = 0;
  const int victim = furthest(worker, wanted, use);
  if (victim < 0 || use < soonest) return -1;
  held(slots.content(victim), worker) = {};
  slots.refill(victim, content);
  copies_left_ = true;
  return victim;
}

int Mover::take_input(int key, int worker, int pinned) {
  const Wanted wanted{input_pool(key, worker), program_.bytes_of(tile_of(key)), pinned};
  const int slot = take_slot(worker, wanted, key, 0);
  if (slot < 0) refuse(worker, "one tile of each operand");
  return slot;
}

// For what is no input. Tiles of the worker's current step have to stay.
int Mover::take_beside_inputs(int worker, Pool pool, std::int64_t bytes, const char* what) {
  const Wanted wanted{pool, bytes, kNoKey};
  const int slot = take_slot(worker, wanted, SlotStore::kNothing, use_now(worker).at + 1);
  if (slot < 0) refuse(worker, what);
  return slot;
}

Where Mover::take_prepared(const TileId& tile, Form form, int worker, bool& made) {
  const auto [known, is_new] = prepared_.try_emplace({worker, tile, form}, -1);
  if (is_new)
    known->second = take_beside_inputs(worker, Pool::prepared, program_.bytes_of(tile, form),
                                       "its prepared triangles");
  made = !is_new;
  return {device_of(worker), known->second};
}

Where Mover::take_output(int worker, std::int64_t bytes) {
  return {device_of(worker), take_beside_inputs(worker, Pool::output, bytes, "its tiles of C")};
}

Where Mover::take_target(int worker, const TileId& tile) {
  if (!keeps_results_ || !stays(tile)) return take_output(worker, program_.bytes_of(tile));
  return {device_of(worker),
          take_beside_inputs(worker, Pool::kept, program_.bytes_of(tile), "its tiles of C")};
}

void Mover::refuse(int worker, const char* what) const {
  const auto device = static_cast<std::size_t>(device_of(worker));
  const SlotStore& slots = stores_[device];
  std::string text = "the memory cap of device " + machine_.devices[device].name;
  if (device < tuning_.memory_cap.size())
    text += ", " + std::to_string(tuning_.memory_cap[device]) + " bytes,";
  text += " does not hold " + std::string(what);
  const std::int64_t found = bytes_found(static_cast<DeviceId>(device));
  if (found > 0)
    text += " beside " + std::to_string(found) + " bytes of tiles that lie there already";
  if (const std::int64_t kept = slots.kept_bytes() - found; keeps_results_ && kept > 0)
    text += (found > 0 ? " and " : " beside ") + std::to_string(kept) +
            " bytes of results and copies of others' tiles";
  throw Error(Status::no_memory, text);
}

std::int64_t Mover::bytes_found(DeviceId device) const {
  std::int64_t bytes = 0;
  for (const auto& [tile, where] : plan_.found)
    if (where.device == device) bytes += program_.bytes_of(tile);
  return bytes;
}

}  // namespace fleet

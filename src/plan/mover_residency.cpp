// SPDX-License-Identifier: BSD-3-Clause
// mover_residency.cpp: the tiles that a plan finds on devices, and those that it leaves there.
#include <algorithm>

#include "base/error.hpp"
#include "plan/mover.hpp"

namespace fleet {

void Mover::adopt(const Residency& before) {
  plan_.away_before = before.away;
  found_slots_.assign(stores_.size(), 0);
  if (before.empty()) return;
  if (!keeps_results_)
    throw Error(Status::no_memory,
                "tiles lie on devices already, and plans whose slots are divided beforehand (out "
                "of core, without caching, or of vectors) find none");
  away_.assign(tiles_.size(), 0);
  for (const TileId& tile : before.away) {
    away_[static_cast<std::size_t>(key_of(tile))] = 1;
    if (Changing* change = changing(tile)) change->is_home = false;
  }
  for (const auto& [tile, device] : before.copies) {
    const int key = key_of(tile);
    const auto holder = static_cast<int>(std::ranges::find(devices_, device) - devices_.begin());
    const int slot = store(device).take(Pool::kept, program_.bytes_of(tile), key);
    held(key, holder) = {.slot = slot, .arrival_s = 0};
    plan_.found.push_back({tile, {device, slot}});
    // A worker that has the only version is as one that has made it.
    if (Changing* change = changing(tile); change != nullptr && !change->is_home)
      change->producer = holder;
  }
  for (std::size_t d = 0; d < stores_.size(); ++d) found_slots_[d] = stores_[d].slot_count();
}

bool Mover::is_away(const TileId& tile) const {
  if (const Changing* change = changing(tile)) return !change->is_home;
  return !away_.empty() && away_[static_cast<std::size_t>(key_of(tile))] != 0;
}

Where Mover::newest(const TileId& tile) const {
  const DeviceId home = program_.matrix_of(tile).home;
  if (!keeps_results_ || keys_of(tile).first == kNoKey || !is_away(tile))
    return {on_host(home) ? kHost : home, -1};
  const int key = key_of(tile);
  for (int w = 0; w < holders(); ++w)
    if (held(key, w).slot >= 0) return {device_of(w), held(key, w).slot};
  throw Error(Status::internal, "a tile that is away is nowhere");
}

void Mover::note_changed(const TileId& tile, const Where& where, double ready_s) {
  if (where.in_place()) return note_home(tile, ready_s);
  const auto holder =
      static_cast<int>(std::ranges::find(devices_, where.device) - devices_.begin());
  note_result(tile, holder, where, ready_s);
}

double Mover::bring_home(const TileId& tile) {
  TaskId last = kNoTask;
  const double home_s = write_back(tile, newest(tile), 0, last);
  if (Changing* change = changing(tile)) {
    change->is_home = true;
    change->home_s = home_s;
  } else {
    away_[static_cast<std::size_t>(key_of(tile))] = 0;
  }
  return home_s;
}

double Mover::bring_to(const TileId& tile, DeviceId device) {
  const int key = key_of(tile);
  const auto holder = static_cast<int>(std::ranges::find(devices_, device) - devices_.begin());
  Held& there = held(key, holder);
  if (there.slot >= 0) return there.arrival_s;
  if (!is_away(tile) && program_.matrix_of(tile).home == device) return 0;
  const Cargo cargo = program_.cargo_of(tile);
  const Chain& chain = router_.route(holders_of(key), {&device, 1}, cargo);
  const Where from = place_of(chain.source, key);
  const Where to{device, store(device).take(Pool::kept, program_.bytes_of(tile), key)};
  before_read(from, tile);
  emit_leg(Sent::passed, tile, chain.legs[0], from, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  there = {.slot = to.slot, .arrival_s = chain.legs[0].stop_s()};
  return there.arrival_s;
}

void Mover::finish() {
  plan_.slots.resize(stores_.size());
  plan_.arena_bytes.resize(stores_.size());
  if (is_composed_) note_residency();
  for (std::size_t d = 0; d < stores_.size(); ++d) {
    plan_.slots[d] = stores_[d].slots();
    plan_.arena_bytes[d] = stores_[d].arena_bytes();
  }
  require_memory();
}

void Mover::note_residency() {
  for (int key = 0; key < std::ssize(tiles_); ++key) {
    const TileId tile = tile_of(key);
    if (is_away(tile) && program_.matrix_of(tile).returns && !program_.calls.empty())
      plan_.planned_s = std::max(plan_.planned_s, bring_home(tile));
    if (is_away(tile)) plan_.away_after.push_back(tile);
    for (int w = 0; w < holders(); ++w) {
      const Held& h = held(key, w);
      if (h.slot < 0 || store(device_of(w)).pool(h.slot) != Pool::kept) continue;
      // Where memory is short, the next plan has it without what only this one needed.
      if (copies_left_ && is_copy(h.slot, w)) continue;
      plan_.kept.push_back({tile, {device_of(w), h.slot}});
    }
  }
  std::ranges::sort(plan_.kept);
}

void Mover::require_memory() const {
  for (std::size_t d = 0; d < stores_.size() && d < tuning_.memory_cap.size(); ++d) {
    const std::int64_t bytes = stores_[d].arena_bytes() + stores_[d].kept_bytes();
    if (bytes > tuning_.memory_cap[d])
      throw Error(Status::no_memory, "the plan needs " + std::to_string(bytes) +
                                         " bytes on device " + machine_.devices[d].name +
                                         ", its cap is " + std::to_string(tuning_.memory_cap[d]) +
                                         "; tiles that lie there already have " +
                                         std::to_string(bytes_found(static_cast<DeviceId>(d))));
  }
}

}  // namespace fleet

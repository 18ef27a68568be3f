// SPDX-License-Identifier: BSD-3-Clause
// residents.cpp: tiles by their memory, and the copies of each. Threads that may ask without the
// turn see it whole, since every change has the state lock.
#include "core/residents.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/gate.hpp"
#include "base/sizes.hpp"

namespace fleet {
namespace {

Block block_of_tile(const Block& block, const Matrix& matrix, int row, int col) {
  const std::int64_t first_row = matrix.row_cuts[index(row)];
  const std::int64_t first_col = matrix.col_cuts[index(col)];
  return part_of(block, first_row, first_col, matrix.row_cuts[index(row) + 1] - first_row,
                 matrix.col_cuts[index(col) + 1] - first_col);
}

bool contains(const Block& outer, const Block& inner) {
  return outer.begin <= inner.begin && inner.begin + static_cast<std::uintptr_t>(inner.bytes) <=
                                           outer.begin + static_cast<std::uintptr_t>(outer.bytes);
}

/// Calls act(tile) for each that is stored.
template <typename Act>
void for_each_tile(const PlacedProgram& placed, Act act) {
  for (MatrixId m = 0; m < std::ssize(placed.blocks); ++m) {
    const Matrix& matrix = placed.program->matrices[index(m)];
    if (!placed.blocks[index(m)].is_plain || matrix.items > 1) continue;
    for (int row = 0; row < matrix.tile_rows(); ++row)
      for (int col = 0; col < matrix.tile_cols(); ++col)
        if (matrix.has_tile(row, col)) act(TileId{m, row, col});
  }
}

/// The index of the piece [begin, begin + size), or -1.
int piece_at(const Cuts& cuts, std::int64_t begin, std::int64_t size) {
  const auto at = std::ranges::lower_bound(cuts, begin);
  if (at == cuts.end() || *at != begin || at + 1 == cuts.end() || *(at + 1) != begin + size)
    return -1;
  return static_cast<int>(at - cuts.begin());
}

}  // namespace

bool Residents::Key::operator<(const Key& other) const {
  const auto order = [](const Key& key) {
    const Block& b = key.block;
    return std::tuple(b.begin, b.ld, b.rows, b.cols, b.storage, key.fill);
  };
  return order(*this) < order(other);
}

Residents::Key Residents::key_of(const PlacedProgram& placed, const TileId& tile) {
  return {block_of_tile(placed.blocks[index(tile.matrix)], placed.program->matrix_of(tile),
                        tile.row, tile.col),
          placed.program->fill_of(tile)};
}

Residents::Tile* Residents::find(const Key& key) {
  const auto at = tiles_.find(key);
  return at == tiles_.end() ? nullptr : &at->second;
}

const Residents::Tile* Residents::find(const Key& key) const {
  const auto at = tiles_.find(key);
  return at == tiles_.end() ? nullptr : &at->second;
}

bool Residents::is_away(const Block& block) const {
  return is_any_away([&](const Block& tile) { return overlap(tile, block); });
}

bool Residents::is_any_away(const std::function<bool(const Block&)>& wanted) const {
  if (empty()) return false;
  const gate::StateLock lock;
  return std::ranges::any_of(
      tiles_, [&](const auto& known) { return known.second.is_away && wanted(known.first.block); });
}

bool Residents::has(const Block& block) const {
  if (empty()) return false;
  const gate::StateLock lock;
  return std::ranges::any_of(tiles_,
                             [&](const auto& known) { return overlap(known.first.block, block); });
}

void Residents::track(const Block& block, const std::optional<Distribution>& distribution) {
  const gate::StateLock lock;
  // A distribution is the memory's, until its last handle is gone.
  const auto same = std::ranges::find(tracked_, block, &Tracked::block);
  const bool is_known = !distribution && same != tracked_.end();
  tracked_.push_back({block, is_known ? same->distribution : distribution});
}

void Residents::untrack(const Block& block) {
  const gate::StateLock lock;
  if (const auto at = std::ranges::find(tracked_, block, &Tracked::block); at != tracked_.end())
    tracked_.erase(at);
  if (std::ranges::any_of(tracked_, [&](const Tracked& t) { return contains(t.block, block); }))
    return;
  abandoned_.push_back(block);
  abandoned_count_ = abandoned_.size();
}

std::vector<Block> Residents::take_abandoned() {
  const gate::StateLock lock;
  abandoned_count_ = 0;
  return std::exchange(abandoned_, {});
}

bool Residents::is_tracked(const Block& block) const {
  const gate::StateLock lock;
  return std::ranges::any_of(tracked_, [&](const Tracked& t) { return contains(t.block, block); });
}

void Residents::distribute(const Block& block, const Distribution& distribution) {
  const gate::StateLock lock;
  for (Tracked& tracked : tracked_)
    if (tracked.block == block) tracked.distribution = distribution;
}

std::optional<Distribution> Residents::distribution_of(const Block& block) const {
  const gate::StateLock lock;
  for (const Tracked& tracked : tracked_) {
    if (!tracked.distribution || !covers(tracked.block, block)) continue;
    const auto elements =
        static_cast<std::int64_t>(block.begin - tracked.block.begin) / bytes_of(block.storage);
    Distribution part = *tracked.distribution;
    part.row += elements % tracked.block.ld;
    part.col += elements / tracked.block.ld;
    return part;
  }
  return {};
}

Residency Residents::of(const PlacedProgram& placed) const {
  Residency residency;
  if (empty()) return residency;
  for_each_tile(placed, [&](const TileId& id) {
    const Tile* const tile = find(key_of(placed, id));
    if (tile == nullptr) return;
    for (const Copy& copy : tile->copies) residency.copies.push_back({id, copy.device});
    if (tile->is_away) residency.away.push_back(id);
  });
  std::ranges::sort(residency.copies);
  return residency;
}

std::optional<Residency> Residents::after(const Plan& plan, const PlacedProgram& placed,
                                          const PlacedProgram& next) const {
  std::map<Key, Tile> left;  // of the tiles of the running program
  for_each_tile(placed, [&](const TileId& id) { left[key_of(placed, id)]; });
  for (const auto& [id, where] : plan.kept)
    left[key_of(placed, id)].copies.push_back({where.device, nullptr});
  for (const TileId& id : plan.away_after) left[key_of(placed, id)].is_away = true;
  for (std::size_t m = 0; m < next.blocks.size(); ++m) {
    const auto is_in_it = [&](const auto& known) {
      return !known.second.copies.empty() && is_in_the_way(known.first, known.second, next, m);
    };
    if (!in_the_way(next, m).empty() || std::ranges::any_of(left, is_in_it)) return std::nullopt;
  }
  Residency residency;
  for_each_tile(next, [&](const TileId& id) {
    const Key key = key_of(next, id);
    const auto known = left.find(key);
    const Tile* const tile = known != left.end() ? &known->second : find(key);
    if (tile == nullptr) return;
    for (const Copy& copy : tile->copies) residency.copies.push_back({id, copy.device});
    if (tile->is_away) residency.away.push_back(id);
  });
  std::ranges::sort(residency.copies);
  return residency;
}

bool Residents::is_tile_of(const Key& key, const Block& block, const Matrix& matrix) const {
  if (!covers(block, key.block)) return false;
  const auto elements =
      static_cast<std::int64_t>(key.block.begin - block.begin) / bytes_of(block.storage);
  const int row = piece_at(matrix.row_cuts, elements % block.ld, key.block.rows);
  const int col = piece_at(matrix.col_cuts, elements / block.ld, key.block.cols);
  // Nothing of the program is in the other triangle.
  return row >= 0 && col >= 0 &&
         (!matrix.has_tile(row, col) || key.fill == (row == col ? matrix.diagonal : Fill::full));
}

bool Residents::is_in_the_way(const Key& key, const Tile& tile, const PlacedProgram& placed,
                              std::size_t m) const {
  const Matrix& matrix = placed.program->matrices[m];
  if (!matrix.is_written && !tile.is_away) return false;
  return overlap(key.block, placed.blocks[m]) && !is_tile_of(key, placed.blocks[m], matrix);
}

std::vector<Block> Residents::in_the_way(const PlacedProgram& placed, std::size_t m) const {
  std::vector<Block> blocks;
  for (const auto& [key, tile] : tiles_)
    if (is_in_the_way(key, tile, placed, m)) blocks.push_back(key.block);
  return blocks;
}

void Residents::drop_in_the_way(const PlacedProgram& placed, std::size_t m) {
  const gate::StateLock lock;
  for (auto& [key, tile] : tiles_)
    if (is_in_the_way(key, tile, placed, m)) forget_copies(tile);
  remove_empty();
}

KeptSlots Residents::bind(const Plan& plan, const PlacedProgram& placed, Backend& backend) {
  KeptSlots slots;
  for (const auto& of_device : plan.slots) slots.emplace_back(of_device.size(), nullptr);
  const auto slot = [&](const Where& where) -> void*& {
    return slots[index(where.device)][index(where.slot)];
  };
  for (const auto& [id, where] : plan.found) {
    Tile& tile = *find(key_of(placed, id));
    tile.last_use = uses_ + 1;
    slot(where) = std::ranges::find(tile.copies, where.device, &Copy::device)->address;
  }
  ++uses_;
  try {
    for (std::size_t d = 0; d < plan.slots.size(); ++d)
      for (std::size_t s = 0; s < plan.slots[d].size(); ++s)
        if (plan.slots[d][s].outlives_plan() && slots[d][s] == nullptr)
          slots[d][s] = memory_.take(backend, static_cast<DeviceId>(d), plan.slots[d][s].bytes);
  } catch (...) {
    undo(plan, slots);
    throw;
  }
  return slots;
}

void Residents::undo(const Plan& plan, const KeptSlots& slots) {
  std::set<void*> found;
  for (const Resident& resident : plan.found)
    found.insert(slots[index(resident.where.device)][index(resident.where.slot)]);
  for (std::size_t d = 0; d < slots.size(); ++d)
    for (void* const address : slots[d])
      if (address != nullptr && !found.contains(address))
        memory_.give_back(static_cast<DeviceId>(d), address);
}

void Residents::note(const Plan& plan, const PlacedProgram& placed, const KeptSlots& slots) {
  // Built beside what there is, which stays as it is if there is no memory for it.
  std::map<Key, Tile> tiles = tiles_;
  for_each_tile(placed, [&](const TileId& id) {
    if (const auto at = tiles.find(key_of(placed, id)); at != tiles.end())
      at->second = {};  // its addresses are in the slots
  });
  std::set<std::pair<DeviceId, void*>> unused;
  for (std::size_t d = 0; d < slots.size(); ++d)
    for (void* const address : slots[d])
      if (address != nullptr) unused.insert({static_cast<DeviceId>(d), address});
  for (const auto& [id, where] : plan.kept) {
    void* const address = slots[index(where.device)][index(where.slot)];
    Tile& tile = tiles[key_of(placed, id)];
    tile.matrix = placed.blocks[index(id.matrix)];
    tile.last_use = uses_;
    // Matrices that are only read may share tiles: one copy on a device is enough.
    const auto known = std::ranges::find(tile.copies, where.device, &Copy::device);
    if (known != tile.copies.end()) continue;
    tile.copies.push_back({where.device, address});
    unused.erase({where.device, address});
  }
  for (const TileId& id : plan.away_after) tiles.at(key_of(placed, id)).is_away = true;
  const gate::StateLock lock;
  tiles_.swap(tiles);
  for (const auto& [device, address] : unused) memory_.give_back(device, address);
  remove_empty();
}

void Residents::note_failure(const Plan& plan, const PlacedProgram& placed,
                             const KeptSlots& slots) {
  const gate::StateLock lock;
  for_each_tile(placed, [&](const TileId& id) {
    const Matrix& matrix = placed.program->matrix_of(id);
    Tile* const tile = find(key_of(placed, id));
    if (tile == nullptr) return;
    // The slot of a copy that no call needs any more may have been used again.
    if (matrix.is_written || (!matrix.stays && !tile->is_away)) forget_copies(*tile);
  });
  undo(plan, slots);
  remove_empty();
}

Block Residents::Return::block_of(const TileId& tile) const {
  return placed.blocks[index(tile.matrix)];
}

Residents::Return Residents::returning(const std::function<bool(const Block&)>& wanted) const {
  Return what;
  auto program = std::make_shared<TileProgram>();
  for (const auto& [key, tile] : tiles_) {
    if (!tile.is_away || !wanted(key.block)) continue;
    what.tiles.push_back({static_cast<MatrixId>(program->matrices.size()), 0, 0});
    program->matrices.push_back({.storage = key.block.storage,
                                 .row_cuts = {0, key.block.rows},
                                 .col_cuts = {0, key.block.cols},
                                 .diagonal = key.fill,
                                 .stays = true});
    what.placed.blocks.push_back(key.block);
  }
  what.placed.program = std::move(program);
  what.before = of(what.placed);
  return what;
}

std::vector<Residents::Copy> Residents::copies_of(const Return& what, const TileId& id) const {
  const Tile* const tile = find(key_of(what.placed, id));
  return tile == nullptr ? std::vector<Copy>{} : tile->copies;
}

void Residents::note_home(const Return& what, const TileId& id) {
  const gate::StateLock lock;
  find(key_of(what.placed, id))->is_away = false;
}

std::vector<Residents::Held> Residents::at_owners(const PlacedProgram& placed) const {
  std::vector<Held> held;
  for (const auto& [id, device] : fleet::at_owners(*placed.program).copies) {
    const Key key = key_of(placed, id);
    const Tile* const tile = find(key);
    if (tile == nullptr) return {};
    const auto copy = std::ranges::find(tile->copies, device, &Copy::device);
    if (copy == tile->copies.end()) return {};
    held.push_back({key.block, device, copy->address});
  }
  return held;
}

void Residents::note_written_at_owners(const PlacedProgram& placed) {
  const gate::StateLock lock;
  for (const auto& [id, owner] : fleet::at_owners(*placed.program).copies) {
    Tile& tile = *find(key_of(placed, id));
    for (const auto& [device, address] : tile.copies)
      if (device != owner) memory_.give_back(device, address);
    std::erase_if(tile.copies, [&](const Copy& copy) { return copy.device != owner; });
    tile.is_away = true;
  }
}

void Residents::note_away(const Block& block) {
  const gate::StateLock lock;
  for (auto& [key, tile] : tiles_)
    if (covers(block, key.block)) tile.is_away = true;
}

void Residents::forget_copies(Tile& tile) {
  for (const auto& [device, address] : tile.copies) memory_.give_back(device, address);
  tile = {};
}

void Residents::remove_empty() {
  std::erase_if(tiles_, [](const auto& known) { return known.second.copies.empty(); });
  known_.store(tiles_.size());
}

void Residents::drop(const Block& block) {
  const gate::StateLock lock;
  for (auto& [key, tile] : tiles_)
    if (overlap(key.block, block)) forget_copies(tile);
  remove_empty();
}

void Residents::drop_only(std::span<const Block> tiles) {
  const gate::StateLock lock;
  for (const Block& block : tiles)
    for (const Fill fill : {Fill::full, Fill::lower, Fill::upper})
      if (Tile* const tile = find({block, fill})) forget_copies(*tile);
  remove_empty();
}

void Residents::drop_all() {
  const gate::StateLock lock;
  for (auto& [key, tile] : tiles_) forget_copies(tile);
  remove_empty();
}

std::vector<Block> Residents::forget_device(DeviceId device) {
  const gate::StateLock lock;
  std::vector<Block> gone;
  for (auto& [key, tile] : tiles_) {
    const auto lost = std::ranges::find(tile.copies, device, &Copy::device);
    if (lost == tile.copies.end()) continue;
    memory_.give_back(device, lost->address);
    tile.copies.erase(lost);
    if (!tile.copies.empty() || !tile.is_away) continue;
    tile.is_away = false;
    gone.push_back(key.block);
  }
  remove_empty();
  return gone;
}

std::vector<Block> Residents::untracked() const {
  if (empty()) return {};
  const gate::StateLock lock;
  std::vector<Block> blocks;
  for (const auto& [key, tile] : tiles_)
    if (std::ranges::none_of(tracked_,
                             [&](const Tracked& t) { return contains(t.block, key.block); }))
      blocks.push_back(key.block);
  return blocks;
}

std::vector<Residents::Group> Residents::others(const PlacedProgram& placed) const {
  std::set<std::uintptr_t> used;  // where tiles of the program begin
  for_each_tile(placed, [&](const TileId& id) { used.insert(key_of(placed, id).block.begin); });
  std::vector<Group> groups;
  for (const auto& [key, tile] : tiles_) {
    if (used.contains(key.block.begin)) continue;
    auto group = std::ranges::find(groups, tile.matrix, &Group::matrix);
    if (group == groups.end()) group = groups.insert(groups.end(), {.matrix = tile.matrix});
    group->tiles.push_back(key.block);
    group->last_use = std::max(group->last_use, tile.last_use);
  }
  std::ranges::stable_sort(groups, {}, &Group::last_use);
  return groups;
}

}  // namespace fleet

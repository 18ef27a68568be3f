// SPDX-License-Identifier: BSD-3-Clause
// residents.cpp: blocks in tiles, and the copies of each. Threads that may ask without the turn see
// it whole, since every change has the state lock.
#include "core/residents.hpp"

#include <algorithm>
#include <set>

#include "base/gate.hpp"
#include "base/sizes.hpp"

namespace fleet {
namespace {

/// Are they cut and stored in one way?
bool is_alike(const Matrix& a, const Matrix& b) {
  return a.storage == b.storage && a.row_cuts == b.row_cuts && a.col_cuts == b.col_cuts &&
         a.structure == b.structure && a.diagonal == b.diagonal && a.items == b.items;
}

Block block_of_tile(const Block& block, const Matrix& matrix, int row, int col) {
  const std::int64_t first_row = matrix.row_cuts[index(row)];
  const std::int64_t first_col = matrix.col_cuts[index(col)];
  Block tile = block;
  const std::int64_t element = bytes_of(block.storage);
  tile.begin += static_cast<std::uintptr_t>((first_row + first_col * block.ld) * element);
  tile.rows = matrix.row_cuts[index(row) + 1] - first_row;
  tile.cols = matrix.col_cuts[index(col) + 1] - first_col;
  tile.bytes = ((tile.cols - 1) * block.ld + tile.rows) * element;
  return tile;
}

bool contains(const Block& outer, const Block& inner) {
  return outer.begin <= inner.begin && inner.begin + static_cast<std::uintptr_t>(inner.bytes) <=
                                           outer.begin + static_cast<std::uintptr_t>(outer.bytes);
}

/// Calls act(row, col, tile) for each.
template <typename Entry, typename Act>
void for_each_tile(Entry& entry, Act act) {
  const int cols = entry.matrix.tile_cols();
  for (int i = 0; i < static_cast<int>(entry.tiles.size()); ++i)
    act(i / cols, i % cols, entry.tiles[index(i)]);
}

}  // namespace

bool Residents::is_away(const Block& block) const {
  return is_any_away([&](const Block& tile) { return overlap(tile, block); });
}

bool Residents::is_any_away(const std::function<bool(const Block&)>& wanted) const {
  if (empty()) return false;
  const gate::StateLock lock;
  bool away = false;
  for (const auto& entry : entries_)
    for_each_tile(*entry, [&](int row, int col, const Tile& tile) {
      away = away || (tile.is_away && wanted(block_of_tile(entry->block, entry->matrix, row, col)));
    });
  return away;
}

bool Residents::has(const Block& block) const {
  if (empty()) return false;
  const gate::StateLock lock;
  return std::ranges::any_of(entries_,
                             [&](const auto& entry) { return overlap(entry->block, block); });
}

void Residents::track(const Block& block) {
  const gate::StateLock lock;
  tracked_.push_back(block);
}

void Residents::untrack(const Block& block) {
  const gate::StateLock lock;
  if (const auto at = std::ranges::find(tracked_, block); at != tracked_.end()) tracked_.erase(at);
}

bool Residents::is_tracked(const Block& block) const {
  const gate::StateLock lock;
  return std::ranges::any_of(tracked_, [&](const Block& b) { return contains(b, block); });
}

Residents::Entry* Residents::find(const Block& block, const Matrix& matrix) const {
  for (const auto& entry : entries_)
    if (entry->block == block && is_alike(entry->matrix, matrix)) return entry.get();
  return nullptr;
}

Residents::Entry& Residents::find_or_add(const Block& block, const Matrix& matrix) {
  if (Entry* const known = find(block, matrix)) return *known;
  const std::size_t tiles = index(matrix.tile_rows()) * index(matrix.tile_cols());
  entries_.push_back(std::make_unique<Entry>(
      Entry{.block = block, .matrix = matrix, .tiles = std::vector<Tile>(tiles)}));
  blocks_.store(entries_.size());
  return *entries_.back();
}

Residents::Tile& Residents::tile_of(Entry& entry, const TileId& tile) {
  return entry.tiles[index(tile.row * entry.matrix.tile_cols() + tile.col)];
}

Residency Residents::of(const PlacedProgram& placed) const {
  Residency residency;
  for (MatrixId m = 0; m < std::ssize(placed.blocks); ++m) {
    const Entry* const entry = find(placed.blocks[index(m)], placed.program->matrices[index(m)]);
    if (entry == nullptr) continue;
    for_each_tile(*entry, [&](int row, int col, const Tile& tile) {
      for (const Copy& copy : tile.copies) residency.copies.push_back({{m, row, col}, copy.device});
      if (tile.is_away) residency.away.push_back({m, row, col});
    });
  }
  std::ranges::sort(residency.copies);
  return residency;
}

std::optional<Residency> Residents::after(const Plan& plan, const PlacedProgram& placed,
                                          const PlacedProgram& next) const {
  Residency residency = of(next);
  for (MatrixId m = 0; m < std::ssize(next.blocks); ++m) {
    if (!is_clear(next, index(m))) return std::nullopt;
    const Matrix& matrix = next.program->matrices[index(m)];
    for (MatrixId p = 0; p < std::ssize(placed.blocks); ++p) {
      const Matrix& used = plan.program->matrices[index(p)];
      if (!(placed.blocks[index(p)] == next.blocks[index(m)] && is_alike(used, matrix))) {
        if (overlap(placed.blocks[index(p)], next.blocks[index(m)]) &&
            (used.is_written || matrix.is_written))
          return std::nullopt;
        continue;
      }
      std::erase_if(residency.copies, [&](const auto& copy) { return copy.tile.matrix == m; });
      std::erase_if(residency.away, [&](const TileId& tile) { return tile.matrix == m; });
      for (const auto& [tile, where] : plan.kept)
        if (tile.matrix == p) residency.copies.push_back({{m, tile.row, tile.col}, where.device});
      for (const TileId& tile : plan.away_after)
        if (tile.matrix == p) residency.away.push_back({m, tile.row, tile.col});
    }
  }
  std::ranges::sort(residency.copies);
  std::ranges::sort(residency.away);
  return residency;
}

bool Residents::is_clear(const PlacedProgram& placed, std::size_t m) const {
  const Matrix& matrix = placed.program->matrices[m];
  return std::ranges::none_of(entries_, [&](const auto& entry) {
    if (entry->block == placed.blocks[m] && is_alike(entry->matrix, matrix)) return false;
    const bool is_read_only =
        !matrix.is_written && std::ranges::none_of(entry->tiles, &Tile::is_away);
    return !is_read_only && overlap(entry->block, placed.blocks[m]);
  });
}

KeptSlots Residents::bind(const Plan& plan, const PlacedProgram& placed, Backend& backend) {
  KeptSlots slots;
  for (const auto& of_device : plan.slots) slots.emplace_back(of_device.size(), nullptr);
  const auto slot = [&](const Where& where) -> void*& {
    return slots[index(where.device)][index(where.slot)];
  };
  for (const auto& [tile, where] : plan.found) {
    Entry& entry = *find(placed.blocks[index(tile.matrix)], plan.program->matrix_of(tile));
    entry.last_use = uses_ + 1;
    slot(where) =
        std::ranges::find(tile_of(entry, tile).copies, where.device, &Copy::device)->address;
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
  const gate::StateLock lock;
  for (std::size_t m = 0; m < placed.blocks.size(); ++m)
    if (Entry* const entry = find(placed.blocks[m], plan.program->matrices[m]))
      for (Tile& tile : entry->tiles) tile = {};  // its addresses are among the slots
  std::set<std::pair<DeviceId, void*>> unused;
  for (std::size_t d = 0; d < slots.size(); ++d)
    for (void* const address : slots[d])
      if (address != nullptr) unused.insert({static_cast<DeviceId>(d), address});
  for (const auto& [tile, where] : plan.kept) {
    void* const address = slots[index(where.device)][index(where.slot)];
    Entry& entry = find_or_add(placed.blocks[index(tile.matrix)], plan.program->matrix_of(tile));
    entry.last_use = uses_;
    entry.matrix.home = plan.program->matrix_of(tile).home;
    tile_of(entry, tile).copies.push_back({where.device, address});
    unused.erase({where.device, address});
  }
  for (const TileId& tile : plan.away_after)
    tile_of(*find(placed.blocks[index(tile.matrix)], plan.program->matrix_of(tile)), tile).is_away =
        true;
  for (const auto& [device, address] : unused) memory_.give_back(device, address);
  remove_empty();
}

void Residents::note_failure(const Plan& plan, const PlacedProgram& placed,
                             const KeptSlots& slots) {
  const gate::StateLock lock;
  for (std::size_t m = 0; m < placed.blocks.size(); ++m)
    if (Entry* const entry = find(placed.blocks[m], plan.program->matrices[m]);
        entry != nullptr && plan.program->matrices[m].is_written)
      for (Tile& tile : entry->tiles) forget_copies(tile);
  undo(plan, slots);
  remove_empty();
}

Binding Residents::Return::binding() const {
  Binding binding{.matrices = {}, .scalars = {1.0, -1.0}};
  for (const Block& block : placed.blocks)
    binding.matrices.push_back({reinterpret_cast<void*>(block.begin), block.ld, 0});
  return binding;
}

Block Residents::Return::block_of(const TileId& tile) const {
  return block_of_tile(placed.blocks[index(tile.matrix)], placed.program->matrix_of(tile), tile.row,
                       tile.col);
}

Residents::Return Residents::returning(const std::function<bool(const Block&)>& wanted) const {
  Return what;
  auto program = std::make_shared<TileProgram>();
  for (const auto& entry : entries_) {
    const auto m = static_cast<MatrixId>(program->matrices.size());
    std::vector<TileId> tiles;
    for_each_tile(*entry, [&](int row, int col, const Tile& tile) {
      if (tile.is_away && wanted(block_of_tile(entry->block, entry->matrix, row, col)))
        tiles.push_back({m, row, col});
    });
    if (tiles.empty()) continue;
    what.tiles.insert(what.tiles.end(), tiles.begin(), tiles.end());
    program->matrices.push_back(entry->matrix);
    program->matrices.back().is_read = program->matrices.back().is_written = false;
    what.placed.blocks.push_back(entry->block);
  }
  what.placed.program = std::move(program);
  what.before = of(what.placed);
  return what;
}

std::vector<Residents::Copy> Residents::copies_of(const Return& what, const TileId& tile) const {
  Entry* const entry =
      find(what.placed.blocks[index(tile.matrix)], what.placed.program->matrix_of(tile));
  return entry == nullptr ? std::vector<Copy>{} : tile_of(*entry, tile).copies;
}

void Residents::note_home(const Return& what, const TileId& tile) {
  const gate::StateLock lock;
  Entry* const entry =
      find(what.placed.blocks[index(tile.matrix)], what.placed.program->matrix_of(tile));
  tile_of(*entry, tile).is_away = false;
}

void Residents::forget_copies(Tile& tile) {
  for (const auto& [device, address] : tile.copies) memory_.give_back(device, address);
  tile = {};
}

void Residents::remove_empty() {
  std::erase_if(entries_, [](const auto& entry) {
    return std::ranges::all_of(entry->tiles, [](const Tile& tile) { return tile.copies.empty(); });
  });
  blocks_.store(entries_.size());
}

void Residents::drop(const Block& block) {
  const gate::StateLock lock;
  for (const auto& entry : entries_) {
    if (!overlap(entry->block, block)) continue;
    for_each_tile(*entry, [&](int row, int col, Tile& tile) {
      if (overlap(block_of_tile(entry->block, entry->matrix, row, col), block)) forget_copies(tile);
    });
  }
  remove_empty();
}

void Residents::drop_only(const Block& block) {
  const gate::StateLock lock;
  for (const auto& entry : entries_)
    if (entry->block == block)
      for (Tile& tile : entry->tiles) forget_copies(tile);
  remove_empty();
}

std::vector<Block> Residents::forget_device(DeviceId device) {
  const gate::StateLock lock;
  std::vector<Block> gone;
  for (const auto& entry : entries_)
    for_each_tile(*entry, [&](int row, int col, Tile& tile) {
      const auto lost = std::ranges::find(tile.copies, device, &Copy::device);
      if (lost == tile.copies.end()) return;
      memory_.give_back(device, lost->address);
      tile.copies.erase(lost);
      if (!tile.copies.empty() || !tile.is_away) return;
      tile.is_away = false;
      gone.push_back(block_of_tile(entry->block, entry->matrix, row, col));
    });
  remove_empty();
  return gone;
}

std::vector<Block> Residents::untracked() const {
  if (empty()) return {};
  const gate::StateLock lock;
  std::vector<Block> blocks;
  for (const auto& entry : entries_)
    if (std::ranges::none_of(tracked_,
                             [&](const Block& block) { return contains(block, entry->block); }))
      blocks.push_back(entry->block);
  return blocks;
}

std::vector<Block> Residents::others(const PlacedProgram& placed) const {
  std::vector<const Entry*> found;
  for (const auto& entry : entries_)
    if (std::ranges::find(placed.blocks, entry->block) == placed.blocks.end())
      found.push_back(entry.get());
  std::ranges::stable_sort(found, {}, &Entry::last_use);
  std::vector<Block> blocks;
  for (const Entry* entry : found) blocks.push_back(entry->block);
  return blocks;
}

}  // namespace fleet

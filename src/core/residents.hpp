// SPDX-License-Identifier: BSD-3-Clause
// residents.hpp: the tiles of tracked memory that lie on devices between programs, and which of
// them are away from home. Its owner has the turn, except where any thread may ask; it knows no
// calls.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/call.hpp"
#include "core/tile_memory.hpp"
#include "plan/plan.hpp"
#include "program/distribution.hpp"
#include "run/binding.hpp"

namespace fleet {

/// The memory of `block` as an operand of a copy.
inline View view_of(const Block& block) {
  return {.data = reinterpret_cast<void*>(block.begin),
          .rows = block.rows,
          .cols = block.cols,
          .ld = block.ld};
}

/// A program with the memory of its matrices.
struct PlacedProgram {
  std::shared_ptr<const TileProgram> program;
  std::vector<Block> blocks;  ///< per matrix
};

class Residents {
 public:
  /// Is nothing on devices? The one question that takes no lock.
  bool empty() const { return known_.load() == 0; }
  /// Is an element of the block away from home? From any thread.
  bool is_away(const Block& block) const;
  /// The same of tiles for whose blocks `wanted` says so.
  bool is_any_away(const std::function<bool(const Block&)>& wanted) const;
  /// Does a tile of the block lie on a device? From any thread.
  bool has(const Block& block) const;

  /// Memory is tracked from `track` to `untrack`: until then its tiles may stay. From any thread.
  void track(const Block& block, const std::optional<Distribution>& distribution = {});
  void untrack(const Block& block);
  /// Blocks that were untracked and have no other tracker, each once: what lies on devices of them
  /// is to come home and to leave, whoever tracks the memory now.
  std::vector<Block> take_abandoned();
  bool has_abandoned() const { return abandoned_count_.load() > 0; }
  bool is_tracked(const Block& block) const;
  /// From now on the tiles of tracked memory belong to these devices.
  void distribute(const Block& block, const Distribution& distribution);
  /// That of the tracked memory that the block is a part of. From any thread.
  std::optional<Distribution> distribution_of(const Block& block) const;

  /// Where the matrices of a program are. What lies there in other tiles than the program's is not
  /// looked at: it has to be returned and dropped before.
  Residency of(const PlacedProgram& placed) const;
  /// The same after a run of `plan`, for another program; nothing where that cannot be known. For a
  /// thread that plans ahead while the turn is taken for that run.
  std::optional<Residency> after(const Plan& plan, const PlacedProgram& placed,
                                 const PlacedProgram& next) const;
  /// The tiles that meet a matrix of the program without being tiles of it, stored as it needs
  /// them. Copies of what the program only reads, and is at home, are not in the way.
  std::vector<Block> in_the_way(const PlacedProgram& placed, std::size_t matrix) const;
  /// Forgets them.
  void drop_in_the_way(const PlacedProgram& placed, std::size_t matrix);

  /// The addresses of what the plan finds, and new memory for what it makes. Throws
  /// Error(no_memory).
  KeptSlots bind(const Plan& plan, const PlacedProgram& placed, Backend& backend);
  /// After a run: the plan's tiles are where it says.
  void note(const Plan& plan, const PlacedProgram& placed, const KeptSlots& slots);
  /// After a run that failed and was completed, or could not be: what the program writes is on no
  /// device.
  void note_failure(const Plan& plan, const PlacedProgram& placed, const KeptSlots& slots);
  /// Nothing was run: gives back what bind() took.
  void undo(const Plan& plan, const KeptSlots& slots);

  /// Tiles that are away, as a program without calls: each is a matrix of its own.
  struct Return {
    PlacedProgram placed;
    Residency before;
    std::vector<TileId> tiles;
    Block block_of(const TileId& tile) const;
  };
  /// Those for which `wanted` says so, by the tile's own block.
  Return returning(const std::function<bool(const Block&)>& wanted) const;
  /// Where the tile of a return lies.
  struct Copy {
    DeviceId device = kHost;
    void* address = nullptr;
    friend bool operator==(const Copy&, const Copy&) = default;
  };
  std::vector<Copy> copies_of(const Return& what, const TileId& tile) const;
  void note_home(const Return& what, const TileId& tile);
  /// A tile on the one device that has it.
  struct Held {
    Block block;
    DeviceId device = kHost;
    void* address = nullptr;
  };
  /// The tiles of a matrix that is distributed, each with its copy on the device that it belongs
  /// to. Nothing where a tile has no such copy.
  std::vector<Held> at_owners(const PlacedProgram& placed) const;
  /// These copies are the newest from now on: all others are forgotten, and the homes are older.
  void note_written_at_owners(const PlacedProgram& placed);
  /// The homes of all tiles in the block are older than their copies.
  void note_away(const Block& block);
  /// Forgets all copies of tiles that meet the block: they are at home, or of no use.
  void drop(const Block& block);
  /// The same of these very tiles, and not of others that they meet.
  void drop_only(std::span<const Block> tiles);
  void drop_all();
  /// The device is lost. Returns the tiles that were nowhere else.
  std::vector<Block> forget_device(DeviceId device);

  /// Blocks that nobody tracks any more.
  std::vector<Block> untracked() const;
  /// Tiles that were last used together, as tiles of one matrix.
  struct Group {
    Block matrix;
    std::vector<Block> tiles = {};
    std::uint64_t last_use = 0;
  };
  /// All tiles but those of the program, those that were used least recently first.
  std::vector<Group> others(const PlacedProgram& placed) const;
  std::int64_t bytes_on(DeviceId device) const { return memory_.used(device); }
  void trim(Backend& backend) { memory_.trim(backend); }
  /// Where tiles have their memory, for what else lies on devices between programs.
  TileMemory& memory() { return memory_; }

 private:
  /// A tile is known by its memory and by which of its elements count, so that views and matrices
  /// that are cut at the same places share it.
  struct Key {
    Block block;
    Fill fill = Fill::full;
    bool operator<(const Key& other) const;
  };
  struct Tile {
    std::vector<Copy> copies = {};
    bool is_away = false;
    Block matrix = {};  ///< of whose tiles it was used last
    std::uint64_t last_use = 0;
  };
  struct Tracked {
    Block block;
    std::optional<Distribution> distribution;
  };

  static Key key_of(const PlacedProgram& placed, const TileId& tile);
  Tile* find(const Key& key);
  const Tile* find(const Key& key) const;
  bool is_tile_of(const Key& key, const Block& block, const Matrix& matrix) const;
  bool is_in_the_way(const Key& key, const Tile& tile, const PlacedProgram& placed,
                     std::size_t matrix) const;
  void forget_copies(Tile& tile);
  void remove_empty();

  std::map<Key, Tile> tiles_;
  std::vector<Tracked> tracked_;
  std::vector<Block> abandoned_;
  std::atomic<std::size_t> abandoned_count_{0};
  std::atomic<std::size_t> known_{0};  ///< tiles_.size()
  std::uint64_t uses_ = 0;
  TileMemory memory_;
};

}  // namespace fleet

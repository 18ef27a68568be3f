// SPDX-License-Identifier: BSD-3-Clause
// residents.hpp: the tiles of tracked memory that lie on devices between programs, and which of
// them are away from home. Its owner has the turn, except where any thread may ask; it knows no
// calls.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/call.hpp"
#include "core/tile_memory.hpp"
#include "plan/plan.hpp"
#include "run/binding.hpp"

namespace fleet {

/// Addresses of slots that outlive a plan, by device and slot (Binding::slots).
using KeptSlots = std::vector<std::vector<void*>>;

/// A program with the memory of its matrices.
struct PlacedProgram {
  std::shared_ptr<const TileProgram> program;
  std::vector<Block> blocks;  ///< per matrix
};

class Residents {
 public:
  /// Is nothing on devices? The one question that takes no lock.
  bool empty() const { return blocks_.load() == 0; }
  /// Is an element of the block away from home? From any thread.
  bool is_away(const Block& block) const;
  /// The same of tiles for whose blocks `wanted` says so.
  bool is_any_away(const std::function<bool(const Block&)>& wanted) const;
  /// Does a tile of the block lie on a device? From any thread.
  bool has(const Block& block) const;

  /// Memory is tracked from `track` to `untrack`: until then its tiles may stay. From any thread.
  void track(const Block& block);
  void untrack(const Block& block);
  bool is_tracked(const Block& block) const;

  /// Where the matrices of a program are. Blocks in other tiles than the program's are not looked
  /// at: they have to be returned and dropped before.
  Residency of(const PlacedProgram& placed) const;
  /// The same after a run of `plan`, for another program; nothing where that cannot be known. For a
  /// thread that plans ahead while the turn is taken for that run.
  std::optional<Residency> after(const Plan& plan, const PlacedProgram& placed,
                                 const PlacedProgram& next) const;
  /// Does no block meet a matrix of the program without being cut and stored as it is? Copies of
  /// what the program only reads, and is at home, may.
  bool is_clear(const PlacedProgram& placed, std::size_t matrix) const;

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

  /// Tiles that are away, as a program without calls.
  struct Return {
    PlacedProgram placed;
    Residency before;
    std::vector<TileId> tiles;
    Binding binding() const;
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
  /// Forgets all copies of tiles that meet the block: they are at home, or of no use.
  void drop(const Block& block);
  /// The same of this very block, and not of others that it meets.
  void drop_only(const Block& block);
  /// The device is lost. Returns the tiles that were nowhere else.
  std::vector<Block> forget_device(DeviceId device);

  /// Blocks that nobody tracks any more.
  std::vector<Block> untracked() const;
  /// All blocks but those of the program, the one that was used least recently first.
  std::vector<Block> others(const PlacedProgram& placed) const;
  std::int64_t bytes_on(DeviceId device) const { return memory_.used(device); }
  void trim(Backend& backend) { memory_.trim(backend); }

 private:
  struct Tile {
    std::vector<Copy> copies;
    bool is_away = false;
  };
  /// A block in tiles, row by row.
  struct Entry {
    Block block;
    Matrix matrix;
    std::vector<Tile> tiles;
    std::uint64_t last_use = 0;
  };

  Entry* find(const Block& block, const Matrix& matrix) const;
  Entry& find_or_add(const Block& block, const Matrix& matrix);
  static Tile& tile_of(Entry& entry, const TileId& tile);
  void forget_copies(Tile& tile);
  void remove_empty();

  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Block> tracked_;
  std::atomic<std::size_t> blocks_{0};  ///< entries_.size()
  std::uint64_t uses_ = 0;
  TileMemory memory_;
};

}  // namespace fleet

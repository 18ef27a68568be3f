// SPDX-License-Identifier: BSD-3-Clause
// context_dealt.cpp: matrices whose tiles belong to devices are factored there: the tiles become
// strips, each on a device, and the strips tiles again. Nothing passes the host.
#include <algorithm>

#include "base/error.hpp"
#include "base/gate.hpp"
#include "core/context.hpp"
#include "core/slot_copies.hpp"
#include "core/strip_memory.hpp"
#include "program/distribution.hpp"

namespace fleet {
namespace {

/// The program with all of its matrices written, so that no copy in other tiles outlives it.
PlacedProgram as_written(PlacedProgram placed) {
  auto program = std::make_shared<TileProgram>(*placed.program);
  for (Matrix& matrix : program->matrices) matrix.is_written = true;
  placed.program = std::move(program);
  return placed;
}

}  // namespace

/// What distributed matrices are factored as; nothing where this one has to come home first.
std::optional<Factorization> Context::dealt(const FactorCall& call, const Block& block) const {
  if (options_.backend == BackendKind::sim || gate::only_cpu_left()) return std::nullopt;
  const auto distribution = residents_.distribution_of(block);
  // Strips of rows would cut tiles between their rows.
  const bool is_flat = call.routine == Factoring::potrf && call.uplo == Uplo::upper;
  if (!distribution || distribution->devices.size() < 2 || is_flat) return std::nullopt;
  Factorization what = call.at(distribution->devices.front());
  what.dealt = distribution->devices;
  return what;
}

/// With the turn: a distributed matrix, as a program without calls.
PlacedProgram Context::distributed(const Block& block) {
  return placed_alone(block, *residents_.distribution_of(block), locate_in_turn(block));
}

/// With the turn: the strips with what the tiles have. Throws Error(no_memory) where there is no
/// room for both, and Error(device_failed) where elements are undefined.
void Context::take_strips(const Block& block, const Strips& strips,
                          std::optional<StripMemory>& memory) {
  return_untracked();
  const PlacedProgram placed = distributed(block);
  clear_the_way(as_written(placed));
  queue_.require_defined(block);
  std::vector<Residents::Held> tiles;
  if (spread_by_plan(placed, placed.blocks)) tiles = residents_.at_owners(placed);
  if (tiles.empty()) throw Error(Status::no_memory, "the devices do not hold all tiles");
  memory.emplace(offloader_, residents_.memory(), block, strips, tiles);
  move_pieces(memory->pieces(), true);
}

/// With the turn: the tiles get what the strips have.
void Context::give_strips_back(const Block& block, const StripMemory& memory) {
  residents_.note_written_at_owners(distributed(block));
  move_pieces(memory.pieces(), false);
}

/// With the turn. What stays on a device is copied there, what goes to another is planned.
void Context::move_pieces(std::span<const StripPiece> pieces, bool into_strips) {
  Backend& backend = *offloader_.engine().backend;
  std::vector<CopyWithin> within;
  std::vector<StripPiece> others;
  for (const StripPiece& piece : pieces) {
    if (piece.tile_device != piece.strip_device) {
      others.push_back(piece);
      continue;
    }
    const View tile = view_of(piece.tile), strip = view_of(piece.strip);
    within.push_back({piece.tile_device, into_strips ? strip : tile, into_strips ? tile : strip});
  }
  const std::int64_t element = pieces.empty() ? 1 : bytes_of(pieces.front().tile.storage);
  backend.transfer_within(within, element);
  if (others.empty() || move_by_plan(others, into_strips)) return;
  for (const StripPiece& piece : others) {
    const View tile = view_of(piece.tile), strip = view_of(piece.strip);
    into_strips ? backend.transfer(piece.strip_device, strip, piece.tile_device, tile, element)
                : backend.transfer(piece.tile_device, tile, piece.strip_device, strip, element);
  }
}

/// False: some pieces may not have been moved.
bool Context::move_by_plan(std::span<const StripPiece> pieces, bool into_strips) {
  std::vector<SlotCopy> copies;
  for (const StripPiece& piece : pieces)
    copies.push_back({piece.strip_device, piece.strip, piece.tile_device,
                      reinterpret_cast<void*>(piece.tile.begin)});
  try {
    return into_strips ? copy_from_slots(offloader_, copies, *journal_, log_)
                       : copy_into_slots(offloader_, copies, *journal_, log_);
  } catch (const std::exception&) {  // no memory, or devices that do not work
    return false;
  }
}

}  // namespace fleet

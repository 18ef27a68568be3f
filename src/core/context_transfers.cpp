// SPDX-License-Identifier: BSD-3-Clause
// context_transfers.cpp: what fills and empties matrices whose tiles belong to devices. Copies go
// between the caller's memory and the devices, and leave the matrix's own memory alone.
#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/context.hpp"
#include "program/distribution.hpp"
#include "run/execute.hpp"

namespace fleet {
namespace {

/// The elements of `to` that stand where `part` stands in `from`.
Block counterpart(const Block& part, const Block& from, const Block& to) {
  const auto elements = static_cast<std::int64_t>(part.begin - from.begin) / bytes_of(from.storage);
  return part_of(to, elements % from.ld, elements / from.ld, part.rows, part.cols);
}

}  // namespace

std::optional<Distribution> Context::distribution(Storage storage, std::int64_t rows,
                                                  std::int64_t cols, std::string_view place) {
  const CyclicPlace asked = parse_cyclic(place);
  if (!offloader_.has_backend() || gate::only_cpu_left()) return {};
  const User inside(users_);
  const auto turn = take_turn();
  if (!start_devices().empty() || offloader_.users().empty()) return {};
  return distribution_of(asked, rows, cols, offloader_.regular_tiles(storage));
}

/// A matrix whose tiles stay where they belong, as a program without calls.
PlacedProgram Context::placed_alone(const Block& block, const Distribution& distribution,
                                    DeviceId home) {
  auto program = std::make_shared<TileProgram>();
  program->matrices.push_back({.storage = block.storage,
                               .row_cuts = distribution.cuts_of(block.rows, distribution.row),
                               .col_cuts = distribution.cuts_of(block.cols, distribution.col),
                               .home = home,
                               .stays = true,
                               .returns = false,
                               .distribution = distribution});
  return {.program = std::move(program), .blocks = {block}};
}

Distributions Context::distributions_of(const Call& call) const {
  Distributions distributions;
  for (const int x : {kA, kB, kC})
    distributions[index(x)] = residents_.distribution_of(block_of(call, x));
  return distributions;
}

void Context::move(const Transfer& transfer) {
  if (transfer.kind == Transfer::Kind::distribute) {
    residents_.distribute(transfer.to, *transfer.distribution);
    return spread(transfer.to);
  }
  const auto& [kind, from, to, distribution] = transfer;
  queue_.require_defined(from);
  if (gate::only_cpu_left() || offloader_.backend_if_started() == nullptr) {
    make_coherent(from, Access::read);
    make_coherent(to, Access::write);
    copy_at_home(from, to);
  } else {
    const auto turn = take_turn();
    forget_old_copies();
    copy_in_turn(from, to);
    note_lost_devices();
  }
  queue_.require_defined(from);  // a device may have been lost
  queue_.note_written(to);
}

/// As between matrices that do not overlap.
void Context::copy_in_turn(const Block& from, const Block& to) {
  // Of tiles that are overwritten in part, the rest comes home.
  bring_home([&](const Block& tile) { return overlap(tile, to) && !covers(to, tile); });
  residents_.drop(to);
  if (residents_.distribution_of(to)) {
    bring_home([&](const Block& tile) { return overlap(tile, from); });
    if (!scatter(from, to)) copy_at_home(from, to);
    return;
  }
  std::vector<Block> rest{from};
  for (const Block& tile : gather(from, to)) {
    std::vector<Block> left;
    for (const Block& block : rest)
      for (const Block& part : without(block, tile)) left.push_back(part);
    rest = std::move(left);
  }
  for (const Block& block : rest) {
    bring_home([&](const Block& tile) { return overlap(tile, block); });
    copy_at_home(block, counterpart(block, from, to));
  }
}

/// From the caller's memory to the devices to which the tiles belong. False: nothing was done.
bool Context::scatter(const Block& from, const Block& to) {
  const DeviceId home = locate_in_turn(from);
  if (!on_host(home)) return false;
  if (!spread_by_plan(placed_alone(to, *residents_.distribution_of(to), home), {&from, 1}))
    return false;
  residents_.note_away(to);
  return true;
}

/// Of tiles that are away as triangles, the other elements are at home.
void Context::bring_triangles_home(const std::function<bool(const Block&)>& wanted) {
  const Residents::Return what = residents_.returning(wanted);
  std::set<std::uintptr_t> begins;
  for (std::size_t m = 0; m < what.placed.blocks.size(); ++m)
    if (what.placed.program->matrices[m].diagonal != Fill::full)
      begins.insert(what.placed.blocks[m].begin);
  if (!begins.empty())
    bring_home([&](const Block& tile) { return wanted(tile) && begins.contains(tile.begin); });
}

/// Tiles that lie on devices alone, straight into the caller's memory. Returns them; what is
/// missing has to come home.
std::vector<Block> Context::gather(const Block& from, const Block& to) {
  const DeviceId home = locate_in_turn(to);
  const auto is_wanted = [&](const Block& tile) { return on_host(home) && covers(from, tile); };
  bring_triangles_home(is_wanted);
  Residents::Return what = residents_.returning(is_wanted);
  if (what.tiles.empty()) return {};
  auto program = std::make_shared<TileProgram>(*what.placed.program);
  for (Matrix& matrix : program->matrices) matrix.home = home;
  what.placed.program = program;
  std::vector<Block> homes;
  for (const Block& tile : what.placed.blocks) homes.push_back(counterpart(tile, from, to));
  try {
    const Plan plan = offloader_.plan_return(program, what.before, what.tiles);
    if (run_copies(plan, homes, residents_.bind(plan, what.placed, *offloader_.engine().backend)))
      return what.placed.blocks;
  } catch (const std::exception&) {  // no memory, or devices that do not work
  }
  return {};
}

void Context::copy_at_home(const Block& from, const Block& to) {
  const std::int64_t element = bytes_of(from.storage);
  Backend* const backend = offloader_.backend_if_started();
  if (backend != nullptr && !gate::only_cpu_left())
    return backend->transfer(locate_in_turn(to), view_of(to), locate_in_turn(from), view_of(from),
                             element);
  for (std::int64_t col = 0; col < from.cols; ++col)
    std::memmove(reinterpret_cast<char*>(to.begin) + col * to.ld * element,
                 reinterpret_cast<const char*>(from.begin) + col * from.ld * element,
                 static_cast<std::size_t>(from.rows * element));
}

/// Copies of all tiles go where they belong, as far as there is memory; what is missing goes with
/// the calls that need it.
void Context::spread(const Block& block) {
  if (gate::only_cpu_left() || offloader_.backend_if_started() == nullptr) return;
  const auto turn = take_turn();
  forget_old_copies();
  const PlacedProgram placed = distributed(block);
  clear_the_way(placed);
  spread_by_plan(placed, placed.blocks);
  note_lost_devices();
}

/// `homes`: where the tiles that are on no device come from. False: nothing has changed.
bool Context::spread_by_plan(const PlacedProgram& placed, std::span<const Block> homes) {
  const std::vector<Residency::Copy> wanted = at_owners(*placed.program).copies;
  if (std::ranges::any_of(wanted, [&](const auto& c) { return offloader_.is_lost(c.device); }))
    return false;
  try {
    Backend& backend = *offloader_.engine().backend;
    const Plan plan = offloader_.plan_spread(placed.program, residents_.of(placed), wanted);
    make_room(plan, placed, {});
    const KeptSlots slots = residents_.bind(plan, placed, backend);
    bool is_done = false;
    try {
      is_done = run_copies(plan, homes, slots);
    } catch (const std::exception&) {  // the devices do not work
    }
    is_done ? residents_.note(plan, placed, slots) : residents_.undo(plan, slots);
    return is_done;
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    return false;  // no memory
  }
}

/// `homes`: the memory of each matrix of the plan. False: some copies were not made.
bool Context::run_copies(const Plan& plan, std::span<const Block> homes, const KeptSlots& slots) {
  Binding binding{.matrices = {}, .scalars = {1.0, -1.0}};
  for (const Block& home : homes)
    binding.matrices.push_back({reinterpret_cast<void*>(home.begin), home.ld, 0});
  binding.slots = slots;
  return offloader_.run_copies(plan, binding, *journal_, log_);
}

}  // namespace fleet

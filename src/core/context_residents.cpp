// SPDX-License-Identifier: BSD-3-Clause
// context_residents.cpp: results that lie on devices come home when somebody needs them there. What
// the caller has changed, and what nobody tracks, leaves the devices.
#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/context.hpp"
#include "run/execute.hpp"

namespace fleet {
namespace {

std::set<std::uintptr_t> begins_of(std::span<const Block> tiles) {
  std::set<std::uintptr_t> begins;
  for (const Block& tile : tiles) begins.insert(tile.begin);
  return begins;
}

View dense_view(const Block& block, std::vector<char>& bytes) {
  return {.data = bytes.data(), .rows = block.rows, .cols = block.cols, .ld = block.rows};
}

}  // namespace

void Context::untrack(const Block& block) {
  residents_.untrack(block);
  if (residents_.is_tracked(block) || gate::only_cpu_left()) return;
  // Failures are not those of the next matrix at the address.
  queue_.note_written(block);
  // The queue's thread brings home what the calls under way make.
  if (!residents_.is_away(block) && queue_.is_busy()) return;
  if (!residents_.has(block)) return;
  const User inside(users_);
  const auto turn = take_turn();
  return_untracked();
}

void Context::return_untracked() {
  forget_old_copies();
  for (const Block& block : residents_.take_abandoned()) {
    bring_home([&](const Block& tile) { return overlap(tile, block); });
    residents_.drop(block);
  }
  const std::vector<Block> tiles = residents_.untracked();
  if (tiles.empty()) return;
  const std::set<std::uintptr_t> begins = begins_of(tiles);
  bring_home([&](const Block& tile) { return begins.contains(tile.begin); });
  residents_.drop_only(tiles);
}

/// The memory is about to be freed.
void Context::discard(const Block& block) {
  if (!residents_.has(block) || gate::only_cpu_left()) return;
  const auto turn = take_turn();
  residents_.drop(block);
}

/// At the end of the context.
void Context::return_all() {
  if (residents_.empty() || gate::only_cpu_left()) return;
  const auto turn = take_turn();
  try {
    forget_old_copies();
    return_all_in_turn();
  } catch (const std::exception&) {
    // Nobody is left to tell.
  }
}

/// Gives all memory back that tiles have.
void Context::return_all_in_turn() {
  bring_home([](const Block&) { return true; });
  residents_.drop_all();
  residents_.trim(*offloader_.engine().backend);
}

void Context::make_coherent(const Block& block, Access access) {
  const bool alone = gate::only_cpu_left();
  if (!alone && (queue_.has_arrived() || residents_.has_abandoned())) {
    const auto turn = take_turn();
    return_untracked();
  }
  if (!residents_.has(block)) return;
  // What is overwritten as a whole may still be refused, and is then as it was; in a forked child
  // it cannot come home.
  const auto is_needed = [&](const Block& tile) {
    return overlap(tile, block) && !(alone && access == Access::write && covers(block, tile));
  };
  std::unique_lock<std::mutex> turn;
  if (!alone) turn = take_turn();
  if (alone && residents_.is_any_away(is_needed))
    throw Error(Status::unsupported,
                gate::in_forked_child()
                    ? "elements of the matrix were on a device when the process was forked"
                    : "the process ends, and elements of the matrix are on a device");
  if (!alone) {
    note_lost_devices();
    bring_home(is_needed);
  }
  if (access != Access::read) residents_.drop(block);
}

/// Before the call is computed by itself.
void Context::make_coherent(const Call& call) {
  if (residents_.empty() && !queue_.has_arrived()) return;
  for (const int x : {kA, kB, kC})
    if (x == kC || !call.only_scales()) make_coherent(block_of(call, x), access_of(call, x));
}

void Context::note_written(const Block& block) {
  queue_.note_written(block);
  if (!residents_.has(block) || gate::only_cpu_left()) return;
  const User inside(users_);
  const auto turn = take_turn();
  note_written_in_turn(block);
}

/// With the turn: what has come by other ways than calls (fleet_matrix_after) makes copies old.
void Context::forget_old_copies() {
  if (!queue_.has_arrived()) return;
  for (const Block& block : queue_.take_arrived()) note_written_in_turn(block);
}

void Context::note_written_in_turn(const Block& block) {
  // Of tiles that the block covers in part, the rest comes home around what the caller has written.
  const auto is_cut = [&](const Block& tile) {
    return overlap(tile, block) && !covers(block, tile);
  };
  const Residents::Return cut = residents_.returning(is_cut);
  const std::int64_t element = bytes_of(block.storage);
  Backend* const backend = cut.tiles.empty() ? nullptr : offloader_.engine().backend.get();
  const DeviceId home = cut.tiles.empty() ? kHost : locate_in_turn(block);
  std::vector<std::pair<Block, std::vector<char>>> written;
  for (const TileId& tile : cut.tiles) {
    const Block part = common(block, cut.block_of(tile));
    auto& [at, bytes] = written.emplace_back(
        part, std::vector<char>(static_cast<std::size_t>(part.rows * part.cols * element)));
    backend->transfer(kPageable, dense_view(at, bytes), home, view_of(at), element);
  }
  bring_home(is_cut);
  for (auto& [at, bytes] : written)
    backend->transfer(home, view_of(at), kPageable, dense_view(at, bytes), element);
  residents_.drop(block);
}

DeviceId Context::locate_in_turn(const Block& block) {
  const auto* const data = reinterpret_cast<const void*>(block.begin);
  {
    const gate::StateLock lock;
    if (const DeviceId known = registry_.locate(data, block.bytes); known != kPageable)
      return known;
  }
  return located_by(*offloader_.engine().backend, data, block.bytes);
}

void Context::bring_home(const std::function<bool(const Block&)>& wanted) {
  Residents::Return what = residents_.returning(wanted);
  if (what.tiles.empty()) return;
  auto program = std::make_shared<TileProgram>(*what.placed.program);
  for (std::size_t m = 0; m < program->matrices.size(); ++m)
    program->matrices[m].home = locate_in_turn(what.placed.blocks[m]);
  what.placed.program = program;
  if (return_by_plan(what)) {
    for (const TileId& tile : what.tiles) residents_.note_home(what, tile);
    return;
  }
  for (const TileId& tile : what.tiles) return_alone(what, tile);
}

/// False: some tiles may not be at home.
bool Context::return_by_plan(const Residents::Return& what) {
  try {
    Backend& backend = *offloader_.engine().backend;
    const Plan plan = offloader_.plan_return(what.placed.program, what.before, what.tiles);
    return run_copies(plan, what.placed.blocks, residents_.bind(plan, what.placed, backend));
  } catch (const std::exception&) {  // no memory, or devices that do not work
    return false;
  }
}

/// By a copy of its own. What cannot come home is undefined.
void Context::return_alone(const Residents::Return& what, const TileId& tile) {
  const Block block = what.block_of(tile);
  const TileProgram& program = *what.placed.program;
  for (const auto& [device, address] : residents_.copies_of(what, tile)) {
    if (offloader_.is_lost(device)) continue;
    View home = view_of(block);
    home.fill = program.fill_of(tile);
    View copy = home;
    copy.data = address;
    copy.ld = copy.rows;
    try {
      offloader_.engine().backend->transfer(program.matrix_of(tile).home, home, device, copy,
                                            bytes_of(block.storage));
      return residents_.note_home(what, tile);
    } catch (const Error&) {
      // Another device may have it.
    }
  }
  queue_.note_undefined(block);
  residents_.drop(block);
}

void Context::note_lost_devices() {
  for (const DeviceId device : offloader_.lost())
    for (const Block& block : residents_.forget_device(device)) queue_.note_undefined(block);
}

/// Makes room on the devices for a plan: what pending calls need last leaves first, else what was
/// used least recently.
void Context::make_room(const Plan& plan, const PlacedProgram& placed,
                        std::span<const QueuedCall> later) {
  std::vector<std::int64_t> wanted = plan.arena_bytes;
  for (std::size_t d = 0; d < plan.slots.size(); ++d)
    for (const Slot& slot : plan.slots[d])
      if (slot.outlives_plan()) wanted[d] += slot.bytes;
  for (const Resident& found : plan.found)
    wanted[index(found.where.device)] -= plan.slot(found.where).bytes;
  const auto is_full = [&] {
    for (std::size_t d = kFirstDevice; d < wanted.size(); ++d)
      if (residents_.bytes_on(static_cast<DeviceId>(d)) + wanted[d] >
          offloader_.cap(static_cast<DeviceId>(d)))
        return true;
    return false;
  };
  if (residents_.empty() || !is_full()) return;
  const auto next_use = [&](const Residents::Group& group) {
    const Block& block = group.matrix;
    const auto uses = [&](const QueuedCall& queued) {
      for (const int x : {kA, kB, kC})
        if (overlap(queued.block(x), block)) return true;
      return false;
    };
    return std::ranges::find_if(later, uses) - later.begin();
  };
  std::vector<Residents::Group> others = residents_.others(placed);
  std::ranges::stable_sort(others, std::greater{}, next_use);
  for (const auto& [matrix, tiles, last_use] : others) {
    if (!is_full()) return;
    const std::set<std::uintptr_t> begins = begins_of(tiles);
    bring_home([&](const Block& tile) { return begins.contains(tile.begin); });
    residents_.drop_only(tiles);
  }
}

}  // namespace fleet

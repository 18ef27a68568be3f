// SPDX-License-Identifier: BSD-3-Clause
// slot_copies.cpp: plans of copies whose slots are the caller's memory.
#include "core/slot_copies.hpp"

#include <memory>
#include <vector>

#include "base/sizes.hpp"

namespace fleet {
namespace {

/// Each matrix as one tile.
struct SlotProgram {
  explicit SlotProgram(std::span<const SlotCopy> copies) {
    auto made = std::make_shared<TileProgram>();
    for (const SlotCopy& copy : copies) {
      const TileId id{static_cast<MatrixId>(tiles.size()), 0, 0};
      made->matrices.push_back({.storage = copy.matrix.storage,
                                .row_cuts = {0, copy.matrix.rows},
                                .col_cuts = {0, copy.matrix.cols},
                                .home = copy.home,
                                .stays = true});
      tiles.push_back(id);
      in_slots.copies.push_back({id, copy.device});
    }
    program = std::move(made);
  }

  std::shared_ptr<const TileProgram> program;
  std::vector<TileId> tiles;
  Residency in_slots;
};

Binding binding_of(const Plan& plan, std::span<const Resident> residents,
                   std::span<const SlotCopy> copies) {
  Binding binding{.matrices = {}, .scalars = {1.0, -1.0}};
  for (const SlotCopy& copy : copies)
    binding.matrices.push_back({reinterpret_cast<void*>(copy.matrix.begin), copy.matrix.ld, 0});
  for (const auto& of_device : plan.slots) binding.slots.emplace_back(of_device.size(), nullptr);
  for (const auto& [id, where] : residents)
    binding.slots[index(where.device)][index(where.slot)] = copies[index(id.matrix)].slot;
  return binding;
}

}  // namespace

bool copy_into_slots(Offloader& offloader, std::span<const SlotCopy> copies, Journal& journal,
                     const Log& log) {
  const SlotProgram of(copies);
  const Plan plan = offloader.plan_spread(of.program, {}, of.in_slots.copies, false);
  return offloader.run_copies(plan, binding_of(plan, plan.kept, copies), journal, log);
}

bool copy_from_slots(Offloader& offloader, std::span<const SlotCopy> copies, Journal& journal,
                     const Log& log) {
  SlotProgram of(copies);
  of.in_slots.away = of.tiles;
  const Plan plan = offloader.plan_return(of.program, of.in_slots, of.tiles);
  return offloader.run_copies(plan, binding_of(plan, plan.found, copies), journal, log);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// strip_bytes.hpp: what a factorization takes of a worker's memory. It makes no plan.
#pragma once
#include "program/tile_program.hpp"

namespace fleet {

/// Panels that a worker holds at a time: at least one that updates read, one that arrives, and one
/// that is made.
inline constexpr int kLeastPanels = 3;
/// Strips of earlier stages on their way to be panels again.
inline constexpr int kStripsReloaded = 2;

std::int64_t longest_panel(const TileProgram& program, const Strips& strips);

/// The bytes that a worker needs beside its strips, for panels under way; and those of its largest
/// strip. For choosing stages.
struct StripBytes {
  std::int64_t beside = 0, strip = 0;
};
StripBytes strip_bytes(const TileProgram& program);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// fits.hpp: whether a tuning's plan fits its memory caps. It makes no plan.
#pragma once
#include <cstdint>

#include "problem/problem.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Whether all tiles that a worker needs fit into its memory cap at once, each in its own slot.
bool fits_in_core(const Problem& problem, const Tuning& tuning);

/// The edge of the largest groups for which the tiles of C and the inputs of two steps (or of the
/// whole cube) fit; 0 if none fits.
std::int64_t largest_group(const Problem& problem, const Tuning& tuning);

}  // namespace fleet

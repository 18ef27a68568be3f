// SPDX-License-Identifier: BSD-3-Clause
// owners.hpp: the worker of each tile of C in the distributions of paper 2, 3.5. It knows no sizes
// in elements.
#pragma once
#include <vector>

#include "program/tuning.hpp"

namespace fleet {

/// Whether rows and columns of a grid do not tell who computes a tile, so that each tile needs an
/// owner of its own.
bool deals_single_tiles(const Tuning& tuning);

/// The worker of each of rows x cols tiles, row by row. With Tuning::worker_shares each worker has
/// its share of the tiles, rounded to whole ones: a tile whose worker has its share goes to the
/// next one that does not. Throws Error(bad_argument) unless the shares are positive and one per
/// worker.
std::vector<int> owner_map(const Tuning& tuning, int rows, int cols);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// shares.hpp: tunings with uneven parts of C, as far as the grid allows: a row of the grid has one
// height for all its workers. It knows no time.
#pragma once
#include <vector>

#include "program/tuning.hpp"

namespace fleet {

/// The tuning with this share of C for one worker and equal shares for the others: in a grid of
/// several rows and columns, the worker's row and column both get more.
Tuning favour(Tuning tuning, int worker, double share);

/// The tuning with shares of C, 1 in all, in proportion to the workers' parts.
Tuning in_proportion(Tuning tuning, const std::vector<double>& parts);

/// The part of C of each worker, relative to an equal one.
std::vector<double> parts_of(const Tuning& tuning);

}  // namespace fleet

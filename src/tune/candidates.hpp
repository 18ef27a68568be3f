// SPDX-License-Identifier: BSD-3-Clause
// candidates.hpp: the tunings that are worth an estimate, and their order. It makes no plan.
#pragma once
#include <vector>

#include "tune/considered.hpp"
#include "tune/tune.hpp"

namespace fleet {

/// What all tunings of a request have alike: rules, workers and memory caps. Throws
/// Error(unsupported) where no device computes the type.
Tuning base_tuning(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// Tiles on a diagonal are square, and so are all.
bool has_square_tiles(const Problem& problem);

/// All with an estimate and the tasks that a plan would have, in the order in which they are worth
/// planning.
std::vector<Considered> candidates(const Problem& problem, const Machine& machine,
                                   const TuneRequest& request, const Tuning& base,
                                   const Estimator& estimator);

}  // namespace fleet

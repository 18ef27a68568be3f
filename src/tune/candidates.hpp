// SPDX-License-Identifier: BSD-3-Clause
// candidates.hpp: lists the tunings to consider, in the order of their estimates. It makes no plan.
#pragma once
#include <optional>
#include <vector>

#include "tune/considered.hpp"
#include "tune/tune.hpp"

namespace fleet {

/// The common part of all tunings of a request: rules, workers and memory caps. Throws
/// Error(unsupported) if no device computes the type.
Tuning base_tuning(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// Whether some tiles must be square: those on the diagonal of a triangle.
bool has_square_tiles(const Problem& problem);

/// All candidates, each with its estimated time and number of tasks, the most promising first.
std::vector<Considered> candidates(const Problem& problem, const Machine& machine,
                                   const TuneRequest& request, const Tuning& base,
                                   const Estimator& estimator);

/// Where C is small beside k: parts of k in a few steps, with a few tiles of C that keep the lanes
/// of a device busy. All estimates of such tilings are alike, and simulations are not.
std::vector<Considered> few_tiles_of_parts(const Problem& problem, const Machine& machine,
                                           const TuneRequest& request, const Tuning& base,
                                           const Estimator& estimator);

/// The tuning with all operands in place that lie in host memory, which all of its workers share;
/// nullopt where there are none or some may not. All or none: what copies and kernels take of one
/// link at the same time is not simulated.
std::optional<Tuning> shared(Tuning tuning, const Problem& problem, const Machine& machine,
                             const TuneRequest& request);

}  // namespace fleet

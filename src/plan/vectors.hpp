// SPDX-License-Identifier: BSD-3-Clause
// vectors.hpp: plans of gemv, axpy and dot. It knows no device beyond the machine.
#pragma once
#include "plan/plan.hpp"

namespace fleet {

/// make_plan for a valid tuning of a problem with vectors, k > 0. Tiles stream through the workers:
/// none is kept for a second use, so that a plan needs a few slots whatever the sizes.
Plan plan_vectors(const Problem& problem, const Machine& machine, const Tuning& tuning);

}  // namespace fleet

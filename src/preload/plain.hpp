// SPDX-License-Identifier: BSD-3-Clause
// plain.hpp: every routine by plain loops, for where there is no BLAS. It knows nothing of symbols.
#pragma once
#include "api/dropin.h"

namespace fleet::preload {

/// Slow, but there whatever else is missing.
void compute_plainly(const fleet_dropin_call& call);

/// C := beta*C, or 0 in place: what is left of a call with alpha == 0 or k == 0. beta == 0 never
/// reads C.
void scale_only(const fleet_dropin_call& call);

}  // namespace fleet::preload

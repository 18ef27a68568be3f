// SPDX-License-Identifier: BSD-3-Clause
// plain.hpp: every routine by plain loops, if there is no BLAS. It knows nothing of symbols.
#pragma once
#include "api/dropin.h"

namespace fleet::preload {

/// Slow, but always available.
void compute_plainly(const fleet_dropin_call& call);

/// C := beta*C, or 0 in trmm and trsm: a call with alpha == 0 or k == 0. C is not read if beta ==
/// 0.
void scale_only(const fleet_dropin_call& call);

}  // namespace fleet::preload

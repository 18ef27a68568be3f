// SPDX-License-Identifier: BSD-3-Clause
// half_gemm.hpp: products of half types by products of floats. It must not know libraries.
#pragma once
#include <functional>

#include "run/launch.hpp"

namespace fleet {

/// launch.c = alpha*op(a)*op(b) + beta*c for f16 and bf16 (k > 0): pieces of a, b and c as floats,
/// multiplied by `multiply` (type f32), each element of c rounded once, at the end. False, with
/// nothing touched, when there is no memory for the pieces.
bool gemm_by_floats(const Launch& launch, const std::function<void(const Launch&)>& multiply);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// plain_gemm.hpp: a product without any BLAS. It must not know libraries or threads.
#pragma once
#include "run/launch.hpp"

namespace fleet {

/// c = alpha * op(a) * op(b) + beta * c for any type, flags and sizes; c is not read when beta ==
/// 0. Blocked, single-threaded, allocates nothing, so that it works where nothing else does.
void plain_gemm(const Launch& launch);

}  // namespace fleet

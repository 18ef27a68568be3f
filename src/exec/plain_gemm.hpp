// SPDX-License-Identifier: BSD-3-Clause
// plain_gemm.hpp: a product without any BLAS. It must not know libraries or threads.
#pragma once
#include "exec/backend.hpp"

namespace fleet {

/// c += alpha * op(a) * op(b) for any type, flags and sizes. Blocked, single-threaded, allocates
/// nothing, so that it works where nothing else does. `launch.beta` is not looked at.
void add_plain_product(const Launch& launch);

}  // namespace fleet

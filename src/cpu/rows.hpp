// SPDX-License-Identifier: BSD-3-Clause
// rows.hpp: rows of a column-major matrix, to and from where they lie one after another. It knows
// no plans.
#pragma once
#include "run/launch.hpp"

namespace fleet {

/// Kernel::pack: columns of c = the rows of a that b names.
void pack_rows(const Launch& launch);
/// Kernel::unpack: the rows of c that b names = columns of a.
void unpack_rows(const Launch& launch);

}  // namespace fleet

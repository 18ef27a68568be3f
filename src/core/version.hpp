// SPDX-License-Identifier: BSD-3-Clause
// version.hpp: the version of the public header as text.
#pragma once
#include "fleetblas/fleetblas.h"

namespace fleet {

#define FLEET_TEXT_OF(x) #x
#define FLEET_TEXT(x) FLEET_TEXT_OF(x)
inline constexpr const char* kVersion = FLEET_TEXT(FLEETBLAS_VERSION_MAJOR) "." FLEET_TEXT(
    FLEETBLAS_VERSION_MINOR) "." FLEET_TEXT(FLEETBLAS_VERSION_PATCH);
#undef FLEET_TEXT
#undef FLEET_TEXT_OF

}  // namespace fleet

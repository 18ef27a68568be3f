// SPDX-License-Identifier: BSD-3-Clause
// config.hpp: what a context of the library says of itself. It knows no matrices.
#pragma once
#include <string>

#include "fleetblas/fleetblas.h"

namespace fleet::lu {

/// The value of a key of fleet_config_json that is a text or a list of numbers, without its quotes
/// or brackets; empty where there is none. nullptr: of the default context.
std::string config_value(fleet_context* context, const std::string& key);

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// examine_settings.hpp: finds settings that cannot have the effect that their user wants. It starts
// nothing, and knows no device.
#pragma once
#include <vector>

#include "base/options.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Findings on words that mean nothing, on variables that nobody reads, and on files that cannot be
/// written: none if all is well.
std::vector<Finding> examine_settings(const Options& options);

}  // namespace fleet

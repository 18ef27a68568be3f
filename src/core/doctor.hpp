// SPDX-License-Identifier: BSD-3-Clause
// doctor.hpp: what a context with these options would find, and whether it works. It knows no call.
#pragma once
#include <string>
#include <vector>

#include "base/options.hpp"

namespace fleet {

/// Starts the backend of the options and examines it; a failure to start is a finding. `complaints`
/// are about settings that were ignored. JSON as fleet_doctor_json says.
std::string doctor_json(const Options& options, const std::vector<std::string>& complaints);

}  // namespace fleet

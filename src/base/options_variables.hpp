// SPDX-License-Identifier: BSD-3-Clause
// options_variables.hpp: the variables of the environment whose names begin with FLEETBLAS_, and
// which of them anybody reads. It knows no value.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fleet {

struct Variable {
  std::string name;
  std::string value;
};

/// All that are set, in the order of their names. None in a setuid program.
std::vector<Variable> own_variables();

/// Is it a setting, or does another part of this project read it?
bool is_known_variable(std::string_view name);

/// The known variable that this name is a slip or two away from; empty: there is none.
std::string nearest_variable(std::string_view name);

}  // namespace fleet

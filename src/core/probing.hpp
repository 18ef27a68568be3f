// SPDX-License-Identifier: BSD-3-Clause
// probing.hpp: the careful measurement of this machine, kept in a file as it goes. It knows no
// call.
#pragma once
#include <functional>
#include <string>

#include "base/options.hpp"
#include "probe/session.hpp"

namespace fleet {

struct ProbeCall {
  std::string types;  ///< "d,s"; empty: all
  std::string file;   ///< a machine file, replaced after each part; empty: none
  double budget_s = 0;
  std::function<bool(const ProbeProgress&)> progress;
};

/// Measures what the options name and gives the machine file's text. A file that an earlier call
/// left unfinished, for a machine of the same shape, is continued. Throws Error(bad_argument,
/// bad_option, bad_file, unsupported), or what a run that fails has thrown.
std::string probe_json(const Options& options, const ProbeCall& call);

}  // namespace fleet

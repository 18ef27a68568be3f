// SPDX-License-Identifier: BSD-3-Clause
// lines.hpp: results in the lines that HPL prints, so that what reads HPL's reads ours.
#pragma once
#include <string>

#include "hpl/input.hpp"
#include "hpl/settings.hpp"
#include "hpl/trial.hpp"

namespace fleet::lu {

/// What is above the first result.
std::string heading(const Input& input, const Settings& settings, const std::string& ranks_are,
                    const std::string& blas);
/// Of a trial that was run: its variant, size, time and rate, where the time went, and the check.
std::string result_lines(const Input& input, const Trial& trial, const Means& means, int depth,
                         const Outcome& outcome);
struct Counts {
  int passed = 0, failed = 0, skipped = 0;
};
std::string closing(const Counts& counts);
bool passes(const Input& input, const Outcome& outcome);

}  // namespace fleet::lu

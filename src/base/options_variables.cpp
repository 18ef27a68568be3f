// SPDX-License-Identifier: BSD-3-Clause
// options_variables.cpp: reads the names in the environment, and compares them with those that are
// known. It must not judge values.
#include "base/options_variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/options.hpp"

namespace fleet {
namespace {

constexpr std::string_view kOurs = "FLEETBLAS_";
/// What the table of settings does not have, without FLEETBLAS_: read before there is a context, by
/// the Python package, by what is made for several ranks, or by CMake's find_package.
constexpr std::array<std::string_view, 8> kOthers = {"CONFIG",  "POOL",    "MPI",          "NCCL",
                                                     "LIB_DIR", "PRELOAD", "LAPACK_TESTS", "ROOT"};
/// Of the tests and the benchmarks.
constexpr std::array<std::string_view, 2> kFamilies = {"TEST_", "BENCH_"};
/// More slips make another word.
constexpr std::size_t kMostSlips = 2;

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const OptionInfo& info : option_table())
    names.push_back(environment_name(info.name).substr(kOurs.size()));
  names.insert(names.end(), kOthers.begin(), kOthers.end());
  return names;
}

/// Letters to add, to leave out, to replace, or to swap with the next one.
std::size_t slips_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), above(to.size() + 1), row(to.size() + 1);
  for (std::size_t t = 0; t <= to.size(); ++t) row[t] = t;
  for (std::size_t f = 1; f <= from.size(); ++f) {
    before = std::exchange(above, row);
    row[0] = f;
    for (std::size_t t = 1; t <= to.size(); ++t) {
      const std::size_t replaced = above[t - 1] + (from[f - 1] == to[t - 1] ? 0 : 1);
      row[t] = std::min({above[t] + 1, row[t - 1] + 1, replaced});
      if (f > 1 && t > 1 && from[f - 1] == to[t - 2] && from[f - 2] == to[t - 1])
        row[t] = std::min(row[t], before[t - 2] + 1);
    }
  }
  return row[to.size()];
}

}  // namespace

std::vector<Variable> own_variables() {
  std::vector<Variable> found;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kOurs) || equals == std::string_view::npos) continue;
    std::string name(text.substr(0, equals));
    if (const char* value = secure_getenv(name.c_str())) found.push_back({std::move(name), value});
  }
  std::ranges::sort(found, {}, &Variable::name);
  return found;
}

bool is_known_variable(std::string_view name) {
  if (!name.starts_with(kOurs)) return false;
  name.remove_prefix(kOurs.size());
  return std::ranges::count(known_names(), name) > 0 ||
         std::ranges::any_of(kFamilies,
                             [&](std::string_view family) { return name.starts_with(family); });
}

std::string nearest_variable(std::string_view name) {
  if (!name.starts_with(kOurs)) return {};
  name.remove_prefix(kOurs.size());
  std::string nearest;
  std::size_t fewest = kMostSlips + 1;
  for (const std::string& known : known_names()) {
    const std::size_t slips = slips_between(name, known);
    // Half of the letters: that is no slip.
    if (slips >= fewest || 2 * slips >= known.size()) continue;
    fewest = slips;
    nearest = std::string(kOurs) + known;
  }
  return nearest;
}

}  // namespace fleet

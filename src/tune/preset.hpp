// SPDX-License-Identifier: BSD-3-Clause
// preset.hpp: the policies of other libraries as tunings, so that their papers can be reproduced on
// a simulated machine. It knows no library's code: what a paper does not say is ours, and said
// here.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "tune/tune.hpp"

namespace fleet {

/// One library: what it decides for every call.
///
/// All but `uncut` try tiles of 1024, 2048 and 4096, as paper 5 (IV-A) does for the libraries that
/// it compares, and keep what simulates best; a request's own tile replaces them. The grid is the
/// near-square one of paper 2, 2.1, unless the request has another.
struct PresetPolicy {
  Preset preset;
  const char* name;
  const char* rules;
  Owners owners;
  Routing routing;
  bool steals;
  int max_hops;
};

/// All of them, in the order of Preset.
std::span<const PresetPolicy> preset_policies();
const char* to_string(Preset preset);  ///< "none", or the name
/// "" and "none" are none. Throws Error(bad_option) naming the words that are allowed.
Preset parse_preset(std::string_view text);

/// Paper 1, III-A, as its authors' code reads: the padding is 1 / floor(size / tile) of each size
/// that the tile does not divide, and only tiles below 2048 cost latency.
double tile_cost_of_authors(const Problem& problem, int workers, std::int64_t tile);
/// The tile of the least such cost, from 128 in steps of 128 to the edges of a worker's block of C
/// and k; the larger of equals.
std::int64_t tile_of_authors(const Problem& problem, const Grid& grid);

/// The plan of a library's policy. Problems without a product and levels 1 and 2 are planned as
/// always. Throws as tune.
Tuned tune_as(const PresetPolicy& policy, const Problem& problem, const Machine& machine,
              const TuneRequest& request);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// corrections_text.hpp: the words for what runs have corrected in a machine. It knows no run.
#pragma once
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "machine/corrections.hpp"

namespace fleet {

/// A correction in words.
struct NamedCorrection {
  std::string rate;  ///< "products d of device 0"
  double factor = 1;
};
using NamedCorrections = std::vector<NamedCorrection>;

NamedCorrections named_corrections(const Machine& machine);

/// "products d of device 0 x0.75, link host->0 x0.8"; "" without corrections.
std::string to_text(const NamedCorrections& corrections);

/// The member "corrections": [{"rate": "products d of device 0", "factor": 0.75}, ...].
void write_corrections(JsonText& json, const NamedCorrections& corrections);

/// The factor farthest from 1; 1: there are none.
double largest(const NamedCorrections& corrections);

}  // namespace fleet

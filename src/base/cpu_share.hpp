// SPDX-License-Identifier: BSD-3-Clause
// cpu_share.hpp: the words for the part of a product that the CPU is to compute beside the devices.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace fleet {

/// "auto" or empty: nothing, the model decides; "off": 0; else a number from 0 to less than 1.
/// Throws Error(bad_option).
std::optional<double> parse_cpu_share(std::string_view text);
/// The word of parse_cpu_share.
std::string cpu_share_text(const std::optional<double>& share);

}  // namespace fleet

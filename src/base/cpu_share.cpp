// SPDX-License-Identifier: BSD-3-Clause
// cpu_share.cpp: the words for the CPU's part.
#include "base/cpu_share.hpp"

#include <array>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"

namespace fleet {

std::optional<double> parse_cpu_share(std::string_view text) {
  if (text.empty() || text == "auto") return std::nullopt;
  if (text == "off") return 0;
  const auto share = number_of<double>(text);
  if (!share || !(*share >= 0 && *share < 1))
    throw Error(Status::bad_option, "cpu_share=" + std::string(text) +
                                        ": expected auto, off or a number from 0 to less than 1");
  return share;
}

std::string cpu_share_text(const std::optional<double>& share) {
  if (!share) return "auto";
  if (*share <= 0) return "off";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *share);
  return {digits.data(), end.ptr};
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// tuning.cpp: the words for rules, owners and out-of-core modes.
#include "program/tuning.hpp"

#include <array>

#include "base/error.hpp"

namespace fleet {
namespace {

constexpr std::array<const char*, kRules> kRuleNames = {
    "caching", "overlap", "bandwidth", "eta",  "forwarding", "batching",
    "lazy",    "order",   "outofcore", "grid", "tile"};

}  // namespace

const char* to_string(Rule rule) { return kRuleNames.at(static_cast<std::size_t>(rule)); }

Rules parse_rules(std::string_view text) {
  bool first = true;
  Rules rules = Rules::none();
  while (!text.empty() || first) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const bool away = word.starts_with('-');
    if (away) word.remove_prefix(1);
    if (word == "all" && !away) {
      rules = Rules::all();
    } else if (word == "none" && !away) {
      rules = Rules::none();
    } else {
      int found = -1;
      for (int r = 0; r < kRules; ++r)
        if (word == kRuleNames[static_cast<std::size_t>(r)]) found = r;
      if (found < 0)
        throw Error(Status::bad_option, "rules: '" + std::string(word) +
                                            "' is no rule; allowed: all, none, caching, overlap, "
                                            "bandwidth, eta, forwarding, batching, lazy, order, "
                                            "outofcore, grid, tile");
      if (away && first) rules = Rules::all();  // "-lazy" alone means "all,-lazy"
      const Rule rule = static_cast<Rule>(found);
      rules = away ? rules.without(rule) : rules.with(rule);
    }
    first = false;
  }
  return rules;
}

std::string to_string(Rules rules) {
  if (rules == Rules::all()) return "all";
  if (rules == Rules::none()) return "none";
  std::string text;
  for (int r = 0; r < kRules; ++r)
    if (rules.has(static_cast<Rule>(r)))
      text += (text.empty() ? "" : ",") + std::string(kRuleNames[static_cast<std::size_t>(r)]);
  return text;
}

const char* to_string(Owners owners) {
  switch (owners) {
    case Owners::blocks:
      return "blocks";
    case Owners::sequential:
      return "sequential";
    case Owners::round_robin:
      return "round_robin";
    case Owners::cyclic_1d:
      return "cyclic_1d";
    case Owners::cyclic_2d:
      return "cyclic_2d";
  }
  return "unknown";
}

const char* to_string(OutOfCore mode) {
  switch (mode) {
    case OutOfCore::none:
      return "none";
    case OutOfCore::stationary:
      return "stationary";
    case OutOfCore::cube:
      return "cube";
  }
  return "unknown";
}

}  // namespace fleet

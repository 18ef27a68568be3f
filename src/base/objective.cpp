// SPDX-License-Identifier: BSD-3-Clause
// objective.cpp: the words for objectives.
#include "base/objective.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw Error(Status::bad_option,
              "objective=" + std::string(text) +
                  ": expected time, edp, energy, or energy@X with X of at least 1");
}

}  // namespace

Objective parse_objective(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view word = text.substr(0, at);
  Objective objective;
  if (word == "energy" || word == "pdp")
    objective.kind = Objective::Kind::energy;
  else if (word == "edp")
    objective.kind = Objective::Kind::edp;
  else if (word != "time")
    refuse(text);
  if (at == std::string_view::npos) return objective;
  const auto most = number_of<double>(text.substr(at + 1));
  if (objective.kind != Objective::Kind::energy || !most || !(*most >= 1) || !std::isfinite(*most))
    refuse(text);
  objective.most_time = *most;
  return objective;
}

std::string to_string(const Objective& objective) {
  switch (objective.kind) {
    case Objective::Kind::time:
      return "time";
    case Objective::Kind::edp:
      return "edp";
    case Objective::Kind::own:
      return "own";
    case Objective::Kind::energy:
      break;
  }
  if (!std::isfinite(objective.most_time)) return "energy";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), objective.most_time);
  return "energy@" + std::string(digits.data(), end.ptr);
}

}  // namespace fleet

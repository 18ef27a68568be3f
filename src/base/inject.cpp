// SPDX-License-Identifier: BSD-3-Clause
// inject.cpp: reads the words of the option `inject`.
#include "base/inject.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"

namespace fleet {
namespace {

/// "0-1" -> {0, 1}.
std::optional<Inject::NoPeer> pair_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto a = number_of<int>(text.substr(0, dash));
  const auto b = number_of<int>(text.substr(dash + 1));
  if (!a || !b || *a < 0 || *b < 0) return std::nullopt;
  return Inject::NoPeer{*a, *b};
}

/// Splits "host->0*2.5" at '*' into link and number; false if the text does not have this form.
bool link_and_number(std::string_view text, char separator, std::string& link, double& number) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos || text.substr(0, at).find("->") == std::string_view::npos)
    return false;
  const auto value = number_of<double>(text.substr(at + 1));
  if (!value || !(*value >= 0) || !std::isfinite(*value)) return false;
  link = std::string(text.substr(0, at));
  number = *value;
  return true;
}

bool set_counter(std::int64_t& counter, std::string_view text) {
  const auto number = number_of<std::int64_t>(text);
  if (!number || *number < 1) return false;
  counter = *number;
  return true;
}

/// Parses one fault of the list; false if the text is invalid.
bool add_fault(Inject& inject, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const std::string_view value =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (word == "alloc") return set_counter(inject.alloc, value);
  if (word == "copy") return set_counter(inject.copy, value);
  if (word == "launch") return set_counter(inject.launch, value);
  if (word == "poison") return inject.poison = colon == std::string_view::npos;
  if (word == "issuers") return inject.issuers = colon == std::string_view::npos;
  if (word == "order") {
    inject.order = number_of<std::uint64_t>(value);
    return inject.order.has_value();
  }
  if (word == "lost") {
    const std::size_t at = value.find('@');
    if (at == std::string_view::npos) return false;
    const auto device = number_of<int>(value.substr(0, at));
    const auto tiles = number_of<std::int64_t>(value.substr(at + 1));
    if (!device || !tiles || *device < 0 || *tiles < 0) return false;
    inject.lost = Inject::Lost{*device, *tiles};
    return true;
  }
  if (word == "slow") {
    Inject::Slow& slow = inject.slow.emplace_back();
    return link_and_number(value, '*', slow.link, slow.factor) && slow.factor > 0;
  }
  if (word == "delay") {
    Inject::Delay& delay = inject.delay.emplace_back();
    return link_and_number(value, '+', delay.link, delay.seconds);
  }
  if (word == "nopeer") {
    const auto pair = colon == std::string_view::npos ? Inject::NoPeer{} : pair_of(value);
    if (pair) inject.nopeer.push_back(*pair);
    return pair.has_value();
  }
  return false;
}

}  // namespace

Inject parse_inject(std::string_view text) {
  Inject inject;
  for (const std::string_view part : split(text, ','))
    if (const std::string_view word = trimmed(part); !word.empty() && !add_fault(inject, word))
      throw Error(Status::bad_option,
                  "inject=" + std::string(word) +
                      ": expected alloc:N, copy:N, launch:N, lost:DEV@TILES, slow:LINK*FACTOR, "
                      "delay:LINK+SECONDS, nopeer[:i-j], order:SEED, poison or issuers");
  return inject;
}

}  // namespace fleet

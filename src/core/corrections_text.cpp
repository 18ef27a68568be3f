// SPDX-License-Identifier: BSD-3-Clause
// corrections_text.cpp: a line and JSON of corrections. It knows no run.
#include "core/corrections_text.hpp"

#include "core/output.hpp"

namespace fleet {

NamedCorrections named_corrections(const Machine& machine) {
  NamedCorrections named;
  for (const auto& [rate, factor] : corrections_of(machine))
    named.push_back({rate_name(machine, rate), factor});
  return named;
}

std::string to_text(const NamedCorrections& corrections) {
  std::string text;
  for (const auto& [rate, factor] : corrections)
    text += (text.empty() ? "" : ", ") + rate + " x" + number(factor);
  return text;
}

void write_corrections(JsonText& json, const NamedCorrections& corrections) {
  json.key("corrections").open('[');
  for (const auto& [rate, factor] : corrections)
    json.open('{').member("rate", rate).member("factor", factor).close('}');
  json.close(']');
}

double largest(const NamedCorrections& corrections) {
  double farthest = 1;
  for (const NamedCorrection& each : corrections)
    if (distance(each.factor) > distance(farthest)) farthest = each.factor;
  return farthest;
}

}  // namespace fleet

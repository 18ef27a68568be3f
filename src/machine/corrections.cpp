// SPDX-License-Identifier: BSD-3-Clause
// corrections.cpp: which members of a machine a correction changes, within which bounds.
#include "machine/corrections.hpp"

#include <algorithm>

namespace fleet {
namespace {

/// Multiplies `rate`, and keeps `total`, its factor against the measurement, within the bounds.
void scale(double& rate, double& total, double factor) {
  const double bounded = std::clamp(total * factor, 1 / kMostCorrection, kMostCorrection);
  rate *= bounded / total;
  total = bounded;
}

void apply(Machine& machine, const Correction& correction) {
  const auto [id, factor] = correction;
  const auto index = static_cast<std::size_t>(id.index);
  switch (id.kind) {
    case RateId::Kind::products:
      for (KernelRate& rate : machine.devices.at(index).kernels)
        if (rate.type == id.type) scale(rate.flops_per_s, rate.corrected, factor);
      break;
    case RateId::Kind::streams:
      scale(machine.devices.at(index).memory_bytes_per_s,
            machine.devices.at(index).memory_corrected, factor);
      break;
    case RateId::Kind::link:
      scale(machine.links.at(index).bytes_per_s, machine.links.at(index).corrected, factor);
      break;
    case RateId::Kind::port:
      scale(machine.ports.at(index).capacity, machine.ports.at(index).corrected, factor);
      break;
  }
}

}  // namespace

Machine corrected(Machine machine, std::span<const Correction> corrections) {
  for (const Correction& correction : corrections) apply(machine, correction);
  return machine;
}

std::vector<Correction> corrections_of(const Machine& machine) {
  std::vector<Correction> all;
  const auto note = [&](RateId rate, double factor) {
    // The edges of a type share one factor.
    if (factor != 1 && (all.empty() || all.back().rate != rate)) all.push_back({rate, factor});
  };
  for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d) {
    const Device& device = machine.devices[static_cast<std::size_t>(d)];
    for (const KernelRate& rate : device.kernels)
      note({RateId::Kind::products, d, rate.type}, rate.corrected);
    note({RateId::Kind::streams, d}, device.memory_corrected);
  }
  for (int l = 0; l < static_cast<int>(machine.links.size()); ++l)
    note({RateId::Kind::link, l}, machine.links[static_cast<std::size_t>(l)].corrected);
  for (int p = 0; p < static_cast<int>(machine.ports.size()); ++p)
    note({RateId::Kind::port, p}, machine.ports[static_cast<std::size_t>(p)].corrected);
  return all;
}

std::string rate_name(const Machine& machine, const RateId& rate) {
  const auto index = static_cast<std::size_t>(rate.index);
  switch (rate.kind) {
    case RateId::Kind::products:
      return std::string("products ") + word_of(rate.type) + " of device " +
             machine.devices.at(index).name;
    case RateId::Kind::streams:
      return "streams of device " + machine.devices.at(index).name;
    case RateId::Kind::link: {
      const Link& link = machine.links.at(index);
      return "link " + machine.devices.at(static_cast<std::size_t>(link.source)).name + "->" +
             machine.devices.at(static_cast<std::size_t>(link.target)).name;
    }
    case RateId::Kind::port:
      return "port " + machine.ports.at(index).name;
  }
  return "unknown";
}

}  // namespace fleet

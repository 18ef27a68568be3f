// SPDX-License-Identifier: BSD-3-Clause
// corrections.cpp: which members of a machine a correction changes, within which bounds.
#include "machine/corrections.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace fleet {
namespace {

/// A rate of a machine, and what was measured before runs corrected it (0: they did not).
struct Rate {
  double& now;
  double& measured;
};

void scale(Rate rate, double factor) {
  const double measured = rate.measured > 0 ? rate.measured : rate.now;
  rate.now = std::clamp(rate.now * factor, measured / kMostCorrection, measured * kMostCorrection);
  rate.measured = rate.now == measured ? 0 : measured;
}

/// Calls act(id, rate) for all rates, in the order of devices, links, ports; for each edge of a
/// kernel with the same id.
template <typename Act>
void for_each_rate(Machine& machine, Act act) {
  for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d) {
    Device& device = machine.devices[static_cast<std::size_t>(d)];
    for (KernelRate& rate : device.kernels)
      act(RateId{RateId::Kind::products, d, rate.type}, Rate{rate.flops_per_s, rate.measured});
    if (d == kHost) {
      double whole = 1;
      act(RateId{RateId::Kind::beside, d}, Rate{device.beside, whole});
    }
    act(RateId{RateId::Kind::streams, d}, Rate{device.memory_bytes_per_s, device.memory_measured});
  }
  for (int l = 0; l < static_cast<int>(machine.links.size()); ++l) {
    Link& link = machine.links[static_cast<std::size_t>(l)];
    act(RateId{RateId::Kind::link, l}, Rate{link.bytes_per_s, link.measured});
  }
  for (int p = 0; p < static_cast<int>(machine.ports.size()); ++p) {
    Port& port = machine.ports[static_cast<std::size_t>(p)];
    act(RateId{RateId::Kind::port, p}, Rate{port.capacity, port.measured});
  }
}

/// The rate of the largest edge stands for those of all.
double rate_of(const Machine& machine, const RateId& id) {
  const auto index = static_cast<std::size_t>(id.index);
  switch (id.kind) {
    case RateId::Kind::products:
      return machine.best_rate(id.index, id.type);
    case RateId::Kind::beside:
      return machine.devices.at(index).beside;
    case RateId::Kind::streams:
      return machine.devices.at(index).memory_bytes_per_s;
    case RateId::Kind::link:
      return machine.links.at(index).bytes_per_s;
    case RateId::Kind::port:
      return machine.ports.at(index).capacity;
  }
  return 0;
}

void drop_correction(Rate rate) {
  if (rate.measured > 0) rate.now = std::exchange(rate.measured, 0);
}

/// A set of rates that are alike: what one of them is, the others may be expected to be.
struct Likes {
  RateId::Kind kind;
  DataType type;  ///< products only
  /// Kinds of places (place_kind()): the ends of links, and where other rates are of.
  DeviceId source = kHost, target = kHost;
  friend bool operator==(const Likes&, const Likes&) = default;
};

/// Nothing for what always counts, and for rates of which a correction holds for some plans only.
std::optional<Likes> likes_of(const Machine& machine, const RateId& id) {
  switch (id.kind) {
    case RateId::Kind::beside:
    case RateId::Kind::port:
      return {};
    case RateId::Kind::link: {
      const Link& link = machine.links[static_cast<std::size_t>(id.index)];
      if (!on_host(link.source) && !on_host(link.target)) return {};
      return Likes{id.kind, DataType{}, place_kind(link.source), place_kind(link.target)};
    }
    default:
      return Likes{id.kind, id.type, place_kind(id.index), kHost};
  }
}

}  // namespace

Machine corrected(Machine machine, std::span<const Correction> corrections) {
  for_each_rate(machine, [&](const RateId& id, Rate rate) {
    for (const Correction& correction : corrections)
      if (correction.rate == id) scale(rate, correction.factor);
  });
  return machine;
}

Machine uncorrected(Machine machine) {
  for_each_rate(machine, [](const RateId&, Rate rate) { drop_correction(rate); });
  return machine;
}

Machine at_best(Machine machine) {
  for_each_rate(machine, [](const RateId&, Rate rate) {
    if (rate.measured > rate.now) rate.now = std::exchange(rate.measured, 0);
  });
  return machine;
}

Machine for_plans(Machine machine) {
  struct Group {
    Likes likes;
    double least = kMostCorrection, most = 1 / kMostCorrection, logs = 0, count = 0;
    bool has_changed() const {
      return most > kChanged * least || distance(std::exp(logs / count)) > kChanged;
    }
  };
  std::vector<Group> groups;
  const auto group_of = [&](const RateId& id) -> Group* {
    const auto likes = likes_of(machine, id);
    if (!likes) return nullptr;
    const auto known = std::ranges::find(groups, *likes, &Group::likes);
    return known != groups.end() ? &*known : &groups.emplace_back(Group{.likes = *likes});
  };
  for_each_rate(machine, [&](const RateId& id, Rate rate) {
    Group* const group = group_of(id);
    if (group == nullptr || rate.now <= 0) return;
    const double factor = rate.measured > 0 ? rate.now / rate.measured : 1;
    group->least = std::min(group->least, factor);
    group->most = std::max(group->most, factor);
    group->logs += std::log(factor);
    ++group->count;
  });
  for_each_rate(machine, [&](const RateId& id, Rate rate) {
    const Group* const group = group_of(id);
    const bool holds =
        id.kind == RateId::Kind::beside || (group != nullptr && group->has_changed());
    if (!holds) drop_correction(rate);
  });
  return machine;
}

std::vector<Correction> corrections_of(const Machine& machine) {
  std::vector<Correction> all;
  Machine copy = machine;
  for_each_rate(copy, [&](const RateId& id, Rate rate) {
    const bool is_new = all.empty() || all.back().rate != id;
    if (rate.measured > 0 && rate.now != rate.measured && is_new)
      all.push_back({id, rate.now / rate.measured});
  });
  return all;
}

std::vector<Correction> evened(const Machine& machine, std::vector<Correction> corrections) {
  const auto alike = [&](const Correction& a, const Correction& b) {
    return a.rate.kind == b.rate.kind && a.rate.type == b.rate.type &&
           distance(a.factor / b.factor) <= kNoise &&
           rate_of(machine, a.rate) == rate_of(machine, b.rate);
  };
  std::vector<bool> is_done(corrections.size(), false);
  for (std::size_t i = 0; i < corrections.size(); ++i) {
    std::vector<std::size_t> group;
    double logs = 0;
    for (std::size_t other = i; other < corrections.size(); ++other)
      if (!is_done[other] && alike(corrections[i], corrections[other])) {
        group.push_back(other);
        logs += std::log(corrections[other].factor);
      }
    if (is_done[i]) continue;
    const double mean = std::exp(logs / static_cast<double>(group.size()));
    for (const std::size_t member : group) {
      corrections[member].factor = mean;
      is_done[member] = true;
    }
  }
  return corrections;
}

std::string rate_name(const Machine& machine, const RateId& rate) {
  const auto index = static_cast<std::size_t>(rate.index);
  switch (rate.kind) {
    case RateId::Kind::products:
      return std::string("products ") + word_of(rate.type) + " of device " +
             machine.devices.at(index).name;
    case RateId::Kind::beside:
      return "products of device " + machine.devices.at(index).name + " beside others";
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

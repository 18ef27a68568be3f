// SPDX-License-Identifier: BSD-3-Clause
// bound_traffic.cpp: bytes that must cross ports and cuts. It must not know plans or tunings.
#include "plan/bound_traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/sizes.hpp"

namespace fleet {
namespace {

/// The least that any of the links takes for a byte; 0 when one of them takes nothing. A cut
/// without links has no capacity, and every byte would need some.
double least_weight(const Meter& meter, const std::vector<LinkId>& links) {
  if (links.empty()) return meter.capacity == 0 ? 1 : 0;
  double least = std::numeric_limits<double>::infinity();
  for (const LinkId l : links) least = std::min(least, meter.per_byte[index(l)]);
  return least;
}

Meter empty_meter(const Machine& machine, const std::string& name, double capacity) {
  return {name, capacity, std::vector<double>(machine.links.size(), 0.0),
          std::vector<double>(machine.devices.size(), 0.0)};
}

/// Adds what links and kernels take of `port`, in units of `scale`.
void charge(Meter& meter, const Machine& machine, PortId port, double scale) {
  const auto weight = [&](const std::vector<PortShare>& shares) {
    double sum = 0;
    for (const PortShare& share : shares)
      if (share.port == port) sum += share.weight * scale;
    return sum;
  };
  for (std::size_t l = 0; l < machine.links.size(); ++l)
    meter.per_byte[l] += weight(machine.links[l].ports);
  for (std::size_t d = 0; d < machine.devices.size(); ++d)
    meter.per_busy_s[d] += weight(machine.devices[d].ports);
}

/// A port that only the kernels of `device` take, or -1.
PortId own_port(const Machine& machine, DeviceId device, const std::vector<DeviceId>& devices) {
  const auto takes = [&](DeviceId d, PortId port) {
    return std::ranges::any_of(machine.devices[index(d)].ports,
                               [port](const PortShare& share) { return share.port == port; });
  };
  for (const PortShare& share : machine.devices[index(device)].ports)
    if (std::ranges::none_of(
            devices, [&](DeviceId other) { return other != device && takes(other, share.port); }))
      return share.port;
  return -1;
}

/// The host is both of its memories.
bool is_home(DeviceId home, DeviceId device) {
  return home == device || (on_host(home) && on_host(device));
}

/// Links whose sum is bounded by charging each to itself or to a port that several of them share.
class ChargedLinks {
 public:
  ChargedLinks(const Machine& machine, const std::vector<LinkId>& links);
  double least_sum() const { return least_sum_; }
  PortId main_port() const { return main_port_; }  ///< with the largest part of the sum, or -1

 private:
  struct Shared {
    PortId port = -1;
    unsigned links = 0;      ///< bits, index in links_
    double bytes_per_s = 0;  ///< at the least weight among them
  };
  void add_port(const Machine& machine, PortId port, const std::vector<LinkId>& links);
  void try_ports(unsigned chosen);

  // A home has at most a few dozen links and a few ports that several of them share. What is beyond
  // these limits is left out: the bound is then lower than it could be.
  static constexpr std::size_t kMostLinks = 32, kMostPorts = 10;
  std::vector<double> alone_;  ///< bytes_per_s of each link, its own ports considered
  std::vector<Shared> shared_;
  double rest_ = 0;  ///< links beyond kMostLinks
  double least_sum_ = std::numeric_limits<double>::infinity();
  PortId main_port_ = -1;
};

ChargedLinks::ChargedLinks(const Machine& machine, const std::vector<LinkId>& links) {
  for (const LinkId l : links) {
    const Link& link = machine.links[index(l)];
    double rate = link.bytes_per_s;
    for (const PortShare& share : link.ports)
      rate = std::min(rate, machine.ports[index(share.port)].capacity / share.weight);
    if (alone_.size() < kMostLinks)
      alone_.push_back(rate);
    else
      rest_ += rate;
  }
  for (PortId p = 0; p < std::ssize(machine.ports); ++p) add_port(machine, p, links);
  for (unsigned chosen = 0; chosen < 1u << shared_.size(); ++chosen) try_ports(chosen);
}

void ChargedLinks::add_port(const Machine& machine, PortId port, const std::vector<LinkId>& links) {
  if (shared_.size() == kMostPorts) return;
  Shared shared{.port = port};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < alone_.size(); ++i)
    for (const PortShare& share : machine.links[index(links[i])].ports)
      if (share.port == port) {
        shared.links |= 1u << i;
        least = std::min(least, share.weight);
      }
  shared.bytes_per_s = machine.ports[index(port)].capacity / least;
  if (std::popcount(shared.links) > 1) shared_.push_back(shared);
}

void ChargedLinks::try_ports(unsigned chosen) {
  double sum = rest_, largest = 0;
  unsigned covered = 0;
  PortId main = -1;
  for (std::size_t p = 0; p < shared_.size(); ++p) {
    if ((chosen >> p & 1u) == 0) continue;
    covered |= shared_[p].links;
    sum += shared_[p].bytes_per_s;
    if (shared_[p].bytes_per_s > largest) largest = shared_[p].bytes_per_s, main = shared_[p].port;
  }
  for (std::size_t i = 0; i < alone_.size(); ++i)
    if ((covered >> i & 1u) == 0) sum += alone_[i];
  if (sum < least_sum_) least_sum_ = sum, main_port_ = main;
}

}  // namespace

std::vector<Meter> port_meters(const Machine& machine) {
  std::vector<Meter> meters;
  for (PortId p = 0; p < std::ssize(machine.ports); ++p) {
    const Port& port = machine.ports[index(p)];
    meters.push_back(empty_meter(machine, port.name, port.capacity));
    charge(meters.back(), machine, p, 1);
  }
  return meters;
}

std::optional<Meter> pooled_meter(const Machine& machine, const std::vector<DeviceId>& devices) {
  if (devices.size() < 2) return std::nullopt;
  Meter pool = empty_meter(machine, "", static_cast<double>(devices.size()));
  for (const DeviceId d : devices) {
    const PortId port = own_port(machine, d, devices);
    if (port < 0) return std::nullopt;
    if (pool.name.empty()) pool.name = machine.ports[index(port)].name;
    charge(pool, machine, port, 1 / machine.ports[index(port)].capacity);
  }
  return pool;
}

LeastTraffic::LeastTraffic(std::array<double, 3> costs, bool whole_items, double ease)
    : ease_(ease) {
  std::ranges::sort(costs);
  for (const double cost : costs)
    if (cost > 0) costs_[index(count_++)] = cost;
  if (!whole_items || count_ < 3) return;  // convex already: equal shares of all items are best
  // With three operands the curve rises steeply at first. Over independent items it is replaced by
  // its convex hull: a chord from nothing to the share with the least cost per share.
  chord_end_ =
      costs_[2] <= costs_[0] + costs_[1] ? 1 : std::sqrt((costs_[0] + costs_[1]) / costs_[2]);
  chord_ = of_one_product(chord_end_) / chord_end_;
}

double LeastTraffic::of_one_product(double share) const {
  // Best is an equal cost for each operand that need not be seen whole; the cheap ones are whole.
  double whole = 0;
  for (int i = 0; i < count_; ++i) {
    const int rest = count_ - i;
    double level = costs_[index(i)] * share * share;
    if (rest == 2) level = share * std::sqrt(costs_[index(i)] * costs_[index(i + 1)]);
    if (rest == 3) level = std::cbrt(share * share * costs_[0] * costs_[1] * costs_[2]);
    if (level <= costs_[index(i)]) return whole + rest * level;
    whole += costs_[index(i)];
  }
  return whole;
}

void LeastTraffic::note_use(std::array<Use, 3> uses, std::array<double, 3> costs,
                            std::int64_t order) {
  for (std::size_t x = 0; x < costs.size(); ++x)
    (uses[x] == Use::even ? even_ : triangle_) += costs[x];
  slack_ = 1 / static_cast<double>(std::max<std::int64_t>(1, order));
}

/// A triangle's rows with the fewest products are the first p of m: p*p/2 of m*(m + 1)/2.
double LeastTraffic::by_use(double share) const {
  const double left = (1 - share) * (1 + slack_);
  return even_ * std::max(0.0, 1 - left - slack_) +
         triangle_ * std::max(0.0, 1 - std::sqrt(left) - slack_);
}

double LeastTraffic::units(double share) const {
  share = std::clamp(share, 0.0, 1.0);
  if (share < chord_end_) return std::max(share * chord_, by_use(share));
  return std::max(of_one_product(share < 1 ? ease_ * share : 1), by_use(share));
}

double Term::least_seconds(double low, double high) const {
  const double units =
      always + std::max(all_kernels, own_kernels * low) + away.units(1 - high) + here.units(low);
  return units == 0 ? 0 : units / capacity;  // a cut without links has no capacity
}

TermMaker::TermMaker(std::span<const Problem> problems, const Machine& machine,
                     const std::vector<DeviceId>& workers)
    : problems_(problems), problem_(problems.front()), machine_(machine), workers_(workers) {
  for (const int x : {kA, kB, kC}) bytes_[index(x)] = bytes_that_count(problem_, x);
}

std::vector<Moved> TermMaker::all_moved() const {
  std::vector<Moved> moved;
  for (const int x : {kA, kB, kC})
    moved.push_back({.home = problem_.operands[index(x)].home,
                     .out = leaves(x) ? bytes_[index(x)] : 0,
                     .in = x == kC ? bytes_[index(x)] : 0});
  return moved;
}

bool TermMaker::leaves(int operand) const {
  return operand != kC || problem_.operands[kC].access == Access::update;
}

/// The host is both of its memories: between them nothing reaches a device.
TermMaker::Place TermMaker::place_of(DeviceId device) const {
  Place place{machine_.devices[index(device)].name, {}, {}};
  const auto inside = [device](DeviceId d) {
    return d == device || (device == kHost && d == kPageable);
  };
  for (LinkId l = 0; l < std::ssize(machine_.links); ++l) {
    const Link& link = machine_.links[index(l)];
    if (inside(link.source) && !inside(link.target)) place.out.push_back(l);
    if (!inside(link.source) && inside(link.target)) place.in.push_back(l);
  }
  return place;
}

/// All links of a direction together. Each is charged either to its own rate or to one port that it
/// crosses: any such charging bounds their sum from above, and the least is taken.
Meter TermMaker::cut_meter(const Place& place, bool out) const {
  const std::vector<LinkId>& links = out ? place.out : place.in;
  Meter cut = empty_meter(machine_, (out ? "out of " : "into ") + place.name, 0);
  for (const LinkId l : links) cut.per_byte[index(l)] = 1;
  const ChargedLinks charged(machine_, links);
  cut.capacity = charged.least_sum();
  if (charged.main_port() >= 0) cut.name = machine_.ports[index(charged.main_port())].name;
  return cut;
}

std::vector<Meter> TermMaker::with_cuts(const Place& place,
                                        const std::vector<Meter>& meters) const {
  std::vector<Meter> all = meters;
  all.push_back(cut_meter(place, true));
  all.push_back(cut_meter(place, false));
  return all;
}

/// Least use of the meter by the kernels, whichever devices compute: that of the device with the
/// least use per flop.
double TermMaker::kernel_units(const Meter& meter) const {
  double units = 0;
  for (const Problem& problem : problems_) {
    double least = std::numeric_limits<double>::infinity();
    for (const DeviceId d : workers_)
      least = std::min(least, meter.per_busy_s[index(d)] / machine_.best_rate(d, problem.type));
    if (!workers_.empty()) units += least * flops(problem);
  }
  return units;
}

std::vector<Term> TermMaker::host_terms(const std::vector<Meter>& meters,
                                        std::span<const Moved> moved) const {
  const Place host = place_of(kHost);
  const Place pageable = place_of(kPageable);
  // Where pageable memory is reached only through pinned memory, its bytes cross the links between
  // the two and then those of the host: on a port of both they count twice.
  const bool through_host =
      std::ranges::all_of(pageable.out,
                          [&](LinkId l) { return machine_.links[index(l)].target == kHost; }) &&
      std::ranges::all_of(pageable.in,
                          [&](LinkId l) { return machine_.links[index(l)].source == kHost; });
  std::vector<Meter> all = with_cuts(host, meters);
  all.push_back(cut_meter(pageable, true));
  all.push_back(cut_meter(pageable, false));

  std::vector<Term> terms;
  for (const Meter& meter : all) {
    double host_units = 0, pageable_units = 0;
    for (const auto& [home, out, in] : moved) {
      if (!on_host(home)) continue;
      host_units += out * least_weight(meter, host.out) + in * least_weight(meter, host.in);
      if (home == kPageable)
        pageable_units +=
            out * least_weight(meter, pageable.out) + in * least_weight(meter, pageable.in);
    }
    Term term{.name = meter.name, .capacity = meter.capacity, .away = {}, .here = {}};
    term.always = through_host ? host_units + pageable_units : std::max(host_units, pageable_units);
    term.all_kernels = kernel_units(meter);
    if (term.always > 0) terms.push_back(std::move(term));
  }
  return terms;
}

namespace {

/// How the operands of a problem are used, and the order of its triangle.
std::pair<std::array<LeastTraffic::Use, 3>, std::int64_t> uses_of(const Problem& problem) {
  using enum LeastTraffic::Use;
  const RoutineTraits& traits = problem.traits();
  // A triangular A has one part in all columns of C (or rows), whose rows (columns) are a triangle.
  if (traits.triangular) return {{even, triangle, triangle}, problem.k};
  // In gemmt row i of A meets i columns; with both factors of a symmetric C, all meet as many.
  if (traits.triangle && !traits.by_itself) return {{triangle, triangle, even}, problem.n};
  // An element of a symmetric A stands for two, but for those on its diagonal.
  if (traits.symmetric) return {{even, even, even}, problem.k};
  return {{even, even, even}, traits.triangle ? problem.n : INT64_MAX};
}

}  // namespace

std::vector<Term> TermMaker::device_terms(DeviceId device, const std::vector<Meter>& meters) const {
  const Place place = place_of(device);
  const bool whole_items =
      problem_.batch > 1 && !problem_.operands[kA].shared && !problem_.operands[kB].shared;
  // The products of a triangle of C are half of those that its factors allow: with fractions a, b,
  // c seen, a share s has (s/2)^2 <= a * b * c/2 (in units of n*n*k, by Loomis-Whitney).
  // So are those of a triangular A.
  const RoutineTraits& traits = problem_.traits();
  const double ease = traits.triangle || traits.triangular ? std::sqrt(0.5) : 1;
  const auto [uses, order] = uses_of(problem_);
  std::vector<Term> terms;
  for (const Meter& meter : with_cuts(place, meters)) {
    const double out = least_weight(meter, place.out);
    const double in = least_weight(meter, place.in);
    std::array<double, 3> away{}, here{};
    for (const int x : {kA, kB, kC}) {
      const bool at_home = is_home(problem_.operands[index(x)].home, device);
      const double there = leaves(x) ? bytes_[index(x)] : 0;  // bytes to whoever computes
      const double back = x == kC ? bytes_[index(x)] : 0;     // and from there
      (at_home ? away : here)[index(x)] =
          at_home ? there * out + back * in : there * in + back * out;
    }
    // One matrix that is both factors is seen once for both.
    if (traits.by_itself && !traits.has_b)
      for (auto* costs : {&away, &here}) (*costs)[kA] = (*costs)[kB] = (*costs)[kA] / 2;
    if (traits.triangular) {
      // C is first a factor and then the result. With trsm, the parts that are seen as either
      // arrive as they were: at least half of both together.
      const bool at_home = is_home(problem_.operands[kC].home, device);
      const double seen = bytes_[kC] * (at_home ? out : in) / (traits.solves ? 2 : 1);
      auto& costs = at_home ? away : here;
      costs[kB] = seen;
      costs[kC] -= seen;
    }
    Term term{.name = meter.name,
              .capacity = meter.capacity,
              .away = LeastTraffic(away, whole_items, ease),
              .here = LeastTraffic(here, whole_items, ease)};
    // The CPU's share is small, so nearly all of each operand has to leave home. Other homes
    // compute much, where the inequality above says more; a second bend would only slow the search.
    if (device == kHost) term.away.note_use(uses, away, order);
    const double own_rate = machine_.best_rate(device, problem_.type);
    if (own_rate > 0)
      term.own_kernels = meter.per_busy_s[index(device)] / own_rate * flops(problem_);
    term.all_kernels = kernel_units(meter);
    if (out > 0 || in > 0 || meter.capacity == 0) terms.push_back(std::move(term));
  }
  return terms;
}

}  // namespace fleet

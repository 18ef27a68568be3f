// SPDX-License-Identifier: BSD-3-Clause
// paralia.cpp: bandwidths of links in use, then equations 1 to 5 (paper 2). Pure.
#include "tune/paralia.hpp"

#include <algorithm>
#include <utility>

#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

constexpr double kMostSlowdown = 2.0;     // 3.4
constexpr double kAgree = 1.05;           // 3.1: predicted times within 5 %
constexpr int kMostRounds = 20;           // of adjusting; it converges in two or three
constexpr std::int64_t kLookedUp = 2048;  // the tile whose measured time stands for a device (3.4)

// The LinkMap (3.2) of one set of devices and one placement of data.
class LinkMap {
 public:
  LinkMap(const Problem& problem, const Machine& machine, const Team& workers)
      : machine_(machine),
        links_(machine),
        workers_(workers),
        places_(machine.devices.size()),
        rates_(places_ * places_, 0.0) {
    for (const Operand& operand : problem.operands)
      for (const DeviceId worker : workers) {
        note(links_.at(operand.home, worker));
        if (operand.access != Access::read) note(links_.at(worker, operand.home));
      }
    for (std::size_t id = 0; id < machine.links.size(); ++id) {
      const Link& link = machine.links[id];
      rates_[at(link.target, link.source)] = shared_rate(static_cast<LinkId>(id));
    }
    reroute();
  }

  /// Seconds of `bytes` from source to target (Eq. 2).
  double seconds(DeviceId target, DeviceId source, double bytes) const {
    if (source == target || bytes <= 0) return 0;
    const LinkId link = links_.at(source, target);
    const double latency_s =
        link < 0 ? 0 : machine_.links[static_cast<std::size_t>(link)].latency_s;
    return latency_s + bytes / rate(target, source);
  }

  /// The mean bandwidth from the other devices of the set (Eq. 4); infinite for one alone.
  double mean_rate(DeviceId target) const {
    double sum = 0;
    for (const DeviceId source : workers_)
      if (source != target) sum += rate(target, source);
    return workers_.size() < 2 ? kNever : sum / static_cast<double>(workers_.size() - 1);
  }

 private:
  std::size_t at(DeviceId target, DeviceId source) const {
    return static_cast<std::size_t>(target) * places_ + static_cast<std::size_t>(source);
  }
  double rate(DeviceId target, DeviceId source) const { return rates_[at(target, source)]; }

  void note(LinkId link) {
    if (link >= 0 && std::ranges::find(used_, link) == used_.end()) used_.push_back(link);
  }

  double shared_rate(LinkId id) const {
    const Link& link = machine_.links[static_cast<std::size_t>(id)];
    double slowdown = 1;
    for (const LinkId other : used_)
      if (other != id)
        slowdown =
            std::max(slowdown, slowdown_of(link, machine_.links[static_cast<std::size_t>(other)]));
    return link.bytes_per_s / std::min(slowdown, kMostSlowdown);
  }

  double slowdown_of(const Link& link, const Link& other) const {
    double slowdown = 1;
    for (const PortShare& mine : link.ports)
      for (const PortShare& theirs : other.ports)
        if (mine.port == theirs.port)
          slowdown = std::max(slowdown,
                              (link.bytes_per_s * mine.weight + other.bytes_per_s * theirs.weight) /
                                  machine_.ports[static_cast<std::size_t>(mine.port)].capacity);
    return slowdown;
  }

  /// A route over another device of the set, or without a link over the host, takes the place of a
  /// link that is slower than the slowest of the route.
  void reroute() {
    const std::vector<double> direct = rates_;
    const auto over = [&](DeviceId target, DeviceId via, DeviceId source) {
      return std::min(direct[at(via, source)], direct[at(target, via)]);
    };
    for (DeviceId device = kFirstDevice; device < static_cast<DeviceId>(places_); ++device) {
      rates_[at(device, kPageable)] = over(device, kHost, kPageable);
      rates_[at(kPageable, device)] = over(kPageable, kHost, device);
    }
    for (DeviceId source = kFirstDevice; source < static_cast<DeviceId>(places_); ++source)
      for (DeviceId target = kFirstDevice; target < static_cast<DeviceId>(places_); ++target) {
        double& best = rates_[at(target, source)];
        if (best == 0) best = over(target, kHost, source);
        for (const DeviceId via : workers_)
          if (via != source && via != target) best = std::max(best, over(target, via, source));
      }
  }

  const Machine& machine_;
  const LinkTable links_;
  const Team& workers_;
  const std::size_t places_;
  std::vector<double> rates_;  ///< bytes per second, [target][source]
  std::vector<LinkId> used_;   ///< between the places of data and the devices
};

double bytes_of_operand(const Problem& problem, const Operand& operand) {
  return static_cast<double>(operand.rows) * static_cast<double>(operand.cols) *
         static_cast<double>(bytes_of(problem.type.storage));
}

/// The whole problem on one device, by the time of one tile (3.4).
double execution_s(const Problem& problem, const Machine& machine, DeviceId device) {
  const std::int64_t m = std::min(kLookedUp, problem.m), n = std::min(kLookedUp, problem.n),
                     k = std::min(kLookedUp, problem.k);
  const auto volume = [](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
  };
  const double part = problem.traits().triangle && !problem.traits().twice ? 0.5 : 1.0;
  return part * machine.multiply_s(device, problem.type, m, n, k) *
         volume(problem.m, problem.n, problem.k) / volume(m, n, k);
}

/// Eq. 5 of one device with this share of the problem.
double predicted_s(const Problem& problem, const Machine& machine, const LinkMap& map,
                   const Grid& grid, DeviceId device, double share) {
  double reads_s = 0, writes_s = 0, read_only_bytes = 0;
  int read_only = 0;
  for (const Operand& operand : problem.operands) {
    if (operand.rows == 0) continue;
    const double bytes = share * bytes_of_operand(problem, operand);
    if (operand.access != Access::write) reads_s += map.seconds(device, operand.home, bytes);
    if (operand.access != Access::read) writes_s += map.seconds(operand.home, device, bytes);
    if (operand.access == Access::read) read_only_bytes += bytes, ++read_only;
  }
  const double extra_bytes =
      static_cast<double>(grid.rows - 1 + grid.cols - 1) / std::max(1, read_only) * read_only_bytes;
  const double extra_s = extra_bytes / map.mean_rate(device);
  return std::max({share * execution_s(problem, machine, device), extra_s + reads_s, writes_s});
}

}  // namespace

Selection predict_as_paralia(const Problem& problem, const Machine& machine, const Team& workers,
                             Shares shares) {
  const LinkMap map(problem, machine, workers);
  const Grid grid = near_square_grid(static_cast<int>(workers.size()));
  std::vector<double> parts(workers.size(), 1.0 / static_cast<double>(workers.size()));
  Selection best{.workers = workers, .shares = parts, .seconds = kNever};
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<double> times_s;
    for (std::size_t w = 0; w < workers.size(); ++w)
      times_s.push_back(predicted_s(problem, machine, map, grid, workers[w], parts[w]));
    const auto [least_s, most_s] = std::ranges::minmax(times_s);
    if (most_s < best.seconds) {
      best.seconds = most_s;
      best.shares = parts;
    }
    if (shares == Shares::equal || most_s <= kAgree * least_s) break;
    double whole = 0;
    for (std::size_t w = 0; w < workers.size(); ++w) whole += parts[w] /= times_s[w];
    for (double& part : parts) part /= whole;
  }
  double watts = 0;
  for (const DeviceId worker : workers)
    watts += machine.devices[static_cast<std::size_t>(worker)].watts.multiply;
  best.joules = watts * best.seconds;
  return best;
}

Selection select_as_paralia(const Problem& problem, const Machine& machine, const Team& workers,
                            const TuneRequest& request) {
  if (!request.selects) return predict_as_paralia(problem, machine, workers, Shares::equal);
  Selection best{.workers = workers};  // where no set has a finite value: no links, no watts
  double least = kNever;
  const std::vector<Team> sets = workers.size() <= limits::kMostEnumerated
                                     ? all_sets(problem, machine, workers)
                                     : teams(problem, machine, workers, request.goal);
  for (const Team& team : sets) {
    Selection one = predict_as_paralia(problem, machine, team, Shares::adjusted);
    const double value = request.goal.value(
        {.seconds = one.seconds, .devices = static_cast<int>(team.size()), .joules = one.joules});
    if (value < least) {
      least = value;
      best = std::move(one);
    }
  }
  return best;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// teams.cpp: sets of workers up to symmetry, and the estimates that rank them.
#include "tune/teams.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

/// A digest of what is put in, in its order (FNV-1a over whole words).
class Digest {
 public:
  Digest& put(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3u;
    state_ ^= state_ >> 29;
    return *this;
  }
  Digest& put(double number) { return put(std::bit_cast<std::uint64_t>(number)); }
  Digest& put_sorted(std::vector<std::uint64_t> words) {
    std::ranges::sort(words);
    for (const std::uint64_t word : words) put(word);
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

/// Tells sets of workers apart that a symmetry of the machine does not map onto each other. Each
/// worker starts with a digest of what it is by itself, which is refined by what the others of the
/// set are to it (colour refinement).
class Symmetry {
 public:
  Symmetry(const Problem& problem, const Machine& machine, const Team& workers)
      : machine_(machine), links_(machine), workers_(workers) {
    for (const Operand& operand : problem.operands) homes_.push_back(operand.home);
    for (const DeviceId worker : workers) alone_.push_back(digest_of(problem, worker));
    for (const DeviceId from : workers)
      for (const DeviceId to : workers) pairs_.push_back(from == to ? 0 : digest_of(from, to));
  }

  /// Equal for sets with the same plans. `set` has a bit for each worker.
  std::uint64_t signature(std::uint64_t set) const {
    const std::size_t count = workers_.size();
    std::vector<std::uint64_t> now = alone_, next = alone_, seen;
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t w = 0; w < count; ++w) {
        if (!has(set, w)) continue;
        seen.clear();
        for (std::size_t other = 0; other < count; ++other)
          if (other != w && has(set, other))
            seen.push_back(Digest().put(now[other]).put(pairs_[w * count + other]).value());
        next[w] = Digest().put(now[w]).put_sorted(seen).value();
      }
      now = next;
    }
    std::vector<std::uint64_t> all;
    for (std::size_t w = 0; w < count; ++w)
      if (has(set, w)) all.push_back(now[w]);
    return Digest().put_sorted(std::move(all)).value();
  }

 private:
  static constexpr int kRounds = 2;  ///< nodes have few kinds of links
  static bool has(std::uint64_t set, std::size_t worker) { return (set >> worker & 1) != 0; }

  std::uint64_t digest_of(const Problem& problem, DeviceId worker) const {
    const Device& device = machine_.devices[static_cast<std::size_t>(worker)];
    Digest digest;
    digest.put(static_cast<std::uint64_t>(device.memory_bytes))
        .put(static_cast<std::uint64_t>(device.lanes))
        .put(device.launch_s)
        .put(device.memory_bytes_per_s);
    const Watts& watts = device.watts;
    for (const double kind :
         {watts.idle, watts.wait, watts.copy, watts.exchange, watts.stream, watts.multiply})
      digest.put(kind);
    const DataType type = machine_.rated_as(worker, problem.type);
    for (const KernelRate& rate : device.kernels)
      if (rate.type == type)
        digest.put(static_cast<std::uint64_t>(rate.edge)).put(rate.flops_per_s);
    digest.put_sorted(digests_of(device.ports));
    for (const DeviceId home : homes_) {
      digest.put(std::uint64_t{home == worker});
      if (home == worker) continue;
      put_link(digest, on_host(home) ? kHost : home, worker);
      put_link(digest, worker, on_host(home) ? kHost : home);
    }
    return digest.value();
  }

  /// What `to` is to `from`: the links between them, and the ports that their ways to the operands
  /// have in common.
  std::uint64_t digest_of(DeviceId from, DeviceId to) const {
    Digest digest;
    put_link(digest, from, to);
    put_link(digest, to, from);
    for (const DeviceId home : homes_) {
      const DeviceId place = on_host(home) ? kHost : home;
      digest.put(shared(links_.at(place, from), links_.at(place, to)));
      digest.put(shared(links_.at(from, place), links_.at(to, place)));
    }
    return digest.value();
  }

  double shared(LinkId x, LinkId y) const {
    if (x < 0 || y < 0) return -1;
    double capacity = 0;
    for (const PortShare& of_x : machine_.links[static_cast<std::size_t>(x)].ports)
      for (const PortShare& of_y : machine_.links[static_cast<std::size_t>(y)].ports)
        if (of_x.port == of_y.port)
          capacity += machine_.ports[static_cast<std::size_t>(of_x.port)].capacity;
    return capacity;
  }

  std::vector<std::uint64_t> digests_of(const std::vector<PortShare>& shares) const {
    std::vector<std::uint64_t> digests;
    for (const PortShare& share : shares)
      digests.push_back(Digest()
                            .put(machine_.ports[static_cast<std::size_t>(share.port)].capacity)
                            .put(share.weight)
                            .value());
    return digests;
  }

  void put_link(Digest& digest, DeviceId source, DeviceId target) const {
    const LinkId id = links_.at(source, target);
    if (id < 0) {
      digest.put(std::uint64_t{0});
      return;
    }
    const Link& link = machine_.links[static_cast<std::size_t>(id)];
    digest.put(link.bytes_per_s).put(link.latency_s).put(link.sent_latency_s);
    digest.put_sorted(digests_of(link.ports));
  }

  const Machine& machine_;
  const LinkTable links_;
  const Team& workers_;
  std::vector<DeviceId> homes_;
  std::vector<std::uint64_t> alone_;  ///< per worker
  std::vector<std::uint64_t> pairs_;  ///< per pair of workers
};

Team members(const Team& workers, std::uint64_t set) {
  Team team;
  for (std::size_t w = 0; w < workers.size(); ++w)
    if ((set >> w & 1) != 0) team.push_back(workers[w]);
  return team;
}

/// The least estimate of a few tunings of the team: it tells teams apart, not tunings.
double quick_s(const Problem& problem, const Machine& machine, const Team& team) {
  const Estimator estimator(problem, machine, team);
  const auto count = static_cast<int>(team.size());
  Tuning tuning{.workers = team, .grid = near_square_grid(count)};
  if (problem.n > problem.m * problem.batch) std::swap(tuning.grid.rows, tuning.grid.cols);
  const std::int64_t block = std::max(ceil_div(problem.m * problem.batch, tuning.grid.rows),
                                      ceil_div(problem.n, tuning.grid.cols));
  double least_s = std::numeric_limits<double>::infinity();
  const auto try_edge = [&](std::int64_t edge) {
    for (const std::int64_t pieces : limits::kTeamPieces) {
      tuning.tile = std::max<std::int64_t>(1, ceil_div(edge, pieces));
      least_s = std::min(least_s, estimator.seconds(tuning));
    }
  };
  try_edge(block);
  // Where k is longer than a block, long steps of k have fewer products.
  const std::int64_t step = std::min(problem.k, limits::kLargestTile);
  if (step > block) try_edge(step);
  return least_s;
}

/// The cost of the least estimate: the devices wait where they do not multiply, and multiply at
/// their best rates.
Cost quick_cost(const Problem& problem, const Machine& machine, const Team& team,
                bool with_joules) {
  Cost cost{.seconds = quick_s(problem, machine, team)};
  if (!with_joules) return cost;
  double rate = 0;
  for (const DeviceId worker : team) rate += machine.best_rate(worker, problem.type);
  const double multiply_s = std::min(cost.seconds, flops(problem) / rate);
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d) {
    const Watts& watts = machine.devices[static_cast<std::size_t>(d)].watts;
    const bool works = std::ranges::binary_search(team, d);
    const bool takes_part = works || std::ranges::any_of(problem.operands, [d](const Operand& o) {
                              return o.home == d;
                            });
    const double joules = (takes_part ? watts.wait : watts.idle) * cost.seconds +
                          (works ? (watts.multiply - watts.wait) * multiply_s : 0);
    cost.devices += takes_part ? 1 : 0;
    if (takes_part) cost.joules += joules;
    cost.joules_node += joules;
  }
  if (!machine.knows_watts()) cost.joules = cost.joules_node = 0;
  return cost;
}

/// Sets of 1, 2, 3, 4, 6, 8, 12, ... workers, each with the next device whose estimate is least.
std::vector<Team> growing_sets(const Problem& problem, const Machine& machine,
                               const Team& workers) {
  std::vector<std::pair<double, DeviceId>> order;
  for (const DeviceId worker : workers)
    order.emplace_back(quick_s(problem, machine, {worker}), worker);
  std::ranges::stable_sort(order, {}, &std::pair<double, DeviceId>::first);
  std::vector<Team> sets;
  for (std::size_t count = 1; count < workers.size();
       count += std::max<std::size_t>(1, std::bit_floor(count) / 2)) {
    Team team;
    for (std::size_t w = 0; w < count; ++w) team.push_back(order[w].second);
    std::ranges::sort(team);
    sets.push_back(std::move(team));
  }
  sets.push_back(workers);
  return sets;
}

}  // namespace

std::vector<Team> all_sets(const Problem& problem, const Machine& machine, const Team& workers) {
  const Symmetry symmetry(problem, machine, workers);
  std::vector<std::uint64_t> seen;
  std::vector<Team> sets;
  for (std::uint64_t set = 1; set < std::uint64_t{1} << workers.size(); ++set) {
    const std::uint64_t signature = symmetry.signature(set);
    const auto at = std::ranges::lower_bound(seen, signature);
    if (at != seen.end() && *at == signature) continue;
    seen.insert(at, signature);
    sets.push_back(members(workers, set));
  }
  return sets;
}

std::vector<Team> teams(const Problem& problem, const Machine& machine, const Team& workers,
                        const Goal& goal) {
  if (workers.size() < 2) return {workers};
  std::vector<Team> sets = workers.size() <= limits::kMostEnumerated
                               ? all_sets(problem, machine, workers)
                               : growing_sets(problem, machine, workers);
  std::vector<std::pair<double, Team>> ranked;
  double least = kNever;
  for (Team& set : sets) {
    const double value = goal.value(quick_cost(problem, machine, set, !goal.is_time()));
    least = std::min(least, value);
    ranked.emplace_back(value, std::move(set));
  }
  // Of equally good ones the smallest.
  std::ranges::stable_sort(ranked, [](const auto& x, const auto& y) {
    return std::tuple(x.first, x.second.size()) < std::tuple(y.first, y.second.size());
  });
  // Estimates err in the same direction for sets of one size.
  std::vector<Team> chosen{workers};
  for (auto& [value, set] : ranked) {
    const auto alike = std::ranges::count(chosen, set.size(), &Team::size);
    if (set != workers && value <= within(limits::kWorthATeam, least) &&
        alike < limits::kMostOfSize)
      chosen.push_back(std::move(set));
  }
  return chosen;
}

}  // namespace fleet

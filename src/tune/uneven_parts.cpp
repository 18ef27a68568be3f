// SPDX-License-Identifier: BSD-3-Clause
// uneven_parts.cpp: larger parts for owners and faster workers, and tiles of two sizes.
#include "tune/uneven_parts.hpp"

#include <algorithm>
#include <cmath>

#include "plan/bound.hpp"
#include "program/decompose.hpp"
#include "tune/candidates.hpp"
#include "tune/limits.hpp"
#include "tune/shares.hpp"

namespace fleet {

void UnevenParts::attempt(const Team& team) {
  const Rules& rules = request_.rules;
  if (!rules.has(Rule::grid) || problem_.batch > 1 || problem_.traits().triangle) return;
  const Budget& budget = attempts_.budget();
  const std::int64_t for_shares = limits::kForShares(budget.whole());
  attempt_owned(team, budget.spent() + for_shares);
  attempt_balanced(team, budget.spent() + for_shares);
  if (rules.has(Rule::tile) && request_.tile == 0)
    attempt_two_sizes(team, budget.spent() + for_shares);
}

/// The worker that holds C, or if C is on the host, the one that holds both A and B; -1 if none.
int UnevenParts::owner(const Team& workers) const {
  const auto& operands = problem_.operands;
  DeviceId home = operands[kC].home;
  if (on_host(home) && operands[kA].home == operands[kB].home) home = operands[kA].home;
  const auto found = std::ranges::find(workers, home);
  return found == workers.end() ? -1 : static_cast<int>(found - workers.begin());
}

/// Where A is triangular, only the side that it leaves free is cut into shares.
bool UnevenParts::may_cut(const Tuning& tuning) const {
  const int along = problem_.side == Side::left ? tuning.grid.rows : tuning.grid.cols;
  return tuning.out_of_core == OutOfCore::none && (!problem_.traits().triangular || along == 1);
}

/// How fast each worker of the tuning alone multiplies its tiles, relative to the first.
std::vector<double> UnevenParts::speeds(const Tuning& tuning) const {
  std::vector<double> speeds;
  const double first_s = all_by_s(tuning.workers.front(), tuning);
  for (const DeviceId worker : tuning.workers) speeds.push_back(first_s / all_by_s(worker, tuning));
  return speeds;
}

// Workers whose products end late get smaller parts of C, until all end at about the same time
// (paper 2, 3.1: within 5 %). Uneven devices start with parts by their speeds.
void UnevenParts::attempt_balanced(const Team& team, std::int64_t end) {
  if (team.size() < 2) return;
  for (Considered latest : choice_.best_of_grids(limits::kMostShared, team)) {
    const Tuning unbalanced = latest.tuning;
    if (!may_cut(unbalanced)) continue;
    std::vector<double> parts = parts_of(unbalanced);
    const auto attempt_parts = [&] {
      Considered c{.tuning = in_proportion(unbalanced, parts), .tasks = latest.tasks};
      c.estimate_s = latest.estimate_s;
      const Considered* planned = attempts_.attempt_before(end, std::move(c));
      const bool is_better = planned != nullptr && choice_.rank(*planned) < choice_.rank(latest);
      if (is_better) latest = *planned;
      return is_better;
    };
    if (unbalanced.row_shares.empty()) {
      const std::vector<double> fast = speeds(unbalanced);
      const auto [slowest, quickest] = std::ranges::minmax(fast);
      if (quickest >= limits::kUneven * slowest) {
        parts = fast;
        if (!attempt_parts()) continue;
      }
    }
    for (int round = 0; round < limits::kBalanceRounds; ++round) {
      const auto [first, last] = std::ranges::minmax(latest.ends_s);
      if (first <= 0 || last <= limits::kBalanced * first) break;
      for (std::size_t worker = 0; worker < parts.size(); ++worker)
        parts[worker] *= last / latest.ends_s[worker];
      if (!attempt_parts()) break;
    }
  }
}

/// Bytes per second of the link over which the worker gets a factor from its home; infinite where
/// it is at home there, 0 where it comes over another worker.
double UnevenParts::speed_of_input(DeviceId worker, int factor) const {
  const DeviceId home = problem_.operands[static_cast<std::size_t>(factor)].home;
  if (home == worker) return kNever;
  const LinkId link = machine_.find_link(on_host(home) ? kHost : home, worker);
  return link < 0 ? 0 : machine_.links[static_cast<std::size_t>(link)].bytes_per_s;
}

// Two tile sizes (paper 4), of A by rows or of B by columns of the grid, where some of these have
// faster links from its home than others: half the edge for the faster ones, or for the slower
// ones, whose first tile then comes sooner (unequal load); or edges in inverse proportion to the
// speed of the links, with which each worker multiplies as long as it fetches (idle case).
void UnevenParts::attempt_two_sizes(const Team& team, std::int64_t end) {
  if (team.size() < 2 || problem_.traits().triangular) return;
  for (const Considered& alike : choice_.best(limits::kMostTwoSized, &team)) {
    const Tuning& tuning = alike.tuning;
    if (tuning.out_of_core != OutOfCore::none || tuning.split_k) continue;
    for (const bool by_row : {true, false}) {
      std::vector<double> speed(
          static_cast<std::size_t>(by_row ? tuning.grid.rows : tuning.grid.cols), kNever);
      for (std::size_t worker = 0; worker < team.size(); ++worker) {
        const auto cols = static_cast<std::size_t>(tuning.grid.cols);
        double& line = speed[by_row ? worker / cols : worker % cols];
        line = std::min(line, speed_of_input(team[worker], by_row ? kA : kB));
      }
      const auto [slowest, fastest] = std::ranges::minmax(speed);
      if (slowest <= 0 || fastest < limits::kFasterLink * slowest) continue;
      const auto edge = static_cast<double>(by_row ? tuning.edge_m() : tuning.tile);
      const auto attempt_edges = [&](const auto& part_of) {
        Considered c{.tuning = alike.tuning, .tasks = alike.tasks};
        c.estimate_s = alike.estimate_s;
        std::vector<std::int64_t>& edges = by_row ? c.tuning.row_tiles : c.tuning.col_tiles;
        edges.clear();
        for (const double line : speed)
          edges.push_back(std::max<std::int64_t>(1, std::llround(edge * part_of(line))));
        attempts_.attempt_before(end, std::move(c));
      };
      const auto is_fast = [&](double line) { return line >= limits::kFasterLink * slowest; };
      attempt_edges([&](double line) { return is_fast(line) ? 0.5 : 1.0; });
      attempt_edges([&](double line) { return is_fast(line) ? 1.0 : 0.5; });
      attempt_edges([&](double line) { return std::max(limits::kLeastPart, slowest / line); });
    }
  }
}

// With equal parts the other workers still wait for links when the owner is done, because its tiles
// need no copies. The owner therefore gets the share that it computes in the mean of the bound and
// the time of the best plan so far.
void UnevenParts::attempt_owned(const Team& team, std::int64_t end) {
  const int favoured = owner(team);
  const auto workers = static_cast<int>(team.size());
  if (favoured < 0 || workers < 2) return;
  const Estimator estimator(problem_, machine_, team);
  const double bound_s = bound(problem_, machine_).seconds;
  for (const Considered& equal : choice_.best_of_grids(limits::kMostShared, team)) {
    if (!may_cut(equal.tuning) || !equal.tuning.row_shares.empty()) continue;
    const double alone_s = all_by_s(team[static_cast<std::size_t>(favoured)], equal.tuning);
    double seconds = equal.seconds, least = choice_.rank(equal);
    for (int round = 0; round < limits::kShareRounds; ++round) {
      const double share = std::min((seconds + bound_s) / 2 / alone_s, limits::kMostOwned);
      if (share * workers < limits::kWorthFavouring) break;
      Considered uneven{.tuning = favour(equal.tuning, favoured, share), .tasks = equal.tasks};
      uneven.estimate_s = estimator.seconds(uneven.tuning);
      const Considered* planned = attempts_.attempt_before(end, std::move(uneven));
      if (planned == nullptr || choice_.rank(*planned) >= least) break;
      seconds = planned->seconds;
      least = choice_.rank(*planned);
    }
  }
}

/// Seconds of the whole problem in these tiles on one device that holds all operands.
double UnevenParts::all_by_s(DeviceId device, const Tuning& tuning) const {
  const std::int64_t m = std::min(tuning.edge_m(), problem_.m),
                     n = std::min(tuning.tile, problem_.n),
                     step = longest_step(problem_.type.storage, tuning.edge_k());
  std::int64_t k = std::min(step, problem_.k);
  if (problem_.traits().has_side()) k = problem_.side == Side::left ? m : n;
  const auto volume = [](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
  };
  return problem_.traits().part_of_products() *
         machine_.multiply_s(device, problem_.type, m, n, k) *
         volume(problem_.m, problem_.n, problem_.k) / volume(m, n, k);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// simulate.cpp: the tasks on lanes, then back substitution as lu/factor/solve.cpp does it.
#include "sim/simulate.hpp"

#include "sim/run.hpp"

namespace fleet::lu {
namespace {

/// Block by block: a sum over a row of the grid, a triangle, a broadcast in a column, and the
/// product with all rows above.
double substitution_s(const Run& run) {
  const RankMeans& rank = run.cluster.rank;
  const double memory = rank.resident ? rank.gpu_memory_bytes_per_s : rank.memory_bytes_per_s;
  double seconds = 0;
  for (std::int64_t k = 0; k < run.shape.steps(); ++k) {
    const auto width = static_cast<double>(run.width(k));
    const double bytes = kBytesOfDouble * width;
    const double above = static_cast<double>(k * run.shape.nb) / run.shape.rows;
    seconds += gather_s(run.row_link, run.shape.cols, bytes) + run.col_broadcast_s(bytes) +
               bytes * (width / 2 + above) / memory;
  }
  return seconds;
}

std::array<std::optional<double>, kWorks> cpu_shares(const Run& run) {
  std::array<std::optional<double>, kWorks> shares;
  for (std::size_t work = 0; work < kWorks; ++work) {
    Balance::Done done;
    for (const Balance& balance : run.balances) {
      done.cpu += balance.done()[work].cpu;
      done.all += balance.done()[work].all;
    }
    if (done.all > 0) shares[work] = done.cpu / done.all;
  }
  return shares;
}

}  // namespace

Simulated simulate(const Cluster& cluster, const Simulation& wanted) {
  Run run(cluster, wanted);
  Simulated result;
  if (wanted.algorithm == Algorithm::skeleton) {
    run_skeleton(run);  // what it solves is no system: nothing is substituted
  } else {
    run_pivoted(run);
    result.substitution_s = substitution_s(run);
  }
  result.seconds = run.lanes.end_s() + result.substitution_s;
  const auto n = static_cast<double>(wanted.shape.n);
  result.flops_per_s = (2.0 / 3 * n * n * n + 1.5 * n * n) / result.seconds;
  result.totals = run.lanes.totals();
  result.spans = std::move(run.lanes.spans());
  result.cpu_shares = cpu_shares(run);
  return result;
}

BalancedProduct balanced_product(const RankMeans& rank, double m, double n, double k,
                                 Transfers transfers) {
  // Rates depend on shares, so shares come near their limit by steps.
  constexpr int kTimes = 16;
  Balance balance(rank.cores);
  BalancedProduct found;
  for (int i = 0; i < kTimes; ++i) {
    Lanes lanes(1, rank.cores, {Overlap::none, transfers});
    double on_cpu = 0;
    for (auto left = static_cast<std::int64_t>(m); left > 0;) {
      const Split split = balance.split(Work::alone, left);
      const auto rows = static_cast<double>(split.columns), cpu = static_cast<double>(split.on_cpu);
      const Lanes::Sides sides =
          lanes.work(0, Spent::product, 0, product_work(rank, rows, n, k, cpu / rows));
      balance.learn(Work::alone, {cpu, sides.cpu_s, rows - cpu, sides.gpu_s});
      on_cpu += cpu;
      left -= split.columns;
    }
    found = {lanes.end_s(), on_cpu / m};
  }
  return found;
}

double product_s(const RankMeans& rank, double m, double n, double k, double cpu_share,
                 Transfers transfers) {
  Lanes lanes(1, rank.cores, {Overlap::none, transfers});
  lanes.work(0, Spent::product, 0, product_work(rank, m, n, k, cpu_share));
  return lanes.end_s();
}

}  // namespace fleet::lu

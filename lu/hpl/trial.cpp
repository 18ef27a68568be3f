// SPDX-License-Identifier: BSD-3-Clause
// trial.cpp: the clock runs from a barrier before the factorization to the end of the solution.
#include "hpl/trial.hpp"

#include <cmath>
#include <memory>
#include <optional>

#include "dist/fill.hpp"
#include "hpl/energy.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

/// Bytes that a rank's part takes, with two panels and the rows that move.
double bytes_of(const Trial& trial, const Grid& grid) {
  const Blocks rows{trial.n, trial.nb, grid.rows}, cols{trial.n + 1, trial.nb, grid.cols};
  const auto local_rows = static_cast<double>(rows.local_size(grid.row) + 16);
  const auto local_cols = static_cast<double>(cols.local_size(grid.col) + 1);
  const auto width = static_cast<double>(std::min(trial.nb, trial.n));
  return sizeof(double) *
         (local_rows * local_cols + 3 * width * (local_rows + width) + 5 * width * local_cols);
}

std::string refusal_of(const Trial& trial, const Grid& grid, double memory_bytes) {
  const double needs = bytes_of(trial, grid);
  double found[2] = {needs, memory_bytes > 0 && needs > memory_bytes ? 1.0 : 0.0};
  grid.all.reduce(found, Reduction::largest);
  if (found[1] == 0) return {};
  constexpr double kGiB = 1 << 30;
  return "N = " + std::to_string(trial.n) + " takes " +
         std::to_string(static_cast<std::int64_t>(std::ceil(found[0] / kGiB))) +
         " GiB for a rank, more than its node has for each of its ranks";
}

/// Joules since the counters had `before`.
std::optional<double> of_all_nodes(Comm& part, NodeEnergy& energy, double before, int ranks) {
  // All ranks of a node read the same.
  double sums[2] = {(energy.joules() - before) / ranks, energy.is_readable() ? 0.0 : 1.0};
  part.reduce(sums, Reduction::sum);
  return sums[1] == 0 ? std::optional(sums[0]) : std::nullopt;
}

/// Of all ranks.
std::array<std::optional<double>, kWorks> cpu_shares(Comm& part, const Balance& balance) {
  std::array<double, 2 * kWorks> done{};
  for (std::size_t work = 0; work < kWorks; ++work) {
    done[2 * work] = balance.done()[work].cpu;
    done[2 * work + 1] = balance.done()[work].all;
  }
  part.reduce(done, Reduction::sum);
  std::array<std::optional<double>, kWorks> shares;
  for (std::size_t work = 0; work < kWorks; ++work)
    if (done[2 * work + 1] > 0) shares[work] = done[2 * work] / done[2 * work + 1];
  return shares;
}

}  // namespace

double gflops(std::int64_t n, double seconds) {
  const auto order = static_cast<double>(n);
  return (2.0 / 3 * order + 1.5) * order * order / seconds * 1e-9;
}

Outcome run_trial(Comm& all, const Trial& trial, const Means& means,
                  const std::function<void(double)>& progress) {
  const int ranks = trial.rows * trial.cols;
  const bool takes_part = all.rank() < ranks;
  const std::unique_ptr<Comm> part = all.split(takes_part ? 0 : 1, all.rank());
  if (!takes_part) return {};
  part->set_patience(means.patience_s);
  const Grid grid(*part, trial.rows, trial.cols, trial.column_major);
  Outcome outcome;
  outcome.refusal = refusal_of(trial, grid, means.memory_bytes);
  if (!outcome.refusal.empty()) return outcome;

  System system(grid, trial.n, trial.nb);
  fill(grid, system);
  const Workshop workshop(means, trial.schedule.overlap);
  const Rank& rank = workshop.rank();
  NodeEnergy energy(trial.counters.folder);
  const auto after_step = [&](std::int64_t done, std::int64_t of) {
    energy.joules();  // before its counters have wrapped around
    const double left = 1 - static_cast<double>(done) / static_cast<double>(of);
    if (progress && part->rank() == 0) progress(1 - left * left * left);
  };
  Workspace workspace;
  workspace.touch(grid, system, trial.schedule.overlap);
  std::optional<Devices::Pinned> pinned;
  if (rank.devices != nullptr) pinned.emplace(workspace.pin(system, *rank.devices));
  part->barrier();
  rank.recorder.start();
  const double joules = energy.joules();
  const auto begin = Recorder::Clock::now();
  const Factored factored = factor(grid, system, workspace, rank, trial.schedule, after_step);
  outcome.info = factored.info;
  std::vector<double> x;
  if (factored.info == 0) x = solve(grid, system, rank);
  double seconds[1] = {std::chrono::duration<double>(Recorder::Clock::now() - begin).count()};
  part->reduce(seconds, Reduction::largest);
  outcome.seconds = seconds[0];
  if (ranks == all.size())
    outcome.joules = of_all_nodes(*part, energy, joules, trial.counters.ranks_on_node);
  for (std::size_t what = 0; what < kWhats; ++what)
    outcome.most[what] = rank.recorder.seconds(static_cast<What>(what));
  part->reduce(outcome.most, Reduction::largest);
  outcome.spans = rank.recorder.spans();
  if (rank.devices != nullptr) outcome.cpu_shares = cpu_shares(*part, rank.devices->balance);
  if (factored.info == 0) {
    fill(grid, system);
    outcome.residual = residual(grid, system, x);
  }
  return outcome;
}

}  // namespace fleet::lu

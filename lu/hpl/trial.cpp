// SPDX-License-Identifier: BSD-3-Clause
// trial.cpp: the clock runs from a barrier before the factorization to the end of the solution.
#include "hpl/trial.hpp"

#include <algorithm>
#include <memory>

#include "comm/inproc.hpp"
#include "hpl/energy.hpp"

namespace fleet::lu {
namespace {

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

/// By one rank for each of the devices of this one, as threads, over a grid of one row.
Outcome run_by_devices(const Trial& trial, const Means& means,
                       const std::function<void(double)>& progress) {
  const std::size_t count = means.matrix_devices.size();
  Trial wide = trial;
  wide.cols = static_cast<int>(count);
  wide.counters.ranks_on_node = wide.cols;
  Outcome outcome;
  run_ranks(wide.cols, {.patience_s = means.patience_s}, [&](Comm& devices) {
    Means mine = means;
    mine.cores = std::max(1, means.cores / wide.cols);
    mine.matrix_devices = {means.matrix_devices[static_cast<std::size_t>(devices.rank())]};
    Outcome of_device = run_trial(devices, wide, mine, progress);
    if (devices.rank() == 0) outcome = std::move(of_device);
  });
  return outcome;
}

}  // namespace

double gflops(std::int64_t n, double seconds) {
  const auto order = static_cast<double>(n);
  return (2.0 / 3 * order + 1.5) * order * order / seconds * 1e-9;
}

Outcome run_trial(Comm& all, const Trial& trial, const Means& means,
                  const std::function<void(double)>& progress) {
  if (means.matrix_devices.size() > 1) return run_by_devices(trial, means, progress);
  const int ranks = trial.rows * trial.cols;
  const bool takes_part = all.rank() < ranks;
  const std::unique_ptr<Comm> part = all.split(takes_part ? 0 : 1, all.rank());
  if (!takes_part) return {};
  part->set_patience(means.patience_s);
  const Grid grid(*part, trial.rows, trial.cols, trial.column_major);
  Outcome outcome;
  const Workshop workshop(means, trial.schedule.overlap);
  const Rank& rank = workshop.rank();
  const std::unique_ptr<Solver> solver = make_solver(trial, grid, means, rank);
  outcome.refusal = solver->refusal();
  if (!outcome.refusal.empty()) return outcome;

  NodeEnergy energy(trial.counters.folder);
  const auto after_step = [&](std::int64_t done, std::int64_t of) {
    energy.joules();  // before its counters have wrapped around
    const double left = 1 - static_cast<double>(done) / static_cast<double>(of);
    if (progress && part->rank() == 0) progress(1 - left * left * left);
  };
  solver->prepare();
  part->barrier();
  rank.recorder.start();
  const double joules = energy.joules();
  const auto begin = Recorder::Clock::now();
  const Factored factored = solver->factor(after_step);
  outcome.info = factored.info;
  outcome.panel_way = solver->panel_way();
  std::vector<double> x;
  if (factored.info == 0) x = solver->solve();
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
  if (factored.info == 0) outcome.residual = solver->residual(x);
  return outcome;
}

}  // namespace fleet::lu

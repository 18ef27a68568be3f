// SPDX-License-Identifier: BSD-3-Clause
// trial.hpp: one system, made, solved and checked by all ranks. It prints nothing.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hpl/solver.hpp"
#include "work/recorder.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {

/// The same on all ranks, but for `spans`.
struct Outcome {
  /// Why nothing was run; empty where it was.
  std::string refusal;
  double seconds = 0;     ///< factorization and back substitution, of the slowest rank
  std::int64_t info = 0;  ///< the first pivot that is zero, from 1 on
  double residual = 0;    ///< not set where info > 0
  std::string panel_way;  ///< as a Solver says it
  /// Seconds, by What, of the rank that spent most on it.
  std::array<double, kWhats> most{};
  std::vector<Span> spans;  ///< of this rank
  /// Of the processors of all nodes, in that time; nothing: a node has no counters that its ranks
  /// may read, or has ranks beside those of the grid.
  std::optional<double> joules;
  /// The CPU's parts of work that devices shared, of all ranks, by Work; nothing: there was none.
  std::array<std::optional<double>, kWorks> cpu_shares;
};

/// 2/3 n^3 + 3/2 n^2 operations, in that time: billions per second.
double gflops(std::int64_t n, double seconds);

/// By the first rows * cols of `all`, which call it together; the others return at once. `progress`
/// hears on rank 0 which share of the operations is done. Throws Failure.
Outcome run_trial(Comm& all, const Trial& trial, const Means& means,
                  const std::function<void(double)>& progress = {});

}  // namespace fleet::lu

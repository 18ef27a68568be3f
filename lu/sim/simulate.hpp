// SPDX-License-Identifier: BSD-3-Clause
// simulate.hpp: a factorization on a cluster that is not there. Pure: the same inputs give the same
// seconds. It reads the tasks that lu/factor runs, and knows no data.
#pragma once
#include <array>
#include <optional>

#include "schedule/balance.hpp"
#include "sim/lanes.hpp"

namespace fleet::lu {

enum class Algorithm {
  pivoted,    ///< the tasks that lu/factor runs
  unpivoted,  ///< the same, with rows that stay where they are
  skeleton,   ///< the tasks of paper 3 (schedule/skeleton.hpp)
  hpl         ///< those of HPL (schedule/hpl_tasks.hpp)
};

/// The CPU's parts of work that it shares with GPUs (R of paper 3); none: balanced_share.
struct Shares {
  std::optional<double> solve;    ///< of dtrsm
  std::optional<double> ahead;    ///< of products that hide no messages
  std::optional<double> product;  ///< of the others
};

/// Where shares come from.
enum class Sharing {
  given,    ///< Shares
  measured  ///< Balance, by what earlier work took, as fleetblas-linpack does it
};

/// How durations are found: the same either way.
enum class Pricing {
  by_class,  ///< once for all ranks with as many rows and columns
  each       ///< for each rank
};

struct Simulation {
  Shape shape;
  Overlap overlap = Overlap::full;
  Algorithm algorithm = Algorithm::pivoted;
  Transfers transfers = Transfers::overlap;
  Shares shares;
  Sharing sharing = Sharing::given;
  Pricing pricing = Pricing::by_class;
  bool keeps_spans = false;
};

struct Simulated {
  double seconds = 0;  ///< of factorization and, with pivoted tasks, back substitution
  double substitution_s = 0;
  double flops_per_s = 0;  ///< of 2/3 n^3 + 3/2 n^2
  Totals totals;
  std::vector<LaneSpan> spans;
  /// The CPU's part of each kind of work, with shares that are measured.
  std::array<std::optional<double>, kWorks> cpu_shares;
};

Simulated simulate(const Cluster& cluster, const Simulation& wanted);

/// A product again and again on a rank alone, with the share that Balance has found by then.
struct BalancedProduct {
  double seconds = 0, cpu_share = 0;
};
BalancedProduct balanced_product(const RankMeans& rank, double m, double n, double k,
                                 Transfers transfers);
/// One product on a rank alone: seconds, as the tasks of simulate() take them.
double product_s(const RankMeans& rank, double m, double n, double k, double cpu_share,
                 Transfers transfers);

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// linpack_shares.cpp: a sweep of the CPU's share R beside R as lu/factor finds it, in real
// factorizations by one rank with cores and virtual devices whose rates are known: every product is
// held up until it has taken its time. So little is computed that what else the machine does hardly
// counts. It needs no MPI.
//
// usage: FLEETBLAS_BACKEND=host linpack_shares [N] [NB]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "comm/self.hpp"
#include "dist/fill.hpp"
#include "factor/factor.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

constexpr int kTurns = 3;
/// Of one of two cores, and of two devices together: R = 1/(1 + 1.5) by the paper's formula.
constexpr double kCore = 0.05e9, kDevices = 0.15e9;

struct Run {
  double seconds = 1e30;
  std::array<Balance::Done, kWorks> done{};
};

Run run(std::int64_t n, std::int64_t nb, std::optional<double> share) {
  const std::unique_ptr<Comm> comm = only_this_rank();
  const Grid grid(*comm, 1, 1);
  System system(grid, n, nb);
  const Workshop workshop(
      {.cores = 2,
       .devices = DeviceMeans{.which = "2", .cpu_share = share, .most_flops_per_s = kDevices},
       .most_flops_per_s = kCore},
      Overlap::lookahead);
  Workspace workspace;
  workspace.touch(grid, system, Overlap::lookahead);
  fill(grid, system);
  const auto begin = std::chrono::steady_clock::now();
  factor(grid, system, workspace, workshop.rank(), {.overlap = Overlap::lookahead});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {seconds.count(), workshop.rank().devices->balance.done()};
}

void sweep(std::int64_t n, std::int64_t nb) {
  std::printf(
      "N = %lld, NB = %lld, two cores of %.2g GFLOPS, two virtual devices of %.2g together; the "
      "best "
      "of %d turns\n   R  seconds\n",
      static_cast<long long>(n), static_cast<long long>(nb), kCore / 1e9, kDevices / 1e9, kTurns);
  std::map<int, Run> found;  // by percent; -1: as it is measured
  for (int turn = 0; turn < kTurns; ++turn)
    for (int percent : {-1, 24, 28, 32, 36, 40, 44, 48, 52, 56}) {
      const Run one = run(n, nb, percent < 0 ? std::optional<double>() : percent / 100.0);
      Run& least = found[percent];
      if (one.seconds < least.seconds) least = one;
    }
  double best = 1e30;
  for (const auto& [percent, one] : found) {
    if (percent < 0) continue;
    std::printf("%.2f %8.3f\n", percent / 100.0, one.seconds);
    best = std::min(best, one.seconds);
  }
  const Run& measured = found[-1];
  std::printf("auto %8.3f, %+.1f %% beside the best of the sweep; R", measured.seconds,
              100 * (measured.seconds / best - 1));
  for (std::size_t work = 0; work < kWorks; ++work)
    if (measured.done[work].all > 0)
      std::printf(" %.3f %s,", measured.done[work].cpu / measured.done[work].all,
                  to_string(static_cast<Work>(work)));
  std::printf(" %.3f by the formula\n", 2 * kCore / (2 * kCore + kDevices));
}

}  // namespace
}  // namespace fleet::lu

int main(int argc, char** argv) {
  try {
    fleet::lu::sweep(argc > 1 ? std::atoll(argv[1]) : 1024, argc > 2 ? std::atoll(argv[2]) : 64);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "linpack_shares: %s\n", failure.what());
    return 1;
  }
}

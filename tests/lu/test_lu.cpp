// SPDX-License-Identifier: BSD-3-Clause
// test_lu.cpp: systems factored and solved by ranks that are threads, beside LAPACK's pivots.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "comm/inproc.hpp"
#include "dist/fill.hpp"
#include "dist/generator.hpp"
#include "factor/factor.hpp"
#include "factor/residual.hpp"
#include "fleetblas/lapack.h"
#include "support/scale.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

constexpr Overlap kOverlaps[] = {Overlap::none, Overlap::lookahead, Overlap::dedicated,
                                 Overlap::full};

/// Changes a system after it was filled, by global row and column.
using Change = std::function<void(std::int64_t, std::int64_t, double&)>;

struct Solved {
  std::vector<std::int64_t> pivots;
  std::int64_t info = -1;
  double residual = -1;
};

struct Case {
  int rows, cols;
  std::int64_t n, nb;
  Overlap overlap;
  int cores = 1;
  std::optional<bool> progress_thread = {};  ///< nothing: where the overlap has one
  Pivoting pivoting = Pivoting::partial;
};

Solved run(const Case& c, const Pace& pace = {}, const Change& change = {}) {
  const Schedule schedule{.overlap = c.overlap, .pivoting = c.pivoting};
  const Means means{.cores = c.cores,
                    .progress_thread = c.progress_thread.value_or(c.overlap >= Overlap::dedicated),
                    .patience_s = pace.patience_s};
  std::mutex mutex;
  Solved found;
  run_ranks(c.rows * c.cols, pace, [&](Comm& comm) {
    const Grid grid(comm, c.rows, c.cols);
    System system(grid, c.n, c.nb);
    const Workshop workshop(means, schedule.overlap);
    const Rank& rank = workshop.rank();
    Workspace workspace;
    const auto make = [&] {
      fill(grid, system);
      if (!change) return;
      for (std::int64_t c = 0; c < system.local_cols; ++c)
        for (std::int64_t r = 0; r < system.local_rows; ++r)
          change(system.rows.global(r, grid.row), system.cols.global(c, grid.col),
                 *system.at(r, c));
    };
    make();
    const Factored factored = factor(grid, system, workspace, rank, schedule);
    double error = -1;
    if (factored.info == 0) {
      const std::vector<double> x = solve(grid, system, rank);
      make();
      error = residual(grid, system, x, rank);
    }
    const std::lock_guard lock(mutex);
    if (found.info >= 0) {
      EXPECT_EQ(factored.pivots, found.pivots);
      EXPECT_EQ(factored.info, found.info);
      EXPECT_TRUE(error == found.residual || std::isnan(error));
    }
    found = {factored.pivots, factored.info, error};
  });
  return found;
}

/// Column-major.
std::vector<double> matrix_of(std::int64_t n, const Change& change = {}) {
  std::vector<double> a(static_cast<std::size_t>(n * n));
  Sequence numbers;
  for (std::int64_t c = 0; c < n; ++c)
    for (std::int64_t r = 0; r < n; ++r) {
      double& element = a[static_cast<std::size_t>(r + c * n)];
      element = numbers.next();
      if (change) change(r, c, element);
    }
  return a;
}

std::pair<std::vector<std::int64_t>, std::int64_t> by_lapack(std::int64_t n,
                                                             const Change& change = {}) {
  const CpuContext context(1);
  std::vector<double> a = matrix_of(n, change);
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  std::int64_t info = -1;
  EXPECT_EQ(fleet_dgetrf(context.get(), n, n, a.data(), n, pivots.data(), &info), FLEET_OK)
      << fleet_message();
  return {pivots, info};
}

/// HPL finds numbers below 16 right; good ones are a thousandth of that.
constexpr double kMostResidual = 1;

TEST(Lu, HasThePivotsOfLapackOverAllGridsAndSizes) {
  struct Shape {
    int rows, cols;
  };
  // With sanitizers, sizes that share no path with others.
  for (const std::int64_t n : test::few<std::int64_t>({100, 64, 7, 1, 2, 257}))
    for (const std::int64_t nb : {1, 5, 32, 300}) {
      if (nb < 32 && n > 64) continue;
      const auto [pivots, info] = by_lapack(n);
      for (const auto& [rows, cols] : {Shape{1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 3}, {1, 5}, {4, 1}})
        for (const Overlap overlap : kOverlaps) {
          const Solved found = run({rows, cols, n, nb, overlap});
          EXPECT_EQ(found.pivots, pivots) << n << " " << nb << " " << rows << "x" << cols;
          EXPECT_EQ(found.info, info);
          EXPECT_LT(found.residual, kMostResidual);
        }
    }
}

TEST(Lu, TellsTheFirstPivotThatIsZero) {
  const Change change = [](std::int64_t, std::int64_t col, double& element) {
    if (col == 41) element = 0;
  };
  const auto [pivots, info] = by_lapack(90, change);
  ASSERT_EQ(info, 42);
  for (const Overlap overlap : kOverlaps) {
    const Solved found = run({2, 2, 90, 16, overlap}, {}, change);
    EXPECT_EQ(found.info, info);
    EXPECT_EQ(found.pivots, pivots);
  }
}

TEST(Lu, OfNumbersThatAreNoneHasNoResidualToPass) {
  const Change change = [](std::int64_t row, std::int64_t col, double& element) {
    if (row == 17 && col == 30) element = std::nan("");
  };
  const Solved found = run({2, 2, 60, 8, Overlap::full}, {}, change);
  EXPECT_FALSE(found.residual < kMostResidual);
}

TEST(Lu, IsTheSameOverSlowLinksWithAnyNumberOfCores) {
  const Solved fast = run({2, 2, 64, 8, Overlap::lookahead});
  const Pace slow{.latency_s = 1e-4, .bytes_per_s = 1e8};
  for (const Overlap overlap : kOverlaps)
    for (const int cores : {1, 2, 3})
      for (const bool progress_thread : {false, true}) {
        const Solved found = run({2, 2, 64, 8, overlap, cores, progress_thread}, slow);
        EXPECT_EQ(found.pivots, fast.pivots);
        EXPECT_LT(found.residual, kMostResidual);
      }
}

TEST(Lu, HasPanelsThatAreTallEnoughForAllCores) {
  constexpr std::int64_t kOrder = 2300, kWidth = 24;
  const auto [pivots, info] = by_lapack(kOrder);
  for (const int cores : test::few({3, 1})) {
    const Solved found = run({2, 1, kOrder, kWidth, Overlap::lookahead, cores});
    EXPECT_EQ(found.pivots, pivots);
    EXPECT_EQ(found.info, info);
    EXPECT_LT(found.residual, kMostResidual);
  }
}

TEST(Lu, WithoutPivotsLeavesAllRowsWhereTheyAre) {
  // A diagonal that no sum of a row reaches: no pivots are needed.
  const Change change = [](std::int64_t row, std::int64_t col, double& element) {
    if (row == col) element += 100;
  };
  for (const auto& [rows, cols] : {std::pair{1, 1}, {2, 2}, {3, 1}})
    for (const Overlap overlap : kOverlaps) {
      const Solved found = run({rows, cols, 90, 16, overlap, 1, {}, Pivoting::none}, {}, change);
      std::vector<std::int64_t> in_place(90);
      std::iota(in_place.begin(), in_place.end(), 1);
      EXPECT_EQ(found.pivots, in_place);
      EXPECT_EQ(found.info, 0);
      EXPECT_LT(found.residual, kMostResidual);
    }
}

TEST(Ranks, EndWhereOneFailsOrStopsAnswering) {
  const auto failing = [](Comm& comm) {
    if (comm.rank() == 1) throw Failure("this rank is broken");
    comm.barrier();
  };
  try {
    run_ranks(3, {}, failing);
    FAIL() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "this rank is broken");
  }
  const auto silent = [](Comm& comm) {
    if (comm.rank() != 1) comm.barrier();
  };
  EXPECT_THROW(run_ranks(3, {.patience_s = 0.05}, silent), Failure);
  EXPECT_THROW(run_ranks(3, {}, [](Comm& comm) { Grid(comm, 2, 2); }), Failure);
}

TEST(Ranks, AgreeOnWhatOneCannot) {
  run_ranks(3, {}, [](Comm& comm) {
    EXPECT_EQ(comm.try_on_all([] {}, "elsewhere"), "");
    const auto fails = [&] {
      if (comm.rank() == 1) throw Failure("no room");
    };
    EXPECT_EQ(comm.try_on_all(fails, "elsewhere"), comm.rank() == 1 ? "no room" : "elsewhere");
  });
  // That messages are broken is no reason which others could hear of.
  const auto silent = [](Comm& comm) {
    if (comm.rank() != 0) return;
    EXPECT_THROW(comm.try_on_all([] {}, ""), BrokenMessages);
  };
  run_ranks(2, {.patience_s = 0.05}, silent);
}

TEST(Numbers, CanBeEnteredAnywhere) {
  Sequence all;
  std::vector<double> numbers;
  for (int i = 0; i < 300; ++i) numbers.push_back(all.next());
  for (const std::size_t first : {0u, 1u, 2u, 63u, 128u, 299u}) {
    Sequence part;
    part.skip(first);
    EXPECT_EQ(part.next(), numbers[first]);
  }
  for (const double number : numbers) {
    EXPECT_GT(number, -0.5);
    EXPECT_LE(number, 0.5);
  }
  // 0.5 - x / 2^64 for the states after 100, rounded as HPL does. beside_hpl.sh has all of its
  // numbers.
  EXPECT_EQ(numbers[0], -0x1.b0d8f532d8000p-15);
  EXPECT_EQ(numbers[1], 0x1.8959b2285d2a4p-2);
  EXPECT_EQ(numbers[2], 0x1.c65502e86d5b5p-2);
  EXPECT_EQ(numbers[3], -0x1.d783dcadd4726p-2);
}

TEST(DealtBlocks, AreAllIndicesOnceAndInOrder) {
  for (const std::int64_t n : {0, 1, 9, 10, 31})
    for (const std::int64_t nb : {1, 3, 10, 40})
      for (const int parts : {1, 2, 3, 5}) {
        const Blocks blocks{n, nb, parts};
        std::int64_t sum = 0;
        for (int part = 0; part < parts; ++part) sum += blocks.local_size(part);
        EXPECT_EQ(sum, n);
        for (std::int64_t i = 0; i < n; ++i) {
          const int owner = blocks.owner(i);
          EXPECT_EQ(blocks.global(blocks.local(i), owner), i);
          EXPECT_EQ(blocks.local_begin(i, owner), blocks.local(i));
        }
      }
}

}  // namespace
}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// test_lu.cpp: systems factored and solved by ranks that are threads, beside LAPACK's pivots.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <vector>

#include "comm/inproc.hpp"
#include "dist/fill.hpp"
#include "dist/generator.hpp"
#include "factor/factor.hpp"
#include "fleetblas/lapack.h"

namespace fleet::lu {
namespace {

constexpr const char* kOnCpu = "backend=host;offload=never";

class OnCpu {
 public:
  OnCpu() { EXPECT_EQ(fleet_context_create(kOnCpu, &context_), FLEET_OK) << fleet_message(); }
  ~OnCpu() { fleet_context_destroy(context_); }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;
  operator fleet_context*() const { return context_; }

 private:
  fleet_context* context_ = nullptr;
};

/// Changes a system after it was filled, by global row and column.
using Change = std::function<void(std::int64_t, std::int64_t, double&)>;

struct Solved {
  std::vector<std::int64_t> pivots;
  std::int64_t info = -1;
  double residual = -1;
};

Solved run(int rows, int cols, std::int64_t n, std::int64_t nb, Overlap overlap,
           const Pace& pace = {}, const Change& change = {}) {
  const OnCpu context;
  const Blas blas(context);
  std::mutex mutex;
  Solved found;
  run_ranks(rows * cols, pace, [&](Comm& comm) {
    const Grid grid(comm, rows, cols);
    System system(grid, n, nb);
    const auto make = [&] {
      fill(grid, system);
      if (!change) return;
      for (std::int64_t c = 0; c < system.local_cols; ++c)
        for (std::int64_t r = 0; r < system.local_rows; ++r)
          change(system.rows.global(r, grid.row), system.cols.global(c, grid.col),
                 *system.at(r, c));
    };
    make();
    const Factored factored = factor(grid, system, blas, overlap);
    double error = -1;
    if (factored.info == 0) {
      const std::vector<double> x = solve(grid, system, blas);
      make();
      error = residual(grid, system, x);
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
  const OnCpu context;
  std::vector<double> a = matrix_of(n, change);
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  std::int64_t info = -1;
  EXPECT_EQ(fleet_dgetrf(context, n, n, a.data(), n, pivots.data(), &info), FLEET_OK)
      << fleet_message();
  return {pivots, info};
}

/// HPL finds numbers below 16 right; good ones are a thousandth of that.
constexpr double kMostResidual = 1;

TEST(Lu, HasThePivotsOfLapackOverAllGridsAndSizes) {
  struct Shape {
    int rows, cols;
  };
  for (const std::int64_t n : {1, 2, 7, 64, 100, 257})
    for (const std::int64_t nb : {1, 5, 32, 300}) {
      if (nb < 32 && n > 64) continue;
      const auto [pivots, info] = by_lapack(n);
      for (const auto& [rows, cols] : {Shape{1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 3}, {1, 5}, {4, 1}})
        for (const Overlap overlap : {Overlap::none, Overlap::lookahead}) {
          const Solved found = run(rows, cols, n, nb, overlap);
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
  for (const Overlap overlap : {Overlap::none, Overlap::lookahead}) {
    const Solved found = run(2, 2, 90, 16, overlap, {}, change);
    EXPECT_EQ(found.info, info);
    EXPECT_EQ(found.pivots, pivots);
  }
}

TEST(Lu, OfNumbersThatAreNoneHasNoResidualToPass) {
  const Change change = [](std::int64_t row, std::int64_t col, double& element) {
    if (row == 17 && col == 30) element = std::nan("");
  };
  const Solved found = run(2, 2, 60, 8, Overlap::lookahead, {}, change);
  EXPECT_FALSE(found.residual < kMostResidual);
}

TEST(Lu, IsTheSameOverSlowLinks) {
  const Solved fast = run(2, 2, 64, 8, Overlap::lookahead);
  const Solved slow = run(2, 2, 64, 8, Overlap::lookahead, {.latency_s = 1e-4, .bytes_per_s = 1e8});
  EXPECT_EQ(slow.pivots, fast.pivots);
  EXPECT_EQ(slow.residual, fast.residual);
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
  // 0.5 - x / 2^64 for the states 100 and those after it, by integers of any size.
  EXPECT_EQ(numbers[0], 0.5);
  EXPECT_EQ(numbers[1], -0x1.b0d8f532d8000p-15);
  EXPECT_EQ(numbers[2], 0x1.8959b2285d2a4p-2);
  EXPECT_EQ(numbers[3], 0x1.c65502e86d5b5p-2);
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

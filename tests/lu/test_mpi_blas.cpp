// SPDX-License-Identifier: BSD-3-Clause
// test_mpi_blas.cpp: products, solutions and factorizations of matrices that are dealt over ranks,
// beside those of the whole matrices.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "../support/scale.hpp"
#include "comm/inproc.hpp"
#include "dealt_matrix.hpp"
#include "fleetblas/lapack.h"
#include "routines/cholesky.hpp"
#include "routines/equations.hpp"
#include "routines/product.hpp"
#include "routines/solution.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

constexpr double kMostDifference = 1e-11;

struct Ranks {
  int rows, cols;
  Overlap overlap = Overlap::full;
  int cores = 1;
  bool progress_thread = true;
};

std::string text_of(const Ranks& ranks) {
  return std::to_string(ranks.rows) + " x " + std::to_string(ranks.cols) + " ranks, overlap " +
         std::to_string(static_cast<int>(ranks.overlap));
}

void on_grid(const Ranks& ranks, const std::function<void(const Grid&, const Rank&)>& run,
             const Pace& pace = {}) {
  run_ranks(ranks.rows * ranks.cols, pace, [&](Comm& comm) {
    const Grid grid(comm, ranks.rows, ranks.cols);
    const Workshop workshop({.cores = ranks.cores, .progress_thread = ranks.progress_thread},
                            ranks.overlap);
    run(grid, workshop.rank());
  });
}

/// Grids, in turn with how messages are driven.
const std::vector<Ranks> kRanks = {{1, 1},
                                   {2, 2},
                                   {1, 3, Overlap::none, 1, false},
                                   {3, 1, Overlap::dedicated, 1, false},
                                   {2, 3, Overlap::full, 2},
                                   {3, 2, Overlap::lookahead, 2, false},
                                   {3, 3},
                                   {1, 5},
                                   {5, 1},
                                   {2, 1}};

struct Sizes {
  std::int64_t m, n, k, nb;
};
const std::vector<Sizes> kSizes = {
    {1, 1, 1, 4}, {37, 41, 43, 8},   {64, 48, 96, 16}, {0, 5, 7, 3},    {5, 0, 7, 3},
    {5, 7, 0, 3}, {29, 13, 700, 32}, {3, 90, 20, 50},  {90, 17, 33, 5}, {7, 5, 2000, 900}};

fleet_op op_of(unsigned bit) { return bit == 0 ? FLEET_NO_TRANS : FLEET_TRANS; }
Whole factor_matrix(fleet_op op, std::int64_t m, std::int64_t n, unsigned seed) {
  return op == FLEET_NO_TRANS ? random_matrix(m, n, seed) : random_matrix(n, m, seed);
}

class MpiBlas : public ::testing::Test {
 protected:
  fleet_context* blas() const { return context_.get(); }

 private:
  const CpuContext context_{1};
};

TEST_F(MpiBlas, ProductsAreThoseOfWholeMatrices) {
  unsigned turn = 0;
  for (const Sizes& size : kSizes)
    for (unsigned ops = 0; ops < 4; ++ops)
      for (const double beta : {0.0, 1.0, -0.5}) {
        const Ranks& ranks = kRanks[turn % kRanks.size()];
        if (!test::has_turn(turn++)) continue;
        const fleet_op op_a = op_of(ops & 1), op_b = op_of(ops >> 1);
        const Whole a = factor_matrix(op_a, size.m, size.k, 1);
        const Whole b = factor_matrix(op_b, size.k, size.n, 2);
        Whole c = random_matrix(size.m, size.n, 3), found = c;
        if (beta == 0)
          for (double& element : c.elements) element = found.elements[0] = NAN;
        ASSERT_EQ(fleet_dgemm(blas(), op_a, op_b, size.m, size.n, size.k, 1.5, a.elements.data(),
                              a.ld(), b.elements.data(), b.ld(), beta, c.elements.data(), c.ld()),
                  FLEET_OK);
        std::atomic<bool> is_clean{true};
        const int shift = static_cast<int>(turn);
        on_grid(ranks, [&](const Grid& grid, const Rank& rank) {
          Local local_a(grid, a, size.nb, {shift % 2, shift % 3});
          Local local_b(grid, b, size.nb, {shift % 5, 0});
          Local local_c(grid, found, size.nb, {0, shift % 4});
          grid.all.barrier();
          multiply(grid,
                   {.op_a = op_a,
                    .op_b = op_b,
                    .alpha = 1.5,
                    .a = local_a.get(),
                    .b = local_b.get(),
                    .beta = beta,
                    .c = local_c.get(),
                    .depth = size.k},
                   rank, ranks.overlap);
          if (!local_c.put(found)) is_clean = false;
        });
        EXPECT_LT(difference(found, c), kMostDifference)
            << size.m << " " << size.n << " " << size.k << " " << text_of(ranks) << " ops " << ops;
        EXPECT_TRUE(is_clean);
      }
}

TEST_F(MpiBlas, UpdatesOfTrianglesLeaveTheOtherOne) {
  unsigned turn = 0;
  for (const Sizes& size : kSizes)
    for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER})
      for (const fleet_op op : {FLEET_NO_TRANS, FLEET_TRANS}) {
        const Ranks& ranks = kRanks[turn % kRanks.size()];
        if (!test::has_turn(turn++)) continue;
        const Whole a = factor_matrix(op, size.n, size.k, 1);
        Whole c = random_matrix(size.n, size.n, 3), found = c;
        ASSERT_EQ(fleet_dsyrk(blas(), uplo, op, size.n, size.k, -2, a.elements.data(), a.ld(), 0.5,
                              c.elements.data(), c.ld()),
                  FLEET_OK);
        const int shift = static_cast<int>(turn);
        on_grid(ranks, [&](const Grid& grid, const Rank& rank) {
          Local local_a(grid, a, size.nb, {shift % 2, 0});
          Local local_c(grid, found, size.nb, {shift % 3, shift % 4});
          grid.all.barrier();
          multiply(grid,
                   {.which = uplo == FLEET_LOWER ? Elements::lower : Elements::upper,
                    .op_a = op,
                    .op_b = op == FLEET_NO_TRANS ? FLEET_TRANS : FLEET_NO_TRANS,
                    .alpha = -2,
                    .a = local_a.get(),
                    .b = local_a.get(),
                    .beta = 0.5,
                    .c = local_c.get(),
                    .depth = size.k},
                   rank, ranks.overlap);
          local_c.put(found);
        });
        EXPECT_LT(difference(found, c), kMostDifference) << size.n << " " << text_of(ranks);
      }
}

TEST_F(MpiBlas, SolutionsAreThoseOfWholeMatrices) {
  unsigned turn = 0;
  for (const Sizes& size : kSizes)
    for (unsigned word = 0; word < 16; ++word) {
      const Ranks& ranks = kRanks[turn % kRanks.size()];
      if (!test::has_turn(turn++)) continue;
      const fleet_side side = (word & 1) == 0 ? FLEET_LEFT : FLEET_RIGHT;
      const fleet_uplo uplo = (word & 2) == 0 ? FLEET_LOWER : FLEET_UPPER;
      const fleet_op op = op_of(word >> 2 & 1);
      const fleet_diag diag = (word & 8) == 0 ? FLEET_NON_UNIT : FLEET_UNIT;
      const std::int64_t order = side == FLEET_LEFT ? size.m : size.n;
      Whole a = random_matrix(order, order, 1);
      for (double& element : a.elements) element /= 10;
      for (std::int64_t i = 0; i < order; ++i) a.at(i, i) += 2;
      Whole b = random_matrix(size.m, size.n, 2), found = b;
      ASSERT_EQ(fleet_dtrsm(blas(), side, uplo, op, diag, size.m, size.n, 0.75, a.elements.data(),
                            a.ld(), b.elements.data(), b.ld()),
                FLEET_OK);
      const int shift = static_cast<int>(turn);
      on_grid(ranks, [&](const Grid& grid, const Rank& rank) {
        Local local_a(grid, a, size.nb, {shift % 2, shift % 3});
        Local local_b(grid, found, size.nb, {shift % 5 / 2, 0});
        grid.all.barrier();
        solve(grid, {side, uplo, op, diag, 0.75, local_a.get(), local_b.get()}, rank,
              ranks.overlap);
        local_b.put(found);
      });
      EXPECT_LT(difference(found, b), kMostDifference)
          << size.m << " " << size.n << " " << text_of(ranks) << " word " << word;
    }
}

std::int64_t factored(const Ranks& ranks, fleet_uplo uplo, std::int64_t nb, Whole& a,
                      Origin origin = {}, const Pace& pace = {}) {
  std::atomic<std::int64_t> info{-1};
  const auto run = [&](const Grid& grid, const Rank& rank) {
    Local local(grid, a, nb, origin);
    grid.all.barrier();
    const std::int64_t mine = cholesky(grid, uplo, local.get(), rank, ranks.overlap);
    EXPECT_TRUE(local.put(a));
    if (info.exchange(mine) >= 0) {
      EXPECT_EQ(info, mine);
    }
  };
  on_grid(ranks, run, pace);
  return info;
}

TEST_F(MpiBlas, CholeskyFactorsAreThoseOfWholeMatrices) {
  int shift = 0;
  unsigned turn = 0;
  for (const Ranks& ranks : kRanks)
    for (const std::int64_t n : {1, 20, 130, 131}) {
      if (!test::has_turn(turn++)) continue;
      const fleet_uplo uplo = ++shift % 2 == 0 ? FLEET_LOWER : FLEET_UPPER;
      Whole a = positive_matrix(n, 5), found = a;
      std::int64_t info = -1;
      ASSERT_EQ(fleet_dpotrf(blas(), uplo, n, a.elements.data(), a.ld(), &info), FLEET_OK);
      EXPECT_EQ(factored(ranks, uplo, 8 + shift % 9, found, {shift % 2, shift % 3}), 0);
      EXPECT_LT(difference(found, a), kMostDifference) << n << " " << text_of(ranks);
    }
}

TEST_F(MpiBlas, CholeskyFactorsAreTheSameOverSlowLinks) {
  const Pace slow{.latency_s = 2e-4, .bytes_per_s = 1e8};
  for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER})
    for (const Ranks& ranks : {Ranks{2, 2}, {3, 1}, {1, 3, Overlap::dedicated, 1, false}}) {
      Whole fast = positive_matrix(100, 5), found = fast;
      EXPECT_EQ(factored({1, 1}, uplo, 8, fast), 0);
      EXPECT_EQ(factored(ranks, uplo, 8, found, {}, slow), 0);
      EXPECT_LT(difference(found, fast), kMostDifference) << text_of(ranks);
    }
}

TEST_F(MpiBlas, CholeskyTellsTheFirstMinorThatIsNotPositive) {
  for (const Ranks& ranks : kRanks)
    for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER})
      for (const double wrong : {-3.0, static_cast<double>(NAN)}) {
        Whole a = positive_matrix(90, 5);
        a.at(52, 52) = wrong;
        EXPECT_EQ(factored(ranks, uplo, 16, a), 53) << text_of(ranks);
      }
}

TEST_F(MpiBlas, EquationsHaveThePivotsAndSolutionsOfWholeMatrices) {
  int shift = 0;
  for (const Ranks& ranks : kRanks)
    for (const std::int64_t n : {1, 100}) {
      const std::int64_t nb = 8 + ++shift % 9;
      // Of the first ones more columns than travel at once.
      Whole a = random_matrix(n, n, 5), b = random_matrix(n, shift < 8 ? 600 : 19, 6), found_a = a,
            found_b = b;
      std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
      std::int64_t info = -1;
      ASSERT_EQ(fleet_dgesv(blas(), n, b.cols, a.elements.data(), a.ld(), pivots.data(),
                            b.elements.data(), b.ld(), &info),
                FLEET_OK);
      on_grid(ranks, [&](const Grid& grid, const Rank& rank) {
        Local local_a(grid, found_a, nb, {shift % 2, shift % 3});
        Local local_b(grid, found_b, nb, {shift % 3, 0});
        grid.all.barrier();
        const Factored factored = Equations(grid, local_a.get(), ranks.overlap).factor(rank);
        solve_equations(grid, local_a.get(), factored.pivots, local_b.get(), rank, ranks.overlap);
        EXPECT_TRUE(local_a.put(found_a));
        EXPECT_TRUE(local_b.put(found_b));
        EXPECT_EQ(factored.pivots, pivots);
        EXPECT_EQ(factored.info, 0);
      });
      EXPECT_LT(difference(found_a, a), kMostDifference) << n << " " << text_of(ranks);
      EXPECT_LT(difference(found_b, b), 1e-9) << n << " " << text_of(ranks);
    }
}

TEST_F(MpiBlas, EquationsWithoutASolutionTellTheirFirstZero) {
  for (const Ranks& ranks : kRanks) {
    Whole a = random_matrix(50, 50, 5);
    for (std::int64_t row = 0; row < 50; ++row) a.at(row, 30) = 0;
    on_grid(ranks, [&](const Grid& grid, const Rank& rank) {
      Local local(grid, a, 8);
      EXPECT_EQ(Equations(grid, local.get(), ranks.overlap).factor(rank).info, 31);
    });
  }
}

TEST_F(MpiBlas, NothingIsDoneToMatricesWithoutElements) {
  for (const Ranks& ranks : kRanks) {
    Whole nothing(0, 0);
    EXPECT_EQ(factored(ranks, FLEET_LOWER, 4, nothing), 0);
  }
}

}  // namespace
}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// test_mpi_blas.cpp: products, solutions and factorizations of matrices that are dealt over ranks,
// beside those of the whole matrices.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
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

/// Before the default context is made.
class VirtualDevices : public testing::Environment {
 public:
  void SetUp() override {
    setenv("FLEETBLAS_BACKEND", "host", 1);
    setenv("FLEETBLAS_DEVICES", "2", 1);
  }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new VirtualDevices);

/// What the environment says to contexts that are made meanwhile.
class Said {
 public:
  Said(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Said() { unsetenv(name_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

 private:
  const char* const name_;
};

struct Ranks {
  int rows, cols;
  Overlap overlap = Overlap::full;
  int cores = 1;
  bool progress_thread = true;
  OwnDevice::Use devices = OwnDevice::Use::never;
};

std::string text_of(const Ranks& ranks) {
  return std::to_string(ranks.rows) + " x " + std::to_string(ranks.cols) + " ranks, overlap " +
         std::to_string(static_cast<int>(ranks.overlap));
}

void on_grid(const Ranks& ranks,
             const std::function<void(const Grid&, const Rank&, OwnDevice&)>& run,
             const Pace& pace = {}) {
  run_ranks(ranks.rows * ranks.cols, pace, [&](Comm& comm) {
    const Grid grid(comm, ranks.rows, ranks.cols);
    const Workshop workshop({.cores = ranks.cores, .progress_thread = ranks.progress_thread},
                            ranks.overlap);
    OwnDevice own(grid, {.use = ranks.devices, .place_on_node = comm.rank()});
    run(grid, workshop.rank(), own);
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

/// Each rank has a device.
const std::vector<Ranks> kOnDevices = {{1, 1, Overlap::full, 1, true, OwnDevice::Use::always},
                                       {1, 2, Overlap::none, 1, false, OwnDevice::Use::always},
                                       {2, 1, Overlap::full, 1, false, OwnDevice::Use::always},
                                       {2, 2, Overlap::full, 2, true, OwnDevice::Use::always},
                                       {1, 3, Overlap::lookahead, 1, false, OwnDevice::Use::always},
                                       {3, 2, Overlap::full, 1, true, OwnDevice::Use::always}};

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

/// A rank computes on its device what it has a part of, if it is to.
void expect_place(bool is_there, bool is_wanted, const Grid& grid, const Dealt& c,
                  std::int64_t depth) {
  const bool has_part = c.rows.local_size(grid.row) > 0 && c.cols.local_size(grid.col) > 0;
  EXPECT_EQ(is_there, is_wanted && has_part && depth > 0);
}

struct ProductCase {
  Sizes size;
  fleet_op op_a, op_b;
  double beta;
  bool is_room = true;  ///< on devices
};

void expect_product(fleet_context* blas, const Ranks& ranks, const ProductCase& wanted, int shift) {
  const auto& [size, op_a, op_b, beta, is_room] = wanted;
  const Whole a = factor_matrix(op_a, size.m, size.k, 1);
  const Whole b = factor_matrix(op_b, size.k, size.n, 2);
  Whole c = random_matrix(size.m, size.n, 3), found = c;
  if (beta == 0)
    for (double& element : c.elements) element = found.elements[0] = NAN;
  ASSERT_EQ(fleet_dgemm(blas, op_a, op_b, size.m, size.n, size.k, 1.5, a.elements.data(), a.ld(),
                        b.elements.data(), b.ld(), beta, c.elements.data(), c.ld()),
            FLEET_OK);
  std::atomic<bool> is_clean{true};
  on_grid(ranks, [&](const Grid& grid, const Rank& rank, OwnDevice& own) {
    Local local_a(grid, a, size.nb, {shift % 2, shift % 3});
    Local local_b(grid, b, size.nb, {shift % 5, 0});
    Local local_c(grid, found, size.nb, {0, shift % 4});
    grid.all.barrier();
    const bool is_there = multiply(grid,
                                   {.op_a = op_a,
                                    .op_b = op_b,
                                    .alpha = 1.5,
                                    .a = local_a.get(),
                                    .b = local_b.get(),
                                    .beta = beta,
                                    .c = local_c.get(),
                                    .depth = size.k},
                                   rank, ranks.overlap, &own);
    expect_place(is_there, is_room && ranks.devices == OwnDevice::Use::always, grid, local_c.get(),
                 size.k);
    if (!local_c.put(found)) is_clean = false;
  });
  EXPECT_LT(difference(found, c), kMostDifference)
      << size.m << " " << size.n << " " << size.k << " " << text_of(ranks) << " ops " << op_a
      << op_b << " beta " << beta;
  EXPECT_TRUE(is_clean);
}

TEST_F(MpiBlas, ProductsAreThoseOfWholeMatrices) {
  unsigned turn = 0;
  for (const Sizes& size : kSizes)
    for (unsigned ops = 0; ops < 4; ++ops)
      for (const double beta : {0.0, 1.0, -0.5}) {
        const Ranks& ranks = kRanks[turn % kRanks.size()];
        if (!test::has_turn(turn++)) continue;
        expect_product(blas(), ranks, {size, op_of(ops & 1), op_of(ops >> 1), beta},
                       static_cast<int>(turn));
      }
}

TEST_F(MpiBlas, ProductsOnDevicesAreThoseOfWholeMatrices) {
  unsigned turn = 0;
  for (const Ranks& ranks : kOnDevices)
    for (unsigned ops = 0; ops < 4; ++ops)
      for (const double beta : {0.0, 1.0, -0.5}) {
        const Sizes& size = kSizes[turn % kSizes.size()];
        if (!test::has_turn(turn++)) continue;
        expect_product(blas(), ranks, {size, op_of(ops & 1), op_of(ops >> 1), beta},
                       static_cast<int>(turn));
      }
}

struct TriangleCase {
  Sizes size;
  fleet_uplo uplo;
  fleet_op op;
};

void expect_triangle(fleet_context* blas, const Ranks& ranks, const TriangleCase& wanted,
                     int shift) {
  const auto& [size, uplo, op] = wanted;
  const Whole a = factor_matrix(op, size.n, size.k, 1);
  Whole c = random_matrix(size.n, size.n, 3), found = c;
  ASSERT_EQ(fleet_dsyrk(blas, uplo, op, size.n, size.k, -2, a.elements.data(), a.ld(), 0.5,
                        c.elements.data(), c.ld()),
            FLEET_OK);
  on_grid(ranks, [&](const Grid& grid, const Rank& rank, OwnDevice& own) {
    Local local_a(grid, a, size.nb, {shift % 2, 0});
    Local local_c(grid, found, size.nb, {shift % 3, shift % 4});
    grid.all.barrier();
    const bool is_there =
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
                 rank, ranks.overlap, &own);
    expect_place(is_there, ranks.devices == OwnDevice::Use::always, grid, local_c.get(), size.k);
    EXPECT_TRUE(local_c.put(found));
  });
  EXPECT_LT(difference(found, c), kMostDifference) << size.n << " " << text_of(ranks);
}

TEST_F(MpiBlas, UpdatesOfTrianglesLeaveTheOtherOne) {
  unsigned turn = 0;
  for (const Sizes& size : kSizes)
    for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER})
      for (const fleet_op op : {FLEET_NO_TRANS, FLEET_TRANS}) {
        const Ranks& ranks = kRanks[turn % kRanks.size()];
        if (!test::has_turn(turn++)) continue;
        expect_triangle(blas(), ranks, {size, uplo, op}, static_cast<int>(turn));
      }
}

TEST_F(MpiBlas, UpdatesOfTrianglesOnDevicesLeaveTheOtherOne) {
  unsigned turn = 0;
  for (const Ranks& ranks : kOnDevices)
    for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER})
      for (const fleet_op op : {FLEET_NO_TRANS, FLEET_TRANS}) {
        const Sizes& size = kSizes[turn % kSizes.size()];
        if (!test::has_turn(turn++)) continue;
        expect_triangle(blas(), ranks, {size, uplo, op}, static_cast<int>(turn));
      }
  // Of more columns than are one product.
  for (const fleet_uplo uplo : {FLEET_LOWER, FLEET_UPPER}) {
    expect_triangle(blas(), kOnDevices[0], {{0, 1300, 20, 50}, uplo, FLEET_NO_TRANS}, 0);
    expect_triangle(blas(), kOnDevices[2], {{0, 1300, 20, 50}, uplo, FLEET_TRANS}, 1);
  }
}

TEST_F(MpiBlas, SmallProductsAndThoseOfRanksWithoutRoomStayOnTheCores) {
  // Of one strip and several tiles; the device is lost after the first one of these.
  const ProductCase wanted{{20, 30, 250, 8}, FLEET_NO_TRANS, FLEET_NO_TRANS, 1};
  Ranks ranks = kOnDevices[0];
  const Said tile("FLEETBLAS_TILE", "16"), fault("FLEETBLAS_INJECT", "lost:0@1");
  EXPECT_THROW(expect_product(blas(), ranks, wanted, 0), Failure);
  ranks.devices = OwnDevice::Use::where_it_pays;
  expect_product(blas(), ranks, wanted, 0);
  ranks.devices = OwnDevice::Use::never;
  expect_product(blas(), ranks, wanted, 0);
  const Said room("FLEETBLAS_DEVICE_MEMORY", "1K");
  ProductCase without_room = wanted;
  without_room.is_room = false;
  expect_product(blas(), kOnDevices[0], without_room, 0);
}

TEST_F(MpiBlas, LargeWorkOnFewNumbersIsWorthADevice) {
  on_grid({1, 1, Overlap::none, 1, false, OwnDevice::Use::where_it_pays},
          [](const Grid&, const Rank&, OwnDevice& own) {
            EXPECT_TRUE(own.is_worth(4096.0 * 4096 * 4096, 4.0 * 4096 * 4096));
            EXPECT_FALSE(own.is_worth(4096.0 * 4096 * 4095, 1));
            EXPECT_FALSE(own.is_worth(1e12, 1e12 / 255));
          });
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
      on_grid(ranks, [&](const Grid& grid, const Rank& rank, OwnDevice&) {
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
  const auto run = [&](const Grid& grid, const Rank& rank, OwnDevice&) {
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

void expect_equations(fleet_context* blas, const Ranks& ranks, const Sizes& size, int shift,
                      bool on_devices = false) {
  const auto& [_, nrhs, n, nb] = size;
  Whole a = random_matrix(n, n, 5), b = random_matrix(n, nrhs, 6), found_a = a, found_b = b;
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  std::int64_t info = -1;
  ASSERT_EQ(fleet_dgesv(blas, n, nrhs, a.elements.data(), a.ld(), pivots.data(), b.elements.data(),
                        b.ld(), &info),
            FLEET_OK);
  on_grid(ranks, [&](const Grid& grid, const Rank& rank, OwnDevice& own) {
    Local local_a(grid, found_a, size.nb, {shift % 2, shift % 3});
    Local local_b(grid, found_b, size.nb, {shift % 3, 0});
    grid.all.barrier();
    Equations equations(grid, local_a.get(), rank, ranks.overlap, &own);
    EXPECT_EQ(equations.is_on_devices(), on_devices);
    const Factored factored = equations.factor();
    solve_equations(grid, local_a.get(), factored.pivots, local_b.get(), rank, ranks.overlap);
    EXPECT_TRUE(local_a.put(found_a));
    EXPECT_TRUE(local_b.put(found_b));
    EXPECT_EQ(factored.pivots, pivots);
    EXPECT_EQ(factored.info, 0);
  });
  EXPECT_LT(difference(found_a, a), kMostDifference) << size.k << " " << text_of(ranks);
  EXPECT_LT(difference(found_b, b), 1e-9) << size.k << " " << text_of(ranks);
}

TEST_F(MpiBlas, EquationsHaveThePivotsAndSolutionsOfWholeMatrices) {
  int shift = 0;
  for (const Ranks& ranks : kRanks)
    for (const std::int64_t n : {1, 100}) {
      const std::int64_t nb = 8 + ++shift % 9;
      // Of the first ones more columns than travel at once.
      expect_equations(blas(), ranks, {n, shift < 8 ? 600 : 19, n, nb}, shift);
    }
}

TEST_F(MpiBlas, EquationsOnDevicesHaveThem) {
  int shift = 0;
  for (const Ranks& ranks : kOnDevices)
    for (const auto& [n, nb] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {100, 9}, {131, 16}}) {
      // The right side of Linpack's system begins a block of its own, on a rank without other
      // columns.
      expect_equations(blas(), ranks, {n, 3, n, nb}, ++shift, true);
    }
  expect_equations(blas(), kOnDevices[3], {96, 3, 96, 16}, 0, true);
  const Said poison("FLEETBLAS_INJECT", "poison");
  expect_equations(blas(), kOnDevices[4], {100, 3, 100, 9}, 1, true);
  expect_equations(blas(), kOnDevices[5], {100, 3, 100, 9}, 1, true);
}

TEST_F(MpiBlas, EquationsStayOnTheCoresWhereOneRankHasNoRoom) {
  // Of a grid of 1 x 2 the first rank has all columns, and each has two panels.
  constexpr std::int64_t kN = 320;
  const Sizes size{kN, 2, kN, kN};
  const std::int64_t panels = 16 * Device::panel_size(kN, kN), columns = 8 * kN * kN;
  for (const auto& [bytes, is_room] :
       {std::pair{panels + 2 * columns, true}, {panels + columns / 2, false}}) {
    const Said room("FLEETBLAS_DEVICE_MEMORY", std::to_string(bytes));
    expect_equations(blas(), kOnDevices[1], size, 0, is_room);
  }
}

TEST_F(MpiBlas, EquationsThatAreSmallStayOnTheCores) {
  expect_equations(blas(), {2, 2, Overlap::full, 1, true, OwnDevice::Use::where_it_pays},
                   {100, 3, 100, 9}, 0, false);
}

TEST_F(MpiBlas, EquationsOnADeviceThatFailsEnd) {
  for (const Ranks& ranks : kOnDevices) {
    const Said fault("FLEETBLAS_INJECT", "launch:4");
    Whole a = random_matrix(100, 100, 5);
    EXPECT_THROW(on_grid(ranks,
                         [&](const Grid& grid, const Rank& rank, OwnDevice& own) {
                           Local local(grid, a, 8);
                           Equations(grid, local.get(), rank, ranks.overlap, &own).factor();
                         }),
                 Failure)
        << text_of(ranks);
  }
}

TEST_F(MpiBlas, EquationsWithoutASolutionTellTheirFirstZero) {
  std::vector<Ranks> all = kRanks;
  all.insert(all.end(), kOnDevices.begin(), kOnDevices.end());
  for (const Ranks& ranks : all) {
    Whole a = random_matrix(50, 50, 5);
    for (std::int64_t row = 0; row < 50; ++row) a.at(row, 30) = 0;
    on_grid(ranks, [&](const Grid& grid, const Rank& rank, OwnDevice& own) {
      Local local(grid, a, 8);
      EXPECT_EQ(Equations(grid, local.get(), rank, ranks.overlap, &own).factor().info, 31);
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

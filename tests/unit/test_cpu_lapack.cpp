// SPDX-License-Identifier: BSD-3-Clause
// test_cpu_lapack.cpp: the LAPACK of the CPU's library and the plain loops in its place give the
// same factors, pivots and infos. It knows no context.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include "cpu/lapack.hpp"
#include "support/cpu_blas.hpp"
#include "support/lapack_matrix.hpp"

namespace fleet {
namespace {

using test::kStorageOf;
using test::Matrix;

template <typename T>
void expect_near(const std::vector<T>& got, const std::vector<T>& expected, double scale) {
  const double unit = sizeof(std::abs(T())) == 4 ? 1e-6 : 1e-14;
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - expected[i]), 50 * unit * scale) << "at " << i;
}

template <typename T>
class CpuLapack : public testing::Test {
 protected:
  static constexpr Storage kStorage = kStorageOf<T>;
  static constexpr Op kTurned = Op::conjugate;
  /// Of which pieces are made in each: with the library's LAPACK whole, without it many.
  static constexpr std::int64_t kSizes[] = {1, 2, 5, 33, 64, 65, 150};
  std::mt19937 random_{7};
  std::shared_ptr<CpuBlas> library_ = test::shared_cpu_blas();
  PlainBlas plain_;
};
using Elements = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CpuLapack, Elements);

TYPED_TEST(CpuLapack, FactorsPositiveDefiniteMatricesAsLoopsDo) {
  for (const std::int64_t n : this->kSizes)
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      Matrix<TypeParam> one(n, n, this->random_);
      one.strengthen();
      Matrix<TypeParam> other = one;

      EXPECT_EQ(lapack::potrf(*this->library_, this->kStorage, one.view(fill)), 0);
      EXPECT_EQ(lapack::potrf(this->plain_, this->kStorage, other.view(fill)), 0);

      expect_near(one.data, other.data, static_cast<double>(n));
    }
}

TYPED_TEST(CpuLapack, SaysWhichMinorIsNotPositiveDefinite) {
  for (const std::int64_t n : {5, 150})
    for (const Fill fill : {Fill::lower, Fill::upper})
      for (const std::int64_t bad : {std::int64_t{0}, n / 2, n - 1}) {
        Matrix<TypeParam> one(n, n, this->random_);
        one.strengthen();
        one.at(bad, bad) = TypeParam(-1);
        Matrix<TypeParam> other = one;

        EXPECT_EQ(lapack::potrf(*this->library_, this->kStorage, one.view(fill)), bad + 1);
        EXPECT_EQ(lapack::potrf(this->plain_, this->kStorage, other.view(fill)), bad + 1);
      }
}

/// Libraries differ there: OpenBLAS goes on.
TYPED_TEST(CpuLapack, EndsAtANanByLoops) {
  Matrix<TypeParam> one(90, 90, this->random_);
  one.strengthen();
  one.at(80, 80) = TypeParam(NAN);

  EXPECT_EQ(lapack::potrf(this->plain_, this->kStorage, one.view(Fill::lower)), 81);
}

TYPED_TEST(CpuLapack, FactorsWithTheSamePivotsAsLoops) {
  for (const std::int64_t m : this->kSizes)
    for (const std::int64_t n : this->kSizes) {
      Matrix<TypeParam> one(m, n, this->random_), other = one;
      const auto least = static_cast<std::size_t>(std::min(m, n));
      std::vector<std::int64_t> pivots(least), expected(least);

      EXPECT_EQ(lapack::getrf(*this->library_, this->kStorage, one.view(), pivots.data()), 0);
      EXPECT_EQ(lapack::getrf(this->plain_, this->kStorage, other.view(), expected.data()), 0);

      ASSERT_EQ(pivots, expected) << m << " x " << n;
      expect_near(one.data, other.data, 100.0 * static_cast<double>(m + n));
    }
}

TYPED_TEST(CpuLapack, GoesOnAfterAZeroPivot) {
  for (const std::int64_t zero : {0, 70}) {
    Matrix<TypeParam> one(100, 100, this->random_);
    for (std::int64_t row = 0; row < 100; ++row) one.at(row, zero) = TypeParam(0);
    Matrix<TypeParam> other = one;
    std::vector<std::int64_t> pivots(100), expected(100);

    EXPECT_EQ(lapack::getrf(*this->library_, this->kStorage, one.view(), pivots.data()), zero + 1);
    EXPECT_EQ(lapack::getrf(this->plain_, this->kStorage, other.view(), expected.data()), zero + 1);

    EXPECT_EQ(pivots, expected);
  }
}

TYPED_TEST(CpuLapack, InvertsTrianglesAsLoopsDo) {
  for (const std::int64_t n : this->kSizes)
    for (const Fill fill : {Fill::lower, Fill::upper})
      for (const Diag diag : {Diag::non_unit, Diag::unit}) {
        Matrix<TypeParam> one(n, n, this->random_);
        if (diag == Diag::unit)
          for (TypeParam& element : one.data) element /= static_cast<float>(n);
        else
          one.strengthen();
        Matrix<TypeParam> other = one;

        EXPECT_EQ(lapack::trtri(*this->library_, this->kStorage, one.view(fill), diag), 0);
        EXPECT_EQ(lapack::trtri(this->plain_, this->kStorage, other.view(fill), diag), 0);

        expect_near(one.data, other.data, 1.0);
      }
}

TYPED_TEST(CpuLapack, LeavesATriangleThatHasNoInverse) {
  for (const Fill fill : {Fill::lower, Fill::upper}) {
    Matrix<TypeParam> one(40, 40, this->random_);
    one.at(17, 17) = TypeParam(0);
    Matrix<TypeParam> other = one, before = one;

    EXPECT_EQ(lapack::trtri(*this->library_, this->kStorage, one.view(fill), Diag::non_unit), 18);
    EXPECT_EQ(lapack::trtri(this->plain_, this->kStorage, other.view(fill), Diag::non_unit), 18);

    EXPECT_EQ(one.data, before.data);
    EXPECT_EQ(other.data, before.data);
  }
}

TYPED_TEST(CpuLapack, SquaresTrianglesAsLoopsDo) {
  for (const std::int64_t n : this->kSizes)
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      Matrix<TypeParam> one(n, n, this->random_);
      // Only the real part of a diagonal is meant.
      for (std::int64_t i = 0; i < n; ++i) one.at(i, i) = TypeParam(std::abs(one.at(i, i)));
      Matrix<TypeParam> other = one;

      lapack::lauum(*this->library_, this->kStorage, one.view(fill));
      lapack::lauum(this->plain_, this->kStorage, other.view(fill));

      expect_near(one.data, other.data, static_cast<double>(n));
    }
}

TYPED_TEST(CpuLapack, HasTheReflectorsOfLoopsAndAppliesThemLikewise) {
  for (const std::int64_t m : this->kSizes)
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{40}, m}) {
      Matrix<TypeParam> one(m, n, this->random_), other = one;
      const std::int64_t k = std::min(m, n);
      std::vector<TypeParam> tau(static_cast<std::size_t>(k)), expected(tau);

      lapack::geqrf(*this->library_, this->kStorage, one.view(), tau.data());
      lapack::geqrf(this->plain_, this->kStorage, other.view(), expected.data());

      expect_near(one.data, other.data, 10.0 * static_cast<double>(m));
      expect_near(tau, expected, 10.0 * static_cast<double>(m));

      const View v = part(one.view(), this->kStorage, 0, 0, m, k);
      Matrix<TypeParam> t(k, k, this->random_), same_t = t;
      lapack::larft(*this->library_, this->kStorage, v, tau.data(), t.view());
      lapack::larft(this->plain_, this->kStorage, v, tau.data(), same_t.view());
      for (std::int64_t col = 0; col < k; ++col)
        for (std::int64_t row = 0; row <= col; ++row)
          ASSERT_LE(std::abs(t.at(row, col) - same_t.at(row, col)),
                    (sizeof(std::abs(TypeParam())) == 4 ? 1e-4 : 1e-12));

      for (const Side side : {Side::left, Side::right})
        for (const Op op : {Op::none, Op::conjugate}) {
          Matrix<TypeParam> c(side == Side::left ? m : 9, side == Side::left ? 9 : m,
                              this->random_);
          Matrix<TypeParam> same = c;
          lapack::ormqr(*this->library_, this->kStorage, side, op, v, tau.data(), c.view());
          lapack::ormqr(this->plain_, this->kStorage, side, op, v, tau.data(), same.view());
          expect_near(c.data, same.data, 10.0 * static_cast<double>(m));
        }
    }
}

TYPED_TEST(CpuLapack, ExchangesRowsThereAndBack) {
  Matrix<TypeParam> one(6, 70, this->random_), before = one;
  const std::vector<std::int64_t> pivots = {3, 6, 3};

  lapack::laswp(this->kStorage, one.view(), pivots.data(), 3, lapack::Order::forward);
  // Rows 0 and 2, then 1 and 5, then none.
  for (std::int64_t col = 0; col < 70; ++col) {
    EXPECT_EQ(one.at(0, col), before.at(2, col));
    EXPECT_EQ(one.at(1, col), before.at(5, col));
    EXPECT_EQ(one.at(2, col), before.at(0, col));
  }

  lapack::laswp(this->kStorage, one.view(), pivots.data(), 3, lapack::Order::backward);
  EXPECT_EQ(one.data, before.data);
}

}  // namespace
}  // namespace fleet

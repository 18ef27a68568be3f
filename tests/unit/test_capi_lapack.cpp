// SPDX-License-Identifier: BSD-3-Clause
// test_capi_lapack.cpp: equations, inverses and orthogonal factors through the C API, with operands
// at any place, by their backward errors. It knows nothing of how they are computed.
#include <gtest/gtest.h>

#include "cpu/lapack.hpp"
#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::difference;
using test::HostContext;
using test::kOwnMemory;
using test::kUnitOf;
using test::Lapack;
using test::Matrix;
using test::Placed;
using test::product;
using test::scaled;
using test::test_scale;

constexpr fleet_uplo uplo_of(Fill fill) { return fill == Fill::lower ? FLEET_LOWER : FLEET_UPPER; }

template <typename T>
class CapiLapack : public testing::Test {
 protected:
  static constexpr Storage kStorage = test::kStorageOf<T>;
  using Api = Lapack<T>;

  /// Own, pinned and pageable memory, and both devices.
  int place() { return static_cast<int>(random_() % 5) - 3; }
  Placed<T> placed(const Matrix<T>& matrix) { return {context_, matrix, place()}; }

  /// Sizes around those at which algorithms are cut, and any others.
  /// Of several panels.
  static std::int64_t large() { return test_scale() < 1 ? 140 : 600; }

  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> sizes = {1, 2, 63, 64, 65};
    for (int i = 0; i < scaled(4); ++i)
      sizes.push_back(static_cast<std::int64_t>(random_() % (test_scale() < 1 ? 120 : 300)));
    return sizes;
  }
  static bool done(fleet_status status) {
    EXPECT_EQ(status, FLEET_OK) << fleet_message();
    return status == FLEET_OK;
  }
  /// |a*x - b| <= c * n * unit * |a| * |x|, elementwise largest.
  void expect_solves(Op op, const Matrix<T>& a, const Matrix<T>& x, const Matrix<T>& b) {
    if (b.rows == 0 || b.cols == 0) return;
    const double residual = difference(product(op, a, Op::none, x), b).largest();
    const auto n = static_cast<double>(a.rows);
    EXPECT_LE(residual, 20 * n * n * kUnitOf<T> * a.largest() * x.largest()) << "n = " << n;
  }
  void expect_near(const Matrix<T>& got, const Matrix<T>& expected, double scale) {
    if (got.rows == 0 || got.cols == 0) return;
    EXPECT_LE(difference(got, expected).largest(), 20 * kUnitOf<T> * scale)
        << got.rows << " x " << got.cols;
  }

  std::mt19937 random_{11};
  HostContext context_{test::host_options(2)};
  CpuBlas& cpu_ = *test::shared_cpu_blas();
};
using Elements = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CapiLapack, Elements);

TYPED_TEST(CapiLapack, SolvesPositiveDefiniteEquations) {
  using Api = typename TestFixture::Api;
  for (const std::int64_t n : this->sizes())
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      Matrix<TypeParam> a(n, n, this->random_), b(n, 1 + n / 7, this->random_);
      a.strengthen();
      auto factors = this->placed(a), x = this->placed(b), y = this->placed(b);
      auto both = this->placed(a);
      std::int64_t info = -1, info_of_both = -1;

      this->done(Api::potrf(this->context_, uplo_of(fill), n, factors.data(), a.ld, &info));
      this->done(Api::potrs(this->context_, uplo_of(fill), n, b.cols, factors.data(), a.ld,
                            x.data(), b.ld));
      this->done(Api::posv(this->context_, uplo_of(fill), n, b.cols, both.data(), a.ld, y.data(),
                           b.ld, &info_of_both));

      EXPECT_EQ(info, 0);
      EXPECT_EQ(info_of_both, 0);
      this->expect_solves(Op::none, a.hermitian(fill), x.now(), b);
      this->expect_solves(Op::none, a.hermitian(fill), y.now(), b);
      // The opposite triangle, and what lies between the columns, is as it was.
      const Fill opposite = fill == Fill::lower ? Fill::upper : Fill::lower;
      Matrix<TypeParam> now = factors.now();
      for (std::int64_t i = 0; i < n; ++i) now.at(i, i) = a.at(i, i);
      EXPECT_EQ(now.triangle(opposite).data, a.triangle(opposite).data);
      if (n > 0) {
        EXPECT_EQ(now.at(n, 0), a.at(n, 0));
      }
    }
}

TYPED_TEST(CapiLapack, SolvesGeneralEquationsWithTheirMatrixTurnedAnyWay) {
  using Api = typename TestFixture::Api;
  for (const std::int64_t n : this->sizes()) {
    const Matrix<TypeParam> a(n, n, this->random_), b(n, 1 + n / 7, this->random_);
    auto factors = this->placed(a), both = this->placed(a), y = this->placed(b);
    Matrix<TypeParam> expected = a;
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(n)), same = pivots, known = pivots;
    std::int64_t info = -1, info_of_both = -1;

    this->done(Api::getrf(this->context_, n, n, factors.data(), a.ld, pivots.data(), &info));
    this->done(Api::gesv(this->context_, n, b.cols, both.data(), a.ld, same.data(), y.data(), b.ld,
                         &info_of_both));

    EXPECT_EQ(info, 0);
    EXPECT_EQ(info_of_both, 0);
    lapack::getrf(this->cpu_, this->kStorage, expected.view(), known.data());
    EXPECT_EQ(pivots, known);
    EXPECT_EQ(same, known);
    this->expect_solves(Op::none, a, y.now(), b);
    for (const auto& [trans, op] :
         {std::pair(FLEET_NO_TRANS, Op::none), std::pair(FLEET_TRANS, Op::transpose),
          std::pair(FLEET_CONJ_TRANS, Op::conjugate)}) {
      auto x = this->placed(b);
      this->done(Api::getrs(this->context_, trans, n, b.cols, factors.data(), a.ld, pivots.data(),
                            x.data(), b.ld));
      this->expect_solves(op, a, x.now(), b);
    }
  }
}

TYPED_TEST(CapiLapack, FactorsMatricesOfAnyShape) {
  using Api = typename TestFixture::Api;
  for (const auto& [m, n] : {std::pair(150, 40), std::pair(40, 150), std::pair(1, 9)}) {
    const Matrix<TypeParam> a(m, n, this->random_);
    auto factors = this->placed(a);
    Matrix<TypeParam> known = a;
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(std::min(m, n))), expected = pivots;
    std::int64_t info = -1;

    this->done(Api::getrf(this->context_, m, n, factors.data(), a.ld, pivots.data(), &info));

    EXPECT_EQ(info, lapack::getrf(this->cpu_, this->kStorage, known.view(), expected.data()));
    EXPECT_EQ(pivots, expected);
    this->expect_near(factors.now(), known, 100.0 * static_cast<double>(m + n));
  }
}

TYPED_TEST(CapiLapack, SolvesAndInvertsTriangles) {
  using Api = typename TestFixture::Api;
  for (const std::int64_t n :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{70}, TestFixture::large() + 100})
    for (const Fill fill : {Fill::lower, Fill::upper})
      for (const bool unit : {false, true}) {
        Matrix<TypeParam> a(n, n, this->random_), b(n, 9, this->random_);
        if (unit)
          for (TypeParam& element : a.data) element /= static_cast<float>(n + 1);
        else
          a.strengthen();
        const fleet_diag diag = unit ? FLEET_UNIT : FLEET_NON_UNIT;
        auto triangle = this->placed(a), x = this->placed(b), inverse = this->placed(a);
        std::int64_t info = -1, info_of_inverse = -1;

        this->done(Api::trtrs(this->context_, uplo_of(fill), FLEET_CONJ_TRANS, diag, n, b.cols,
                              triangle.data(), a.ld, x.data(), b.ld, &info));
        this->done(Api::trtri(this->context_, uplo_of(fill), diag, n, inverse.data(), a.ld,
                              &info_of_inverse));

        EXPECT_EQ(info, 0);
        EXPECT_EQ(info_of_inverse, 0);
        const Matrix<TypeParam> whole = a.triangle(fill, unit);
        this->expect_solves(Op::conjugate, whole, x.now(), b);
        if (n > 0)
          this->expect_near(product(Op::none, whole, Op::none, inverse.now().triangle(fill, unit)),
                            Matrix<TypeParam>::identity(n), static_cast<double>(n));
      }
}

TYPED_TEST(CapiLapack, InvertsMatricesByTheirFactors) {
  using Api = typename TestFixture::Api;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{70}, TestFixture::large()}) {
    Matrix<TypeParam> a(n, n, this->random_);
    // Diagonally dominant in all but the order of its rows.
    a.strengthen();
    Matrix<TypeParam> shuffled = a;
    for (std::int64_t col = 0; col < n; ++col)
      for (std::int64_t row = 0; row < n; ++row)
        shuffled.at((row * 7 + 3) % n, col) = a.at(row, col);
    if (n % 7 == 0) shuffled = a;
    auto inverse = this->placed(shuffled);
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
    std::int64_t info = -1;
    this->done(Api::getrf(this->context_, n, n, inverse.data(), a.ld, pivots.data(), &info));

    this->done(Api::getri(this->context_, n, inverse.data(), a.ld, pivots.data(), &info));

    EXPECT_EQ(info, 0);
    this->expect_near(product(Op::none, shuffled, Op::none, inverse.now()),
                      Matrix<TypeParam>::identity(n), static_cast<double>(n));
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      auto triangle = this->placed(a);
      this->done(Api::potrf(this->context_, uplo_of(fill), n, triangle.data(), a.ld, &info));
      this->done(Api::potri(this->context_, uplo_of(fill), n, triangle.data(), a.ld, &info));
      EXPECT_EQ(info, 0);
      this->expect_near(
          product(Op::none, a.hermitian(fill), Op::none, triangle.now().hermitian(fill)),
          Matrix<TypeParam>::identity(n), static_cast<double>(n));
    }
  }
}

TYPED_TEST(CapiLapack, SquaresTriangles) {
  using Api = typename TestFixture::Api;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{70}, TestFixture::large()})
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      Matrix<TypeParam> a(n, n, this->random_);
      for (std::int64_t i = 0; i < n; ++i) a.at(i, i) = TypeParam(std::abs(a.at(i, i)));
      auto square = this->placed(a);

      this->done(Api::lauum(this->context_, uplo_of(fill), n, square.data(), a.ld));

      const Matrix<TypeParam> factor = a.triangle(fill);
      const Matrix<TypeParam> whole = fill == Fill::lower
                                          ? product(Op::conjugate, factor, Op::none, factor)
                                          : product(Op::none, factor, Op::conjugate, factor);
      this->expect_near(square.now().triangle(fill), whole.triangle(fill), static_cast<double>(n));
    }
}

TYPED_TEST(CapiLapack, MakesAndAppliesOrthogonalFactors) {
  using Api = typename TestFixture::Api;
  using Size = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [m, n] : {Size(1, 1), Size(90, 90), Size(40, 130), Size(130, 40),
                             Size(TestFixture::large(), TestFixture::large() - 40)}) {
    const std::int64_t k = std::min(m, n);
    const auto scale = static_cast<double>(m + n);
    const Matrix<TypeParam> a(m, n, this->random_);
    auto factors = this->placed(a);
    std::vector<TypeParam> tau(static_cast<std::size_t>(k));
    this->done(Api::geqrf(this->context_, m, n, factors.data(), a.ld, tau.data()));
    const Matrix<TypeParam> stored = factors.now();

    // Q has at least k columns; some more where there is room for them.
    const std::int64_t cols = std::min<std::int64_t>(m, k + 5);
    Matrix<TypeParam> reflectors(m, cols, this->random_);
    for (std::int64_t col = 0; col < k; ++col)
      for (std::int64_t row = 0; row < m; ++row) reflectors.at(row, col) = stored.at(row, col);
    auto q = this->placed(reflectors);
    this->done(Api::orgqr(this->context_, m, cols, k, q.data(), reflectors.ld, tau.data()));

    const Matrix<TypeParam> made = q.now();
    Matrix<TypeParam> first(m, k), r(k, n);
    for (std::int64_t col = 0; col < k; ++col)
      for (std::int64_t row = 0; row < m; ++row) first.at(row, col) = made.at(row, col);
    for (std::int64_t col = 0; col < n; ++col)
      for (std::int64_t row = 0; row <= std::min(col, k - 1); ++row)
        r.at(row, col) = stored.at(row, col);
    this->expect_near(product(Op::conjugate, made, Op::none, made),
                      Matrix<TypeParam>::identity(cols), scale);
    this->expect_near(product(Op::none, first, Op::none, r), a, 4 * scale);

    for (const fleet_side side : {FLEET_LEFT, FLEET_RIGHT})
      for (const Op op : {Op::none, Op::conjugate}) {
        const bool left = side == FLEET_LEFT;
        Matrix<TypeParam> c(left ? m : 20, left ? 20 : m, this->random_), known = c;
        auto changed = this->placed(c);
        this->done(Api::ormqr(this->context_, side,
                              op == Op::none ? FLEET_NO_TRANS : FLEET_CONJ_TRANS, c.rows, c.cols, k,
                              factors.data(), a.ld, tau.data(), changed.data(), c.ld));
        lapack::ormqr(this->cpu_, this->kStorage, left ? Side::left : Side::right, op,
                      part(stored.view(), this->kStorage, 0, 0, m, k), tau.data(), known.view());
        this->expect_near(changed.now(), known, 4 * scale);
      }
  }
}

TYPED_TEST(CapiLapack, AppliesBlocksOfReflectorsInEveryForm) {
  using Api = typename TestFixture::Api;
  constexpr std::int64_t kRows = 45, kCols = 37, kReflectors = 8;
  for (const fleet_side side : {FLEET_LEFT, FLEET_RIGHT})
    for (const Op op : {Op::none, Op::conjugate})
      for (const fleet_direct direct : {FLEET_FORWARD, FLEET_BACKWARD})
        for (const fleet_storev storev : {FLEET_COLUMNWISE, FLEET_ROWWISE}) {
          const bool rows = storev == FLEET_ROWWISE, forward = direct == FLEET_FORWARD;
          const std::int64_t order = side == FLEET_LEFT ? kRows : kCols;
          const std::int64_t k = kReflectors;
          // What is not read has values that would be noticed.
          Matrix<TypeParam> v(rows ? k : order, rows ? order : k, this->random_);
          Matrix<TypeParam> t(k, k, this->random_), c(kRows, kCols, this->random_);
          Matrix<TypeParam> complete = v;
          for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t one = forward ? i : order - k + i;
            for (std::int64_t j = 0; j < order; ++j) {
              const bool is_zero = forward ? j < one : j > one;
              TypeParam& element = rows ? complete.at(i, j) : complete.at(j, i);
              if (is_zero || j == one) element = TypeParam(j == one ? 1 : 0);
            }
          }
          const Matrix<TypeParam> triangle = t.triangle(forward ? Fill::upper : Fill::lower);
          const Matrix<TypeParam> inner = rows ? product(Op::conjugate, complete, op, triangle)
                                               : product(Op::none, complete, op, triangle);
          const Matrix<TypeParam> h =
              difference(Matrix<TypeParam>::identity(order),
                         product(Op::none, inner, rows ? Op::none : Op::conjugate, complete));
          auto changed = this->placed(c), vectors = this->placed(v), factor = this->placed(t);

          this->done(Api::larfb(this->context_, side,
                                op == Op::none ? FLEET_NO_TRANS : FLEET_CONJ_TRANS, direct, storev,
                                kRows, kCols, k, vectors.data(), v.ld, factor.data(), t.ld,
                                changed.data(), c.ld));

          const Matrix<TypeParam> expected = side == FLEET_LEFT ? product(Op::none, h, Op::none, c)
                                                                : product(Op::none, c, Op::none, h);
          this->expect_near(changed.now(), expected, 400);
          EXPECT_EQ(vectors.now().data, v.data);
        }
}

}  // namespace
}  // namespace fleet

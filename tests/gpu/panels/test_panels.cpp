// SPDX-License-Identifier: BSD-3-Clause
// test_panels.cpp: LU and QR of panels on a GPU, of all shapes that take another way, and against
// plain loops. It tries no plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cuda/panels.hpp"
#include "gpu/panels/panel_trial.hpp"

namespace fleet::test {
namespace {

using cuda::check;

struct Size {
  std::int64_t rows, cols;
};
/// Around the widths of what one grid factors, and the rows of a thread block.
constexpr Size kSizes[] = {{1, 1},    {5, 3},     {3, 5},      {1, 40},     {40, 1},    {31, 32},
                           {33, 33},  {64, 16},   {100, 64},   {511, 17},   {513, 130}, {200, 300},
                           {700, 97}, {1025, 32}, {2000, 300}, {17000, 70}, {70000, 40}};
constexpr Size kTall = {200000, 21};

template <typename T>
class PanelsOf : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ASSERT_TRUE(cuda::works(cudaGetDeviceCount(&count)) && count > 0) << "these tests need a GPU";
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    blas_ = std::make_unique<cuda::CublasHandle>(cuda::CublasLibrary::load(), stream_);
  }
  void TearDown() override {
    blas_.reset();
    EXPECT_TRUE(stream_ == nullptr || cuda::works(cudaStreamDestroy(stream_)));
  }
  cuda::Panels panels(int widest = 0) { return cuda::Panels({*blas_, stream_}, widest); }
  void wait() { check(cudaStreamSynchronize(stream_), "a panel"); }
  static constexpr Storage kStorage = ElementTraits<T>::kStorage;

  /// What is poisoned before: workspaces hold anything.
  static DeviceArray<char> poisoned(std::size_t bytes) {
    return DeviceArray<char>(std::vector<char>(bytes, '\x7B'));
  }

  struct Lu {
    HostMatrix<T> factors;
    std::vector<std::int32_t> pivots;
    std::int32_t info = -1;
  };
  Lu getrf(const HostMatrix<T>& a, int widest = 0) {
    DeviceArray<T> data(a.values);
    DeviceArray<std::int32_t> pivots(std::min(a.rows, a.cols)), info(1);
    const auto workspace = poisoned(panels(widest).getrf_bytes(kStorage, a.rows, a.cols));
    panels(widest).getrf(kStorage, a.view(data.data()), pivots.data(), info.data(),
                         workspace.data());
    wait();
    return {{a.rows, a.cols, a.ld, data.values()}, pivots.values(), info.values()[0]};
  }

  struct Qr {
    HostMatrix<T> factors;
    std::vector<T> taus;
    HostMatrix<T> t;
  };
  Qr geqrf(const HostMatrix<T>& a, int widest = 0) {
    const std::int64_t order = std::min(a.rows, a.cols);
    DeviceArray<T> data(a.values), taus(order),
        t(HostMatrix<T>::random(order, order, order + 1, 5).values);
    const auto workspace = poisoned(panels(widest).geqrf_bytes(kStorage, a.rows, a.cols));
    panels(widest).geqrf(kStorage, a.view(data.data()), taus.data(),
                         {.data = t.data(), .rows = order, .cols = order, .ld = order + 1},
                         workspace.data());
    wait();
    return {{a.rows, a.cols, a.ld, data.values()},
            taus.values(),
            {order, order, order + 1, t.values()}};
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<cuda::CublasHandle> blas_;
};

using Elements = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(PanelsOf, Elements);

template <typename T>
double pivot_size(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(static_cast<double>(x));
  else
    return std::abs(static_cast<double>(x.real())) + std::abs(static_cast<double>(x.imag()));
}

/// LAPACK's getf2, and its info.
template <typename T>
std::int32_t factor_plainly(HostMatrix<T>& a, std::vector<std::int32_t>& pivots) {
  std::int32_t info = 0;
  for (std::int64_t step = 0; step < std::min(a.rows, a.cols); ++step) {
    std::int64_t best = step;
    for (std::int64_t row = step + 1; row < a.rows; ++row)
      if (pivot_size(a.at(row, step)) > pivot_size(a.at(best, step))) best = row;
    pivots.push_back(static_cast<std::int32_t>(best));
    for (std::int64_t col = 0; col < a.cols; ++col) std::swap(a.at(step, col), a.at(best, col));
    if (a.at(step, step) == T(0)) {
      if (info == 0) info = static_cast<std::int32_t>(step + 1);
      continue;
    }
    for (std::int64_t row = step + 1; row < a.rows; ++row) a.at(row, step) /= a.at(step, step);
    for (std::int64_t col = step + 1; col < a.cols; ++col)
      for (std::int64_t row = step + 1; row < a.rows; ++row)
        a.at(row, col) -= a.at(row, step) * a.at(step, col);
  }
  return info;
}

template <typename T>
void expect_lower_at_most_one(const HostMatrix<T>& factors) {
  double largest = 0;
  for (std::int64_t col = 0; col < factors.cols; ++col)
    for (std::int64_t row = col + 1; row < factors.rows; ++row)
      largest = std::max(largest, static_cast<double>(std::abs(factors.at(row, col))));
  EXPECT_LE(largest, (std::is_floating_point_v<T> ? 1 : std::sqrt(2.0)) + 4 * kEpsilon<T>);
}

TYPED_TEST(PanelsOf, LuOfEverySizeIsThatOfTheMatrix) {
  for (const Size size : kSizes)
    for (const int widest : {0, 16, 4}) {
      SCOPED_TRACE(testing::Message() << size.rows << " x " << size.cols << " by " << widest);
      const auto a = HostMatrix<TypeParam>::random(size.rows, size.cols, size.rows + 3, 11);

      const auto lu = this->getrf(a, widest);

      EXPECT_EQ(lu.info, 0);
      EXPECT_LT(lu_error(a, lu.factors, lu.pivots), kMostError);
      expect_lower_at_most_one(lu.factors);
      EXPECT_TRUE(keeps_guard(a, lu.factors));
    }
}

TYPED_TEST(PanelsOf, LuOfManyRowsTakesNarrowerColumns) {
  const auto a = HostMatrix<TypeParam>::random(kTall.rows, kTall.cols, kTall.rows, 12);

  const auto lu = this->getrf(a);

  EXPECT_EQ(lu.info, 0);
  EXPECT_LT(lu_error(a, lu.factors, lu.pivots), kMostError);
}

TYPED_TEST(PanelsOf, LuHasThePivotsOfPlainLoops) {
  for (const Size size : {Size{300, 70}, Size{1500, 40}, Size{60, 90}}) {
    auto plain = HostMatrix<TypeParam>::random(size.rows, size.cols, size.rows, 13);
    const auto lu = this->getrf(plain);
    std::vector<std::int32_t> pivots;
    EXPECT_EQ(factor_plainly(plain, pivots), lu.info);
    EXPECT_EQ(pivots, lu.pivots) << size.rows << " x " << size.cols;
  }
}

/// All arithmetic is exact, and many elements of a column have the same size.
TYPED_TEST(PanelsOf, LuTakesTheFirstOfEqualPivots) {
  HostMatrix<TypeParam> plain{1100, 3, 1100, std::vector<TypeParam>(3300)};
  PanelRandom numbers(14);
  for (TypeParam& value : plain.values)
    value = TypeParam(static_cast<typename ElementTraits<TypeParam>::Real>(
        std::floor(numbers.next() * 1.5 + 0.5)));
  const auto lu = this->getrf(plain);
  std::vector<std::int32_t> pivots;
  EXPECT_EQ(factor_plainly(plain, pivots), lu.info);
  EXPECT_EQ(pivots, lu.pivots);
  EXPECT_EQ(plain.values, lu.factors.values);
}

TYPED_TEST(PanelsOf, LuGoesOnPastAPivotOfZero) {
  auto a = HostMatrix<TypeParam>::random(600, 80, 600, 15);
  for (const std::int64_t col : {37, 61})
    for (std::int64_t row = 0; row < a.rows; ++row) a.at(row, col) = 0;

  const auto lu = this->getrf(a);

  EXPECT_EQ(lu.info, 38);
  EXPECT_EQ(lu.pivots[37], 37);
  EXPECT_LT(lu_error(a, lu.factors, lu.pivots), kMostError);
}

TYPED_TEST(PanelsOf, LuEndsWhereNumbersAreNone) {
  auto a = HostMatrix<TypeParam>::random(3000, 64, 3000, 16);
  a.at(1700, 5) = std::numeric_limits<typename ElementTraits<TypeParam>::Real>::quiet_NaN();

  const auto lu = this->getrf(a);

  for (const std::int32_t pivot : lu.pivots) {
    EXPECT_GE(pivot, 0);
    EXPECT_LT(pivot, 3000);
  }
}

TYPED_TEST(PanelsOf, LuHasTheSameBitsAgainAndFromAGraph) {
  const auto a = HostMatrix<TypeParam>::random(5000, 100, 5000, 17);
  const auto lu = this->getrf(a);
  EXPECT_EQ(this->getrf(a).factors.values, lu.factors.values);

  const auto panels = this->panels();
  DeviceArray<TypeParam> data(a.values), original(a.values);
  DeviceArray<std::int32_t> pivots(100), info(1);
  const auto workspace = this->poisoned(panels.getrf_bytes(this->kStorage, a.rows, a.cols));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamBeginCapture(this->stream_, cudaStreamCaptureModeThreadLocal), "a capture");
  check(cudaMemcpyAsync(data.data(), original.data(), a.values.size() * sizeof(TypeParam),
                        cudaMemcpyDeviceToDevice, this->stream_),
        "a copy");
  panels.getrf(this->kStorage, a.view(data.data()), pivots.data(), info.data(), workspace.data());
  check(cudaStreamEndCapture(this->stream_, &graph), "a capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "a graph");
  for (int again = 0; again < 3; ++again) check(cudaGraphLaunch(ready, this->stream_), "a graph");
  this->wait();
  EXPECT_EQ(data.values(), lu.factors.values);
  EXPECT_EQ(pivots.values(), lu.pivots);
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TYPED_TEST(PanelsOf, RowsAreExchangedInEitherOrder) {
  for (const std::int64_t count : {1, 7, 300, 1024, 1500}) {
    const std::int64_t rows = 2100, cols = 37;
    const auto a = HostMatrix<TypeParam>::random(rows, cols, rows + 1, 18);
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(count));
    PanelRandom numbers(19);
    for (std::int32_t i = 0; i < count; ++i)
      pivots[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(i + static_cast<double>(rows - i) * (numbers.next() + 1) / 2);
    for (const bool backward : {false, true}) {
      HostMatrix<TypeParam> expected = a;
      for (std::int64_t n = 0; n < count; ++n) {
        const std::int64_t i = backward ? count - 1 - n : n;
        for (std::int64_t col = 0; col < cols; ++col)
          std::swap(expected.at(i, col), expected.at(pivots[static_cast<std::size_t>(i)], col));
      }
      DeviceArray<TypeParam> data(a.values);
      DeviceArray<std::int32_t> list(pivots);
      const auto workspace = this->poisoned(cuda::Panels::exchange_bytes(count));
      this->panels().exchange_rows(
          this->kStorage, a.view(data.data()), list.data(), count,
          backward ? cuda::ExchangeOrder::backward : cuda::ExchangeOrder::forward,
          workspace.data());
      this->wait();
      EXPECT_TRUE(data.values() == expected.values) << count << (backward ? " backward" : "");
    }
  }
}

TYPED_TEST(PanelsOf, QrOfEverySizeIsThatOfTheMatrix) {
  for (const Size size : kSizes)
    for (const int widest : {0, 16, 4}) {
      SCOPED_TRACE(testing::Message() << size.rows << " x " << size.cols << " by " << widest);
      const auto a = HostMatrix<TypeParam>::random(size.rows, size.cols, size.rows + 3, 31);

      const auto qr = this->geqrf(a, widest);

      const QrErrors errors = qr_errors(a, qr.factors, qr.taus, qr.t);
      EXPECT_LT(errors.factors, kMostError);
      EXPECT_LT(errors.unitary, kMostError);
      EXPECT_LT(errors.together, kMostError);
      for (std::int64_t i = 0; i < qr.t.cols; ++i) {
        EXPECT_EQ(std::imag(qr.factors.at(i, i)), 0);
        for (std::int64_t row = i + 1; row < qr.t.rows; ++row)
          EXPECT_EQ(qr.t.at(row, i), TypeParam(0));
      }
      EXPECT_TRUE(keeps_guard(a, qr.factors));
    }
}

TYPED_TEST(PanelsOf, QrOfManyRowsTakesNarrowerColumns) {
  const auto a = HostMatrix<TypeParam>::random(kTall.rows, kTall.cols, kTall.rows, 32);
  const auto qr = this->geqrf(a);
  EXPECT_LT(qr_errors(a, qr.factors, qr.taus, qr.t).largest(), kMostError);
}

TYPED_TEST(PanelsOf, QrOfAColumnThatIsZeroBelowHasNoReflector) {
  HostMatrix<TypeParam> a{40, 4, 40, std::vector<TypeParam>(160)};
  for (std::int64_t i = 0; i < 4; ++i) a.at(i, i) = static_cast<TypeParam>(-2);

  const auto qr = this->geqrf(a);

  for (const TypeParam tau : qr.taus) EXPECT_EQ(tau, TypeParam(0));
  EXPECT_EQ(qr.factors.values, a.values);
}

TYPED_TEST(PanelsOf, QrOfLargeAndOfSmallElementsIsAsExact) {
  using Real = typename ElementTraits<TypeParam>::Real;
  for (const double part : {0.9, -0.9}) {
    auto a = HostMatrix<TypeParam>::random(900, 50, 900, 33);
    const Real scale = std::pow(std::numeric_limits<Real>::max(), static_cast<Real>(part));
    for (TypeParam& value : a.values) value *= scale;

    const auto qr = this->geqrf(a);

    // The norms that errors are relative to have to be numbers.
    auto plain = a, factors = qr.factors;
    for (TypeParam& value : plain.values) value /= scale;
    for (std::int64_t col = 0; col < a.cols; ++col)
      for (std::int64_t row = 0; row <= col; ++row) factors.at(row, col) /= scale;
    EXPECT_LT(qr_errors(plain, factors, qr.taus, qr.t).largest(), kMostError) << part;
  }
}

TEST(PanelLimits, HaveRoomForPanelsOfLargeMatrices) {
  for (const Storage storage : {Storage::f32, Storage::f64, Storage::c32, Storage::c64})
    EXPECT_GE(cuda::Panels::most_rows(storage), 65536);
}

}  // namespace
}  // namespace fleet::test

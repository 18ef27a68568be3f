// SPDX-License-Identifier: BSD-3-Clause
// test_cholesky_panels.cpp: Cholesky factors of panels on a GPU, by kernels of ours and by
// cuSOLVER, which have to keep the same promises. It tries no plans.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <type_traits>

#include "backend/cuda/panels.hpp"
#include "gpu/panels/panel_trial.hpp"

namespace fleet::test {
namespace {

using cuda::check;

/// A type of elements, and whether cuSOLVER factors them.
template <typename T, bool BySolver>
struct Way {
  using Element = T;
  static constexpr bool kBySolver = BySolver;
};

template <typename W>
class CholeskyPanels : public testing::Test {
 protected:
  using T = typename W::Element;
  static constexpr Storage kStorage = ElementTraits<T>::kStorage;

  void SetUp() override {
    int count = 0;
    ASSERT_TRUE(cuda::works(cudaGetDeviceCount(&count)) && count > 0) << "these tests need a GPU";
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    const auto cublas = cuda::CublasLibrary::load();
    blas_ = std::make_unique<cuda::CublasHandle>(cublas, stream_);
    if (!W::kBySolver) return;
    const auto cusolver = cuda::CusolverLibrary::load(cublas->version());
    if (cusolver == nullptr) GTEST_SKIP() << "there is no cuSOLVER beside " << cublas->file();
    solver_ = cuda::CusolverHandle::make(cusolver, stream_);
    ASSERT_NE(solver_, nullptr);
  }
  void TearDown() override {
    solver_.reset();
    blas_.reset();
    EXPECT_TRUE(stream_ == nullptr || cuda::works(cudaStreamDestroy(stream_)));
  }

  cuda::Panels panels() const { return cuda::Panels({*blas_, stream_, solver_.get()}); }
  void wait() { check(cudaStreamSynchronize(stream_), "a panel"); }

  /// A workspace that holds anything before.
  DeviceArray<char> workspace_for(const View& a) const {
    return DeviceArray<char>(std::vector<char>(panels().potrf_bytes(kStorage, a), '\x7B'));
  }

  struct Cholesky {
    HostMatrix<T> factor;
    std::int32_t info = -1;
  };
  Cholesky potrf(const HostMatrix<T>& a, Fill fill) {
    DeviceArray<T> data(a.values);
    DeviceArray<std::int32_t> info(1);
    const View view = a.view(data.data(), fill);
    const auto workspace = workspace_for(view);
    panels().potrf(kStorage, view, info.data(), workspace.data());
    wait();
    return {{a.rows, a.cols, a.ld, data.values()}, info.values()[0]};
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<cuda::CublasHandle> blas_;
  std::unique_ptr<cuda::CusolverHandle> solver_;
};

using Ways = testing::Types<Way<float, false>, Way<double, false>, Way<std::complex<float>, false>,
                            Way<std::complex<double>, false>, Way<float, true>, Way<double, true>,
                            Way<std::complex<float>, true>, Way<std::complex<double>, true>>;
TYPED_TEST_SUITE(CholeskyPanels, Ways);

/// Positive definite, with the opposite triangle poisoned.
template <typename T>
HostMatrix<T> definite(std::int64_t order, Fill fill, std::uint64_t seed) {
  auto a = HostMatrix<T>::random(order, order, order + 2, seed);
  for (std::int64_t col = 0; col < order; ++col) {
    a.at(col, col) = T(static_cast<typename ElementTraits<T>::Real>(order + 1));
    for (std::int64_t row = 0; row < col; ++row)
      (fill == Fill::lower ? a.at(row, col) : a.at(col, row)) =
          std::numeric_limits<typename ElementTraits<T>::Real>::quiet_NaN();
  }
  return a;
}

template <typename T>
HostMatrix<T> completed(HostMatrix<T> a, Fill fill) {
  for (std::int64_t col = 0; col < a.cols; ++col)
    for (std::int64_t row = 0; row < col; ++row)
      if (fill == Fill::lower)
        a.at(row, col) = turned(a.at(col, row));
      else
        a.at(col, row) = turned(a.at(row, col));
  return a;
}

/// Is all of the opposite triangle still poisoned?
template <typename T>
bool keeps_opposite(const HostMatrix<T>& factor, Fill fill) {
  for (std::int64_t col = 0; col < factor.cols; ++col)
    for (std::int64_t row = 0; row < col; ++row)
      if (!std::isnan(std::real(fill == Fill::lower ? factor.at(row, col) : factor.at(col, row))))
        return false;
  return true;
}

TYPED_TEST(CholeskyPanels, OfEveryOrderAreThoseOfTheMatrix) {
  using T = typename TypeParam::Element;
  for (const std::int64_t order : {1, 2, 31, 33, 64, 65, 128, 129, 200, 512, 700, 1024})
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      SCOPED_TRACE(testing::Message() << order << (fill == Fill::lower ? " lower" : " upper"));
      const auto a = definite<T>(order, fill, 20);

      const auto made = this->potrf(a, fill);

      EXPECT_EQ(made.info, 0);
      EXPECT_LT(cholesky_error(completed(a, fill), made.factor, fill), kMostError);
      EXPECT_TRUE(keeps_guard(a, made.factor));
      EXPECT_TRUE(keeps_opposite(made.factor, fill));
    }
}

TYPED_TEST(CholeskyPanels, NameTheFirstMinorThatIsNotDefinite) {
  using T = typename TypeParam::Element;
  for (const std::int64_t first : {0, 5, 63, 64, 130, 299})
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      auto a = definite<T>(300, fill, 21);
      a.at(first, first) = -1;
      if (first < 290) a.at(295, 295) = -1;
      EXPECT_EQ(this->potrf(a, fill).info, first + 1);
    }
}

TYPED_TEST(CholeskyPanels, NameTheFirstColumnWithoutARootWhereNumbersAreNone) {
  using T = typename TypeParam::Element;
  constexpr auto kNone = std::numeric_limits<typename ElementTraits<T>::Real>::quiet_NaN();
  for (const std::int64_t first : {0, 31, 140, 299})
    for (const Fill fill : {Fill::lower, Fill::upper}) {
      auto a = definite<T>(300, fill, 22);
      a.at(first, first) = kNone;
      EXPECT_EQ(this->potrf(a, fill).info, first + 1);
      // Beside the diagonal it reaches the root of its row.
      auto b = definite<T>(300, fill, 23);
      (fill == Fill::lower ? b.at(299, first) : b.at(first, 299)) = kNone;
      EXPECT_EQ(this->potrf(b, fill).info, 300);
    }
}

TYPED_TEST(CholeskyPanels, HaveTheSameBitsAgain) {
  using T = typename TypeParam::Element;
  const auto a = definite<T>(700, Fill::lower, 24);
  const auto once = this->potrf(a, Fill::lower).factor, again = this->potrf(a, Fill::lower).factor;
  for (std::int64_t col = 0; col < a.cols; ++col)
    for (std::int64_t row = col; row < a.rows; ++row)
      ASSERT_EQ(once.at(row, col), again.at(row, col)) << row << ", " << col;
}

/// The stream is held by a function on the host, which waits until potrf has returned.
TYPED_TEST(CholeskyPanels, AreEnqueuedAndNotWaitedFor) {
  using T = typename TypeParam::Element;
  const auto a = definite<T>(512, Fill::lower, 25);
  this->potrf(a, Fill::lower);  // libraries load their kernels
  DeviceArray<T> data(a.values);
  DeviceArray<std::int32_t> info(1);
  const View view = a.view(data.data(), Fill::lower);
  const auto workspace = this->workspace_for(view);
  struct Hold {
    std::promise<void> returned;
    bool in_time = false;
  } hold;
  check(cudaLaunchHostFunc(
            this->stream_,
            [](void* data) {
              constexpr std::chrono::seconds kLongest{5};
              Hold& held = *static_cast<Hold*>(data);
              held.in_time =
                  held.returned.get_future().wait_for(kLongest) == std::future_status::ready;
            },
            &hold),
        "a function on the host");

  this->panels().potrf(this->kStorage, view, info.data(), workspace.data());

  hold.returned.set_value();
  this->wait();
  EXPECT_TRUE(hold.in_time);
  EXPECT_EQ(info.values()[0], 0);
}

}  // namespace
}  // namespace fleet::test

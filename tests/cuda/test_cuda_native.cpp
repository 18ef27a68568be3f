// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_native.cpp: what cuBLAS is told where the environment asks it to emulate, by functions
// that write down what they are told. It needs the toolkit's headers, and no GPU.
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/native.hpp"

namespace fleet::cuda {
namespace {

constexpr int kHopper = 90, kBlackwell = 100;
constexpr DataType kTypes[] = {DataType::f32, DataType::f64,  DataType::c32, DataType::c64,
                               DataType::f16, DataType::bf16, DataType::tf32};

/// What handles were told since the test began.
std::vector<int> modes, strategies;

constexpr MathFunctions kRecording{.set_math_mode =
                                       [](cublasHandle_t, cublasMath_t mode) {
                                         modes.push_back(mode);
                                         return CUBLAS_STATUS_SUCCESS;
                                       },
                                   .set_emulation_strategy =
                                       [](cublasHandle_t, int strategy) {
                                         strategies.push_back(strategy);
                                         return CUBLAS_STATUS_SUCCESS;
                                       }};

class ToldToEmulate : public testing::Test {
 protected:
  void SetUp() override {
    modes.clear();
    strategies.clear();
  }
};

TEST(NotToldToEmulate, CublasIsLeftAsItIs) {
  modes.clear();
  strategies.clear();
  const NativeMath math(kRecording, false, kBlackwell);

  EXPECT_EQ(math.set_up(nullptr), CUBLAS_STATUS_SUCCESS);
  for (const DataType type : kTypes) EXPECT_EQ(math.set_mode(nullptr, type), CUBLAS_STATUS_SUCCESS);

  EXPECT_TRUE(modes.empty());
  EXPECT_TRUE(strategies.empty());
  EXPECT_EQ(math.compute_type(DataType::f32), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(math.compute_type(DataType::f64), CUBLAS_COMPUTE_64F);
  EXPECT_EQ(math.compute_type(DataType::c64), CUBLAS_COMPUTE_64F);
  EXPECT_EQ(math.compute_type(DataType::bf16), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(math.compute_type(DataType::tf32), CUBLAS_COMPUTE_32F_FAST_TF32);
}

TEST_F(ToldToEmulate, FloatsAreMultipliedPedantically) {
  for (const int capability : {0, 80, kHopper, kBlackwell}) {
    const NativeMath math(kRecording, true, capability);
    for (const DataType type : {DataType::f32, DataType::c32}) {
      modes.clear();
      EXPECT_EQ(math.compute_type(type), CUBLAS_COMPUTE_32F_PEDANTIC);
      math.set_mode(nullptr, type);
      EXPECT_EQ(modes, std::vector<int>{CUBLAS_PEDANTIC_MATH});
    }
  }
}

TEST_F(ToldToEmulate, DoublesArePedanticWhereEmulationMayBeFaster) {
  for (const int capability : {0, 80, 86, kBlackwell, 103, 120}) {
    const NativeMath math(kRecording, true, capability);
    for (const DataType type : {DataType::f64, DataType::c64}) {
      modes.clear();
      EXPECT_EQ(math.compute_type(type), CUBLAS_COMPUTE_64F_PEDANTIC) << capability;
      math.set_mode(nullptr, type);
      EXPECT_EQ(modes, std::vector<int>{CUBLAS_PEDANTIC_MATH}) << capability;
    }
  }
}

TEST_F(ToldToEmulate, DoublesKeepTheirKernelsOnHopperWhereCublasMustNotBeEager) {
  const NativeMath math(kRecording, true, kHopper);

  EXPECT_EQ(math.set_up(nullptr), CUBLAS_STATUS_SUCCESS);
  math.set_mode(nullptr, DataType::f64);

  EXPECT_EQ(strategies, std::vector<int>{1});  // CUBLAS_EMULATION_STRATEGY_PERFORMANT
  EXPECT_EQ(modes, std::vector<int>{CUBLAS_DEFAULT_MATH});
  EXPECT_EQ(math.compute_type(DataType::f64), CUBLAS_COMPUTE_64F);
}

TEST_F(ToldToEmulate, HalfTypesStayOnTheirFastKernels) {
  const NativeMath math(kRecording, true, kBlackwell);

  for (const DataType type : {DataType::f16, DataType::bf16, DataType::tf32})
    math.set_mode(nullptr, type);

  EXPECT_EQ(math.compute_type(DataType::f16), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(math.compute_type(DataType::tf32), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(modes, std::vector<int>(3, CUBLAS_DEFAULT_MATH));
}

TEST_F(ToldToEmulate, AnOlderCublasIsAskedForNothingThatItLacks) {
  const NativeMath math(MathFunctions{}, true, kHopper);

  EXPECT_EQ(math.set_up(nullptr), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(math.set_mode(nullptr, DataType::f32), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace fleet::cuda

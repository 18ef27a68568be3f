// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_device_scope.cpp: threads of the program have what they had before, on the fake CUDA,
// where nothing works in a thread without a context.
#include <gtest/gtest.h>

#include <thread>

#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/driver.hpp"
#include "support/refusal.hpp"

namespace fleet::cuda {
namespace {

CUcontext context() {
  static const auto get = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  CUcontext current = nullptr;
  get(&current);
  return current;
}

void make_current(CUcontext context) {
  static const auto set = driver_function<CUresult (*)(CUcontext)>("cuCtxSetCurrent");
  set(context);
}

CUstreamCaptureMode mode() {
  static const auto exchange =
      driver_function<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode");
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  exchange(&mode);
  CUstreamCaptureMode put_back = mode;
  exchange(&put_back);
  return mode;
}

int device() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

TEST(DeviceScope, LeavesAThreadWithoutAContextWithoutOne) {
  {
    DeviceScope scope(1);
    EXPECT_EQ(device(), 1);
    scope.use(2);
    EXPECT_EQ(device(), 2);
    EXPECT_NE(context(), nullptr);
  }
  EXPECT_EQ(context(), nullptr);
  EXPECT_EQ(device(), 0);
}

TEST(DeviceScope, PutsBackAContextThatTheProgramMade) {
  int other = 0;  // stands for a context that is no device's own
  const auto made = reinterpret_cast<CUcontext>(&other);
  make_current(made);
  {
    const DeviceScope scope(2);
    EXPECT_NE(context(), made);
    {
      const DeviceScope inner(1);
      EXPECT_EQ(device(), 1);
    }
    EXPECT_EQ(device(), 2);
    { const DeviceScope unused; }
    EXPECT_EQ(device(), 2);
  }
  EXPECT_EQ(context(), made);
  make_current(nullptr);
}

TEST(DeviceScope, AllowsWhatCapturesOfOthersForbidAsLongAsItLives) {
  ASSERT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  {
    const DeviceScope scope(1);
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
    { const DeviceScope inner(2); }
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(DeviceScope, OfADeviceThatThereIsNotChangesNothing) {
  constexpr int kMissing = 3;
  EXPECT_NE(test::refusal(Status::device_failed, [] { const DeviceScope scope(kMissing); }),
            "nothing was refused");
  DeviceScope scope(1);
  EXPECT_FALSE(scope.try_use(kMissing));
  EXPECT_EQ(device(), 1);
}

TEST(DeviceScope, InOurOwnThreadsADeviceStays) {
  std::thread([] {
    keep_device(1);
    EXPECT_EQ(device(), 1);
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  }).join();
}

}  // namespace
}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_program_streams.cpp: what the program captures or holds is left alone, on the fake
// CUDA.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/known_kernels.hpp"
#include "backend/cuda/program_streams.hpp"
#include "backend/cuda/stream_memory.hpp"
#include "cuda/fake_runtime.hpp"
#include "support/refusal.hpp"

namespace fleet::cuda {
namespace {

using test::fake_streams;
using test::refusal;

/// One stream of the program, which it captures if that is asked for.
class CudaProgramStreams : public testing::Test {
 protected:
  CudaProgramStreams() { cudaStreamCreateWithFlags(&stream_, cudaStreamDefault); }
  ~CudaProgramStreams() override {
    fake_streams() = {};
    cudaStreamDestroy(stream_);
  }

  void capture() { fake_streams().captured = stream_; }

  const DeviceScope scope_{1};
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaProgramStreams, AreWaitedForAndTellWhenTheyAreDone) {
  for (void* const stream : {static_cast<void*>(stream_), static_cast<void*>(nullptr)}) {
    int told = 0;
    wait_for_program(stream);
    when_program_done(stream, [&](const char* failure) { told += failure == nullptr ? 1 : 2; });
    EXPECT_EQ(told, 1);
  }
  EXPECT_TRUE(is_default_stream_free());
}

TEST_F(CudaProgramStreams, AreLeftAloneWhileTheyAreCaptured) {
  capture();
  for (void* const stream : {static_cast<void*>(stream_), static_cast<void*>(nullptr)}) {
    for (const std::function<void()>& use : {
             std::function<void()>([=] { wait_for_program(stream); }),
             std::function<void()>([=] { when_program_done(stream, [](const char*) {}); }),
             std::function<void()>([=] { hold_program(stream); }),
         })
      EXPECT_NE(refusal(Status::unsupported, use), "nothing was refused");
  }
  EXPECT_FALSE(any_stream_is_held());
  EXPECT_FALSE(is_default_stream_free());
  EXPECT_FALSE(fake_streams().is_broken);
}

TEST_F(CudaProgramStreams, AreNotHeldWhileSomebodyReliesOnThat) {
  std::atomic<bool> is_over{false};
  std::optional<NoNewHold> as_it_is(std::in_place);
  { const NoNewHold nested; }
  std::thread holder([&] {
    const DeviceScope other(2);  // to which the stream does not belong: it is not held for long
    EXPECT_NE(refusal(Status::device_failed, [&] { hold_program(stream_); }),
              "nothing was refused");
    is_over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_over);
  EXPECT_FALSE(any_stream_is_held());

  as_it_is.reset();

  holder.join();
  EXPECT_TRUE(is_over);
  EXPECT_FALSE(any_stream_is_held());
}

TEST_F(CudaProgramStreams, AreNotHeldWhileKernelsAreLoaded) {
  fake_streams().wait = false;
  const auto product_of = [](std::int64_t rows) {
    return Launch{.alpha = 1, .c = {.rows = rows, .cols = 8, .ld = rows}};
  };
  std::uint64_t known = 0;
  int puts = 0;
  const auto put = [&](const Launch& launch, int ordinal) {
    put_if_loaded(launch, ordinal, known, [&] { ++puts; });
  };
  put(product_of(40), 1);
  const std::function<void()> let_go = hold_program(stream_);
  EXPECT_TRUE(any_stream_is_held());
  EXPECT_FALSE(is_default_stream_free());

  known = 0;
  put(product_of(40), 1);
  EXPECT_EQ(refusal(Status::device_failed, [&] { put(product_of(41), 1); }),
            "a kernel cannot be loaded while a stream waits for an event");
  EXPECT_NE(refusal(Status::device_failed, [&] { put(product_of(40), 2); }), "nothing was refused")
      << "of another device";
  EXPECT_EQ(puts, 2);

  let_go();
  ASSERT_EQ(take_wanted(1).size(), 1);
  EXPECT_EQ(take_wanted(2).size(), 1);
  put(product_of(41), 1);
  EXPECT_EQ(puts, 3);
  EXPECT_TRUE(take_wanted(1).empty());
}

TEST(CudaKernels, AreOtherOnesForOtherSizesTypesAndPlaces) {
  const Launch product{.op_a = Op::transpose,
                       .alpha = 1,
                       .a = {.rows = 8, .cols = 8, .ld = 8},
                       .b = {.rows = 8, .cols = 8, .ld = 8},
                       .c = {.rows = 8, .cols = 8, .ld = 8}};
  std::vector<Launch> others(9, product);
  others[0].type = DataType::f32;
  others[1].op_a = Op::none;
  others[2].c.rows = 9;
  others[3].a.ld = 9;
  others[4].beta = 1;
  others[5].kernel = Kernel::solve;
  others[6].side = Side::right;
  others[7].type = DataType::tf32;
  others[8].b.reversed = true;
  std::set<std::uint64_t> kernels{kernels_of(product, 0), kernels_of(product, 1)};
  for (const Launch& other : others) kernels.insert(kernels_of(other, 0));
  EXPECT_EQ(kernels.size(), 2 + others.size());

  alignas(16) static char memory[32];
  Launch of_two = product;
  of_two.b.data = memory;
  EXPECT_NE(kernels_of(of_two, 0), kernels_of(product, 0)) << "an update by itself is syrk";
  Launch moved = product;
  moved.alpha = 2;
  moved.a.data = memory + 16;
  moved.c.data = memory;
  EXPECT_NE(kernels_of(moved, 0), kernels_of(product, 0)) << "c took the place of a";
  Launch again = moved;
  again.a.data = memory;
  again.c.data = memory + 16;
  EXPECT_EQ(kernels_of(again, 0), kernels_of(moved, 0));
  again.c.data = memory + 8;
  EXPECT_NE(kernels_of(again, 0), kernels_of(moved, 0)) << "of another alignment";
}

}  // namespace
}  // namespace fleet::cuda

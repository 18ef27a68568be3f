// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_memory.cpp: arenas grow where they are, by the virtual memory of the fake CUDA, or move
// where there is none.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/memory.hpp"
#include "cuda/fake_runtime.hpp"
#include "support/refusal.hpp"

namespace fleet::cuda {
namespace {

constexpr std::int64_t kMB = std::int64_t{1} << 20;
constexpr DeviceId kFirst = kFirstDevice, kSecond = kFirstDevice + 1;

class CudaMemory : public testing::Test {
 protected:
  CudaMemory() { test::fake_memory() = {}; }
  ~CudaMemory() override { test::fake_memory() = {}; }

  static std::vector<std::int64_t> at(DeviceId location, std::int64_t bytes) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(kSecond) + 1, 0);
    all[static_cast<std::size_t>(location)] = bytes;
    return all;
  }
  static bool is_refused(Memory& memory, DeviceId location, std::int64_t bytes,
                         Status status = Status::no_memory) {
    return test::refusal(status, [&] { memory.reserve(at(location, bytes)); }) !=
           "nothing was refused";
  }
  static std::int64_t used(int ordinal) {
    return static_cast<std::int64_t>(test::fake_memory().used_bytes[ordinal]);
  }

  Memory::Settings two_{.ordinals = {2, 0}};
};

TEST_F(CudaMemory, AnArenaGrowsWhereItIs) {
  Memory memory(two_);
  memory.reserve(at(kSecond, 3 * kMB));
  char* const data = memory.arena(kSecond);
  const std::int64_t generation = memory.generation();
  std::fill_n(data, 3 * kMB, 'x');
  memory.reserve(at(kSecond, 700 * kMB));
  const auto mb = [](std::int64_t count) { return static_cast<std::size_t>(count * kMB); };
  EXPECT_EQ(test::fake_memory().pieces, (std::vector{mb(4), mb(256), mb(256), mb(184)}))
      << "other devices are shown small pieces sooner";
  EXPECT_EQ(memory.arena(kSecond), data);
  EXPECT_EQ(memory.generation(), generation) << "graphs of earlier plans could be kept";
  EXPECT_EQ(std::count(data, data + 3 * kMB, 'x'), 3 * kMB);
  data[700 * kMB - 1] = 'y';
  EXPECT_EQ(used(0), 700 * kMB);
  EXPECT_EQ(used(2), 0);
  memory.reserve(at(kSecond, kMB));
  EXPECT_EQ(used(0), 700 * kMB) << "it is kept";
}

TEST_F(CudaMemory, OtherDevicesOfTheContextReachItIfTheyCan) {
  for (const bool can : {true, false}) {
    test::fake_memory().has_peers = can;
    Memory memory(two_);
    memory.reserve(at(kFirst, 600 * kMB));
    std::vector<int> users = test::fake_memory().users;
    std::ranges::sort(users);
    EXPECT_EQ(users, (can ? std::vector{0, 2} : std::vector{2}));
    EXPECT_EQ(test::fake_memory().pieces.size(), can ? 3U : 1U);
    test::fake_memory().pieces.clear();
    memory.arena(kFirst)[600 * kMB - 1] = 'x';
  }
}

TEST_F(CudaMemory, WholeGranulesAreMapped) {
  Memory memory(two_);
  for (const std::int64_t bytes : {kMB, 3 * kMB + 256, 300 * kMB + 1}) {
    memory.reserve(at(kFirst, bytes));
    memory.arena(kFirst)[bytes - 1] = 'x';
    EXPECT_EQ(used(2), (bytes + 2 * kMB - 1) / (2 * kMB) * (2 * kMB));
  }
}

TEST_F(CudaMemory, WhatDoesNotFitLeavesItAsItWas) {
  Memory other({.ordinals = {2}}), memory(two_);
  other.reserve({0, 0, 2048 * kMB});
  memory.reserve(at(kFirst, 300 * kMB));
  char* const data = memory.arena(kFirst);
  *data = 'x';
  const std::int64_t available = memory.available_bytes(kFirst);
  EXPECT_EQ(available, 2048 * kMB);
  // The first of them for want of addresses, the others after pieces that there are.
  for (const std::int64_t bytes : {std::int64_t{1} << 50, 3000 * kMB, available + 1}) {
    EXPECT_TRUE(is_refused(memory, kFirst, bytes)) << bytes;
    EXPECT_EQ(memory.arena(kFirst), data);
    EXPECT_EQ(*data, 'x');
    EXPECT_EQ(used(2), 2348 * kMB);
    EXPECT_EQ(memory.available_bytes(kFirst), available);
  }
  memory.reserve(at(kFirst, available));
  data[available - 1] = 'y';
  EXPECT_EQ(memory.arena(kFirst), data);
  EXPECT_EQ(used(2), 4096 * kMB);
}

TEST_F(CudaMemory, ADriverThatRefusesAPieceLeavesItAsItWas) {
  Memory memory(two_);
  memory.reserve(at(kFirst, 300 * kMB));
  char* const data = memory.arena(kFirst);
  *data = 'x';
  for (int* const refused :
       {&test::fake_memory().refused_map, &test::fake_memory().refused_access}) {
    *refused = 1;  // the second one
    EXPECT_TRUE(is_refused(memory, kFirst, 900 * kMB, Status::device_failed));
    EXPECT_EQ(*refused, -1);
    EXPECT_EQ(used(2), 300 * kMB);
    EXPECT_EQ(memory.available_bytes(kFirst), 4096 * kMB);
  }
  memory.reserve(at(kFirst, 900 * kMB));
  data[900 * kMB - 1] = 'y';
  EXPECT_EQ(memory.arena(kFirst), data);
  EXPECT_EQ(*data, 'x');
}

TEST_F(CudaMemory, NothingIsMappedNorUnmappedWhileStreamsAreHeld) {
  static bool held;
  held = false;
  two_.are_streams_held = [] { return held; };
  two_.limit_bytes = 40 * kMB;
  Memory memory(two_);
  memory.reserve(at(kFirst, 4 * kMB));
  char* const first = memory.arena(kFirst);
  *first = 'x';
  std::int64_t generation = memory.generation();

  held = true;
  memory.reserve(at(kFirst, 8 * kMB));
  memory.arena(kFirst)[8 * kMB - 1] = 'y';
  EXPECT_NE(memory.arena(kFirst), first);
  EXPECT_NE(memory.generation(), generation);
  EXPECT_EQ(*first, 'x') << "it is kept until no stream is held";
  EXPECT_EQ(used(2), 4 * kMB);
  EXPECT_EQ(memory.available_bytes(kFirst), 36 * kMB) << "what is kept counts";
  generation = memory.generation();

  held = false;
  memory.reserve(at(kFirst, 20 * kMB));
  memory.arena(kFirst)[20 * kMB - 1] = 'z';
  EXPECT_EQ(used(2), 20 * kMB) << "an arena again, and what was kept is gone";
  EXPECT_NE(memory.generation(), generation);
  EXPECT_EQ(memory.available_bytes(kFirst), 40 * kMB);
}

TEST_F(CudaMemory, LimitsAndInjectedFailuresHold) {
  two_.limit_bytes = 10 * kMB;
  two_.failing_allocation = 3;
  Memory memory(two_);
  memory.reserve(at(kFirst, 4 * kMB));
  void* const block = memory.allocate(kFirst, 2 * kMB);
  EXPECT_TRUE(is_refused(memory, kFirst, 5 * kMB)) << "by injection";
  EXPECT_TRUE(is_refused(memory, kFirst, 9 * kMB)) << "by the limit";
  EXPECT_EQ(memory.available_bytes(kFirst), 8 * kMB);
  memory.reserve(at(kFirst, 8 * kMB));
  memory.release(kFirst, block);
}

TEST_F(CudaMemory, TrimmingGivesEverythingBack) {
  Memory memory(two_);
  memory.reserve(at(kFirst, 300 * kMB));
  const std::int64_t generation = memory.generation();
  memory.trim();
  EXPECT_EQ(used(2), 0);
  EXPECT_NE(memory.generation(), generation);
  memory.reserve(at(kFirst, 2 * kMB));
  *memory.arena(kFirst) = 'x';
  EXPECT_EQ(used(2), 2 * kMB);
}

TEST_F(CudaMemory, TheEndGivesEverythingBack) {
  { Memory(two_).reserve(at(kFirst, 300 * kMB)); }
  EXPECT_EQ(used(2), 0);
}

TEST_F(CudaMemory, WithoutVirtualMemoryAnArenaMoves) {
  for (const bool is_refused_later : {false, true}) {
    test::fake_memory().is_virtual = is_refused_later;
    test::fake_memory().refused_access = is_refused_later ? 0 : -1;
    Memory memory(two_);
    memory.reserve(at(kFirst, kMB));
    *memory.arena(kFirst) = 'x';
    const std::int64_t generation = memory.generation();
    memory.reserve(at(kFirst, 2 * kMB));
    memory.arena(kFirst)[2 * kMB - 1] = 'x';
    EXPECT_NE(memory.generation(), generation);
    EXPECT_EQ(used(2), 0);
  }
}

TEST_F(CudaMemory, WithoutVirtualMemoryAnAllocationCountsOnce) {
  test::fake_memory().is_virtual = false;
  two_.failing_allocation = 2;
  Memory memory(two_);
  memory.reserve(at(kFirst, kMB));
  EXPECT_TRUE(is_refused(memory, kFirst, 2 * kMB));
}

}  // namespace
}  // namespace fleet::cuda

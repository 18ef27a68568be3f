// SPDX-License-Identifier: BSD-3-Clause
// test_memory_caps.cpp: plans that begin with tiles on devices whose memory does not hold all
// copies of other devices' tiles besides.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "program/composition.hpp"
#include "program/decompose.hpp"
#include "support/random_plans.hpp"
#include "tune/tune_program.hpp"

namespace fleet {
namespace {

/// `problem` on matrices that are dealt to four devices, block-cyclic over a grid of 2 x 2, and
/// begin there. A device has `cap` bytes, or what it likes.
Plan distributed(Problem problem, std::int64_t cap) {
  const Cuts cuts{0, 64, 128, 192, 256, 320, 384, 448, 512};
  auto program = std::make_shared<TileProgram>();
  append(*program, problem, {cuts, cuts, cuts}, {kNoMatrix, kNoMatrix, kNoMatrix});
  const Distribution owners{.grid = {2, 2}, .block = 64, .devices = {2, 3, 4, 5}};
  for (Matrix& matrix : program->matrices)
    matrix.stays = true, matrix.returns = false, matrix.distribution = owners;
  Tuning tuning{.workers = owners.devices, .grid = owners.grid, .tile = 64};
  const Machine machine = test::node(4);
  for (const Device& device : machine.devices) tuning.memory_cap.push_back(device.memory_bytes);
  if (cap > 0) std::fill(tuning.memory_cap.begin() + kFirstDevice, tuning.memory_cap.end(), cap);
  const Dealing deal =
      deal_to_owners(program->calls.front().problem, {cuts, cuts, cuts}, tuning, owners);
  return schedule(program, {&deal, 1}, machine, tuning, at_owners(*program));
}

/// What the slots of the first device have in all, in the arena and outside.
std::int64_t bytes_on_first(const Plan& plan) {
  std::int64_t bytes = plan.arena_bytes[kFirstDevice];
  for (const Slot& slot : plan.slots[kFirstDevice])
    if (slot.outlives_plan()) bytes += slot.bytes;
  return bytes;
}

std::int64_t copies_of(const Plan& plan) {
  return std::ranges::count_if(plan.tasks,
                               [](const Task& task) { return task.kind != TaskKind::compute; });
}

constexpr std::int64_t kBytesOfTile = std::int64_t{64} * 64 * 8;

// Each device begins with 3 * 16 tiles, and fetches 16 each of A and B by and by. At a time it
// needs four of each.
TEST(MemoryCaps, CopiesOfOthersTilesLeaveWhereMemoryIsShort) {
  const Problem problem = make_problem({.m = 512, .n = 512, .k = 512});
  const Plan whole = distributed(problem, 0);
  EXPECT_EQ(check(whole), "");
  EXPECT_EQ(bytes_on_first(whole), (48 + 32) * kBytesOfTile);

  const Plan tight = distributed(problem, (48 + 8) * kBytesOfTile);

  EXPECT_EQ(check(tight), "");
  EXPECT_LE(bytes_on_first(tight), (48 + 8) * kBytesOfTile);
  // What is fetched is used before it leaves, so nothing is fetched twice.
  EXPECT_EQ(copies_of(tight), copies_of(whole));
  EXPECT_EQ(residency_after(tight), at_owners(*tight.program));
}

TEST(MemoryCaps, AnUpdateOfRankTwoKNeedsRoomForAStepOnly) {
  const Problem problem = make_problem({.routine = Routine::syr2k, .m = 512, .n = 512, .k = 512});
  const Plan whole = distributed(problem, 0);
  for (const std::int64_t tiles : {20, 8, 3}) {
    const std::int64_t cap = (2 * 16 + 10 + tiles) * kBytesOfTile;
    ASSERT_GT(bytes_on_first(whole), cap);
    const Plan tight = distributed(problem, cap);
    EXPECT_EQ(check(tight), "");
    EXPECT_LE(bytes_on_first(tight), cap);
    EXPECT_EQ(residency_after(tight), at_owners(*tight.program));
  }
}

// The error says how much of the cap is taken.
TEST(MemoryCaps, TilesThatHaveToStayNeverLeave) {
  const Problem problem = make_problem({.m = 512, .n = 512, .k = 512});
  try {
    static_cast<void>(distributed(problem, 48 * kBytesOfTile));
    FAIL() << "there is no room for a copy";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::no_memory);
    const std::string said = error.what();
    EXPECT_NE(said.find(", 1572864 bytes, does not hold one tile of each operand beside 1572864 "
                        "bytes of tiles that lie there already"),
              std::string::npos)
        << said;
  }
}

/// As a caller has it, for the whole of the tuner.
Tuned tuned(const std::string& text, std::int64_t cap) {
  Machine machine = test::node(4);
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    machine.devices[static_cast<std::size_t>(d)].memory_bytes = cap;
  return tune_program(parse_composition(text), machine, {});
}

// 4096 squared doubles are 32 MiB on each of four devices. With copies of all that a device needs,
// 192 MiB; the tuner takes eight tenths of the memory.
TEST(MemoryCaps, TheTunerPlansDistributedMatricesThatFillTheDevices) {
  for (const char* const text : {"dgemm size=4096 a=A@c2x2:256 b=B@c2x2:256 c=C@c2x2:256",
                                 "dsyr2k n=4096 k=4096 a=A@c2x2:256 b=B@c2x2:256 c=C@c2x2:256",
                                 "dgemm size=4096 a=A@c2x2:256 b=B@c2x2:256 c=C@h"}) {
    const Tuned plenty = tuned(text, std::int64_t{1} << 36);
    const Tuned tight = tuned(text, std::int64_t{150} << 20);
    EXPECT_EQ(check(tight.plan), "") << text;
    EXPECT_LE(bytes_on_first(tight.plan), std::int64_t{120} << 20) << text;
    EXPECT_LT(tight.cost.seconds, 1.5 * plenty.cost.seconds) << text;
  }
}

}  // namespace
}  // namespace fleet

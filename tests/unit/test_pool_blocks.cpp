// SPDX-License-Identifier: BSD-3-Clause
// test_pool_blocks.cpp: large blocks are memory like any other, whoever pins some of them
// meanwhile, and come back with their pins.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "pool/blocks.hpp"
#include "pool/cap.hpp"
#include "pool/pages.hpp"
#include "support/processes.hpp"
#include "support/scale.hpp"

namespace fleet::pool {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
using Contents = Blocks::Contents;

class PoolBlocks : public ::testing::Test {
 protected:
  void open(std::size_t cap) { ASSERT_TRUE(blocks.open(cap)); }
  ~PoolBlocks() override { blocks.close(); }

  char* allocate(std::size_t bytes, Contents contents = Contents::any) {
    return static_cast<char*>(blocks.allocate(bytes, contents));
  }
  void pin(const void* data, std::size_t bytes) {
    PoolPiece piece;
    while (blocks.take_plain(data, static_cast<std::int64_t>(bytes), piece))
      blocks.note(piece, PoolState::pinned);
  }
  PoolState state(const void* data, std::size_t bytes) {
    return blocks.state(data, static_cast<std::int64_t>(bytes));
  }
  /// Pieces of idle blocks that were unpinned.
  int give_idle_back(std::int64_t age_ns = 0) {
    int pieces = 0;
    void* block = nullptr;
    while (blocks.take_idle(age_ns, block)) {
      PoolPiece piece;
      for (; blocks.take_pinned(block, piece); ++pieces) blocks.note(piece, PoolState::plain);
      blocks.give_back(block);
    }
    return pieces;
  }

  Blocks blocks;
};

TEST_F(PoolBlocks, AreZeroAndBeginAtAPiece) {
  open(1024 * kMiB);

  char* const data = allocate(300 * kMiB + 1);

  ASSERT_NE(data, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kPoolPieceBytes, 0u);
  EXPECT_EQ(blocks.usable_bytes(data), 302 * kMiB);
  EXPECT_EQ(data[0] + data[300 * kMiB], 0);
  EXPECT_TRUE(blocks.owns(data + 300 * kMiB));
  EXPECT_FALSE(blocks.owns(&blocks));
  EXPECT_EQ(state(data, 300 * kMiB), PoolState::plain);
  EXPECT_EQ(state(data + 1, 302 * kMiB), PoolState::elsewhere);  // beyond its end
}

TEST_F(PoolBlocks, WithoutAPinGoBackToTheSystem) {
  open(128 * kMiB);
  char* const data = allocate(128 * kMiB);
  data[5] = 1;

  blocks.release(data);

  EXPECT_EQ(state(data, 1), PoolState::elsewhere);
  char* const again = allocate(128 * kMiB);
  EXPECT_EQ(again, data);
  EXPECT_EQ(again[5], 0);
  EXPECT_EQ(blocks.counters().reused, 0);
}

TEST_F(PoolBlocks, WithPinsAreUsedAgainAndStayPinned) {
  open(1024 * kMiB);
  char* const data = allocate(300 * kMiB);
  pin(data, 300 * kMiB);
  data[7] = 1;
  blocks.release(data);
  EXPECT_EQ(state(data, 1), PoolState::elsewhere);  // nobody's

  char* const again = allocate(290 * kMiB);

  EXPECT_EQ(again, data);
  EXPECT_EQ(state(again, 290 * kMiB), PoolState::pinned);
  EXPECT_EQ(blocks.counters().pinned, static_cast<std::int64_t>(300 * kMiB));
  EXPECT_EQ(blocks.counters().reused, static_cast<std::int64_t>(290 * kMiB));
}

TEST_F(PoolBlocks, UsedAgainAreZeroForCalloc) {
  open(256 * kMiB);
  char* const data = allocate(64 * kMiB);
  pin(data, 1);
  std::memset(data, 1, 64 * kMiB);
  blocks.release(data);

  const char* const again = allocate(64 * kMiB, Contents::zero);

  ASSERT_EQ(again, data);
  EXPECT_EQ(again[0], 0);
  EXPECT_EQ(std::memcmp(again, again + 1, 64 * kMiB - 1), 0);  // each as the one before it
}

TEST_F(PoolBlocks, MuchTooLargeOnesAreNotUsedAgain) {
  open(1024 * kMiB);
  char* const data = allocate(128 * kMiB);
  pin(data, 1);
  blocks.release(data);

  EXPECT_NE(allocate(112 * kMiB), data);  // 14 for 16 are within an eighth, less one huge page
  EXPECT_EQ(allocate(114 * kMiB), data);
}

TEST_F(PoolBlocks, OnlyThePiecesThatAreUsedArePinned) {
  open(1024 * kMiB);
  char* const data = allocate(600 * kMiB);

  pin(data + kPoolPieceBytes, 1);

  EXPECT_EQ(state(data, 1), PoolState::plain);
  EXPECT_EQ(state(data + kPoolPieceBytes, kPoolPieceBytes), PoolState::pinned);
  EXPECT_EQ(state(data + kPoolPieceBytes, kPoolPieceBytes + 1), PoolState::plain);
}

TEST_F(PoolBlocks, RefusedOnesAreNotTakenAgain) {
  open(256 * kMiB);
  char* const data = allocate(64 * kMiB);
  PoolPiece piece;
  ASSERT_TRUE(blocks.take_plain(data, 1, piece));
  EXPECT_FALSE(blocks.take_plain(data, 1, piece));  // meanwhile

  blocks.note(piece, PoolState::refused);

  EXPECT_EQ(state(data, 1), PoolState::refused);
  EXPECT_FALSE(blocks.take_plain(data, 1, piece));
}

TEST_F(PoolBlocks, FreedWhileTheyArePinnedStayUntilThatIsOver) {
  open(256 * kMiB);
  char* const data = allocate(64 * kMiB);
  PoolPiece piece;
  ASSERT_TRUE(blocks.take_plain(data, 1, piece));

  blocks.release(data);

  data[1] = 1;  // the driver may look at it
  EXPECT_EQ(give_idle_back(), 0);
  blocks.note(piece, PoolState::refused);
  EXPECT_FALSE(blocks.has_pinned());
  EXPECT_EQ(allocate(64 * kMiB)[1], 0);
}

TEST_F(PoolBlocks, BeyondTheCapAreNone) {
  open(192 * kMiB);
  std::array<char*, 3> three{};
  for (char*& data : three) data = allocate(64 * kMiB);
  ASSERT_NE(three[2], nullptr);

  EXPECT_EQ(allocate(64 * kMiB), nullptr);
  EXPECT_EQ(blocks.counters().beyond, static_cast<std::int64_t>(64 * kMiB));

  blocks.release(three[1]);
  EXPECT_EQ(allocate(64 * kMiB), three[1]);
}

TEST_F(PoolBlocks, IdleOnesMakeRoomWhenTheCapIsReached) {
  open(192 * kMiB);
  char* const data = allocate(128 * kMiB);
  pin(data, 1);
  blocks.release(data);
  constexpr std::int64_t kHour_ns = 3'600'000'000'000;
  EXPECT_EQ(give_idle_back(kHour_ns), 0);
  EXPECT_EQ(allocate(66 * kMiB), nullptr);

  EXPECT_EQ(give_idle_back(kHour_ns), 1);

  EXPECT_EQ(allocate(66 * kMiB), data);
  EXPECT_EQ(give_idle_back(kHour_ns), 0);
}

TEST_F(PoolBlocks, IdleOnesStayWhereTheirRoomWouldNotDo) {
  open(192 * kMiB);
  char* const data = allocate(64 * kMiB);
  pin(data, 1);
  blocks.release(data);
  constexpr std::int64_t kHour_ns = 3'600'000'000'000;

  EXPECT_EQ(allocate(256 * kMiB), nullptr);

  EXPECT_EQ(give_idle_back(kHour_ns), 0);
}

TEST_F(PoolBlocks, TheLongestIdleMakeRoomAndNoMoreThanIsWanted) {
  open(320 * kMiB);
  char* const first = allocate(128 * kMiB);
  char* const second = allocate(128 * kMiB);
  for (char* data : {second, first}) {
    pin(data, 1);
    blocks.release(data);
  }
  constexpr std::int64_t kHour_ns = 3'600'000'000'000;
  EXPECT_EQ(allocate(80 * kMiB), nullptr);

  EXPECT_EQ(give_idle_back(kHour_ns), 1);

  EXPECT_EQ(allocate(120 * kMiB), first);  // still pinned
  EXPECT_EQ(state(first, 1), PoolState::pinned);
}

TEST_F(PoolBlocks, GrowWhereTheyAreOrElsewhereWithWhatTheyHold) {
  open(2048 * kMiB);
  char* const data = allocate(64 * kMiB);
  data[64 * kMiB - 1] = 1;

  EXPECT_EQ(blocks.resize(data, 300 * kMiB), data);
  EXPECT_EQ(data[64 * kMiB - 1] + data[64 * kMiB], 1);

  ASSERT_NE(allocate(64 * kMiB), nullptr);  // behind it
  auto* const moved = static_cast<char*>(blocks.resize(data, 600 * kMiB));
  ASSERT_NE(moved, data);
  if (moved != nullptr) {  // Linux 5.7 and newer
    EXPECT_EQ(moved[64 * kMiB - 1] + moved[599 * kMiB], 1);
    EXPECT_EQ(state(data, 1), PoolState::elsewhere);
  }
}

TEST_F(PoolBlocks, ShrinkAndGiveTheRestBack) {
  open(1024 * kMiB);
  char* const data = allocate(1000 * kMiB);
  data[3] = 1;

  EXPECT_EQ(blocks.resize(data, 100 * kMiB), data);

  EXPECT_EQ(data[3], 1);
  EXPECT_EQ(blocks.usable_bytes(data), 100 * kMiB);
  EXPECT_NE(allocate(900 * kMiB), nullptr);
  EXPECT_EQ(blocks.resize(data, 63 * kMiB), nullptr);  // malloc's
}

TEST_F(PoolBlocks, WithPinsNeitherGrowNorShrinkByMuch) {
  open(1024 * kMiB);
  char* const data = allocate(200 * kMiB);
  pin(data, 1);

  EXPECT_EQ(blocks.resize(data, 202 * kMiB), nullptr);
  EXPECT_EQ(blocks.resize(data, 98 * kMiB), nullptr);
  EXPECT_EQ(blocks.resize(data, 100 * kMiB), data);
  EXPECT_EQ(blocks.usable_bytes(data), 200 * kMiB);
}

TEST_F(PoolBlocks, AreReservedNowhereUnderALimitOfAddresses) {
  const test::Ended ended = test::run_program([] {
    const rlimit limit{.rlim_cur = 4096 * kMiB, .rlim_max = 4096 * kMiB};
    setrlimit(RLIMIT_AS, &limit);
    Blocks limited;
    const int opened = limited.open(1024 * kMiB) ? 1 : 0;
    _exit(opened);  // sanitizers need addresses for more
    return opened;
  });
  EXPECT_EQ(ended.code, 0);
}

TEST_F(PoolBlocks, AreWholeOnBothSidesOfAFork) {
  open(1024 * kMiB);
  char* const used = allocate(64 * kMiB);
  pin(used, 1);
  used[9] = 1;
  char* const idle = allocate(128 * kMiB);
  pin(idle, 1);
  blocks.release(idle);

  blocks.before_fork();
  const test::Ended ended = test::run_program([&] {
    blocks.after_fork_in_child();
    if (used[9] != 1 || state(used, 1) != PoolState::plain) return 1;
    if (blocks.has_pinned() || give_idle_back() != 0) return 2;
    used[9] = 2;
    char* const own = allocate(128 * kMiB);
    if (own != idle || own[0] != 0) return 3;  // its addresses are free again
    blocks.release(own);
    blocks.release(used);
    return allocate(1024 * kMiB) != nullptr ? 0 : 4;
  });
  blocks.after_fork_in_parent();

  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(used[9], 1);
  EXPECT_EQ(state(used, 1), PoolState::pinned);
  EXPECT_EQ(allocate(128 * kMiB), idle);
  EXPECT_EQ(state(idle, 1), PoolState::pinned);
}

TEST_F(PoolBlocks, TouchedHavePagesAndWhatTheyHeld) {
  open(256 * kMiB);
  char* const data = allocate(64 * kMiB);
  data[40 * kMiB] = 1;

  touch(data, 64 * kMiB);

  std::vector<unsigned char> pages(64 * kMiB / 4096);
  ASSERT_EQ(mincore(data, 64 * kMiB, pages.data()), 0);
  EXPECT_EQ(std::ranges::count_if(pages, [](int page) { return (page & 1) == 0; }), 0);
  EXPECT_EQ(data[40 * kMiB] + data[0], 1);
}

/// One block of a thread: its ends and a page in the middle say whose it is.
struct Owned {
  char* data = nullptr;
  std::size_t bytes = 0;
  char mark = 0;

  std::array<char*, 3> places() const { return {data, data + bytes / 2, data + bytes - 1}; }
  void write() const {
    for (char* place : places()) *place = mark;
  }
  bool is_right() const {
    for (const char* place : places())
      if (*place != mark) return false;
    return true;
  }
};

TEST_F(PoolBlocks, OfManyThreadsAreRightWhileOthersPinThem) {
  open(2048 * kMiB);
  constexpr int kThreads = 4;
  const auto steps = static_cast<int>(test::scaled(300));
  std::array<std::atomic<char*>, kThreads> shown{};  // what the pinning thread looks at
  std::atomic<int> wrong{0}, running{kThreads};

  const auto work = [&](int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    const auto up_to = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most)(random);
    };
    std::vector<Owned> owned;
    for (int step = 0; step < steps; ++step) {
      const std::size_t bytes = (64 + up_to(8)) * kMiB + up_to(kMiB - 1);
      const std::size_t which = owned.empty() ? 0 : up_to(owned.size() - 1);
      const bool is_zero = up_to(15) == 0;
      switch (owned.empty() ? 0 : up_to(3)) {
        case 0:
        case 1: {
          char* data = allocate(bytes, is_zero ? Contents::zero : Contents::any);
          if (data == nullptr) break;
          Owned one{data, bytes, static_cast<char>(1 + step % 100)};
          if (is_zero && !Owned{data, bytes, 0}.is_right()) ++wrong;
          one.write();
          owned.push_back(one);
          shown[static_cast<std::size_t>(number)] = data;
          break;
        }
        case 2: {
          const std::size_t larger = owned[which].bytes + up_to(300 * kMiB);
          if (!owned[which].is_right()) ++wrong;
          const Owned before = owned[which];
          if (void* data = blocks.resize(before.data, larger)) {
            owned[which].data = static_cast<char*>(data);
            if (owned[which].is_right()) {
              owned[which].bytes = larger;
              owned[which].write();
            } else {
              ++wrong;
            }
          }
          break;
        }
        default:
          if (!owned[which].is_right()) ++wrong;
          blocks.release(owned[which].data);
          owned.erase(owned.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    for (const Owned& one : owned) blocks.release(one.data);
    --running;
  };
  const auto pin_some = [&] {
    std::mt19937 random(99);
    while (running > 0) {
      char* const data = shown[random() % kThreads];
      PoolPiece piece;
      if (data != nullptr && blocks.take_plain(data, 1, piece))
        blocks.note(piece, random() % 4 == 0 ? PoolState::refused : PoolState::pinned);
      if (random() % 8 == 0) give_idle_back();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) threads.emplace_back(work, number);
  threads.emplace_back(pin_some);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0);
  give_idle_back();
  EXPECT_FALSE(blocks.has_pinned());
  EXPECT_NE(allocate(2048 * kMiB), nullptr);  // nothing was lost
}

TEST(PoolCap, IsAShareOrBytes) {
  const auto cap_of = [](const char* text) {
    Cap cap;
    return parse_cap(text, cap) ? std::optional(cap) : std::nullopt;
  };
  EXPECT_EQ(cap_of(nullptr), Cap{});
  EXPECT_EQ(cap_of(""), Cap{});
  EXPECT_EQ(cap_of("1"), Cap{});
  EXPECT_EQ(cap_of("0"), (Cap{.share = 0, .bytes = 0}));
  EXPECT_EQ(cap_of("off"), (Cap{.share = 0, .bytes = 0}));
  EXPECT_EQ(cap_of("0.25"), (Cap{.share = 0.25}));
  EXPECT_EQ(cap_of("16G"), (Cap{.share = 0, .bytes = std::int64_t{16} << 30}));
  EXPECT_EQ(cap_of("100000000"), (Cap{.share = 0, .bytes = 100'000'000}));
  for (const char* text : {"half", "-1", "0.", "0.0", "1.5", "16X", "16 G", "99999999999G", "0.5G"})
    EXPECT_EQ(cap_of(text), std::nullopt) << text;
}

TEST(PoolCap, UsuallyIsHalfOfTheMemory) {
  EXPECT_GT(memory_bytes(), std::int64_t{1} << 28);
  EXPECT_NEAR(static_cast<double>(bytes_of(Cap{})), static_cast<double>(memory_bytes()) / 2, 1);
  EXPECT_EQ(bytes_of({.share = 0, .bytes = 77}), 77);
}

}  // namespace
}  // namespace fleet::pool

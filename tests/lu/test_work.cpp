// SPDX-License-Identifier: BSD-3-Clause
// test_work.cpp: the cores of a rank and the thread that drives its messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "work/context.hpp"
#include "work/crew.hpp"
#include "work/engine.hpp"

namespace fleet::lu {
namespace {

using namespace std::chrono_literals;

TEST(Crew, DoesAllPartsOnceAndTheLastOnesAreSmall) {
  for (const int threads : {1, 2, 4})
    for (const std::int64_t count : {0, 1, 31, 32, 33, 1000, 5000}) {
      Crew crew(threads);
      std::mutex mutex;
      std::vector<int> done(static_cast<std::size_t>(count), 0);
      std::int64_t last = 0;
      crew.share(count, [&](std::int64_t begin, std::int64_t end) {
        const std::lock_guard lock(mutex);
        for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
        if (end == count) last = end - begin;
      });
      EXPECT_EQ(std::count(done.begin(), done.end(), 1), count);
      if (threads > 1) {
        EXPECT_LE(last, 64);
      }
    }
}

TEST(Crew, ThrowsWhatAPartHasThrownAndWorksAgain) {
  for (const int threads : {1, 3}) {
    Crew crew(threads);
    const auto fails = [](std::int64_t begin, std::int64_t) {
      if (begin >= 100 || begin == 0) throw Failure("this part is broken");
    };
    EXPECT_THROW(crew.share(1000, fails), Failure);
    const auto nothing = [](std::int64_t, std::int64_t) {};
    EXPECT_THROW(crew.share(1000, nothing, [] { throw Failure("this is broken"); }), Failure);
    std::atomic<std::int64_t> done = 0;
    crew.share(1000, [&](std::int64_t begin, std::int64_t end) { done += end - begin; });
    EXPECT_EQ(done, 1000);
  }
}

TEST(Crew, IsHelpedByThreadsOfOthers) {
  Crew crew(1, true);
  std::atomic<bool> asked = false, ended = false;
  std::atomic<std::int64_t> by_helper = 0, done = 0;
  crew.on_work = [&] { asked = true; };
  std::thread helper([&] {
    while (!ended) {
      if (asked && crew.help()) ++by_helper;
      std::this_thread::yield();
    }
  });
  crew.share(2000, [&](std::int64_t begin, std::int64_t end) {
    std::this_thread::sleep_for(1ms);
    done += end - begin;
  });
  ended = true;
  helper.join();
  EXPECT_EQ(done, 2000);
  EXPECT_GT(by_helper, 0);
  EXPECT_FALSE(crew.help());
}

TEST(Crew, DoesEveryPartOfEachPieceInLockstepOnce) {
  constexpr int kPieces = 2000;
  for (const int threads : {1, 2, 5}) {
    Crew crew(threads);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<int> done(static_cast<std::size_t>(threads), 0);
      crew.in_lockstep([&](Lockstep& cores) {
        ASSERT_EQ(cores.parts(), threads);
        for (int piece = 0; piece < kPieces; ++piece) {
          // What is not a part of this thread is seen when the piece is done.
          cores.each([&](int part) { ++done[static_cast<std::size_t>(part)]; });
          ASSERT_EQ(std::ranges::count(done, piece + 1), threads);
        }
      });
      std::atomic<std::int64_t> shared = 0;
      crew.share(1000, [&](std::int64_t begin, std::int64_t end) { shared += end - begin; });
      EXPECT_EQ(shared, 1000);
    }
  }
}

TEST(Crew, IsHelpedInLockstep) {
  Crew crew(2);
  std::atomic<bool> is_helped = false;
  crew.in_lockstep([&](Lockstep& cores) {
    const std::thread::id leader = std::this_thread::get_id();
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!is_helped && std::chrono::steady_clock::now() < limit)
      cores.each([&](int) {
        if (std::this_thread::get_id() != leader) is_helped = true;
        std::this_thread::sleep_for(100us);
      });
  });
  EXPECT_TRUE(is_helped);
}

TEST(Crew, ThrowsWhatAPartInLockstepHasThrown) {
  for (const int threads : {1, 3}) {
    Crew crew(threads);
    EXPECT_THROW(crew.in_lockstep([](Lockstep& cores) {
      cores.each([&](int part) {
        if (part == cores.parts() - 1) throw Failure("this part is broken");
      });
    }),
                 Failure);
    int done = 0;
    crew.in_lockstep(
        [&](Lockstep& cores) { cores.each([&](int part) { done += part == 0 ? 1 : 0; }); });
    EXPECT_EQ(done, 1);
  }
}

TEST(Crew, LetsItsCallerShareOtherWorkBetweenParts) {
  for (const int threads : {1, 3}) {
    Crew crew(threads);
    std::atomic<std::int64_t> outer = 0, inner = 0;
    int times = 0;
    crew.share(
        1000, [&](std::int64_t begin, std::int64_t end) { outer += end - begin; },
        [&] {
          ++times;
          crew.share(10, [&](std::int64_t begin, std::int64_t end) { inner += end - begin; });
        });
    EXPECT_EQ(outer, 1000);
    EXPECT_GT(times, 0);
    EXPECT_EQ(inner, 10 * times);
  }
}

/// A message that is there after a number of looks, or that fails then.
class After final : public Request {
 public:
  explicit After(int looks, bool fails = false) : looks_(looks), fails_(fails) {}
  bool test() override {
    if (looks_-- > 0) return false;
    if (fails_) throw Failure("this message is broken");
    return true;
  }
  void wait() override {
    while (!test()) {
    }
  }

 private:
  int looks_;
  const bool fails_;
};

constexpr Engine::Label kLabel{What::rows_way, 0};

TEST(Engine, DrivesMessagesWithAndWithoutAThread) {
  for (const bool has_thread : {false, true})
    for (const bool spins : {false, true}) {
      Recorder recorder(true);
      Engine engine({.has_thread = has_thread, .spins = spins}, recorder);
      auto late = engine.drive(std::make_unique<After>(200), kLabel);
      auto soon = engine.drive(std::make_unique<After>(0), kLabel);
      soon->wait();
      late->wait();
      EXPECT_TRUE(late->test());
      EXPECT_EQ(recorder.spans().size(), 2u);
    }
}

TEST(Engine, WithAThreadNeedsNobodyToWait) {
  Recorder recorder;
  std::atomic<int> meanwhile = 0;
  Engine engine({.has_thread = true,
                 .meanwhile =
                     [&] {
                       ++meanwhile;
                       return false;
                     }},
                recorder);
  auto message = engine.drive(std::make_unique<After>(100), kLabel);
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (recorder.seconds(What::rows_way) == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(message->test());
  while (meanwhile == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(1ms);
  EXPECT_GT(meanwhile, 0);
}

TEST(Engine, TellsWhoeverWaitsThatAMessageHasFailedOrDoesNotCome) {
  for (const bool has_thread : {false, true}) {
    Recorder recorder;
    Engine engine({.has_thread = has_thread, .patience_s = 0.02}, recorder);
    auto broken = engine.drive(std::make_unique<After>(3, true), kLabel);
    EXPECT_THROW(broken->wait(), Failure);
    auto never = engine.drive(std::make_unique<After>(1 << 30), kLabel);
    EXPECT_THROW(never->wait(), Failure);
  }
}

TEST(Contexts, TellTheirOptions) {
  const Context context = make_context("offload=never;log_level=1");
  const Option offload = option(context.get(), "offload"),
               level = option(context.get(), "log_level"), tile = option(context.get(), "tile"),
               none = option(context.get(), "no such");
  EXPECT_EQ(offload.value, "never");
  EXPECT_TRUE(offload.is_set);
  EXPECT_EQ(level.value, "1");
  EXPECT_TRUE(level.is_set);
  EXPECT_EQ(tile.value, "0");
  EXPECT_FALSE(tile.is_set);
  EXPECT_EQ(none.value, "");
  EXPECT_FALSE(none.is_set);
}

}  // namespace
}  // namespace fleet::lu

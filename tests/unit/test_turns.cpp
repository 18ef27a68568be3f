// SPDX-License-Identifier: BSD-3-Clause
// test_turns.cpp: whose turn it is, by priorities, by who has to wait, and by who conflicts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/turns.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using Order = std::vector<std::size_t>;
using test::between;
using test::chance;

constexpr std::size_t kAll = 1000;

/// Members as statements: "C=AB" writes C, and reads A and B.
class Statements {
 public:
  explicit Statements(std::vector<std::string> texts)
      : texts_(std::move(texts)), turns(texts_.size()) {}
  bool conflict(std::size_t earlier, std::size_t later) const {
    const std::string &x = texts_[earlier], &y = texts_[later];
    return x.find(y[0]) != std::string::npos || y.find(x[0]) != std::string::npos;
  }
  Order next(std::size_t most = kAll) const {
    return next_turns(turns, most, [&](std::size_t x, std::size_t y) { return conflict(x, y); });
  }

 private:
  std::vector<std::string> texts_;

 public:
  std::vector<Turn> turns;
};

TEST(Turns, AreInTheOrderOfArrivalWithoutPriorities) {
  const Statements queue({"C=AB", "D=CA", "C=AA"});

  EXPECT_EQ(queue.next(), (Order{0, 1, 2}));
  EXPECT_EQ(queue.next(2), (Order{0, 1}));
  EXPECT_EQ(Statements({}).next(), Order{});
}

TEST(Turns, AreThoseOfTheHighestPriority) {
  Statements queue({"C=AB", "D=AB", "E=AB", "F=AB"});
  queue.turns[1].priority = queue.turns[3].priority = 2;
  queue.turns[2].priority = 1;

  EXPECT_EQ(queue.next(), (Order{1, 3}));
}

TEST(Turns, BringWhatTheUrgentDependOn) {
  Statements chain({"D=AB", "E=AB", "F=DA", "G=FA"}), overwritten({"H=CA", "E=AB", "C=AB"});
  chain.turns[3].priority = overwritten.turns[2].priority = 1;

  EXPECT_EQ(chain.next(), (Order{0, 2, 3}));
  EXPECT_EQ(overwritten.next(), (Order{0, 2}));  // C is read before it is overwritten
}

TEST(Turns, AreNotHeldUpByThoseWhoWaitForSomethingElse) {
  Statements queue({"C=AB", "D=AB", "E=CA", "F=EA", "A=BB"});
  queue.turns[0].may_start = false;

  EXPECT_EQ(queue.next(), Order{1});  // E and F come after C, and A is read by C
}

TEST(Turns, AreTakenByTheLessUrgentWhileTheUrgentWait) {
  Statements queue({"C=AB", "D=AB", "E=DA"});
  queue.turns[1] = {.may_start = false, .priority = 5};
  queue.turns[2].priority = 9;

  EXPECT_EQ(queue.next(), Order{0});
  queue.turns[1].may_start = true;
  EXPECT_EQ(queue.next(), (Order{1, 2}));
}

/// Round by round until all are done.
TEST(Turns, NeverReorderThoseWhoConflict) {
  test::Generator random(20261124);
  for (std::int64_t trial = 0; trial < test::scaled(300); ++trial) {
    const auto letter = [&] { return static_cast<char>('A' + between(random, 0, 7)); };
    std::vector<std::string> texts;
    for (int i = 0; i < 30; ++i) texts.push_back({letter(), '=', letter(), letter()});
    const Statements all(texts);
    std::vector<Turn> turns(texts.size());
    for (Turn& turn : turns)
      turn = {.may_start = chance(random, 85), .priority = static_cast<int>(between(random, 0, 2))};
    Order left(texts.size()), done;
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {
      std::vector<Turn> queue;
      for (const std::size_t i : left) queue.push_back(turns[i]);
      const Order next = next_turns(
          queue, 3, [&](std::size_t x, std::size_t y) { return all.conflict(left[x], left[y]); });
      for (const std::size_t i : next) {
        ASSERT_TRUE(queue[i].may_start);
        done.push_back(left[i]);
      }
      for (auto i = next.rbegin(); i != next.rend(); ++i)
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(*i));
      if (next.empty())
        for (Turn& turn : turns) turn.may_start = true;
    }
    for (std::size_t late = 0; late < done.size(); ++late)
      for (std::size_t early = 0; early < late; ++early)
        ASSERT_FALSE(done[early] > done[late] && all.conflict(done[late], done[early]))
            << texts[done[late]] << " after " << texts[done[early]];
  }
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_distribution.cpp: matrices that are block-cyclic over devices: their words, their cuts, and
// plans in which results are computed where they belong.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "plan/bound.hpp"
#include "program/distribution.hpp"
#include "sim/simulate.hpp"
#include "support/composed.hpp"
#include "support/shipped.hpp"
#include "tune/tune_program.hpp"

namespace fleet {
namespace {

std::string message_of(const auto& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_argument);
    return error.what();
  }
  return "";
}

bool tells(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(Distribution, ItsWordSaysTheGridAndTheBlockOrLeavesThemOpen) {
  EXPECT_EQ(parse_cyclic("c2x3:1024"), (CyclicPlace{.grid = {2, 3}, .block = 1024}));
  EXPECT_EQ(parse_cyclic("c2x3"), (CyclicPlace{.grid = {2, 3}, .block = 0}));
  EXPECT_EQ(parse_cyclic("c:64"), (CyclicPlace{.grid = {0, 0}, .block = 64}));
  EXPECT_EQ(parse_cyclic("c"), CyclicPlace{});
  EXPECT_TRUE(tells(message_of([] { parse_cyclic("c2"); }), "needs rows and columns"));
  EXPECT_TRUE(tells(message_of([] { parse_cyclic("c2x2:-4"); }), "the block is no positive"));
  EXPECT_TRUE(tells(message_of([] { parse_cyclic("c2x2:4 "); }), "' ' is too much"));
  EXPECT_TRUE(tells(message_of([] { parse_cyclic("cx2"); }), "the grid's rows is no positive"));
}

TEST(Distribution, TheModelTakesAllDevicesAndTheEdgeOfRegularTiles) {
  const RegularTiles tiles{.devices = 8};
  const Distribution wide = distribution_of({}, 4096, 65536, tiles);
  EXPECT_EQ(wide.grid, (Grid{1, 8}));
  EXPECT_EQ(wide.block, 2048);
  EXPECT_EQ(distribution_of({}, 30000, 30000, tiles).grid, (Grid{2, 4}));
  EXPECT_EQ(distribution_of({.grid = {2, 2}}, 2048, 2048, tiles).block, 512);
  EXPECT_TRUE(tells(message_of([&] {
                      distribution_of({.grid = {3, 3}}, 9, 9, tiles);
                    }),
                    "3x3 devices: there are 8"));
}

TEST(Distribution, APartIsCutWhereTheBlocksOfTheMatrixBegin) {
  Distribution whole{.grid = {2, 2}, .block = 10, .devices = {2, 3, 4, 5}};
  EXPECT_EQ(whole.cuts_of(25, 0), (Cuts{0, 10, 20, 25}));
  EXPECT_EQ(whole.cuts_of(25, 7), (Cuts{0, 3, 13, 23, 25}));
  EXPECT_EQ(whole.cuts_of(0, 7), (Cuts{0}));
  whole.row = 7;  // its first three rows are in the first row of blocks
  EXPECT_EQ(whole.owner_of(2, 0), 2);
  EXPECT_EQ(whole.owner_of(3, 0), 4);
  EXPECT_EQ(whole.owner_of(13, 10), 3);
}

TEST(Distribution, TilesOfACallAreTheBlocksOfItsOperands) {
  const RegularTiles tiles{.devices = 1, .tile = 16};
  const Problem problem = make_problem({.m = 40, .n = 40, .k = 40});
  Distribution c{.grid = {1, 1}, .block = 10, .devices = {2}}, a = c;
  a.block = 15;
  const CallCuts both = cuts_of_call(problem, tiles, {a, std::nullopt, c});
  EXPECT_EQ(both.m, (Cuts{0, 10, 20, 30, 40}));
  EXPECT_EQ(both.k, (Cuts{0, 15, 30, 40}));
  const CallCuts first = cuts_of_call(problem, tiles, {a, std::nullopt, std::nullopt});
  EXPECT_EQ(first.m, (Cuts{0, 15, 30, 40}));
  EXPECT_EQ(first.n, (Cuts{0, 16, 40}));
}

Machine node() { return test::shipped("h200x4"); }

Tuned plan_of(const std::string& text, const Machine& machine) {
  const Tuned tuned = tune_program(parse_composition(text), machine, {.workers = {2, 3, 4, 5}});
  EXPECT_EQ(check(tuned.plan), "") << text;
  return tuned;
}

/// The part of the bound that the plan reaches.
double reached(const Tuned& tuned, const Machine& machine) {
  return bound(*tuned.plan.program, machine).seconds / tuned.cost.seconds;
}

std::int64_t host_bytes(const Plan& plan, const Machine& machine) {
  std::int64_t bytes = 0;
  const auto by_link = bytes_by_link(plan, machine.links.size());
  for (std::size_t l = 0; l < machine.links.size(); ++l)
    if (on_host(machine.links[l].source) || on_host(machine.links[l].target)) bytes += by_link[l];
  return bytes;
}

TEST(Distribution, AProductIsComputedWhereItBelongsWithoutTheHost) {
  const Machine machine = node();

  const Tuned tuned =
      plan_of("dgemm size=16384 beta=0 a=A@c2x2:2048 b=B@c2x2:2048 c=C@c2x2:2048", machine);

  EXPECT_EQ(host_bytes(tuned.plan, machine), 0);
  EXPECT_GT(reached(tuned, machine), 0.97);
  const Matrix& c = tuned.plan.program->matrices[kC];
  for (const Resident& kept : tuned.plan.kept)
    EXPECT_TRUE(kept.tile.matrix != kC ||
                kept.where.device ==
                    c.distribution->owner_of(kept.tile.row * 2048, kept.tile.col * 2048));
}

TEST(Distribution, ATriangleReachesTheBoundToo) {
  const Machine machine = node();

  const Tuned tuned = plan_of("dsyrk n=16384 k=16384 a=A@c2x2:2048 c=C@c2x2:2048", machine);

  EXPECT_EQ(host_bytes(tuned.plan, machine), 0);
  EXPECT_GT(reached(tuned, machine), 0.95);
}

TEST(Distribution, CallsOfAProgramShareIt) {
  const Machine machine = node();

  const Tuned tuned = plan_of(
      "dtrsm m=8192 n=8192 a=T@h c=X@c:1024\n"
      "dgemm size=8192 a=A@c4x1:1024 b=X@c:1024 c=C@c:1024",
      machine);

  EXPECT_GT(host_bytes(tuned.plan, machine), 0);  // T
  const auto& calls = tuned.plan.program->calls;
  EXPECT_EQ(calls[0].target(), calls[1].matrices[kB]);
}

TEST(Distribution, AMatrixOfAProgramHasOnePlace) {
  EXPECT_TRUE(tells(message_of([] {
                      parse_composition(
                          "dgemm size=64 a=A@c2x2 b@h c=C@h\ndgemm size=64 a=A@h b@h c=C@h");
                    }),
                    "line 2 of the program: matrix A is block-cyclic in one way"));
  EXPECT_TRUE(tells(message_of([] { parse_composition("dgemm size=64 batch=4 a@c b@h c@h"); }),
                    "the matrices of a batch cannot be block-cyclic"));
  EXPECT_TRUE(tells(message_of([] { parse_composition("dgemm size=64 a=A@c2y b@h c=C@h"); }),
                    "line 1 of the program: place 'c2y'"));
}

}  // namespace
}  // namespace fleet

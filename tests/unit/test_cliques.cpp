// SPDX-License-Identifier: BSD-3-Clause
// test_cliques.cpp: slowdowns of pairs of links become the ports that explain them.
#include <gtest/gtest.h>

#include <vector>

#include "probe/cliques.hpp"
#include "probe/loads.hpp"
#include "probe/slowdowns.hpp"

namespace fleet::test {
namespace {

/// Links from the host to GPUs, of these rates.
Machine links_of(const std::vector<double>& bytes_per_s) {
  Machine machine;
  for (const double rate : bytes_per_s)
    machine.links.push_back({.source = kHost, .target = kFirstDevice, .bytes_per_s = rate});
  return machine;
}

TEST(Cliques, JoinLinksThatAllSlowEachOtherDown) {
  const Cliques found = cliques_of({{{0, 1}, 12e9}, {{0, 2}, 12.2e9}, {{1, 2}, 11.9e9}},
                                   links_of({10e9, 10e9, 10e9, 10e9}), kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1, 2}, 12e9}}));
  EXPECT_TRUE(found.open.empty());
}

TEST(Cliques, KeepPortsApartThatHaveOneLinkInCommon) {
  const Cliques found = cliques_of({{{0, 1}, 12e9}, {{1, 2}, 12e9}, {{0, 2}, kUnlimited}},
                                   links_of({10e9, 10e9, 10e9}), kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1}, 12e9}, {{1, 2}, 12e9}}));
}

TEST(Cliques, TakeInPairsThatAreTooSlowToFillThePort) {
  // 5.5 and 5.5 are less than 12, but each of them slows down a link of 12.
  const Cliques found = cliques_of({{{0, 1}, 12e9}, {{0, 2}, 12e9}, {{1, 2}, kUnlimited}},
                                   links_of({12e9, 5.5e9, 5.5e9}), kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1, 2}, 12e9}}));
}

TEST(Cliques, FindASmallerPortWithinALargerOne) {
  const Cliques found = cliques_of({{{0, 1}, 15e9}, {{0, 2}, 15e9}, {{1, 2}, 11e9}},
                                   links_of({10e9, 10e9, 10e9}), kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1, 2}, 15e9}, {{1, 2}, 11e9}}));
}

TEST(Cliques, DoNotGrowByPairsThatAreSlowByChance) {
  // 20 is so little more than 18.5 that pairs may be slow, or fast, by chance.
  const Cliques found = cliques_of({{{0, 1}, 18.5e9},
                                    {{1, 2}, 18.5e9},
                                    {{2, 3}, 18.5e9},
                                    {{0, 2}, kUnlimited},
                                    {{0, 3}, kUnlimited},
                                    {{1, 3}, kUnlimited}},
                                   links_of({10e9, 10e9, 10e9, 10e9}), kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1, 2}, 18.5e9}, {{1, 2, 3}, 18.5e9}}));
}

TEST(Cliques, TakeCapacitiesForEqualThatNoiseMayHaveMadeDifferent) {
  const PairCapacities pairs = {{{0, 1}, 12e9}, {{0, 2}, 13e9}, {{1, 2}, 12.5e9}};
  const Machine machine = links_of({10e9, 10e9, 10e9});

  EXPECT_EQ(cliques_of(pairs, machine, 1.10).ports.size(), 1U);
  EXPECT_GT(cliques_of(pairs, machine, kSlowedDown).ports.size(), 1U);
}

TEST(Cliques, AskForThePairsThatDecide) {
  const Cliques found =
      cliques_of({{{0, 1}, 12e9}, {{0, 2}, 12e9}}, links_of({10e9, 10e9, 10e9}), kSlowedDown);

  EXPECT_EQ(found.open, (std::vector<LinkPair>{{1, 2}}));
}

TEST(Cliques, TakeNoLinkForASlowdownOfALinkBetweenDevicesAlone) {
  // 0 and 1 with the host share a port with 2 between devices, which shares another one with 3.
  Machine machine = links_of({10e9, 10e9, 8e9, 2e9});
  machine.links[2] = {.source = kFirstDevice, .target = kFirstDevice + 1, .bytes_per_s = 8e9};
  machine.links[3] = {.source = kFirstDevice + 2, .target = kFirstDevice + 1, .bytes_per_s = 5e9};
  const Cliques found = cliques_of({{{0, 1}, 12e9},
                                    {{0, 2}, 12e9},
                                    {{1, 2}, 12e9},
                                    {{2, 3}, 12e9},
                                    {{0, 3}, kUnlimited},
                                    {{1, 3}, kUnlimited}},
                                   machine, kSlowedDown);

  EXPECT_EQ(found.ports, (std::vector<SharedPort>{{{0, 1, 2}, 12e9}, {{2, 3}, 12e9}}));
}

}  // namespace
}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// test_lu_share.cpp: the CPU's share beside devices: how it is found, simulated and on virtual
// devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../support/scale.hpp"
#include "comm/self.hpp"
#include "dist/fill.hpp"
#include "factor/factor.hpp"
#include "factor/residual.hpp"
#include "schedule/balance.hpp"
#include "sim/simulate.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

/// Both sides with these rates, in columns per second, for so many columns.
void take(Balance& balance, Work work, std::int64_t columns, double cpu, double devices) {
  while (columns > 0) {
    const Split split = balance.split(work, columns);
    const auto on_cpu = static_cast<double>(split.on_cpu);
    const auto rest = static_cast<double>(split.columns - split.on_cpu);
    balance.learn(work, {on_cpu, on_cpu / cpu, rest, rest / devices});
    columns -= split.columns;
  }
}

TEST(Balance, TriesAFewColumnsThenLetsBothEndTogether) {
  Balance balance;

  const Split trial = balance.split(Work::alone, 3200);
  take(balance, Work::alone, trial.columns, 1, 2);
  const Split split = balance.split(Work::alone, 3000);

  EXPECT_EQ(trial.columns, 192 + 32);  // a sixteenth, in multiples of 32; and 32 of the core
  EXPECT_EQ(trial.on_cpu, 32);
  EXPECT_EQ(split.columns, 3000);
  EXPECT_NEAR(static_cast<double>(split.on_cpu), 1000, 16);  // 1/(1 + 2)
  EXPECT_EQ((split.columns - split.on_cpu) % 32, 0);
}

TEST(Balance, ForgetsWhatAFewColumnsTold) {
  Balance balance;

  balance.learn(Work::alone, {.cpu = 32, .cpu_s = 32, .devices = 192, .devices_s = 192});
  EXPECT_EQ(balance.split(Work::alone, 3200).on_cpu, 1600);
  take(balance, Work::alone, 3200, 1, 3);

  EXPECT_NEAR(static_cast<double>(balance.split(Work::alone, 3200).on_cpu), 800, 16);
}

TEST(Balance, HasAShareForEachKind) {
  Balance balance;

  take(balance, Work::alone, 3200, 1, 1);
  take(balance, Work::overlapped, 3200, 1, 3);

  EXPECT_NEAR(static_cast<double>(balance.split(Work::alone, 3200).on_cpu), 1600, 16);
  EXPECT_NEAR(static_cast<double>(balance.split(Work::overlapped, 3200).on_cpu), 800, 16);
  EXPECT_LT(balance.split(Work::ahead, 3200).columns, 3200);  // not known yet
}

TEST(Balance, LeavesOutACpuThatIsPointless) {
  Balance balance;

  take(balance, Work::alone, 3200, 1, 99);

  EXPECT_EQ(balance.split(Work::alone, 3200).on_cpu, 0);
}

/// What the CPU has of works one after another, devices having another rate alone.
double share_of_cpu(double cpu, double devices_beside_it, double devices_alone) {
  constexpr int kWorks = 100;
  constexpr std::int64_t kColumns = 3200;
  Balance balance;
  double all_on_cpu = 0;
  for (int i = 0; i < kWorks; ++i)
    for (std::int64_t left = kColumns; left > 0;) {
      const Split split = balance.split(Work::alone, left);
      const auto on_cpu = static_cast<double>(split.on_cpu);
      const auto rest = static_cast<double>(split.columns - split.on_cpu);
      const double devices = on_cpu > 0 ? devices_beside_it : devices_alone;
      balance.learn(Work::alone, {on_cpu, on_cpu / cpu, rest, rest / devices});
      left -= split.columns;
      all_on_cpu += on_cpu;
    }
  return all_on_cpu / (kWorks * kColumns);
}

TEST(Balance, LeavesOutCoresThatSlowDevicesDown) {
  EXPECT_LT(share_of_cpu(1, 7, 10), 0.01);
  EXPECT_GT(share_of_cpu(2, 9.5, 10), 0.16);
  EXPECT_GT(share_of_cpu(1, 7, 7), 0.11);
}

TEST(Balance, MeasuresDevicesAgainThatWereSlowOnce) {
  Balance balance;

  take(balance, Work::alone, 3200, 1, 1e-6);
  EXPECT_LT(balance.split(Work::alone, 3200).on_cpu, 3200);
  for (int i = 0; i < 8; ++i) take(balance, Work::alone, 3200, 1, 1);

  EXPECT_NEAR(static_cast<double>(balance.split(Work::alone, 3200).on_cpu), 1600, 64);
}

TEST(Balance, TakesTheShareThatIsGiven) {
  for (const double share : {0.0, 0.25, 1.0}) {
    Balance balance(1, share);

    take(balance, Work::alone, 3200, 1, 100);

    EXPECT_EQ(balance.split(Work::alone, 3200).on_cpu, static_cast<std::int64_t>(3200 * share));
  }
  EXPECT_EQ(Balance(1, 0).split(Work::ahead, 7).on_cpu, 0);
}

/// Four cores of 10 GFLOPS beside two devices of 75 and 37.5: paper 3's node with a second, slower
/// card.
Cluster unequal() {
  Cluster cluster;
  cluster.rank = {.cores = 4,
                  .core = {{{64, 1e10}}},
                  .memory_bytes_per_s = 1.2e10,
                  .gpus = 1.5,
                  .gpu = {{{256, 2e10}, {1024, 6.5e10}, {4096, 7.5e10}}},
                  .transfer_latency_s = 2e-5,
                  .transfer_bytes_per_s = 2.9e9};
  cluster.network = cluster.local = {.latency_s = 5e-5, .bytes_per_s = 1.2e8};
  return cluster;
}

TEST(MeasuredShares, AreWithinTwoPercentOfTheBestOfASweep) {
  for (const auto algorithm : {Algorithm::pivoted, Algorithm::skeleton})
    for (const Overlap overlap :
         {Overlap::none, Overlap::lookahead, Overlap::dedicated, Overlap::full})
      for (const Transfers transfers : {Transfers::first, Transfers::overlap}) {
        Simulation wanted{.shape = {20000, 256, 2, 2},
                          .overlap = overlap,
                          .algorithm = algorithm,
                          .transfers = transfers};
        double best = 0;
        for (int percent = 0; percent <= 100; percent += 2) {
          const double share = percent / 100.0;
          wanted.shares = {share, share, share};
          best = std::max(best, simulate(unequal(), wanted).flops_per_s);
        }
        wanted.sharing = Sharing::measured;

        const Simulated found = simulate(unequal(), wanted);

        EXPECT_GT(found.flops_per_s, 0.98 * best) << static_cast<int>(overlap);
      }
}

TEST(MeasuredShares, AreSmallerBesideMessages) {
  Simulation wanted{.shape = {20000, 256, 2, 2}, .algorithm = Algorithm::skeleton};
  wanted.sharing = Sharing::measured;

  const auto beside = simulate(unequal(), wanted).cpu_shares;
  wanted.overlap = Overlap::none;
  const auto alone = simulate(unequal(), wanted).cpu_shares;

  ASSERT_TRUE(beside[static_cast<std::size_t>(Work::overlapped)]);
  ASSERT_TRUE(alone[static_cast<std::size_t>(Work::alone)]);
  EXPECT_LT(*beside[static_cast<std::size_t>(Work::overlapped)],
            *alone[static_cast<std::size_t>(Work::alone)]);
}

/// Virtual devices on the CPU. The library reads the environment when a context is made.
class VirtualDevices : public testing::Test {
 protected:
  void SetUp() override { setenv("FLEETBLAS_BACKEND", "host", 1); }
  void TearDown() override { unsetenv("FLEETBLAS_BACKEND"); }
};

struct Solved {
  std::vector<std::int64_t> pivots;
  double residual = -1, cpu = 0, all = 0;
};

Solved run(std::int64_t n, std::int64_t nb, Overlap overlap, int cores,
           const DeviceMeans& devices) {
  const std::unique_ptr<Comm> comm = only_this_rank();
  const Grid grid(*comm, 1, 1);
  System system(grid, n, nb);
  const Workshop workshop(
      {.cores = cores, .progress_thread = overlap >= Overlap::dedicated, .devices = devices},
      overlap);
  const Rank& rank = workshop.rank();
  Workspace workspace;
  workspace.touch(grid, system, overlap);
  const Pinned pinned = workspace.pin(system, *rank.devices);
  fill(grid, system);
  Solved solved;
  solved.pivots = factor(grid, system, workspace, rank, {.overlap = overlap}).pivots;
  const std::vector<double> x = solve(grid, system, rank);
  fill(grid, system);
  solved.residual = residual(grid, system, x, rank);
  for (const Balance::Done& done : rank.devices->balance.done()) {
    solved.cpu += done.cpu;
    solved.all += done.all;
  }
  return solved;
}

TEST_F(VirtualDevices, AndCoresFactorTogether) {
  const auto expected = run(300, 32, Overlap::none, 1, {.which = "1", .cpu_share = 1});
  unsigned turn = 0;
  for (const Overlap overlap :
       {Overlap::none, Overlap::lookahead, Overlap::dedicated, Overlap::full})
    for (const bool overlaps_transfers : {true, false})
      for (const std::optional<double> share : {std::optional<double>(), {0.0}, {0.4}, {1.0}}) {
        if (!test::has_turn(turn++)) continue;
        const Solved found = run(300, 32, overlap, 2, {"2", overlaps_transfers, share});

        EXPECT_EQ(found.pivots, expected.pivots);
        EXPECT_LT(found.residual, 1);
        EXPECT_GT(found.all, 0);
        EXPECT_EQ(found.cpu > 0, share != 0.0);
        EXPECT_EQ(found.cpu < found.all, share != 1.0);
      }
}

TEST_F(VirtualDevices, AreNoFasterThanATestWantsThem) {
  const Devices devices({.which = "1", .most_flops_per_s = 1e7}, 1);
  std::vector<double> zeros(3 * 64 * 64);
  const auto begin = std::chrono::steady_clock::now();

  devices.blas().subtract_product(64, 64, 64, zeros.data(), 64, FLEET_TRANS, zeros.data() + 4096,
                                  64, zeros.data() + 8192, 64);

  // 2 * 64^3 operations.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(52));
}

TEST_F(VirtualDevices, ThatAreNotThereAreRefused) {
  EXPECT_THROW(Devices({.which = "-1"}, 1), Failure);
  EXPECT_THROW(Devices({.which = "many"}, 1), Failure);
}

TEST_F(VirtualDevices, WaitForTheirWorkWhateverFailsMeanwhile) {
  Devices devices({.which = "1"}, 1);
  std::atomic<bool> is_done = false;
  devices.begin([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_done = true;
  });
  EXPECT_THROW(devices.finish([] { throw Failure("this is broken"); }), Failure);
  EXPECT_TRUE(is_done);
  devices.begin([] { throw Failure("that is broken"); });
  EXPECT_THROW(devices.finish(), Failure);
  devices.begin([] {});
  EXPECT_GE(devices.finish(), 0);
}

}  // namespace
}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// test_lu_sim.cpp: simulated factorizations: lanes, messages, prices, and what must hold of them
// all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "schedule/hpl_tasks.hpp"
#include "schedule/skeleton.hpp"
#include "sim/simulate.hpp"

namespace fleet::lu {
namespace {

constexpr Overlap kOverlaps[] = {Overlap::none, Overlap::lookahead, Overlap::dedicated,
                                 Overlap::full};
constexpr Algorithm kAlgorithms[] = {Algorithm::pivoted, Algorithm::unpivoted, Algorithm::skeleton,
                                     Algorithm::hpl};

/// Four cores of 1 GFLOPS and a GPU of 8, links of 100 MB/s.
Cluster small_cluster() {
  Cluster cluster;
  cluster.rank = {.cores = 4,
                  .core = {{{64, 1e9}}},
                  .memory_bytes_per_s = 1e10,
                  .gpus = 1,
                  .gpu = {{{64, 8e9}}},
                  .transfer_latency_s = 0,
                  .transfer_bytes_per_s = 1e9};
  cluster.network = cluster.local = {.latency_s = 1e-5, .bytes_per_s = 1e8};
  return cluster;
}

Cluster without_gpus() {
  Cluster cluster = small_cluster();
  cluster.rank.gpus = 0;
  return cluster;
}

/// n = 1000 in blocks of 64 on 2 x 3 ranks: no share of rows or columns is equal to all others.
Simulation small_run(Overlap overlap, Algorithm algorithm) {
  return {.shape = {1000, 64, 2, 3}, .overlap = overlap, .algorithm = algorithm};
}

template <typename Visit>
void for_all_runs(Visit&& visit) {
  for (const Overlap overlap : kOverlaps)
    for (const Algorithm algorithm : kAlgorithms) {
      SCOPED_TRACE(testing::Message() << "overlap " << static_cast<int>(overlap) << ", algorithm "
                                      << static_cast<int>(algorithm));
      visit(small_run(overlap, algorithm));
    }
}

TEST(Rates, AreLinearInTheLogarithmOfTheEdge) {
  const RateTable table{{{100, 1e9}, {400, 3e9}}};

  EXPECT_DOUBLE_EQ(table.at(50, 50, 50), 1e9);
  EXPECT_NEAR(table.at(200, 200, 200), 2e9, 1);
  EXPECT_NEAR(table.at(800, 100, 100), 2e9, 1);  // as large as 200 cubed
  EXPECT_DOUBLE_EQ(table.at(1000, 1000, 1000), 3e9);
}

TEST(Messages, GoAlongAChainInSegments) {
  const Link link{.latency_s = 1, .bytes_per_s = 10};

  // Three segments of 10 bytes, 2 s each, pass two more ranks: 3 + 2 turns.
  EXPECT_DOUBLE_EQ(broadcast_s(link, 4, 30, {.segment_bytes = 10}), 10);
  // Half of the bandwidth, and an answer before each: 4 s a turn.
  EXPECT_DOUBLE_EQ(broadcast_s(link, 4, 30, {.segment_bytes = 10, .link_share = 0.5, .trips = 2}),
                   20);
  EXPECT_DOUBLE_EQ(broadcast_s(link, 1, 30, {}), 0);
  EXPECT_DOUBLE_EQ(gather_s(link, 4, 10), 2 + 3);
}

TEST(Product, TakesItsTransfersAndTheSlowerPart) {
  const RankMeans rank = small_cluster().rank;
  // A matrix has 8 MB; of A and C half goes to the GPU, of C half comes back. 1 Gflop each: the GPU
  // takes 0.125 s, four cores 0.25 s.
  const double matrix_s = 8e-3, in_s = 2 * matrix_s;

  EXPECT_NEAR(product_s(rank, 1000, 1000, 1000, 0.5, Transfers::first), in_s + 0.25 + matrix_s / 2,
              1e-12);
  EXPECT_NEAR(product_s(rank, 1000, 1000, 1000, 0.5, Transfers::overlap),
              (1.0 + in_s) / 4 + matrix_s / 2, 1e-12);
  EXPECT_NEAR(product_s(rank, 1000, 1000, 1000, 0, Transfers::overlap), 0.25 + 4 * matrix_s, 1e-12);
}

TEST(Lanes, AMessageStartsWhenTheLastMemberIsReady) {
  Lanes lanes(2, 4, {Overlap::full, Transfers::overlap, true});
  Group group{.first = 0, .stride = 1, .count = 2, .cost_s = 1};

  lanes.compute(1, Spent::panel, 0, 5);
  lanes.post(group, Spent::wait, 0);
  lanes.compute(0, Spent::product, 0, 2);
  lanes.wait(group, Spent::wait, 0);

  EXPECT_DOUBLE_EQ(group.end_s, 6);
  EXPECT_DOUBLE_EQ(lanes.end_s(), 6);
  // Rank 0 computed for 2 s of the 6, rank 1 for 5.
  EXPECT_DOUBLE_EQ(lanes.totals().rank_s[static_cast<std::size_t>(Spent::wait)], 4 + 1);
}

TEST(Lanes, ACoreJoinsWhenItsMessageHasEnded) {
  const SharedWork work{.core_s = 10};
  const auto seconds = [&work](Overlap overlap) {
    Lanes lanes(1, 4, {overlap, Transfers::overlap});
    Group group{.first = 0, .stride = 1, .count = 1, .cost_s = 2};
    lanes.post(group, Spent::wait, 0);
    lanes.work(0, Spent::product, 0, work);
    return lanes.end_s();
  };

  EXPECT_DOUBLE_EQ(seconds(Overlap::full), 3);  // 2 s by three cores, 1 s by four
  EXPECT_DOUBLE_EQ(seconds(Overlap::dedicated), 10.0 / 3);
}

TEST(Load, GivesAllWhoComputeTheSamePartOfTheCores) {
  Load load(1);
  std::vector<Load::Chain> chains{{.now_s = 0, .demand = 1, .seconds = {1, 1}},
                                  {.now_s = 1, .demand = 1, .seconds = {2}}};

  load.run(chains);

  // Alone until 1, both at half speed until 3, when the first one is done; then alone again.
  EXPECT_EQ(chains[0].end_s, (std::vector<double>{1, 3}));
  EXPECT_EQ(chains[1].end_s, (std::vector<double>{4}));
  // What was run before counts, and does not become slower.
  std::vector<Load::Chain> later{{.now_s = 3, .demand = 1, .seconds = {1}}};
  load.run(later);
  EXPECT_EQ(later[0].end_s, (std::vector<double>{4.5}));
}

TEST(Load, LetsMessagesGoFirst) {
  Load load(2);
  load.note_message(1, 3, 1.5);
  std::vector<Load::Chain> chains{{.now_s = 0, .demand = 1, .seconds = {2}},
                                  {.now_s = 0, .demand = 1, .seconds = {1}}};

  load.run(chains);

  // Both are alone on a core until 1; then half a core is left for one.
  EXPECT_EQ(chains[1].end_s, (std::vector<double>{1}));
  EXPECT_EQ(chains[0].end_s, (std::vector<double>{3}));
}

TEST(Lanes, RanksThatShareCoresSlowEachOtherDown) {
  const auto seconds = [](double cores) {
    Lanes lanes(
        4, 1,
        {.overlap = Overlap::none, .transfers = Transfers::overlap, .machine = {.cores = cores}});
    for (int rank = 0; rank < 4; ++rank) lanes.compute(rank, Spent::product, 0, 1);
    return lanes.end_s();
  };

  EXPECT_DOUBLE_EQ(seconds(0), 1);
  EXPECT_DOUBLE_EQ(seconds(2), 2);
  EXPECT_DOUBLE_EQ(seconds(4), 1);
}

TEST(Lanes, WithoutAThreadNothingGoesOnDuringWork) {
  Lanes lanes(2, 4, {Overlap::lookahead, Transfers::overlap});
  Group group{.first = 0, .stride = 1, .count = 2, .cost_s = 1};

  lanes.post(group, Spent::wait, 0);
  lanes.compute(0, Spent::product, 0, 2);
  lanes.wait(group, Spent::wait, 0);

  EXPECT_DOUBLE_EQ(lanes.end_s(), 3);
}

TEST(Lanes, WhatALatePanelIsNeededForIsPostedDuringAnUpdate) {
  Lanes lanes(1, 4, {Overlap::dedicated, Transfers::overlap});
  Group rows{.first = 0, .stride = 1, .count = 1, .cost_s = 4};

  lanes.expect(0, 2);  // the panel comes after 2 s
  lanes.post(rows, Spent::wait_rows, 0);
  lanes.compute(0, Spent::product, 0, 5);
  lanes.reach(0, Spent::wait, 0);
  EXPECT_DOUBLE_EQ(lanes.end_s(), 5);
  lanes.wait(rows, Spent::wait_rows, 0);

  EXPECT_DOUBLE_EQ(lanes.end_s(), 2 + 4);
}

TEST(Skeleton, HidesTheNextMessagesUnderTheLastProduct) {
  const Shape shape{1000, 64, 2, 3};
  const auto at = [](const std::vector<SkeletonTask>& tasks, Duty duty) {
    return std::ranges::find(tasks, duty, &SkeletonTask::duty) - tasks.begin();
  };

  const auto hidden = skeleton_tasks(shape, Overlap::full, 3);
  const auto waited = skeleton_tasks(shape, Overlap::none, 3);

  EXPECT_LT(at(hidden, Duty::send_upper), at(hidden, Duty::product_rest));
  EXPECT_LT(at(hidden, Duty::product_rest), at(hidden, Duty::arrive));
  EXPECT_LT(at(waited, Duty::arrive), at(waited, Duty::product));
  EXPECT_TRUE(skeleton_tasks(shape, Overlap::full, shape.steps() - 1).empty());
}

TEST(HplTasks, UpdateEachColumnOnceAStep) {
  const Shape shape{1000, 64, 2, 3};
  for (const Overlap overlap : kOverlaps)
    for (int col = 0; col < shape.cols; ++col)
      for (std::int64_t k = 0; k < shape.steps(); ++k) {
        const auto updated = [](const std::vector<Task>& tasks) {
          std::int64_t columns = 0;
          for (const Task& task : tasks)
            if (task.act == Act::update) columns += task.end - task.begin;
          return columns;
        };

        EXPECT_EQ(updated(hpl_tasks(shape, col, overlap, k)),
                  updated(step_tasks(shape, col, overlap, k)));
      }
}

TEST(Simulation, NoLaneOverlapsItself) {
  for_all_runs([](Simulation run) {
    run.keeps_spans = true;

    const Simulated done = simulate(small_cluster(), run);

    std::map<std::tuple<int, LaneSpan::Lane>, double> ends;
    for (const LaneSpan& span : done.spans) {
      double& end_s = ends[{span.rank, span.lane}];
      EXPECT_GE(span.begin_s, end_s);
      EXPECT_GT(span.end_s, span.begin_s);
      end_s = span.end_s;
    }
    EXPECT_EQ(ends.size(), 2u * 6);
  });
}

TEST(Simulation, CountsAllFlopsOnce) {
  for_all_runs([](const Simulation& run) {
    const double n = 1000;

    const Simulated done = simulate(small_cluster(), run);

    EXPECT_NEAR(done.totals.flops / (2 * n * n * n / 3), 1, 0.003);
  });
}

TEST(Simulation, IsTheSameByClassesAndByRanks) {
  for_all_runs([](Simulation run) {
    for (const Shape shape : {Shape{1000, 64, 2, 3}, Shape{640, 64, 3, 2}, Shape{333, 32, 1, 4},
                              Shape{500, 100, 4, 4}}) {
      run.shape = shape;
      run.pricing = Pricing::by_class;
      const Simulated by_class = simulate(small_cluster(), run);
      run.pricing = Pricing::each;
      const Simulated each = simulate(small_cluster(), run);

      EXPECT_EQ(by_class.seconds, each.seconds);
      EXPECT_EQ(by_class.totals.rank_s, each.totals.rank_s);
    }
  });
}

TEST(Simulation, IsTheSameEveryTime) {
  for_all_runs([](const Simulation& run) {
    EXPECT_EQ(simulate(small_cluster(), run).seconds, simulate(small_cluster(), run).seconds);
  });
}

TEST(Simulation, MoreBandwidthIsNeverSlower) {
  for_all_runs([](const Simulation& run) {
    Cluster cluster = small_cluster();
    double before_s = simulate(cluster, run).seconds;
    for (int doublings = 0; doublings < 8; ++doublings) {
      cluster.network.bytes_per_s *= 2;

      const double now_s = simulate(cluster, run).seconds;

      EXPECT_LE(now_s, before_s * (1 + 1e-12));
      before_s = now_s;
    }
  });
}

TEST(Simulation, ASharedCoreIsNoSlowerThanADedicatedOne) {
  for (const Algorithm algorithm : kAlgorithms)
    for (const double bytes_per_s : {1e7, 1e8, 1e9, 1e10}) {
      Cluster cluster = without_gpus();
      cluster.network.bytes_per_s = bytes_per_s;

      const double full_s = simulate(cluster, small_run(Overlap::full, algorithm)).seconds;
      const double dedicated_s =
          simulate(cluster, small_run(Overlap::dedicated, algorithm)).seconds;

      EXPECT_LE(full_s, dedicated_s * (1 + 1e-12));
    }
}

TEST(Simulation, HidingMessagesPaysOnSlowLinks) {
  for (const Algorithm algorithm : kAlgorithms) {
    Cluster cluster = small_cluster();
    cluster.network.bytes_per_s = 4e7;

    const double none_s = simulate(cluster, small_run(Overlap::none, algorithm)).seconds;
    const double full_s = simulate(cluster, small_run(Overlap::full, algorithm)).seconds;

    EXPECT_LT(full_s, none_s);
  }
}

TEST(Simulation, WithoutLinksOneRankTakesItsWork) {
  Cluster cluster = without_gpus();
  cluster.rank.memory_bytes_per_s = 1e30;
  const Simulation run{.shape = {1024, 64, 1, 1}, .overlap = Overlap::none};

  const Simulated done = simulate(cluster, run);

  EXPECT_NEAR(done.seconds, done.totals.flops / 4e9, done.seconds * 0.01);
  EXPECT_EQ(done.totals.message_s, 0);
}

TEST(Simulation, KnowsEightThousandRanks) {
  Cluster cluster = small_cluster();
  cluster.rank.resident = true;
  cluster.rank.gpu_memory_bytes_per_s = 1e12;
  cluster.rank.gpu_panel = {1e-6, 1e-11};
  const Simulation run{.shape = {400000, 1024, 80, 100}};

  const Simulated done = simulate(cluster, run);

  EXPECT_GT(done.flops_per_s, 0);
  EXPECT_LT(done.flops_per_s, 8000 * 8e9);
}

}  // namespace
}  // namespace fleet::lu

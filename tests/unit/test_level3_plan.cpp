// SPDX-License-Identifier: BSD-3-Clause
// test_level3_plan.cpp: plans of the routines that compute a triangle, or have a symmetric factor.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::node;
using test::simple;

Problem syrk(std::int64_t n, std::int64_t k, DeviceId home = kHost) {
  return make_problem({.routine = Routine::syrk, .n = n, .k = k}, {.homes = {home, home, home}});
}

TEST(Level3Plan, PassesItsCheckForRandomRoutinesMachinesAndRules) {
  EXPECT_EQ(test::fault_of_random_plans(
                20261122, test::scaled(6000),
                [](auto& random, int devices) { return test::random_level3(random, devices, 60); }),
            "");
}

// A is both factors: each of its tiles goes once to each worker that needs it, and the other
// triangle of C is not copied.
TEST(Level3Plan, MovesTheOneOperandOfSyrkOnce) {
  const Machine machine = node(4);
  const std::int64_t n = 4096, k = 2048, tile = 512;
  const Plan plan = make_plan(syrk(n, k), machine, simple(machine, {2, 2}, tile));
  ASSERT_EQ(check(plan), "");

  std::map<std::pair<TileId, DeviceId>, int> arrivals;
  std::int64_t c_bytes = 0;
  for (const Task& task : plan.tasks) {
    if (task.kind == TaskKind::compute) continue;
    if (task.tile.matrix == kC) {
      c_bytes += plan.program->moved_bytes_of(task.tile);
      EXPECT_GE(task.tile.row, task.tile.col);
    } else if (++arrivals[{task.tile, task.to.device}] > 1) {
      ADD_FAILURE() << "a tile of A is copied twice";
    }
  }
  EXPECT_EQ(c_bytes, 2 * n * (n + 1) / 2 * 8);
  EXPECT_LE(std::ssize(arrivals), 4 * (n / tile) * (k / tile));
}

// A copy engine moves a triangle in panels: rectangles with the longest of their columns.
TEST(Level3Plan, CountsTrianglesAsPanels) {
  const std::int64_t edge = 1024, n = 3 * edge;
  const Machine machine = node(1);
  const Plan plan = make_plan(syrk(n, edge), machine, simple(machine, {1, 1}, edge));
  const TileId full{kC, 1, 0}, triangle{kC, 1, 1};

  const Cargo whole = plan.program->cargo_of(full), half = plan.program->cargo_of(triangle);

  EXPECT_EQ(whole.copies, 1);
  EXPECT_EQ(whole.bytes, edge * edge * 8);
  EXPECT_EQ(whole.column_bytes, edge * 8);
  EXPECT_EQ(whole.apart_bytes, n * 8);
  EXPECT_EQ(half.copies, 4);
  EXPECT_EQ(half.bytes, 256 * (1024 + 768 + 512 + 256) * 8);
  EXPECT_EQ(half.column_bytes, half.bytes / edge);
  EXPECT_GT(half.bytes, plan.program->moved_bytes_of(triangle));

  const Plan alone = make_plan(syrk(edge, edge), machine, simple(machine, {1, 1}, edge));
  EXPECT_EQ(alone.program->cargo_of({kA, 0, 0}).column_bytes, 0) << "contiguous";
  EXPECT_GT(alone.program->cargo_of({kC, 0, 0}).column_bytes, 0) << "not so a triangle";
}

// One chain brings a tile to the users of its rows and of its columns. Each side by itself may find
// the host sooner than a device.
TEST(Level3Plan, TakesATileForBothSidesFromTheHostOnce) {
  const Machine machine = node(4);
  const auto most_times = [&](const Tuning& tuning) {
    const Plan plan = make_plan(syrk(4096, 2048), machine, tuning);
    EXPECT_EQ(check(plan), "");
    std::map<TileId, int> times;
    for (const Task& task : plan.tasks)
      if (task.kind == TaskKind::fetch && task.tile.matrix == kA && task.from.device == kHost)
        ++times[task.tile];
    return std::ranges::max(times | std::views::values);
  };
  Tuning tuning = simple(machine, {2, 2}, 512);
  EXPECT_GT(most_times(tuning), 1);
  tuning.both_sides = true;
  EXPECT_EQ(most_times(tuning), 1);
}

TEST(Level3Plan, RefusesBothSidesWhereCIsNoTriangleOrABatch) {
  const Machine machine = node(4);
  Tuning tuning = simple(machine, {2, 2}, 512);
  tuning.both_sides = true;
  for (const CallShape& shape :
       {CallShape{.m = 2048, .n = 2048, .k = 1024},
        CallShape{.routine = Routine::syrk, .n = 2048, .k = 1024, .batch = 2}})
    EXPECT_THROW(make_plan(make_problem(shape), machine, tuning), Error);
}

TEST(Level3Plan, GivesTheWorkersEqualPartsOfATriangle) {
  const Machine machine = node(8);
  for (const auto& [workers, grid] :
       {std::pair(2, Grid{1, 2}), std::pair(4, Grid{2, 2}), std::pair(8, Grid{2, 4})}) {
    const Plan plan = make_plan(syrk(8192, 2048), machine, simple(machine, grid, 512));
    std::vector<double> work(static_cast<std::size_t>(workers), 0.0);
    for (const Task& task : plan.tasks)
      if (task.kind == TaskKind::compute && task.kernel == Kernel::multiply)
        work[static_cast<std::size_t>(task.device() - kFirstDevice)] +=
            plan.program->share_of(task.tile);
    const auto [least, most] = std::ranges::minmax(work);
    EXPECT_LT(most - least, 0.05 * (least + most) / 2) << workers;
  }
}

TEST(Level3Plan, NeverTouchesTheTriangleThatIsNotStored) {
  const Machine machine = node(2);
  for (const Uplo uplo : {Uplo::lower, Uplo::upper})
    for (const Side side : {Side::left, Side::right}) {
      const Problem problem = make_problem(
          {.routine = Routine::symm, .side = side, .uplo = uplo, .m = 2048, .n = 1536});
      const Plan plan = make_plan(problem, machine, simple(machine, {2, 1}, 512));
      ASSERT_EQ(check(plan), "");
      for (const Task& task : plan.tasks) {
        if (task.kind == TaskKind::compute || task.tile.matrix != kA) continue;
        EXPECT_EQ(task.tile.row >= task.tile.col,
                  uplo == Uplo::lower || task.tile.row == task.tile.col);
      }
    }
}

// The triangle of A goes once to each of four columns of the grid; C goes there and back.
TEST(Level3Plan, MovesTheTriangleOfTrsmOnce) {
  const Machine machine = node(4);
  const std::int64_t n = 4096, tile = 512, tiles = n / tile;
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    const Plan plan = make_plan(make_problem({.routine = routine, .m = n, .n = n}), machine,
                                simple(machine, {1, 4}, tile));
    ASSERT_EQ(check(plan), "");

    std::map<std::pair<TileId, DeviceId>, int> arrivals;
    std::int64_t c_bytes = 0;
    for (const Task& task : plan.tasks) {
      if (task.kind == TaskKind::compute) continue;
      const std::pair arrival(task.tile, task.to.device);
      EXPECT_LE(++arrivals[arrival], 1);
      if (task.tile.matrix == kC) c_bytes += plan.program->moved_bytes_of(task.tile);
      EXPECT_TRUE(task.tile.matrix == kC || task.tile.row >= task.tile.col);
    }
    EXPECT_EQ(c_bytes, 2 * n * n * 8);
    EXPECT_EQ(std::ssize(arrivals), 4 * tiles * (tiles + 1) / 2 + 2 * tiles * tiles) << "one each";
  }
}

// One column of tiles: solved tiles go to all workers, and each worker updates its rows of the
// rest.
TEST(Level3Plan, SpreadsTheChainOfANarrowTrsmOverTheWorkers) {
  const Machine machine = node(4);
  const Plan plan = make_plan(make_problem({.routine = Routine::trsm, .m = 8192, .n = 256}),
                              machine, simple(machine, {4, 1}, 512));
  ASSERT_EQ(check(plan), "");

  std::map<DeviceId, int> solves, products;
  for (const Task& task : plan.tasks)
    if (task.kind == TaskKind::compute)
      ++(task.kernel == Kernel::solve ? solves : products)[task.device()];
  EXPECT_EQ(std::ssize(solves), 4);
  const auto [least, most] = std::ranges::minmax(products | std::views::values);
  EXPECT_LE(most - least, 4) << "of 120 products";
}

// Recovery relies on this: no tile is replaced at home before every result computed from it is at
// home.
TEST(Level3Plan, CheckFindsATrmmThatReplacesTooEarly) {
  const Machine machine = node(1);
  const Problem problem = make_problem({.routine = Routine::trmm, .m = 1024, .n = 512});
  Plan plan = make_plan(problem, machine, simple(machine, {1, 1}, 512));
  ASSERT_EQ(check(plan), "");

  for (Task& task : plan.tasks)
    if (task.kind == TaskKind::writeback) task.after_count = 0;

  EXPECT_NE(check(plan), "");
}

Problem by_triangle(Routine routine, Side side, std::int64_t n) {
  return make_problem({.routine = routine, .side = side, .m = n, .n = n}, {});
}

// In all turns but the last a product by a triangle begins with the tile that needs one tile of A
// and of B; in the last it may replace a tile as soon as it is computed.
TEST(Level3Plan, ReversesTheTurnsOfTrmmButTheLastWhereInputsComeFirst) {
  for (const Side side : {Side::left, Side::right}) {
    Tuning tuning = simple(node(1), {1, 1}, 512);
    tuning.group = 2048;
    const auto steps_by_turn = [&](Routine routine) {
      const Decomposition cut = decompose(by_triangle(routine, side, 4096), tuning);
      std::vector<std::vector<int>> turns;
      for (int at = 0; at < cut.deal.groups(); ++at) {
        const auto [row, col] = cut.deal.group_at(at);
        EXPECT_EQ(cut.deal.position(row, col), at);
        turns.resize(static_cast<std::size_t>(cut.deal.turn_of(at)) + 1);
        turns.back().push_back(side == Side::left ? row : col);
      }
      return turns;
    };
    const std::vector<int> onwards{0, 1, 2, 3, 4, 5, 6, 7}, back(onwards.rbegin(), onwards.rend());
    tuning.inputs_first = false;
    EXPECT_EQ(steps_by_turn(Routine::trmm), (std::vector{onwards, onwards}));
    tuning.inputs_first = true;  // halves the last turn
    EXPECT_EQ(steps_by_turn(Routine::trmm), (std::vector{back, back, onwards}));
    EXPECT_EQ(steps_by_turn(Routine::trsm), (std::vector{onwards, onwards, onwards}));
  }
}

// Where A leaves a side free, workers may have uneven parts of it.
TEST(Level3Plan, GivesEachWorkerItsShareOfTheSideThatATriangleLeavesFree) {
  const Machine machine = node(2);
  for (const Side side : {Side::left, Side::right}) {
    const bool left = side == Side::left;
    Tuning tuning = simple(machine, left ? Grid{1, 2} : Grid{2, 1}, 512);
    (left ? tuning.col_shares : tuning.row_shares) = {3, 1};
    const Problem problem = by_triangle(Routine::trsm, side, 4096);
    const Plan plan = make_plan(problem, machine, tuning);
    EXPECT_EQ(check(plan), "");
    std::map<DeviceId, std::int64_t> elements;
    for (const Task& task : plan.tasks)
      if (task.kind == TaskKind::compute && task.kernel == Kernel::solve)
        elements[task.device()] +=
            plan.program->rows_of(task.tile) * plan.program->cols_of(task.tile);
    EXPECT_EQ(elements[kFirstDevice], 3 * elements[kFirstDevice + 1]);

    std::swap(tuning.grid.rows, tuning.grid.cols);
    std::swap(tuning.row_shares, tuning.col_shares);
    EXPECT_THROW(make_plan(problem, machine, tuning), Error) << "along the triangle";
  }
}

TEST(Level3Plan, SendsResultsHomeBehindTheInputsOfTheirTurn) {
  const Machine machine = node(2);
  for (const Routine routine : {Routine::trsm, Routine::trmm})
    for (const std::int64_t group : {0, 2048}) {
      Tuning tuning = simple(machine, {1, 2}, 512);
      tuning.group = group;
      const auto least_wait_s = [&] {
        const Plan plan = make_plan(by_triangle(routine, Side::left, 4096), machine, tuning);
        EXPECT_EQ(check(plan), "");
        const Trace trace = simulate(plan, machine);
        // All of A comes in the first turn.
        std::map<DeviceId, double> first_home_s, last_input_s;
        for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
          const Task& task = plan.tasks[t];
          if (task.kind == TaskKind::writeback)
            first_home_s.try_emplace(task.from.device, trace.spans[t].start_s);
          else if (task.kind == TaskKind::fetch && task.from.device == kHost &&
                   task.tile.matrix == kA)
            last_input_s[task.to.device] = trace.spans[t].stop_s;
        }
        double least_s = 1e300;
        for (const auto& [device, home_s] : first_home_s)
          least_s = std::min(least_s, home_s - last_input_s[device]);
        return least_s;
      };
      tuning.inputs_first = true;
      EXPECT_GE(least_wait_s(), 0);
      tuning.inputs_first = false;
      EXPECT_LT(least_wait_s(), 0);
    }
}

TEST(Level3Plan, CheckFindsAReversedTrmmThatReplacesTooEarly) {
  const Machine machine = node(2);
  Tuning tuning = simple(machine, {2, 1}, 512);
  tuning.group = 512;
  tuning.inputs_first = true;
  Plan plan = make_plan(by_triangle(Routine::trmm, Side::left, 1024), machine, tuning);
  ASSERT_EQ(check(plan), "");

  const auto goes_home = [&](TaskId t) {
    return plan.tasks[static_cast<std::size_t>(t)].kind == TaskKind::writeback;
  };
  int dropped = 0;
  for (TaskId& earlier : plan.after_pool)
    if (goes_home(earlier)) earlier = 0, ++dropped;

  EXPECT_GT(dropped, 0);
  EXPECT_NE(check(plan).find("replaces what may be needed once more"), std::string::npos);
}

/// The plan with task `from` before task `to`, behind those of its former ones that still can be.
Plan moved(Plan plan, TaskId from, TaskId to) {
  const auto now_at = [&](TaskId t) {
    if (t == from) return to;
    return t >= to && t < from ? t + 1 : t;
  };
  const Task& early = plan.tasks[static_cast<std::size_t>(from)];
  for (int i = 0; i < early.after_count; ++i) {
    TaskId& earlier = plan.after_pool[static_cast<std::size_t>(early.after_begin + i)];
    if (earlier >= to) earlier = 0;
  }
  std::rotate(plan.tasks.begin() + to, plan.tasks.begin() + from, plan.tasks.begin() + from + 1);
  for (TaskId& earlier : plan.after_pool) earlier = now_at(earlier);
  for (Task& task : plan.tasks)
    if (task.upstream != kNoTask) task.upstream = now_at(task.upstream);
  return plan;
}

// The slot of the operand that is read has what its home has no more: should its device be lost
// before that result is at home, nobody could compute it once more.
TEST(Level3Plan, CheckFindsATrmmThatReadsWhatIsReplacedAlready) {
  Tuning tuning = simple(node(1), {1, 1}, 512);
  tuning.group = 512;
  tuning.inputs_first = true;
  const Plan plan = make_plan(by_triangle(Routine::trmm, Side::left, 1024), node(1), tuning);
  ASSERT_EQ(check(plan), "");
  const auto find = [&](const auto& wanted) {
    return static_cast<TaskId>(std::ranges::find_if(plan.tasks, wanted) - plan.tasks.begin());
  };
  const TaskId first_result = find([](const Task& task) {
    return task.kind == TaskKind::compute && task.tile == TileId{kC, 0, 0};
  });
  const TaskId reader = find([&](const Task& task) {
    return task.kind == TaskKind::compute && task.tile == TileId{kC, 1, 0};
  });
  const TaskId replaces = find([](const Task& task) {
    return task.kind == TaskKind::writeback && task.tile == TileId{kC, 0, 0};
  });
  ASSERT_LT(first_result, reader) << "the turn is reversed";
  ASSERT_LT(reader, replaces);

  const std::string fault = check(moved(plan, replaces, reader));
  EXPECT_NE(fault.find("reads what its home has no more"), std::string::npos) << fault;
}

TEST(Level3Plan, RefusesRoutinesThatDoNotExist) {
  const auto status_of = [](const CallShape& shape) {
    try {
      make_problem(shape);
    } catch (const Error& e) {
      return e.status();
    }
    return Status::ok;
  };
  EXPECT_EQ(status_of({.routine = Routine::herk, .type = DataType::f64}), Status::bad_argument);
  EXPECT_EQ(status_of({.routine = Routine::syrk, .type = DataType::f16}), Status::bad_argument);
  EXPECT_EQ(status_of({.routine = Routine::syrk, .type = DataType::c64, .op_a = Op::conjugate}),
            Status::bad_argument);
  EXPECT_EQ(status_of({.routine = Routine::syrk, .n = -1}), Status::bad_argument);
}

}  // namespace
}  // namespace fleet

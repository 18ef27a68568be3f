// SPDX-License-Identifier: BSD-3-Clause
// test_programs.cpp: the text of several calls, their regular cuts, what stays on devices between
// them, and the plans that are chosen for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <map>
#include <string>
#include <vector>

#include "backend/host/backend.hpp"
#include "plan/bound.hpp"
#include "sim/simulate.hpp"
#include "support/composed.hpp"
#include "support/scale.hpp"
#include "tune/tune_program.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Composed;
using test::Generator;

std::string refusal_of(const std::string& text) {
  try {
    static_cast<void>(expand(parse_composition(text), {}));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_argument);
    return error.what();
  }
}

TEST(Programs, OperandsWithOneNameAreOneMatrix) {
  const Composition calls = parse_composition(
      "# solve, then use it twice\n\ndtrsm m=64 n=32 a=T@h c=X@0\n"
      "dgemm m=16 n=32 k=64 a@h b=X@0 c=Y@p beta=0 # Y\r\n dsyrk n=32 k=64 a=X@0 c@1 transa=t");
  ASSERT_EQ(calls.calls.size(), 3u);
  EXPECT_EQ(calls.calls[0].matrices[kC], calls.calls[1].matrices[kB]);
  EXPECT_EQ(calls.calls[0].matrices[kC], calls.calls[2].matrices[kA]);
  EXPECT_EQ(calls.calls[0].matrices[kB], -1);
  EXPECT_EQ(calls.calls[1].text, "dgemm m=16 n=32 k=64 a@h b=X@0 c=Y@p beta=0");
  EXPECT_EQ(calls.calls[1].problem, parse_problem("dgemm m=16 n=32 k=64 a@h b@0 c@p beta=0"));
  const TileProgram program = expand(calls, {});
  EXPECT_EQ(program.calls[1].matrices[kB], program.calls[0].target());
}

TEST(Programs, AMatrixMayBeBothFactors) {
  const TileProgram program = expand(parse_composition("dgemm size=8 a=X@h b=X@h c@h"), {});
  EXPECT_EQ(program.matrices.size(), 2u);
  EXPECT_EQ(program.calls[0].matrices[kA], program.calls[0].matrices[kB]);
}

TEST(Programs, LettersOfVectorsNameTheirOperands) {
  const Composition calls = parse_composition(
      "dgemv m=8 n=6 a=A@h x=V@h y=W@h\ndaxpy n=8 x=W@h y=U@h\nddot n=8 x=W@h y=U@h r=R@h");
  EXPECT_EQ(calls.calls[0].matrices[kC], calls.calls[1].matrices[kA]);
  EXPECT_EQ(calls.calls[1].matrices[kC], calls.calls[2].matrices[kB]);
  EXPECT_EQ(calls.names[static_cast<std::size_t>(calls.calls[2].matrices[kC])], "R");
}

TEST(Programs, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(refusal_of(" \n# nothing\n"),
            "the program has no call: one problem a line is expected");
  EXPECT_EQ(refusal_of("\ndgemm size=8 a=2x@h b@h c@h"),
            "line 2 of the program: 'a=2x@h' needs a name of letters, digits and _");
  EXPECT_EQ(refusal_of("dgemm size=8 a=X@h b@h c=X@h"),
            "line 1 of the program: the call reads the matrix that it writes");
  EXPECT_EQ(refusal_of("dgemm size=8 a=X@h b@h c@h\ndgemm size=9 a=X@h b@h c@h"),
            "line 2 of the program: matrix X was 8 x 8 at h before, and is 9 x 9 at h here; type "
            "and batch must be the same too");
  EXPECT_NE(refusal_of("dgemm size=8 a=X@h b@h c@h\nsgemm size=8 a=X@h b@h c@h"), "");
  EXPECT_NE(refusal_of("dgemm size=8 a=X@h b@h c@h\ndgemm size=8 a=X@0 b@h c@h"), "");
  EXPECT_NE(refusal_of("dgemm size=8 a=X@h b@h d@h").find("line 1 of the program: "),
            std::string::npos);
  EXPECT_EQ(refusal_of("dtrsm size=8 a=T@h c@h\ndgemm size=8 a=T@h b@h c@h"),
            "call 2, dgemm m=8 n=8 k=8 a@h b@h c@h: a call needs a matrix stored or cut in another "
            "way");
}

TEST(Programs, CutsOfADimensionDependOnItsLengthAlone) {
  Generator random(71);
  for (int trial = 0; trial < 2000; ++trial) {
    RegularTiles tiles{.devices = static_cast<int>(between(random, 1, 16))};
    if (chance(random, 30)) tiles.tile = between(random, 1, 3000);
    const std::int64_t size = between(random, 0, chance(random, 50) ? 3000 : 80000);
    const Cuts cuts = regular_cuts(size, tiles);
    ASSERT_EQ(cuts.front(), 0);
    ASSERT_EQ(cuts.back(), size);
    const std::int64_t edge = tiles.tile > 0 ? tiles.tile : cuts.size() > 2 ? cuts[1] : 512;
    for (std::size_t i = 0; i + 2 < cuts.size(); ++i) ASSERT_EQ(cuts[i + 1] - cuts[i], edge);
    ASSERT_TRUE(cuts.size() <= 2 || 2 * (cuts.back() - cuts[cuts.size() - 2]) >= edge);
    ASSERT_TRUE(tiles.tile > 0 || edge == 512 || edge == 1024 || edge == 2048) << edge;
    ASSERT_LE(2 * longest_piece(cuts), 3 * std::max<std::int64_t>(edge, 2048));
  }
}

/// The plan of calls in tiles of 2048 on a node of four, by the best grid.
Plan plan_of(const std::string& text) {
  const Machine machine = test::node(4);
  const Composition calls = parse_composition(text);
  Plan plan = tune_program(calls, machine, {.tile = 2048}).plan;
  EXPECT_EQ(check(plan), "") << text;
  return plan;
}

std::int64_t tiles_of(const Plan& plan, MatrixId matrix) {
  const Matrix& m = plan.program->matrices[static_cast<std::size_t>(matrix)];
  return std::int64_t{m.tile_rows()} * m.tile_cols();
}

std::int64_t fetched_from_home(const Plan& plan, MatrixId matrix) {
  return std::ranges::count_if(plan.tasks, [&](const Task& task) {
    return task.kind == TaskKind::fetch && task.tile.matrix == matrix && task.from.in_place();
  });
}

std::int64_t sent_home(const Plan& plan, MatrixId matrix) {
  return std::ranges::count_if(plan.tasks, [&](const Task& task) {
    return task.kind == TaskKind::writeback && task.tile.matrix == matrix && task.to.in_place();
  });
}

TEST(Programs, AResultIsReadWhereItWasMade) {
  const Plan plan = plan_of("dtrsm m=8192 n=8192 a=T@h c=X@h\ndgemm size=8192 a=D@h b=X@h c=C@h");
  const MatrixId x = plan.program->calls[0].target();
  EXPECT_EQ(fetched_from_home(plan, x), tiles_of(plan, x));  // before the solve only
  EXPECT_EQ(sent_home(plan, x), tiles_of(plan, x));
}

TEST(Programs, AMatrixThatIsWrittenAgainComesHomeOnce) {
  std::string text;
  for (int i = 0; i < 5; ++i)
    text += "dgemm size=8192 a=A" + std::to_string(i % 2) + "@h b=B@h c=C@h\n";
  const Plan plan = plan_of(text);
  const MatrixId c = plan.program->calls[0].target();
  EXPECT_EQ(fetched_from_home(plan, c), tiles_of(plan, c));
  EXPECT_EQ(sent_home(plan, c), tiles_of(plan, c));
}

// After a fault it is computed once more, from what would be overwritten by then.
TEST(Programs, ItComesHomeEachTimeWhereAnInputIsOverwrittenBetween) {
  const Plan plan = plan_of(
      "dgemm size=4096 a=A@h b=B@h c=X@h\ndgemm size=4096 a=D@h b=B@h c=A@h\n"
      "dgemm size=4096 a=D@h b=B@h c=X@h");
  const MatrixId x = plan.program->calls[0].target();
  EXPECT_EQ(sent_home(plan, x), 2 * tiles_of(plan, x));
}

TEST(Programs, SlotsOfWhatNoLaterCallUsesServeOthers) {
  const Machine machine = test::node(2);
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += "dgemm size=1024 a=X" + std::to_string(i) + "@h b=B@h c=X" + std::to_string(i + 1) +
            "@h beta=0\n";
  TuneRequest request{.tile = 256};
  const Plan roomy = tune_program(parse_composition(text), machine, request).plan;
  request.memory_cap = std::vector<std::int64_t>(4, roomy.arena_bytes[kFirstDevice] / 2);
  const Plan plan = tune_program(parse_composition(text), machine, request).plan;
  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(plan.tuning.out_of_core, OutOfCore::none);
  EXPECT_EQ(bytes_by_link(plan, machine.links.size()), bytes_by_link(roomy, machine.links.size()));
}

TEST(Programs, LittleMemoryMakesSlotsServeSeveralCalls) {
  Generator random(72);
  const int trials = static_cast<int>(test::scaled(400));
  int fewer = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const int devices = static_cast<int>(between(random, 1, 3));
    Machine machine = test::node(devices);
    const Cuts cuts{0, 8, 16, 24};
    const Composed composed = test::random_composition(random, 10, cuts, devices, 25);
    Tuning tuning = test::random_tuning_of_deals(random, machine);
    std::vector<Dealing> deals;
    for (const ProgramCall& call : composed.program.calls)
      deals.push_back(test::random_dealing(random, call, tuning.grid));
    const auto program = std::make_shared<const TileProgram>(composed.program);
    const Plan roomy = schedule(program, deals, machine, tuning);
    for (std::size_t d = kFirstDevice; d < tuning.memory_cap.size(); ++d)
      tuning.memory_cap[d] = roomy.arena_bytes[d] * between(random, 50, 95) / 100;
    try {
      const Plan plan = schedule(program, deals, machine, tuning);
      ASSERT_EQ(check(plan), "") << trial;
      for (std::size_t d = kFirstDevice; d < plan.arena_bytes.size(); ++d) {
        ASSERT_LE(plan.arena_bytes[d], tuning.memory_cap[d]);
        fewer += plan.arena_bytes[d] < roomy.arena_bytes[d];
      }
      Options options;
      options.inject.poison = true;
      options.inject.order = random();
      const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
      const auto verdict = [&]<typename T>() {
        test::ComposedTrial<T> run(composed, random());
        const Trace trace = run.run(plan, *backend);
        return trace.status == Status::ok ? run.verdict() : trace.message;
      };
      const bool is_real = composed.program.matrices.front().storage == Storage::f64;
      ASSERT_EQ(is_real ? verdict.operator()<double>() : verdict.operator()<std::complex<double>>(),
                "")
          << trial;
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), Status::no_memory) << error.what();
    }
  }
  EXPECT_GT(fewer, trials / 20);
}

/// The text of random calls on a few square matrices, which may lie anywhere.
std::string random_text(Generator& random, int calls, int devices) {
  constexpr int kMatrices = 4;
  std::vector<std::string> places;
  for (int m = 0; m < kMatrices; ++m)
    places.push_back(std::string(1, static_cast<char>('P' + m)) + "@" +
                     place_word(test::random_home(random, devices)));
  std::string text;
  for (int c = 0; c < calls; ++c) {
    std::vector<int> order{0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    const auto operand = [&](char letter, int which) {
      return std::string(" ") + letter + "=" +
             places[static_cast<std::size_t>(order[static_cast<std::size_t>(which)])];
    };
    if (chance(random, 20))
      text += "dgemv m=40 n=40" + operand('a', 0) + " x@h y=V@h" +
              (chance(random, 50) ? " transa=t" : "");
    else if (chance(random, 30))
      text += "dtrsm size=40 a@h" + operand('c', 2) + (chance(random, 50) ? " side=r" : "");
    else
      text += "dgemm size=40" + operand('a', 0) + operand('b', 1) + operand('c', 2) +
              (chance(random, 40) ? " beta=0" : "") + (chance(random, 40) ? " transa=t" : "");
    text += "\n";
  }
  return text;
}

Composed composed_of(const Plan& plan) {
  Composed composed{.program = *plan.program, .begins_unset = {}};
  composed.begins_unset.resize(plan.program->matrices.size(), 0);
  return composed;
}

TEST(Programs, ChosenPlansAreRightAndNotBelowTheBound) {
  Generator random(73);
  for (std::int64_t trial = 0; trial < test::scaled(300); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine = test::node(devices);
    const std::string text = random_text(random, static_cast<int>(between(random, 1, 6)), devices);
    const TuneRequest request{.selects = chance(random, 50), .tile = between(random, 6, 24)};
    const Tuned tuned = tune_program(parse_composition(text), machine, request);
    ASSERT_EQ(check(tuned.plan), "") << text;
    ASSERT_GE(tuned.cost.seconds, bound(*tuned.plan.program, machine).seconds) << text;
    ASSERT_EQ(tune_program(parse_composition(text), machine, request).plan, tuned.plan);
    Options options;
    options.inject.poison = true;
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    const Composed composed = composed_of(tuned.plan);
    test::ComposedTrial<double> run(composed, random());
    const Trace trace = run.run(tuned.plan, *backend);
    ASSERT_EQ(trace.status, Status::ok) << trace.message;
    ASSERT_EQ(run.verdict(), "") << text;
  }
}

TEST(Programs, WhatDoesNotFitIsComputedInGroups) {
  Machine machine = test::node(2);
  const Composition calls =
      parse_composition("dgemm size=256 a=A@h b=B@h c=C@h\ndgemm size=256 a=C@h b=B@h c=D@h");
  const TuneRequest request{.memory_cap = std::vector<std::int64_t>(4, 512 << 10), .tile = 32};
  const Tuned tuned = tune_program(calls, machine, request);
  EXPECT_EQ(tuned.plan.tuning.out_of_core, OutOfCore::stationary);
  ASSERT_EQ(check(tuned.plan), "");
  for (std::size_t d = kFirstDevice; d < tuned.plan.arena_bytes.size(); ++d)
    EXPECT_LE(tuned.plan.arena_bytes[d], 512 << 10);
  const TuneRequest hopeless{.memory_cap = std::vector<std::int64_t>(4, 4 << 10), .tile = 32};
  EXPECT_THROW(static_cast<void>(tune_program(calls, machine, hopeless)), Error);
}

using Matrices = std::map<std::string, std::vector<double>>;

constexpr std::int64_t kEdge = 64;

/// Computes calls on square matrices that begin as numbers of their own, in one program after
/// another.
Matrices bits_after(const std::vector<std::string>& programs, int workers) {
  const Machine machine = test::node(4);
  const auto backend = make_host_backend(machine, test::shared_cpu_blas(), {});
  Matrices data;
  for (const std::string& text : programs) {
    const Composition calls = parse_composition(text);
    TuneRequest request{.tile = 16};
    for (int w = 0; w < workers; ++w) request.workers.push_back(kFirstDevice + w);
    const Plan plan = tune_program(calls, machine, request).plan;
    for (const std::string& name : calls.names) {
      if (data.contains(name)) continue;
      Generator random(name.empty() ? 0 : static_cast<std::uint64_t>(name[0]));
      for (std::int64_t i = 0; i < kEdge * kEdge; ++i)
        data[name].push_back((i % (kEdge + 1) == 0 ? 9 : 0) +
                             static_cast<double>(between(random, -999, 999)) / 9970);
    }
    std::vector<Arguments> arguments;
    for (const Composition::Call& call : calls.calls) {
      Arguments one{.ld = {kEdge, kEdge, kEdge}, .alpha = 0.7, .beta = 0.3};
      for (std::size_t x = 0; x < 3; ++x)
        if (call.matrices[x] >= 0)
          one.data[x] = data[calls.names[static_cast<std::size_t>(call.matrices[x])]].data();
      arguments.push_back(one);
    }
    const Trace trace = execute(plan, fleet::bind(*plan.program, arguments), *backend);
    EXPECT_EQ(trace.status, Status::ok) << trace.message;
  }
  return data;
}

TEST(Programs, BitsDoNotDependOnWhatIsPlannedTogether) {
  const std::vector<std::string> calls{"dgemm size=64 a=A@h b=B@h c=C@h\n",
                                       "dtrsm size=64 a=T@h c=C@h\n",
                                       "dgemm size=64 a=C@h b=B@h c=D@h\n",
                                       "dgemm size=64 a=A@h b=B@h c=C@h\n",
                                       "dsyrk size=64 a=C@h c=S@h\n",
                                       "dgemm size=64 a=D@h b=C@h c=A@h beta=0\n",
                                       "dgemm size=64 a=A@h b=B@h c=C@h transa=t\n",
                                       "dtrmm size=64 a=T@h c=D@h side=r\n"};
  const Matrices apart = bits_after(calls, 4);
  Generator random(74);
  for (std::int64_t trial = 0; trial < test::scaled(40); ++trial) {
    std::vector<std::string> programs{""};
    for (const std::string& call : calls) {
      if (chance(random, 40)) programs.emplace_back();
      programs.back() += call;
    }
    if (programs.front().empty()) programs.erase(programs.begin());
    const Matrices together = bits_after(programs, static_cast<int>(between(random, 1, 4)));
    for (const auto& [name, bits] : apart) ASSERT_EQ(together.at(name), bits) << trial << name;
  }
}

TEST(Programs, TheGoalIsOfTheWholeProgram) {
  Machine machine = test::node(4);
  for (Device& device : machine.devices) device.watts = {.idle = 50, .wait = 60, .multiply = 500};
  const Composition calls =
      parse_composition("dgemm size=2048 a=A@0 b=B@0 c=C@0\ndgemm size=2048 a=C@0 b=B@0 c=D@0");
  TuneRequest request{.selects = true};
  const Tuned fast = tune_program(calls, machine, request);
  request.goal.objective.kind = Objective::Kind::energy;
  const Tuned frugal = tune_program(calls, machine, request);
  EXPECT_LE(frugal.cost.joules, fast.cost.joules);
  EXPECT_LE(fast.cost.seconds, frugal.cost.seconds);
}

TEST(Programs, TheBoundCountsEachMatrixOnce) {
  const Machine machine = test::node(2, 10e9);
  const auto seconds = [&](const std::string& text) {
    return bound(expand(parse_composition(text), {}), machine).seconds;
  };
  const std::string gemm = "dgemm size=512 a=A@h b=B@h c=C@h\n";
  EXPECT_DOUBLE_EQ(seconds(gemm),
                   bound(parse_problem("dgemm size=512 a@h b@h c@h"), machine).seconds);
  // Copies take longer than products here: the same matrices again cost nothing.
  EXPECT_NEAR(seconds(gemm + gemm), seconds(gemm), 1e-6 * seconds(gemm));
  // C need not leave home where it is overwritten first.
  EXPECT_LT(seconds("dgemm size=512 a=A@h b=B@h c=C@h beta=0\n" + gemm), seconds(gemm));
  EXPECT_GT(seconds(gemm + "dgemm size=512 a=D@h b=B@h c=C@h"), seconds(gemm));
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_tune_factorization.cpp: the tuner of factorizations takes the best of what it tried, and
// says what it tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/host/backend.hpp"
#include "base/error.hpp"
#include "plan/bound.hpp"
#include "sim/simulate.hpp"
#include "support/cpu_blas.hpp"
#include "support/factor_trial.hpp"
#include "support/random_plans.hpp"
#include "tune/tune_factorization.hpp"

namespace fleet {
namespace {

using test::node;

const Factorization kSquare =
    make_factorization({.routine = Factoring::getrf, .m = 4096, .n = 4096});

TEST(TuneFactorization, TakesTheBestOfWhatItTried) {
  const TunedFactorization tuned = tune(kSquare, node(4), {.selects = true});

  const auto planned = std::ranges::count(tuned.tried, "", &TriedStrips::refusal);
  EXPECT_EQ(planned, tuned.planned);
  const auto& best = *std::ranges::min_element(tuned.tried, {}, &TriedStrips::value);
  EXPECT_EQ(best.width, tuned.width);
  EXPECT_EQ(best.workers, tuned.stages.front().tuning.workers);
  EXPECT_EQ(best.cost.seconds, tuned.cost.seconds);
  EXPECT_EQ(best.stages, tuned.stages.size());
  EXPECT_EQ(best.tasks, tuned.stages.front().tasks.size());
  std::set<std::size_t> teams;
  for (const TriedStrips& tried : tuned.tried) teams.insert(tried.workers.size());
  EXPECT_EQ(teams, (std::set<std::size_t>{1, 2, 4}));
}

TEST(TuneFactorization, SaysWhatDoesNotFit) {
  const std::vector<std::int64_t> caps(6, 24 << 20);

  const TunedFactorization tuned = tune(kSquare, node(4), {.memory_cap = caps});

  const auto refused = std::ranges::count_if(
      tuned.tried, [](const TriedStrips& tried) { return !tried.refusal.empty(); });
  EXPECT_GT(refused, 0);
  EXPECT_GT(tuned.stages.size(), 1U);
  EXPECT_EQ(refused + tuned.planned, std::ssize(tuned.tried));
}

TEST(TuneFactorization, TriesTheWidthThatIsAskedForAlone) {
  const TunedFactorization tuned = tune(kSquare, node(4), {.tile = 320});

  ASSERT_EQ(tuned.tried.size(), 1U);
  EXPECT_EQ(tuned.tried.front().width, 320);
}

/// With a library that factors squares of any order as fast as narrow ones.
Machine with_wide_panels(int devices) {
  Machine machine = node(devices);
  for (int d = 0; d < devices; ++d)
    machine.devices[index(kFirstDevice + d)].panels[static_cast<std::size_t>(Factoring::potrf)] = {
        .column_s = 0.4e-6, .widest = 16384};
  return machine;
}

std::set<std::int64_t> widths_of(const TunedFactorization& tuned) {
  std::set<std::int64_t> widths;
  for (const TriedStrips& tried : tuned.tried) widths.insert(tried.width);
  return widths;
}

TEST(TuneFactorization, MakesOnePanelOfAMatrixOnOneDeviceWhereItMayBeAsWide) {
  const Factorization what =
      make_factorization({.routine = Factoring::potrf, .m = 5000, .n = 5000, .home = kFirstDevice});

  const TunedFactorization wide = tune(what, with_wide_panels(1), {});
  const TunedFactorization narrow = tune(what, node(1), {});

  EXPECT_EQ(wide.width, 5000);
  EXPECT_EQ(wide.stages.front().program->strips->panels, 1);
  EXPECT_TRUE(widths_of(wide).contains(2048));
  EXPECT_TRUE(widths_of(wide).contains(4096));
  EXPECT_EQ(*widths_of(narrow).rbegin(), 1024);
  // All of it one after the other: 5000 columns, and n^3/3 at 20 TFLOPS.
  EXPECT_NEAR(wide.cost.seconds, 5000 * 0.4e-6 + 5000.0 * 5000 * 5000 / 3 / 20e12, 3e-4);
  EXPECT_LE(bound(what, with_wide_panels(1)).seconds, wide.cost.seconds);
}

TEST(TuneFactorization, GivesNoOtherMatrixWidePanels) {
  const Machine machine = with_wide_panels(2);
  const Factorization dealt = make_factorization({.routine = Factoring::potrf,
                                                  .m = 4096,
                                                  .n = 4096,
                                                  .home = kFirstDevice,
                                                  .dealt = {kFirstDevice, kFirstDevice + 1}});

  EXPECT_EQ(*widths_of(tune(kSquare, machine, {})).rbegin(), 1024);
  EXPECT_EQ(*widths_of(tune(dealt, machine, {})).rbegin(), 1024);
  const Factorization pageable =
      make_factorization({.routine = Factoring::potrf, .m = 4096, .n = 4096, .home = kPageable});
  EXPECT_EQ(*widths_of(tune(pageable, machine, {})).rbegin(), 1024);
  EXPECT_EQ(tune(kSquare, machine, {.tile = 4096}).width, 1024);
}

TEST(TuneFactorization, ChoosesWidePanelsOnlyWhereTheCapsHoldThem) {
  const Factorization what =
      make_factorization({.routine = Factoring::potrf, .m = 4096, .n = 4096, .home = kFirstDevice});
  const std::vector<std::int64_t> caps(3, 100 << 20);  // the matrix has 128 MiB

  const TunedFactorization tuned = tune(what, with_wide_panels(1), {.memory_cap = caps});

  EXPECT_LT(tuned.width, 4096);
  EXPECT_TRUE(std::ranges::any_of(tuned.tried, [](const TriedStrips& tried) {
    return tried.width == 4096 && !tried.refusal.empty();
  }));
}

TEST(TuneFactorization, OnePanelIsTheFactorOfTheMatrix) {
  test::Generator random(16);
  const Machine machine = with_wide_panels(1);
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    const Factorization what =
        make_factorization({.routine = Factoring::potrf, .uplo = uplo, .m = 120, .n = 120});
    const TunedFactorization tuned = tune(what, machine, {.tile = 120});
    Options options;
    options.inject.poison = true;
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);

    EXPECT_EQ(tuned.stages.front().program->strips->panels, 1);
    EXPECT_EQ(test::verdict_of_factors(what, tuned.stages, *backend, random), "");
  }
}

/// Below the square of the first of two panels there is a solve; the last has nothing below it.
TEST(TuneFactorization, CountsTheSolveBelowASquare) {
  const Factorization what =
      make_factorization({.routine = Factoring::potrf, .m = 2048, .n = 2048, .home = kFirstDevice});
  Machine machine = node(1);
  const double without_s = tune(what, machine, {.tile = 1024}).cost.seconds;
  Device& device = machine.devices[index(kFirstDevice)];
  device.prepare_s = 1e-3;
  device.solve_row_s = 1e-6;
  device.solve_element_s = 1e-9;

  const double with_s = tune(what, machine, {.tile = 1024}).cost.seconds;

  EXPECT_NEAR(with_s - without_s, 1e-3 + 1024 * 1e-6 + 1024 * 1024 * 1e-9, 1e-9);
}

/// Factors that are refined, on the devices that hold the matrix.
Factorization refined(std::vector<DeviceId> devices) {
  Factorization what{.storage = Storage::f32, .m = 4096, .n = 4096, .refined = true};
  what.home = devices.front();
  if (devices.size() > 1) what.dealt = devices;
  return make_factorization(what);
}

/// Four devices that multiply halves this many times as fast as floats.
Machine node_with_halves(double times) {
  Machine machine = node(4);
  for (Device& device : machine.devices) {
    const double floats = 1e12;
    for (const DataType type : {DataType::f32, DataType::f16}) {
      std::erase_if(device.kernels, [&](const KernelRate& rate) { return rate.type == type; });
      device.kernels.push_back({type, 1024, type == DataType::f16 ? times * floats : floats});
    }
  }
  return machine;
}

TEST(TuneFactorization, OfWhatIsRefinedIsInHalvesOnlyWhereThreeProductsAreSooner) {
  const auto strips_of_best = [](const Factorization& what, double times) {
    return *tune(what, node_with_halves(times), {}).stages.front().program->strips;
  };
  const Factorization what = refined({kFirstDevice, kFirstDevice + 1});
  Factorization for_anybody = what;
  for_anybody.refined = false;

  EXPECT_TRUE(strips_of_best(what, 5).in_halves);
  EXPECT_FALSE(strips_of_best(what, 3).in_halves);
  EXPECT_FALSE(strips_of_best(for_anybody, 5).in_halves);
  EXPECT_LT(tune(what, node_with_halves(12), {}).cost.seconds,
            tune(for_anybody, node_with_halves(12), {}).cost.seconds);
}

TEST(TuneFactorization, OfWhatIsRefinedTakesItsDevicesAndNeedsNoCopyOfIt) {
  const TunedFactorization tuned = tune(refined({kFirstDevice + 2}), node(4), {.selects = true});

  ASSERT_EQ(tuned.stages.size(), 1U);
  const Plan& plan = tuned.stages.front();
  EXPECT_EQ(plan.tuning.workers, std::vector<DeviceId>{kFirstDevice + 2});
  for (const Task& task : plan.tasks) EXPECT_NE(task.kind, TaskKind::fetch);
}

TEST(TuneFactorization, OfWhatIsRefinedHasAWordAndItsConditions) {
  const Factorization what = refined({kFirstDevice, kFirstDevice + 1});
  EXPECT_EQ(to_text(what), "sgetrf m=4096 n=4096 a@0+1 refined");
  EXPECT_EQ(parse_factorization(to_text(what)), what);
  EXPECT_EQ(parse_factorization("cgetrf size=8 a@1 refined").holders(),
            std::vector<DeviceId>{kFirstDevice + 1});

  for (const char* wrong : {"sgetrf size=8 a@h refined", "dgetrf size=8 a@0 refined",
                            "sgetrf m=9 n=8 a@0 refined", "spotrf n=8 a@0 refined"})
    EXPECT_THROW(parse_factorization(wrong), Error) << wrong;
}

TEST(TuneFactorization, SaysWhatIsWrongWithASize) {
  const auto refusal_of = [](const char* text) {
    try {
      parse_factorization(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };

  EXPECT_EQ(refusal_of("dpotrf n=8x"), "problem text: 'n=8x' needs a whole number");
  EXPECT_EQ(refusal_of("dpotrf n=9223372036854775808"),
            "problem text: 'n=9223372036854775808' is too large");
}

/// Factors that stay on devices, of a matrix that is read on the host.
Factorization kept(DeviceId home) {
  return make_factorization({.m = 4096, .n = 4096, .home = home, .kept = true});
}

TEST(TuneFactorization, OfWhatIsKeptSendsNothingButOutcomesHome) {
  for (const DeviceId home : {kHost, kPageable}) {
    const TunedFactorization tuned = tune(kept(home), node(4), {});

    ASSERT_EQ(tuned.stages.size(), 1U);
    const Plan& plan = tuned.stages.front();
    EXPECT_EQ(check(plan), "");
    const Strips& strips = *plan.program->strips;
    ASSERT_EQ(std::ssize(plan.kept), strips.count());
    for (int j = 0; j < strips.count(); ++j) EXPECT_EQ(plan.kept[index(j)].tile, strips.strip(j));
    for (const Task& task : plan.tasks)
      if (task.kind == TaskKind::writeback) {
        EXPECT_GE(task.tile.matrix, strips.outcome(0).matrix);
      }
    Factorization at_home = kept(home);
    at_home.kept = false;
    EXPECT_LT(tuned.cost.seconds, tune(at_home, node(4), {}).cost.seconds);
    EXPECT_LE(bound(kept(home), node(4)).seconds, bound(at_home, node(4)).seconds);
    EXPECT_LE(bound(kept(home), node(4)).seconds, tuned.cost.seconds);
  }
}

TEST(TuneFactorization, OfWhatIsKeptNeedsRoomForAllStrips) {
  const auto tuned_with = [](const Factorization& what, std::int64_t bytes) {
    return tune(what, node(4), {.memory_cap = std::vector<std::int64_t>(6, bytes)});
  };
  const std::int64_t of_each = std::int64_t{4096} * 4096 * 8 / 4;
  Factorization at_home = kept(kHost);
  at_home.kept = false;

  EXPECT_EQ(tuned_with(kept(kHost), 2 * of_each).stages.size(), 1U);
  EXPECT_THROW(tuned_with(kept(kHost), of_each), Error);
  EXPECT_GT(tuned_with(at_home, of_each).stages.size(), 1U);
}

TEST(TuneFactorization, OfWhatIsKeptHasAWordAndItsConditions) {
  EXPECT_EQ(to_text(kept(kHost)), "dgetrf m=4096 n=4096 a@h kept");
  EXPECT_EQ(parse_factorization(to_text(kept(kHost))), kept(kHost));

  for (const char* wrong : {"dgetrf size=8 a@0 kept", "dgetrf m=9 n=8 a@h kept",
                            "dpotrf n=8 a@h kept", "sgetrf size=8 a@0 refined kept"})
    EXPECT_THROW(parse_factorization(wrong), Error) << wrong;
}

TEST(TuneFactorization, RefusesWhatNoWidthFits) {
  const std::vector<std::int64_t> caps(6, 1 << 16);

  EXPECT_THROW(tune(kSquare, node(4), {.memory_cap = caps}), Error);
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_online.cpp: what runs teach about a machine, without a context: the runs are simulated on a
// machine that differs from the one that is believed in.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "backend/host/machine.hpp"
#include "sim/evidence.hpp"
#include "sim/simulate.hpp"
#include "support/random_plans.hpp"
#include "support/shipped.hpp"
#include "support/slower.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::shipped;
using test::slower;
using Kind = RateId::Kind;

constexpr double kNear = 0.05;

Problem gemm(std::int64_t m, std::int64_t n, std::int64_t k, DeviceId home = kHost) {
  return make_problem({.m = m, .n = n, .k = k}, {.homes = {home, home, home}});
}

/// Products on these devices take 1 / factor as long.
Machine with_slow_devices(Machine machine, const std::vector<DeviceId>& slow, double factor) {
  for (const DeviceId d : slow)
    for (KernelRate& rate : machine.devices[static_cast<std::size_t>(d)].kernels)
      rate.flops_per_s *= factor;
  return machine;
}

double factor_of(const std::vector<Correction>& corrections, const RateId& rate) {
  const auto found = std::ranges::find(corrections, rate, &Correction::rate);
  return found == corrections.end() ? 0 : found->factor;
}

/// Runs of one plan on the `real` machine, of which `said` is believed first.
struct Lessons {
  Machine model;
  std::vector<double> speeds;  ///< of each run: predicted / measured seconds
  int changes = 0;
  bool far_off = false;  ///< some run was, twice
};
struct Course {
  int runs = 10;
  double noise = 0;      ///< each run is longer or shorter by up to this share
  bool untimed = false;  ///< tasks are only measured when that is wanted
};
Lessons taught(const Plan& plan, const Machine& said, const Machine& real, const Course& course) {
  Lessons lessons{.model = said};
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> noise(1 - course.noise, 1 + course.noise);
  Evidence evidence;
  for (int run = 0; run < course.runs; ++run) {
    const double predicted_s = simulate(plan, lessons.model).seconds;
    Trace measured = simulate(plan, real);
    const double factor = course.noise > 0 ? noise(random) : 1;
    measured.seconds *= factor;
    const bool timed = !course.untimed || wants_task_times(evidence);
    for (Span& span : measured.spans)
      span = timed ? Span{span.start_s * factor, span.stop_s * factor} : Span{0, measured.seconds};
    const Lesson lesson = learn(evidence, plan, lessons.model, predicted_s, measured);
    lessons.speeds.push_back(predicted_s / measured.seconds);
    lessons.model = corrected(lessons.model, lesson.corrections);
    lessons.changes += lesson.corrections.empty() ? 0 : 1;
    lessons.far_off = lessons.far_off || lesson.far_off;
  }
  return lessons;
}

TEST(Observe, FindsTheDeviceThatIsSlower) {
  const Machine said = shipped("h200x4");
  const Plan plan = tune(gemm(8192, 8192, 8192), said, {}).plan;
  const DeviceId slow = kFirstDevice + 2;

  const auto found = observe(plan, said, simulate(plan, said),
                             simulate(plan, with_slow_devices(said, {slow}, 0.5)));

  for (DeviceId d = kFirstDevice; d < kFirstDevice + 4; ++d)
    EXPECT_NEAR(factor_of(found, {Kind::products, d, DataType::f64}), d == slow ? 0.5 : 1, kNear);
}

TEST(Observe, FindsTheCpuThatIsSlowerBesideDevices) {
  Machine said = test::node(1);
  said.devices[kHost].kernels = said.devices[kFirstDevice].kernels;
  Tuning tuning = test::with_cpu(test::simple(said, {1, 1}, 1024), 0.5);
  const Plan plan = make_plan(gemm(8192, 8192, 8192), said, tuning);
  const RateId beside{Kind::beside, kHost};

  const Lessons lessons = taught(plan, said, with_slow_devices(said, {kHost}, 0.5), {});

  const auto learnt = corrections_of(lessons.model);
  ASSERT_EQ(learnt.size(), 1u);
  EXPECT_EQ(rate_name(said, learnt[0].rate), "products of device host beside others");
  EXPECT_NEAR(factor_of(learnt, beside), 0.5, kNear);
  EXPECT_TRUE(lessons.far_off);
  EXPECT_EQ(lessons.model.devices[kHost].kernels, said.devices[kHost].kernels);
  EXPECT_NEAR(lessons.speeds.back(), 1, kNear);
}

/// Others had the cores: what should have taken a small part of the run took most of it.
TEST(Observe, FindsACpuThatTakesMostOfARunOfWhichItShouldHaveTakenLittle) {
  Machine said = test::node(1);
  said.devices[kHost].kernels = said.devices[kFirstDevice].kernels;
  const Tuning tuning = test::with_cpu(test::simple(said, {1, 1}, 1024), 0.06);
  const Plan plan = make_plan(gemm(8192, 8192, 8192), said, tuning);

  const auto found = observe(plan, said, simulate(plan, said),
                             simulate(plan, with_slow_devices(said, {kHost}, 0.02)));

  EXPECT_EQ(factor_of(found, {Kind::beside, kHost}), 1 / kMostCorrection);
}

TEST(Observe, BlamesNothingForSlowCopiesBetweenDevices) {
  const Machine said = shipped("h200x4");
  Machine real = said;
  for (Link& link : real.links)
    if (!on_host(link.source) && !on_host(link.target)) link.bytes_per_s *= 0.2;
  const DeviceId home = kFirstDevice;
  const Plan plan = tune(gemm(4096, 4096, 4096, home), said, {}).plan;

  const Trace predicted = simulate(plan, said), measured = simulate(plan, real);
  EXPECT_GT(measured.seconds, 1.5 * predicted.seconds);
  const std::vector<Correction> found = observe(plan, said, predicted, measured);
  EXPECT_FALSE(found.empty());
  for (const Correction& correction : found) {
    EXPECT_EQ(correction.rate.kind, Kind::products);
    EXPECT_NEAR(correction.factor, 1, kNear);
  }
}

/// One device, whose operands come over one link (50 GB/s) through one port.
TEST(Observe, TellsALinkFromItsPort) {
  const PortId port = 0;
  const auto observed = [&](double port_bytes_per_s, double link_factor, double port_factor) {
    Machine said = test::node(1);
    said.ports[port].capacity = port_bytes_per_s;
    const Plan plan = make_plan(gemm(2048, 2048, 2048), said,
                                {.workers = {kFirstDevice}, .grid = {1, 1}, .tile = 512});
    Machine real = said;
    real.links[static_cast<std::size_t>(said.find_link(kHost, kFirstDevice))].bytes_per_s *=
        link_factor;
    real.ports[port].capacity *= port_factor;
    return observe(plan, said, simulate(plan, said), simulate(plan, real));
  };
  const RateId link{Kind::link, test::node(1).find_link(kHost, kFirstDevice)};

  const auto slow_link = observed(200e9, 0.5, 1);
  const auto slow_port = observed(25e9, 1, 0.5);

  EXPECT_NEAR(factor_of(slow_link, link), 0.5, kNear);
  EXPECT_EQ(factor_of(slow_link, {Kind::port, port}), 0);
  EXPECT_NEAR(factor_of(slow_port, {Kind::port, port}), 0.5, kNear);
  EXPECT_EQ(factor_of(slow_port, link), 0);
}

/// Copies of pageable memory feed those to the devices, which take as long then.
TEST(Observe, BlamesNoLinkForTheCopiesThatFeedIt) {
  Machine said = shipped("h200x4");
  const auto rate_of_feeder = [](Machine& machine) -> double& {
    return machine.links[static_cast<std::size_t>(machine.find_link(kPageable, kHost))].bytes_per_s;
  };
  rate_of_feeder(said) = 400e9;
  const Plan plan = tune(gemm(8192, 8192, 8192, kPageable), said, {}).plan;
  Machine real = said;
  rate_of_feeder(real) = 10e9;

  const auto found = observe(plan, said, simulate(plan, said), simulate(plan, real));

  for (DeviceId d = kFirstDevice; d < kFirstDevice + 4; ++d)
    EXPECT_EQ(factor_of(found, {Kind::link, said.find_link(kHost, d)}), 0);
}

/// The thread of a virtual device copies and computes, in an order of its own.
TEST(Observe, CountsKernelsAndCopiesOfAVirtualDeviceTogether) {
  const Machine said = host_machine(2, 2, std::int64_t{1} << 30);
  const Plan plan = tune(gemm(1024, 1024, 1024, kPageable), said, {}).plan;

  const auto found = observe(plan, said, simulate(plan, said),
                             simulate(plan, with_slow_devices(said, {kFirstDevice}, 0.5)));

  EXPECT_NEAR(factor_of(found, {Kind::products, kFirstDevice, DataType::f64}), 0.5, kNear);
  for (const Correction& correction : found)
    EXPECT_TRUE(correction.rate.kind == Kind::products) << rate_name(said, correction.rate);
}

TEST(Observe, FindsNothingWrongInARunThatIsAsPredicted) {
  for (const char* name : {"h200x4", "dgx1"}) {
    const Machine machine = shipped(name);
    const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
    const Trace trace = simulate(plan, machine);

    for (const Correction& correction : observe(plan, machine, trace, trace))
      EXPECT_NEAR(correction.factor, 1, 1e-9) << rate_name(machine, correction.rate);
  }
}

TEST(Agreed, IsTheSmallerOfTwoThatPointTheSameWay) {
  const RateId a{Kind::products, kFirstDevice, DataType::f64}, b{Kind::link, 3};
  const auto both = [&](double first, double second) {
    const std::vector<Correction> before = {{a, first}, {b, 1}}, now = {{a, second}};
    const auto agree = agreed(before, now);
    return agree.empty() ? 1.0 : agree.front().factor;
  };

  EXPECT_EQ(both(0.5, 0.8), 0.8);
  EXPECT_EQ(both(0.8, 0.5), 0.8);
  EXPECT_EQ(both(1.5, 1.25), 1.25);
  EXPECT_EQ(both(0.5, 1.5), 1);
  EXPECT_EQ(both(0.97, 0.5), 1);  // noise
}

TEST(Learn, MakesPredictionsRightWithinTenRunsOfAMachineThatIsAQuarterSlower) {
  for (const char* name : {"h200x4", "h200x8", "karolina"})
    for (const Problem& problem :
         {gemm(4096, 4096, 4096), gemm(16384, 1024, 16384), gemm(8192, 8192, 8192, kFirstDevice),
          gemm(8192, 8192, 8192, kPageable), gemm(1024, 1024, 1024)})
      for (const bool untimed : {false, true}) {
        const Machine said = shipped(name);
        const Plan plan = tune(problem, said, {}).plan;

        const Lessons lessons = taught(plan, said, slower(said, 0.75), {.untimed = untimed});

        EXPECT_LT(lessons.speeds.front(), 0.85) << name << " " << to_text(problem);
        EXPECT_NEAR(lessons.speeds.back(), 1, kNear) << name << " " << to_text(problem);
      }
}

TEST(Learn, ChangesNothingForNoiseOfFourPerCentAndNoPlanForTen) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;

  const Lessons little = taught(plan, machine, machine, {.runs = 50, .noise = 0.04});
  const Lessons more = taught(plan, machine, machine, {.runs = 50, .noise = 0.1});

  EXPECT_EQ(little.changes, 0);
  EXPECT_EQ(little.model, machine);
  EXPECT_FALSE(more.far_off);
  for (const Correction& correction : corrections_of(more.model))
    EXPECT_LT(distance(correction.factor), 1.2) << rate_name(machine, correction.rate);
}

TEST(Learn, TakesNothingFromTheColdRunNorFromOneDisturbedRunNorFromAnIncredibleOne) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  const double predicted_s = simulate(plan, machine).seconds;
  const auto run = [&](Evidence& evidence, double speed) {
    const Trace trace = simulate(plan, slower(machine, speed));
    return learn(evidence, plan, machine, predicted_s, trace);
  };
  Evidence cold, disturbed, stopped;

  EXPECT_TRUE(run(cold, 0.5).corrections.empty());
  EXPECT_TRUE(run(cold, 0.5).corrections.empty());
  EXPECT_FALSE(run(cold, 0.5).corrections.empty());  // the second warm one

  for (const double speed : {1.0, 0.5, 1.0, 0.5, 1.0, 2.0, 0.5}) {
    const Lesson lesson = run(disturbed, speed);
    EXPECT_TRUE(lesson.corrections.empty()) << speed;
    EXPECT_FALSE(lesson.far_off) << speed;
  }
  for (int time = 0; time < 4; ++time) EXPECT_TRUE(run(stopped, 0.1).corrections.empty());
}

/// The model says nothing of the time that this run takes longer: each task is as predicted.
TEST(Learn, LooksAtTasksMoreAndMoreRarelyWhereNoRateIsToBlame) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  const Trace predicted = simulate(plan, machine);
  Evidence evidence;
  int timed = 0;

  for (int run = 0; run < 1000; ++run) {
    Trace measured = predicted;
    measured.seconds *= 1.2;
    if (!wants_task_times(evidence))
      for (Span& span : measured.spans) span = {0, measured.seconds};
    else
      ++timed;
    EXPECT_TRUE(learn(evidence, plan, machine, predicted.seconds, measured).corrections.empty());
  }

  EXPECT_GE(timed, 5);
  EXPECT_LE(timed, 12);
}

/// A machine that is now faster, now slower, teaches something each time that tasks are measured.
TEST(Learn, AsksForTasksFourTimesRarerAfterEachLookThatTaught) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  Machine model = machine;
  Evidence evidence;
  int corrections = 0;
  std::vector<int> timed;

  for (int run = 0; run < 400; ++run) {
    const bool is_timed = wants_task_times(evidence);
    if (is_timed) timed.push_back(run);
    Trace measured = simulate(plan, slower(machine, run % 6 < 3 ? 0.8 : 1.0));
    if (!is_timed)
      for (Span& span : measured.spans) span = {0, measured.seconds};
    const double predicted_s = simulate(plan, model).seconds;
    const Lesson lesson = learn(evidence, plan, model, predicted_s, measured);
    corrections += !lesson.corrections.empty();
    model = corrected(std::move(model), lesson.corrections);
  }

  ASSERT_GE(timed.size(), 4u);
  for (std::size_t i = 1; i < timed.size(); ++i) {
    const int least = std::min(256, 1 << (2 * i));  // between them
    EXPECT_GT(timed[i] - timed[i - 1], least);
    EXPECT_LE(timed[i] - timed[i - 1], least + 6);
  }
  EXPECT_GE(corrections, 3);
}

/// Runs that measure their tasks are disturbed by that, and others are off: nothing is learnt, and
/// tasks are looked at more and more rarely.
void expect_nothing_learnt(const std::function<Trace(bool is_timed)>& run) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  const double predicted_s = simulate(plan, machine).seconds;
  Evidence evidence;
  int timed = 0;
  for (int i = 0; i < 100; ++i) {
    const bool is_timed = wants_task_times(evidence);
    Trace measured = run(is_timed);
    if (!is_timed)
      for (Span& span : measured.spans) span = {0, measured.seconds};
    timed += is_timed;
    EXPECT_TRUE(learn(evidence, plan, machine, predicted_s, measured).corrections.empty());
  }
  EXPECT_GE(timed, 3);
  EXPECT_LE(timed, 8);
}

TEST(Learn, TakesNothingFromARunThatMeasuringItsTasksHasSlowedDown) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  expect_nothing_learnt(
      [&](bool is_timed) { return simulate(plan, slower(machine, is_timed ? 0.6 : 0.9)); });
}

TEST(Learn, TakesNothingFromARunWhoseTasksWereIssuedTooSlowly) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  expect_nothing_learnt([&](bool is_timed) {  // else as a graph
    Trace measured = simulate(plan, slower(machine, 0.5));
    if (is_timed) measured.issued_s = 0.9 * measured.seconds;
    return measured;
  });
}

TEST(Learn, SaysWhereRunsAreMuchFasterAndNoRateIsToBlame) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  const Trace predicted = simulate(plan, machine);
  const auto course_of = [&](double speed) {
    Evidence evidence;
    std::vector<bool> too_fast;
    for (int run = 0; run < 5; ++run) {
      Trace measured = predicted;  // each task as predicted
      measured.seconds /= speed;
      too_fast.push_back(learn(evidence, plan, machine, predicted.seconds, measured).too_fast);
    }
    return too_fast;
  };

  EXPECT_EQ(course_of(1.5), (std::vector<bool>{false, false, true, false, false}));
  EXPECT_EQ(course_of(1 / 1.5), std::vector<bool>(5, false));
}

TEST(Learn, StopsAtTheBoundsOfCorrections) {
  const Machine said = shipped("h200x4");
  const Plan plan = tune(gemm(8192, 8192, 8192, kFirstDevice), said, {}).plan;

  const Lessons lessons = taught(plan, said, slower(said, 1 / 6.0), {.runs = 40});

  EXPECT_LT(lessons.changes, 10);
  double largest = 1;
  for (const Correction& correction : corrections_of(lessons.model))
    largest = std::max(largest, distance(correction.factor));
  EXPECT_NEAR(largest, kMostCorrection, 1e-9);
}

TEST(Learn, SaysThatAPlanIsFarOffOnlyTheSecondTimeInARow) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(4096, 4096, 4096), machine, {}).plan;
  const double predicted_s = simulate(plan, machine).seconds;
  Evidence evidence;
  std::vector<bool> far_off;

  for (const double speed : {0.6, 0.6, 0.9, 0.6, 0.6})
    far_off.push_back(
        learn(evidence, plan, machine, predicted_s, simulate(plan, slower(machine, speed)))
            .far_off);

  EXPECT_EQ(far_off, (std::vector<bool>{false, false, false, false, true}));
}

/// Two of four devices have half of their speed for us, since another process uses them: three
/// runs later the plan gives them less.
TEST(Learn, MakesSharesUnevenWhereTwoOfFourDevicesAreLoaded) {
  const Machine said = shipped("h200x4");
  const Machine real = with_slow_devices(said, {kFirstDevice, kFirstDevice + 1}, 0.5);
  const Problem problem = gemm(16384, 16384, 16384, kFirstDevice + 2);
  const Plan equal = tune(problem, said, {}).plan;

  const Lessons lessons = taught(equal, said, real, {.runs = 3, .untimed = true});
  const Plan uneven = tune(problem, lessons.model, {}).plan;

  EXPECT_TRUE(lessons.far_off);
  EXPECT_GE(simulate(equal, real).seconds, 1.25 * simulate(uneven, real).seconds);
}

/// Copies of a slow device come late, so the port that it shares with others is busy for longer.
TEST(Learn, BlamesNoPortForADeviceThatIsSlow) {
  const Machine machine = shipped("h200x4");
  const Plan plan = tune(gemm(8192, 8192, 8192), machine, {}).plan;
  for (const double factor : {0.3, 0.5, 0.7}) {
    const Lessons lessons =
        taught(plan, machine, with_slow_devices(machine, {kFirstDevice}, factor), {.runs = 4});
    const std::vector<Correction> found = corrections_of(lessons.model);
    EXPECT_LT(factor_of(found, {Kind::products, kFirstDevice, DataType::f64}), 0.95);
    for (const Correction& correction : found)
      EXPECT_NE(correction.rate.kind, Kind::port) << factor << " " << correction.factor;
  }
}

/// The CPU's lane knows the times of its tasks, also where the devices beside it measured none.
TEST(Learn, TakesNoTimesOfDevicesFromARunThatHasOnlyTheCpus) {
  const Machine machine = test::node(2);
  const Tuning tuning = test::with_cpu(test::simple(machine, {1, 2}, 512), 0.1);
  const Plan plan = make_plan(gemm(2048, 2048, 2048), machine, tuning);
  Trace measured = simulate(plan, machine);
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    if (plan.tasks[t].kind != TaskKind::compute || !on_host(plan.tasks[t].device()))
      measured.spans[t] = {0, measured.seconds};

  EXPECT_FALSE(has_task_times(plan, measured));
  EXPECT_TRUE(has_task_times(plan, simulate(plan, machine)));
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_context_online.cpp: contexts that learn from their runs. The GPUs are simulated (support/
// fake_gpus.cpp), so a run takes what the test says and this machine's speed plays no part. It
// knows nothing below the C API.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/simulated_gpus.hpp"
#include "support/slower.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::four_gpus;
using test::HostContext;
using test::SimulatedGpus;
using test::slower;

constexpr std::int64_t kEdge = 8192;
constexpr const char* kProblem = "dgemm size=8192 a@h b@h c@h";
constexpr double kNear = 0.05;

Machine with_slow_kernels(Machine machine, std::initializer_list<int> slow, double factor) {
  for (const int device : slow)
    for (KernelRate& rate :
         machine.devices[static_cast<std::size_t>(kFirstDevice + device)].kernels)
      rate.flops_per_s *= factor;
  return machine;
}

class Online : public SimulatedGpus {
 protected:
  /// One call in pinned memory that is never touched: the GPUs compute nothing. Its plan is the
  /// best from the first call on, so that none found beside the calls takes its place.
  struct Operands {
    explicit Operands(const HostContext& of, int home = FLEET_HOST) : context(of) {
      plan(of);
      for (void*& matrix : data)
        EXPECT_EQ(fleet_alloc(context, home, kEdge * kEdge * 8, &matrix), FLEET_OK);
    }
    ~Operands() {
      for (void* const matrix : data) EXPECT_EQ(fleet_free(context, matrix), FLEET_OK);
    }
    Operands(const Operands&) = delete;
    Operands& operator=(const Operands&) = delete;
    fleet_context* context;
    void* data[3] = {};
  };
  struct Ran {
    double predicted_s, seconds;
    double speed() const { return predicted_s / seconds; }
  };
  Ran call(const HostContext& context, const Operands& operands, std::int64_t size = kEdge) {
    EXPECT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, size, size, size, 1,
                          static_cast<double*>(operands.data[0]), kEdge,
                          static_cast<double*>(operands.data[1]), kEdge, 1,
                          static_cast<double*>(operands.data[2]), kEdge),
              FLEET_OK)
        << fleet_message();
    return {stats(context)["last"]["predicted_s"].get<double>(), gpus->last_s};
  }
  std::vector<Ran> calls(const HostContext& context, int count) {
    const Operands operands(context);
    std::vector<Ran> all;
    for (int i = 0; i < count; ++i) all.push_back(call(context, operands));
    return all;
  }
  static Json stats(const HostContext& context) {
    return Json::parse(context.text(fleet_stats_json));
  }
  /// The only file of a cache folder.
  static std::filesystem::path file_in(const test::TemporaryFolder& cache) {
    const std::filesystem::directory_iterator first(cache.path());
    return first == std::filesystem::directory_iterator() ? "" : first->path();
  }
  static Json kept_in(const test::TemporaryFolder& cache) {
    Json kept;
    std::ifstream(file_in(cache)) >> kept;
    return kept;
  }
  static Json machine_of(const HostContext& context) {
    return Json::parse(context.text(fleet_machine_json));
  }
  /// All tasks and when they start and stop, on the context's machine.
  static std::string plan(const HostContext& context) {
    return context.text(fleet_simulate_json, kProblem);
  }
  /// How the work is cut and dealt.
  static Json shape(const HostContext& context, const char* problem = kProblem) {
    Json plan = Json::parse(context.text(fleet_plan_json, problem));
    Json some;
    for (const char* key : {"workers", "grid", "cuts", "shares", "tasks", "bytes_by_link"})
      some[key] = plan.at(key);
    return some;
  }
};

TEST_F(Online, MakesPredictionsRightWithinTenCallsOfAMachineThatIsAQuarterSlower) {
  make_real(slower(four_gpus(), 0.75));
  const HostContext context(believing(four_gpus()));

  const std::vector<Ran> all = calls(context, 10);

  EXPECT_LT(all.front().speed(), 0.8);
  EXPECT_NEAR(all.back().speed(), 1, kNear);
  const Json stats = this->stats(context);
  EXPECT_FALSE(stats["corrections"].empty());
  EXPECT_NEAR(stats["last"]["corrected"].get<double>(), 0.75, 0.1);
  EXPECT_FALSE(Json::parse(context.text(fleet_config_json))["machine"]["corrections"].empty());
  EXPECT_FALSE(Json::parse(context.text(fleet_plan_json, kProblem))["corrections"].empty());
}

/// Without a contradiction no run pays for the times of its tasks.
TEST_F(Online, MeasuresTasksOnlyAfterARunThatWasNotAsPredicted) {
  make_real(four_gpus());
  const HostContext right(believing(four_gpus()));
  calls(right, 5);
  EXPECT_EQ(gpus->timed_runs, 0);

  make_real(slower(four_gpus(), 0.75));
  const HostContext wrong(believing(four_gpus()));
  calls(wrong, 10);
  EXPECT_GE(gpus->timed_runs, 1);
  EXPECT_LE(gpus->timed_runs, 3);
}

TEST_F(Online, GivesLoadedDevicesLessWithinThreeCalls) {
  make_real(with_slow_kernels(four_gpus(), {0, 1}, 0.5));
  const HostContext context(believing(four_gpus()));
  const Operands operands(context);

  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) seconds.push_back(call(context, operands).seconds);

  EXPECT_EQ(seconds[0], seconds[2]);  // equal shares
  EXPECT_GE(seconds[0], 1.25 * seconds[3]);
}

TEST_F(Online, KeepsAPlanWhosePredictionIsOffByLessThanAQuarter) {
  make_real(slower(four_gpus(), 0.85));
  const HostContext context(believing(four_gpus()));
  const Operands operands(context);
  call(context, operands);
  const Json before = shape(context);

  Ran last{};
  for (int i = 0; i < 9; ++i) last = call(context, operands);

  EXPECT_EQ(shape(context), before);
  EXPECT_NEAR(last.speed(), 1, kNear);
}

/// What GPUs get from each other is of one pattern of copies: another plan, or another problem,
/// would find it otherwise.
TEST_F(Online, LearnsNothingOfWhatGpusGetFromEachOther) {
  Machine real = four_gpus();
  for (Link& link : real.links)
    if (link.source == kFirstDevice && link.target >= kFirstDevice) link.bytes_per_s *= 0.25;
  make_real(real);
  const HostContext context(believing(four_gpus()));
  const Operands operands(context, 0);
  const char* const problem = "dgemm size=8192 a@0 b@0 c@0";
  const Json before = shape(context, problem);
  const Ran first = call(context, operands);

  for (int i = 0; i < 9; ++i) call(context, operands);

  EXPECT_LT(first.speed(), 0.75);
  EXPECT_TRUE(stats(context)["corrections"].empty());
  EXPECT_EQ(shape(context, problem), before);
}

TEST_F(Online, KeepsPlansThroughNoiseOfTenPerCent) {
  make_real(four_gpus());
  gpus->pace = {1.1, 0.92, 1.06, 1.1, 0.95, 0.9, 1.03, 0.97, 1.08, 1.1, 0.91};
  const HostContext context(believing(four_gpus()));
  calls(context, 1);
  const Json before = shape(context);

  calls(context, 40);

  EXPECT_EQ(shape(context), before);
}

TEST_F(Online, LearnsNothingWhereItMustNot) {
  make_real(slower(four_gpus(), 0.6));
  for (const char* option : {";deterministic=1", ";online=off", ";timeline=1"}) {
    const HostContext context(believing(four_gpus()) + option);
    const Json machine = machine_of(context);
    const std::string before = plan(context);

    const std::vector<Ran> all = calls(context, 6);

    EXPECT_EQ(all.front().predicted_s, all.back().predicted_s) << option;
    EXPECT_EQ(machine_of(context), machine) << option;
    EXPECT_EQ(plan(context), before) << option;
    EXPECT_TRUE(stats(context)["corrections"].empty()) << option;
    EXPECT_EQ(stats(context)["last"]["corrected"], 1) << option;
  }
}

/// On virtual devices, whose plans may change while they compute.
TEST_F(Online, LeavesResultsRight) {
  make_real(four_gpus());
  constexpr std::int64_t kSmall = 96;
  const HostContext context(test::host_options(2) + ";online=on");
  const std::vector<double> ones(kSmall * kSmall, 1.0);

  for (int i = 0; i < 12; ++i) {
    std::vector<double> c(ones);
    ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kSmall, kSmall, kSmall, 1,
                          ones.data(), kSmall, ones.data(), kSmall, 2, c.data(), kSmall),
              FLEET_OK);
    EXPECT_EQ(c, std::vector<double>(c.size(), kSmall + 2));
  }
}

TEST_F(Online, SaysWhatItHasCorrected) {
  make_real(with_slow_kernels(four_gpus(), {0, 1, 2, 3}, 0.5));
  const std::string log = test::temporary_file("corrected.log");
  const HostContext context(believing(four_gpus()) + ";log_level=5;log_file=" + log);

  calls(context, 4);

  std::ifstream stream(log);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(text.find("runs correct the model: products d of device 0 x0.5"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" (corrected x0.5"), std::string::npos) << text;
  const Json corrections = stats(context)["corrections"];
  EXPECT_EQ(corrections[0]["rate"], "products d of device 0");
  EXPECT_NEAR(corrections[0]["factor"].get<double>(), 0.5, 0.02);
}

/// They share the cores and the memory: what such a call takes says nothing about one alone.
TEST_F(Online, LearnsNothingFromACallBesideAnother) {
  make_real(slower(four_gpus(), 0.6));
  const HostContext context(believing(four_gpus())),
      other(test::host_options(2) + ";offload=never");
  gpus->beside = [&] {
    const double one = 1;
    double c = 0;
    EXPECT_EQ(
        fleet_dgemm(other, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, 1, &one, 1, &one, 1, 0, &c, 1),
        FLEET_OK);
  };

  calls(context, 6);
  EXPECT_TRUE(stats(context)["corrections"].empty());

  gpus->beside = {};
  calls(context, 6);
  EXPECT_FALSE(stats(context)["corrections"].empty());
}

TEST_F(Online, WritesAMachineFromWhichTheSamePlanComes) {
  const test::TemporaryFolder cache;
  const std::string options = measured() + ";cache_dir=" + cache.path();
  make_real(four_gpus());
  {
    const HostContext first(options);
    plan(first);
  }
  make_real(slower(four_gpus(), 0.85));
  std::string learnt, machine;
  {
    const HostContext second(options);
    calls(second, 10);
    EXPECT_FALSE(stats(second)["corrections"].empty());
    // Plans of its cache were made before the machine was known so well.
    machine = second.text(fleet_machine_json);
    const HostContext fresh(measured() + ";online=off;cache_dir=" + cache.path());
    learnt = plan(fresh);
    EXPECT_EQ(fresh.text(fleet_machine_json), machine);
  }

  const std::string file = test::temporary_file("learnt.json");
  std::ofstream(file) << machine;
  const HostContext named(measured() + ";machine=" + file);

  EXPECT_EQ(plan(named), learnt);
}

/// Not each of many changes is written at once.
TEST_F(Online, WritesTheLastChangeASecondLater) {
  const test::TemporaryFolder cache;
  const HostContext context(measured() + ";cache_dir=" + cache.path());
  make_real(four_gpus());
  const auto is_kept = [&] {
    const Json machine = machine_of(context);
    const Json kept = kept_in(cache)["machine"];
    return kept["devices"] == machine["devices"] && kept["links"] == machine["links"] &&
           kept["ports"] == machine["ports"];
  };
  const Operands operands(context);
  EXPECT_TRUE(is_kept());
  int changes = 0;
  while (is_kept() && ++changes < 20) {  // each by another plan: one alone teaches ever more rarely
    gpus->pace = {changes % 2 == 1 ? 1.1 : 1};
    for (int i = 0; i < 3; ++i) call(context, operands, kEdge - 256 * changes);
  }
  if (changes == 20) GTEST_SKIP() << "more than a second went by between any two changes";

  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  call(context, operands);

  EXPECT_TRUE(is_kept());
}

/// A newer measurement by another process stays.
TEST_F(Online, DoesNotReplaceANewerMeasurement) {
  const test::TemporaryFolder cache;
  const HostContext context(measured() + ";cache_dir=" + cache.path());
  make_real(four_gpus());
  machine_of(context);
  Json newer = kept_in(cache);
  newer["machine"]["notes"]["probe"]["times"] = 2;
  newer["machine"]["ports"].push_back({{"name", "to 0-1"}, {"capacity", 1e9}});
  std::ofstream(file_in(cache)) << newer;
  gpus->pace = {1.2};

  calls(context, 10);

  EXPECT_FALSE(stats(context)["corrections"].empty());
  EXPECT_TRUE(kept_in(cache) == newer);
}

TEST_F(Online, IsSilentWhereTheFileCannotBeWritten) {
  const test::TemporaryFolder cache;
  const std::string folder = cache.path() + "/here";
  make_real(four_gpus());
  {
    const HostContext first(measured() + ";cache_dir=" + folder);
    plan(first);
  }
  make_real(slower(four_gpus(), 0.8));
  const HostContext second(measured() + ";cache_dir=" + folder);
  calls(second, 1);
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "no folder";

  const std::vector<Ran> all = calls(second, 9);

  EXPECT_NEAR(all.back().speed(), 1, kNear);
}

/// What runs contradict is measured at the next start, and then believed.
TEST_F(Online, MeasuresAgainWhatRunsContradict) {
  const test::TemporaryFolder cache;
  const std::string options = measured() + ";cache_dir=" + cache.path();
  make_real(slower(four_gpus(), 0.6));
  {
    const HostContext beside_other_load(options);
    plan(beside_other_load);
  }
  make_real(four_gpus());
  {
    const HostContext contradicted(options);
    EXPECT_EQ(gpus->runs, 0);  // its file is there
    const std::vector<Ran> all = calls(contradicted, 10);
    EXPECT_GT(all.front().speed(), 0);
    EXPECT_NEAR(all.back().speed(), 1, kNear);
  }
  gpus->runs = 0;

  const HostContext after(options);
  const std::vector<Ran> all = calls(after, 2);

  EXPECT_GT(gpus->runs, 2);  // it was probed
  EXPECT_NEAR(all.front().speed(), 1, kNear);
  EXPECT_TRUE(stats(after)["corrections"].empty());
}

/// Three times at most: other load may be there always.
TEST_F(Online, MeasuresADisturbedMachineAgainAndNotForEver) {
  const test::TemporaryFolder cache;
  const std::string options = measured() + ";cache_dir=" + cache.path();
  make_real(four_gpus());
  const auto probed = [&](bool disturbed) {
    gpus->disturbed = disturbed;
    gpus->runs = 0;
    const HostContext context(options);
    machine_of(context);
    return gpus->runs > 0;
  };

  EXPECT_TRUE(probed(true));
  EXPECT_TRUE(probed(true));
  EXPECT_TRUE(probed(true));
  EXPECT_FALSE(probed(true));

  std::filesystem::remove_all(cache.path());
  EXPECT_TRUE(probed(true));
  EXPECT_TRUE(probed(false));
  EXPECT_FALSE(probed(false));
  const HostContext context(options);
  const Json kernels = machine_of(context)["devices"][kFirstDevice]["kernels"];
  EXPECT_EQ(kernels.size(), 2u);
  for (const Json& rate : kernels)
    EXPECT_GT(rate["flops_per_s"], rate["edge"] == 512 ? 14.9e12 : 19.9e12);
}

/// A device that is left out is not measured, so only a new trial shows that it is free again.
TEST_F(Online, TakesADeviceThatIsFreeAgainBackIn) {
  make_real(with_slow_kernels(four_gpus(), {0}, 0.26));
  const HostContext context(believing(four_gpus()));
  const Operands operands(context);
  for (int i = 0; i < 8; ++i) call(context, operands);
  const auto workers = [&] { return shape(context)["workers"].size(); };
  const std::size_t without = workers();

  gpus->later = to_json(four_gpus());
  for (int i = 0; i < 80; ++i) call(context, operands);

  EXPECT_LT(without, 4u);
  EXPECT_EQ(workers(), 4u);
  EXPECT_TRUE(stats(context)["corrections"].empty());
}

/// A file that was measured as often as may be, and corrected far: what was in the way may be gone.
TEST_F(Online, BeginsWithTheMeasurementWhereCorrectionsAreFarOff) {
  const test::TemporaryFolder cache;
  const std::string options = measured() + ";cache_dir=" + cache.path();
  make_real(four_gpus());
  {
    const HostContext first(options);
    plan(first);
  }
  Json kept = kept_in(cache);
  kept["machine"]["notes"]["probe"]["times"] = 3;
  for (Json& rate : kept["machine"]["devices"][kFirstDevice + 1]["kernels"]) {
    rate["measured"] = rate["flops_per_s"];
    rate["flops_per_s"] = rate["flops_per_s"].get<double>() / 4;
  }
  std::ofstream(file_in(cache)) << kept;
  gpus->runs = 0;

  const HostContext context(options);

  EXPECT_EQ(machine_of(context)["corrections"], Json());
  EXPECT_EQ(shape(context)["workers"].size(), 4u);
  EXPECT_EQ(gpus->runs, 0);
}

TEST_F(Online, DoesNotMeasureAgainWhereItCannotWrite) {
  const test::TemporaryFolder cache;
  const std::string options = measured() + ";cache_dir=" + cache.path();
  make_real(four_gpus());
  gpus->disturbed = true;
  {
    const HostContext first(options);
    machine_of(first);
  }
  // A partial file cannot be made beside a folder of its name.
  const auto blocked = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(cache.path()))
      return entry.path().string() + "." + std::to_string(getpid()) + ".partial";
    return std::string();
  }();
  std::filesystem::create_directory(blocked);
  gpus->runs = 0;

  const HostContext second(options);
  machine_of(second);

  EXPECT_EQ(gpus->runs, 0);
}

}  // namespace
}  // namespace fleet

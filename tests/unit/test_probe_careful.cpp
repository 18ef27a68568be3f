// SPDX-License-Identifier: BSD-3-Clause
// test_probe_careful.cpp: a careful probe repeats until its values are precise, keeps its budget,
// and leaves a complete machine wherever it is stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "fleetblas/fleetblas.h"
#include "probe/confidence.hpp"
#include "probe/probe.hpp"
#include "support/host_context.hpp"
#include "support/probe_nodes.hpp"
#include "support/scale.hpp"

namespace fleet::test {
namespace {

using Json = nlohmann::json;

/// Without a budget of its own a probe takes what it needs, also on a busy machine.
ProbeRequest careful(double budget_s = 1e4) {
  ProbeRequest request;
  request.budget_s = budget_s;
  request.least_repeats = kCarefulRepeats;
  return request;
}

TEST(Confidence, HasStudentsInterval) {
  Confidence value;
  for (const double x : {1.0, 2.0, 3.0, 4.0, 5.0}) value.add(x);

  // The deviation is sqrt(2.5), t for four degrees of freedom 2.776.
  EXPECT_DOUBLE_EQ(value.mean(), 3);
  EXPECT_NEAR(value.half_width(), 2.776 * std::sqrt(2.5) / std::sqrt(5), 1e-3);
  EXPECT_NEAR(value.share(), value.half_width() / 3, 1e-12);
}

TEST(Confidence, KnowsNothingFromOneValueAndAllFromEqualOnes) {
  Confidence value;
  value.add(7);
  EXPECT_FALSE(std::isfinite(value.share()));

  value.add(7);

  EXPECT_EQ(value.share(), 0);
}

TEST(ProbeSession, RepeatsWhatNeverVariesTenTimes) {
  const ProbeRequest request = careful();
  ProbeSession session(request);
  int taken = 0;

  const auto values = session.repeated("still", "s", [&] {
    ++taken;
    return std::vector<double>{2.5};
  });

  EXPECT_EQ(values, std::vector<double>{2.5});
  EXPECT_EQ(taken, 10);
  EXPECT_TRUE(session.report().values.front().settled);
}

TEST(ProbeSession, RepeatsWhatVariesUntilItsMeanIsKnownWithinFivePercent) {
  const ProbeRequest request = careful();
  ProbeSession session(request);
  int taken = 0;

  // Alternating 0.8 and 1.2 deviate by 0.2 from 1: 2 * 0.2 / sqrt(n) is 0.05 at n = 64.
  session.repeated("restless", "s", [&] {
    ++taken;
    return std::vector<double>{taken % 2 == 0 ? 0.8 : 1.2};
  });

  const ProbeValue& value = session.report().values.front();
  EXPECT_NEAR(value.repeats, 64, 3);
  EXPECT_LE(value.interval, 0.05);
  EXPECT_GT(value.interval, 0.049);
  EXPECT_NEAR(value.mean, 1, 0.005);
  EXPECT_TRUE(value.settled);
}

TEST(ProbeSession, WaitsForTheLeastKnownOfSeveralValues) {
  const ProbeRequest request = careful();
  ProbeSession session(request);
  int taken = 0;

  session.repeated("two", "s", [&] {
    ++taken;
    return std::vector<double>{1, taken % 2 == 0 ? 0.8 : 1.2};
  });

  EXPECT_NEAR(taken, 64, 3);
}

TEST(ProbeSession, StopsWhenAValuesShareOfTheBudgetIsSpentAndSaysSo) {
  const ProbeRequest request = careful(0.4);
  ProbeSession session(request);
  session.expect("part", 4);
  std::vector<double> left_s;

  session.part("part", Machine{}, [&] {
    int taken = 0;
    for (int value = 0; value < 4; ++value) {
      session.repeated("wild", "s", [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return std::vector<double>{++taken % 2 == 0 ? 1.0 : 1000.0};
      });
      left_s.push_back(session.left_s());
    }
  });

  for (const ProbeValue& value : session.report().values) {
    EXPECT_FALSE(value.settled);
    EXPECT_GE(value.repeats, 1);
  }
  // Each gets a quarter; on a busy machine one repeat may take longer.
  EXPECT_LE(left_s[0], 0.3);
  EXPECT_GT(left_s[0], 0.3 - 0.2);
  EXPECT_LE(left_s[3], 0.001);
}

TEST(CarefulProbe, FindsSimulatedNodes) {
  for (std::int64_t seed = 0; seed < scaled(5); ++seed) {
    const Machine real = random_node(static_cast<std::uint64_t>(seed));
    Disguise backend(real, forgotten(real));
    ProbeReport report;

    const Machine found = probe(backend, nullptr, careful(), report);

    EXPECT_EQ(difference(real, found, 0.01), "") << "seed " << seed;
    EXPECT_EQ(backend.conflict, "") << "seed " << seed;
    // Only issuing is measured without task times: ten repeats of five runs.
    EXPECT_EQ(backend.runs_without_times, 50);
    EXPECT_TRUE(report.complete);
    for (const ProbeValue& value : report.values) {
      EXPECT_TRUE(value.settled) << value.name;
      EXPECT_EQ(value.repeats, 10) << value.name;
    }
  }
}

TEST(CarefulProbe, LoadsPortsWithMixesOfReadsAndWritesAndReportsEachLinkUnderLoad) {
  const Machine real = random_node(2);
  Disguise backend(real, forgotten(real));
  ProbeReport report;

  probe(backend, nullptr, careful(), report);

  std::set<std::string> names;
  for (const ProbeValue& value : report.values) names.insert(value.name);
  for (const char* mix : {"1:0", "3:1", "1:1", "1:3", "0:1"})
    EXPECT_EQ(names.count(std::string("load host memory ") + mix), 1U) << mix;
  for (LinkId link = 0; link < static_cast<LinkId>(real.links.size()); ++link) {
    const std::string name = "copy " + link_name(real, link);
    EXPECT_EQ(names.count(name + " tile 512"), 1U) << name;
    EXPECT_GT(
        std::ranges::count_if(
            names, [&](const std::string& other) { return other.starts_with(name + " in load "); }),
        0)
        << name;
  }
}

TEST(CarefulProbe, MeasuresOnlyTheTypesThatAreAskedFor) {
  Machine real = random_node(3);
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d)
    real.devices[d].kernels.insert(real.devices[d].kernels.begin(), {DataType::f32, 512, 3e13});
  Disguise backend(real, forgotten(real));
  ProbeRequest request = careful();
  request.types = {DataType::f64};
  ProbeReport report;

  const Machine found = probe(backend, nullptr, request, report);

  for (const KernelRate& rate : found.devices[kFirstDevice].kernels)
    if (rate.type == DataType::f64)
      EXPECT_GT(rate.flops_per_s, 1e13);
    else
      EXPECT_EQ(rate.flops_per_s, 1);
}

/// Stops a probe after a number of repeats.
struct Impatience {
  explicit Impatience(int repeats) : left(repeats) {}
  bool operator()(const ProbeProgress&) { return --left > 0; }
  int left;
};

TEST(CarefulProbe, StoppedAnywhereLeavesWhatWasSavedLastAndCanGoOn) {
  const Machine real = random_node(4);
  int repeats = 0;
  ProbeRequest counting = careful();
  counting.progress = [&](const ProbeProgress&) { return ++repeats > 0; };
  Disguise whole(real, forgotten(real));
  ProbeReport report;
  probe(whole, nullptr, counting, report);

  for (const int patience : {1, repeats / 20, repeats / 2, repeats - 5, repeats}) {
    Disguise first(real, forgotten(real)), second(real, forgotten(real));
    ProbeRequest request = careful();
    request.progress = Impatience(patience);
    Machine saved = forgotten(real);
    request.save = [&](const Machine& machine, const ProbeReport&) { saved = machine; };
    ProbeReport before, after;

    const Machine partly = probe(first, nullptr, request, before);
    ProbeRequest rest = careful();
    rest.start = &partly;
    rest.done = before.done;
    const Machine found = probe(second, nullptr, rest, after);

    EXPECT_FALSE(before.complete) << patience;
    if (!before.done.empty()) {
      EXPECT_EQ(partly, saved) << patience;
    }
    EXPECT_EQ(parse_machine(to_json(partly)), partly) << patience;
    EXPECT_EQ(difference(real, found, 0.01), "") << patience;
    EXPECT_TRUE(after.complete);
    if (!before.done.empty()) {
      EXPECT_TRUE(partly.source.starts_with("partly measured by probe")) << partly.source;
    }
    if (!before.done.empty()) {
      EXPECT_LT(second.runs, whole.runs) << patience;
    }
  }
}

TEST(CarefulProbe, KeepsWhatWasSavedWhenARunFails) {
  const Machine real = random_node(4);
  Disguise backend(real, forgotten(real));
  Disguise whole(real, forgotten(real));
  ProbeReport report;
  probe(whole, nullptr, careful(), report);
  backend.failing_run = whole.runs - 20;
  ProbeRequest request = careful();
  std::vector<std::string> saved;
  request.save = [&](const Machine&, const ProbeReport& so_far) { saved = so_far.done; };

  EXPECT_THROW(probe(backend, nullptr, request, report), Error);

  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved.front(), "link host->0");
}

struct Probing : ::testing::Test {
  void TearDown() override { std::filesystem::remove(file); }

  Json run(int patience = kPatience, double budget_s = 1e4) {
    char* text = nullptr;
    int left = patience;
    const auto progress = [](void* user, double share, const char* what) {
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
      EXPECT_NE(what[0], '\0');
      return --*static_cast<int*>(user) > 0 ? 0 : 1;
    };
    EXPECT_EQ(fleet_probe_json(kSim, "", file.c_str(), budget_s, +progress, &left, &text), FLEET_OK)
        << fleet_message();
    const Json document = Json::parse(text);
    fleet_free_text(text);
    repeats = patience - left;
    return document;
  }
  Json saved() const { return Json::parse(std::ifstream(file)); }

  static constexpr int kPatience = 1 << 30;
  int repeats = 0;  ///< repeats in the last run
  static constexpr const char* kSim =
      "backend=sim;machine=" FLEETBLAS_SOURCE_DIR "/machines/h200x4.json";
  const std::string file = temporary_file("probe.json");
};

TEST_F(Probing, WritesAMachineFileThatContextsRead) {
  const Json document = run();

  EXPECT_EQ(saved(), document);
  EXPECT_EQ(document["notes"]["probe"]["complete"], true);
  EXPECT_TRUE(document["notes"]["unsettled"].empty());
  HostContext context("backend=sim;machine=" + file);
  EXPECT_EQ(Json::parse(context.text(fleet_machine_json))["source"], "measured by probe");
}

TEST_F(Probing, GoesOnWithAFileThatWasLeftUnfinished) {
  run();
  std::filesystem::remove(file);

  const Json partly = run(repeats / 2);
  const Json kept = saved();
  const Json whole = run();

  EXPECT_EQ(partly["notes"]["probe"]["complete"], false);
  EXPECT_EQ(kept["notes"]["probe"]["done"], partly["notes"]["probe"]["done"]);
  EXPECT_FALSE(kept["notes"]["probe"]["done"].empty());
  EXPECT_NO_THROW(parse_machine(kept.dump()));
  EXPECT_EQ(whole["notes"]["probe"]["complete"], true);
  // Values measured by the first call are not measured again.
  std::multiset<std::string> names;
  for (const Json& value : whole["notes"]["probe"]["values"]) names.insert(value["name"]);
  EXPECT_EQ(names.count("copy host->0 tile 512"), 1U);
}

TEST_F(Probing, MeasuresAnewWhatIsOfAnotherKind) {
  std::ofstream(file) << "{\"notes\": {\"probe\": 7}}";

  EXPECT_EQ(run()["notes"]["probe"]["complete"], true);
}

TEST_F(Probing, MarksWhatTheBudgetDidNotAllow) {
  const Json document = run(kPatience, 1e-6);

  EXPECT_FALSE(document["notes"]["unsettled"].empty());
  EXPECT_NO_THROW(parse_machine(document.dump()));
}

TEST_F(Probing, RefusesWhatItCannotDo) {
  char* text = nullptr;
  const auto status = [&](const char* options, const char* types, const char* target,
                          double budget_s) {
    return fleet_probe_json(options, types, target, budget_s, nullptr, nullptr, &text);
  };

  EXPECT_EQ(status(kSim, "d,q", nullptr, 1), FLEET_BAD_OPTION);
  EXPECT_EQ(status(kSim, "", nullptr, 0), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(status(kSim, "", "/proc/no/such/folder/x.json", 60), FLEET_BAD_FILE);
  EXPECT_EQ(status("backend=sim;machine=", "", nullptr, 1), FLEET_BAD_OPTION);
  EXPECT_EQ(text, nullptr);
}

TEST(ProbingVirtualDevices, MeasuresThemAndTheHost) {
  char* text = nullptr;

  ASSERT_EQ(fleet_probe_json("backend=host;devices=2;device_memory=4M;cache_dir=", "d", nullptr, 4,
                             nullptr, nullptr, &text),
            FLEET_OK)
      << fleet_message();

  const Json document = Json::parse(text);
  fleet_free_text(text);
  const Machine machine = parse_machine(document.dump());
  EXPECT_EQ(machine.device_count(), 2);
  EXPECT_GT(machine.best_rate(kHost, DataType::f64), 0);
  EXPECT_GT(machine.best_rate(kFirstDevice, DataType::f64), 0);
  const Json& done = document["notes"]["probe"]["done"];
  EXPECT_NE(std::ranges::find(done, "host"), done.end());
}

}  // namespace
}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// test_capi_texts.cpp: the texts of contexts: plans, bounds, timelines, settings, statistics. It
// knows nothing below the C API.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/host/machine.hpp"
#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::host_options;
using test::HostContext;

constexpr const char* kH200 = "machine=" FLEETBLAS_SOURCE_DIR "/machines/h200x8.json";

void multiply(fleet_context* context, std::int64_t edge) {
  const auto elements = static_cast<std::size_t>(edge * edge);
  const std::int64_t ld = std::max<std::int64_t>(1, edge);
  std::vector<double> a(elements, 1.0), b(elements, 1.0), c(elements, 1.0);
  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, edge, edge, edge, 1.0, a.data(),
                        ld, b.data(), ld, 1.0, c.data(), ld),
            FLEET_OK)
      << fleet_message();
}

TEST(PlanText, LeavesOutNoDeviceThatWasAskedFor) {
  for (const char* devices : {"devices=all", "devices=8", "devices=0,1,2,3,4,5,6,7"}) {
    const HostContext context(std::string(kH200) + "\n" + devices);

    const Json plan = Json::parse(context.text(fleet_plan_json, "dgemm size=256"));

    EXPECT_EQ(plan["workers"].size(), 8u) << devices;
    EXPECT_TRUE(plan["left_out"].empty()) << devices;
  }
}

TEST(PlanText, HasEveryKeyAndNeedsNoDevice) {
  const HostContext context(kH200);

  const Json plan = Json::parse(context.text(fleet_plan_json, "dgemm size=16384"));

  for (const char* key :
       {"workers",       "grid",       "shares",      "tile",         "tasks",
        "bytes_by_link", "plan_s",     "predicted_s", "bound_s",      "limited_by",
        "rules",         "problem",    "machine",     "memory",       "chunks",
        "out_of_core",   "group",      "cuts",        "host_s",       "offload",
        "tasks_by_kind", "candidates", "why",         "why_left_out", "left_out"})
    EXPECT_TRUE(plan.contains(key)) << key;
  EXPECT_EQ(plan["workers"].size() + plan["left_out"].size(), 8u);
  for (const Json& left : plan["left_out"]) {
    EXPECT_EQ(std::ranges::count(plan["workers"], left["device"]), 0);
    EXPECT_NE(left["why"].get<std::string>(), "");
  }
  EXPECT_EQ(plan["grid"][0].get<std::size_t>() * plan["grid"][1].get<std::size_t>(),
            plan["workers"].size());
  EXPECT_GT(plan["plan_s"].get<double>(), 0.0);
  EXPECT_GE(plan["predicted_s"].get<double>(), plan["bound_s"].get<double>());
  EXPECT_EQ(plan["problem"], "dgemm m=16384 n=16384 k=16384 a@h b@h c@h");
  EXPECT_EQ(plan["rules"], "all");
  std::int64_t tasks = 0;
  for (const auto& [kind, count] : plan["tasks_by_kind"].items()) tasks += count.get<int>();
  EXPECT_EQ(tasks, plan["tasks"].get<std::int64_t>());
}

TEST(PlanText, CountsTheInversesThatArePrepared) {
  const auto prepared = [](int inverse_order) {
    std::ifstream shipped(FLEETBLAS_SOURCE_DIR "/machines/h200x8.json");
    Json machine = Json::parse(shipped);
    for (Json& device : machine["devices"]) device["inverse_order"] = inverse_order;
    const std::string file = test::temporary_file("inverses.json");
    std::ofstream(file) << machine;
    const HostContext context("machine=" + file);
    const Json plan = Json::parse(context.text(fleet_plan_json, "dtrsm m=16384 n=16384 a@h c@h"));
    return plan["tasks_by_kind"]["prepare"].get<int>();
  };
  EXPECT_GT(prepared(512), 0);
  EXPECT_EQ(prepared(0), 0);
}

TEST(PlanText, ObeysTheOptions) {
  const HostContext context(std::string(kH200) + ";devices=2;tile=1024;rules=all,-lazy");

  const Json plan = Json::parse(context.text(fleet_plan_json, "sgemm size=4096 beta=0"));

  EXPECT_EQ(plan["workers"], Json({0, 1}));
  EXPECT_EQ(plan["tile"], 1024);
  EXPECT_NE(plan["rules"].get<std::string>().find("tile"), std::string::npos);
  EXPECT_EQ(plan["rules"].get<std::string>().find("lazy"), std::string::npos);
}

TEST(PlanText, SaysWhyItIsThePlan) {
  const HostContext context(std::string(kH200) + ";devices=3,1,6,4");

  const Json plan = Json::parse(context.text(fleet_plan_json, "dgemm size=16384 c@4"));

  const Json& why = plan["why"];
  ASSERT_LE(why.size(), 32u);
  EXPECT_EQ(why[0]["verdict"], "chosen");
  for (const char* key : {"predicted_s", "tasks", "workers", "grid", "tile", "group"})
    EXPECT_EQ(why[0][key], plan[key]) << key;
  EXPECT_EQ(plan["workers"], Json({3, 1, 6, 4}));
  std::size_t planned = 0, tasks_unknown = 0;
  for (const Json& tried : why) {
    EXPECT_FALSE(tried["reason"].get<std::string>().empty());
    EXPECT_GT(tried["estimate_s"].get<double>(), 0.0);
    tasks_unknown += tried["tasks"] == 0;
    if (tried["predicted_s"].is_null()) continue;
    ++planned;
    EXPECT_EQ(tried["verdict"] == "slower", tried["predicted_s"] > plan["predicted_s"]);
  }
  EXPECT_EQ(tasks_unknown, 0u);
  EXPECT_EQ(planned, std::min<std::size_t>(plan["candidates"].get<std::size_t>(), 32));
  EXPECT_GE(plan["why_left_out"].get<std::size_t>() + why.size(),
            plan["candidates"].get<std::size_t>());
}

TEST(PlanText, RefusesWhatIsNoProblem) {
  const HostContext context(kH200);
  char* text = nullptr;

  EXPECT_EQ(fleet_plan_json(context, "dgemm sice=8", &text), FLEET_BAD_ARGUMENT);
  EXPECT_NE(std::string(fleet_message()).find("sice"), std::string::npos);
  EXPECT_EQ(fleet_plan_json(context, nullptr, &text), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_plan_json(context, "dgemm size=8", nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_plan_json(context, "dgemm size=8 a@h b@h c@9", &text), FLEET_BAD_ARGUMENT);
}

TEST(PlanText, IsRefusedWhenATileCutsIntoTooManyProducts) {
  const HostContext plans(std::string(kH200) + ";tile=1");
  char* text = nullptr;

  EXPECT_EQ(fleet_plan_json(plans, "dgemm size=16384", &text), FLEET_UNSUPPORTED);
  EXPECT_STREQ(fleet_message(), "tile=1 cuts the problem into 4.4e+12 products, the most is 1e+06");

  const HostContext context(host_options(1) + ";tile=1");
  multiply(context, 128);  // 2 million multiply-adds: the CPU computes them
  EXPECT_EQ(Json::parse(context.text(fleet_stats_json))["last"]["reason"], "no plan");
}

TEST(BoundText, IsTheBoundOfThePlan) {
  const HostContext context(kH200);

  const Json bound = Json::parse(context.text(fleet_bound_json, "dgemm size=8192"));
  const Json plan = Json::parse(context.text(fleet_plan_json, "dgemm size=8192"));

  EXPECT_EQ(bound["bound_s"], plan["bound_s"]);
  EXPECT_EQ(bound["limited_by"], plan["limited_by"]);
}

TEST(Timelines, AreOfTheSimulatedPlanAndOfTheLastRun) {
  const HostContext context(host_options(2));
  char* text = nullptr;
  EXPECT_EQ(fleet_trace_json(context, &text), FLEET_UNSUPPORTED);

  const Json simulated = Json::parse(context.text(fleet_simulate_json, "dgemm size=256"));
  multiply(context, 96);
  const Json measured = Json::parse(context.text(fleet_trace_json));

  EXPECT_GT(simulated["traceEvents"].size(), 10u);
  EXPECT_NE(simulated["fleetblas"].dump().find("simulated"), std::string::npos);
  EXPECT_NE(measured["fleetblas"].dump().find("measured"), std::string::npos);
  EXPECT_NE(measured["fleetblas"].dump().find("m=96"), std::string::npos);
}

TEST(MachineText, IsTheMachineThatPlansAreMadeFor) {
  const HostContext context(std::string(kH200) + ";devices=0,4");

  const Machine machine = parse_machine(context.text(fleet_machine_json));

  EXPECT_EQ(machine.device_count(), 2);
  EXPECT_EQ(machine.devices[3].name, "4");
}

/// Measured as often as a machine is at most, however much other load disturbed it.
void measure_no_more(const std::filesystem::path& file) {
  std::ifstream in(file);
  Json kept = Json::parse(in);
  kept["machine"]["notes"]["probe"]["times"] = 3;
  std::ofstream(file) << kept.dump();
}

TEST(MachineText, IsMeasuredAndKept) {
  const std::string folder = test::temporary_file("cache");
  const std::string options = "backend=host;devices=2;cache_dir=" + folder;

  const std::string measured = HostContext(options).text(fleet_machine_json);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  ASSERT_EQ(files.size(), 1U);
  measure_no_more(files.front());
  const std::string kept = HostContext(options).text(fleet_machine_json);

  EXPECT_EQ(parse_machine(measured).device_count(), 2);
  EXPECT_EQ(parse_machine(kept).devices, parse_machine(measured).devices);
  EXPECT_EQ(parse_machine(kept).links, parse_machine(measured).links);
  std::filesystem::remove_all(folder);
}

TEST(ConfigurationText, SaysWhatIsSetAndWhereItComesFrom) {
  const HostContext context(host_options(3) + ";tile=64");

  const Json config = Json::parse(context.text(fleet_config_json));

  EXPECT_EQ(config["version"], fleet_version());
  EXPECT_EQ(config["backend"], "host");
  EXPECT_EQ(config["devices"], Json({0, 1, 2}));
  EXPECT_EQ(config["options"]["tile"], Json({{"value", 64}, {"origin", "caller"}}));
  EXPECT_EQ(config["options"]["rules"]["origin"], "default");
  EXPECT_FALSE(config["cpu_blas"].get<std::string>().empty());
}

/// The devices of a context in a process with local rank `rank` of `ranks`.
Json devices_of_rank(const std::string& options, int rank, int ranks) {
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  const HostContext context(options + ";devices=split");
  unsetenv("LOCAL_RANK");
  unsetenv("LOCAL_WORLD_SIZE");
  return Json::parse(context.text(fleet_config_json))["devices"];
}

TEST(SplitDevices, GiveEachRankNeighboursOfItsOwn) {
  const std::string eight = "backend=sim;" + std::string(kH200);
  EXPECT_EQ(devices_of_rank(eight, 0, 3), Json({0, 1}));
  EXPECT_EQ(devices_of_rank(eight, 1, 3), Json({2, 3, 4}));
  EXPECT_EQ(devices_of_rank(eight, 2, 3), Json({5, 6, 7}));
  EXPECT_EQ(devices_of_rank("backend=host", 1, 2), Json({2, 3}));
}

TEST(SplitDevices, AreSharedByRanksThatAreMore) {
  EXPECT_EQ(devices_of_rank("backend=host", 0, 8), Json(std::vector<int>{0}));
  EXPECT_EQ(devices_of_rank("backend=host", 1, 8), Json(std::vector<int>{0}));
  EXPECT_EQ(devices_of_rank("backend=host", 7, 8), Json(std::vector<int>{3}));
}

TEST(Statistics, CountCallsByWhereTheyRanAndWhy) {
  const HostContext context(host_options(2));

  multiply(context, 64);
  multiply(context, 64);
  multiply(context, 0);
  const Json stats = Json::parse(context.text(fleet_stats_json));

  EXPECT_EQ(stats["calls"], 3);
  EXPECT_EQ(stats["failed"], 0);
  EXPECT_EQ(stats["flops"], 2.0 * 2 * 64 * 64 * 64);
  ASSERT_EQ(stats["ran"].size(), 2u);
  EXPECT_EQ(stats["ran"][0]["where"], "devices");
  EXPECT_EQ(stats["ran"][0]["reason"], "offload=always");
  EXPECT_EQ(stats["ran"][0]["calls"], 2);
  EXPECT_EQ(stats["ran"][1]["reason"], "nothing to do");
  // In each of two calls A, B and C pass the ring, and C comes back.
  EXPECT_EQ(stats["bytes_by_link"]["pageable->host"], 2 * 3 * 64 * 64 * 8);
  EXPECT_EQ(stats["bytes_by_link"]["host->pageable"], 2 * 64 * 64 * 8);
  EXPECT_EQ(stats["bytes_by_kind"]["d2h"], 2 * 64 * 64 * 8);
}

TEST(Statistics, DescribeTheLastCall) {
  const HostContext context(host_options(2));

  multiply(context, 80);
  const Json first = Json::parse(context.text(fleet_stats_json))["last"];
  multiply(context, 80);
  const Json second = Json::parse(context.text(fleet_stats_json))["last"];

  EXPECT_EQ(first["routine"], "gemm");
  EXPECT_EQ(first["type"], "d");
  EXPECT_EQ(first["m"], 80);
  EXPECT_EQ(first["place"], "p,p,p");
  EXPECT_EQ(first["where"], "devices");
  EXPECT_EQ(first["status"], "ok");
  EXPECT_EQ(first["workers"], 2);
  EXPECT_GT(first["plan_s"].get<double>(), 0.0);
  EXPECT_GT(first["predicted_s"].get<double>(), 0.0);
  EXPECT_GT(first["seconds"].get<double>(), first["plan_s"].get<double>());
  EXPECT_EQ(second["plan_s"], 0.0) << "the plan was cached";
}

TEST(Choice, FollowsTheModelWhenNothingElseIsSaid) {
  // The same two devices, once with rates above the host's and once with very low ones.
  for (const bool fast : {true, false}) {
    Machine machine = host_machine(2, 2, std::int64_t{1} << 30);
    for (Device& device : machine.devices)
      device.kernels = {{DataType::f64, 64, device.name == "host" ? 1e9 : fast ? 1e12 : 1e6}};
    for (Link& link : machine.links) link.bytes_per_s = 1e12;
    for (Port& port : machine.ports) port.capacity = 1e15;
    const std::string file = test::temporary_file("choice.json");
    std::ofstream(file) << to_json(machine);
    const HostContext context("backend=host;machine=" + file);

    multiply(context, 256);
    const Json last = Json::parse(context.text(fleet_stats_json))["last"];
    const Json plan = Json::parse(context.text(fleet_plan_json, "dgemm size=256 a@p b@p c@p"));

    EXPECT_EQ(last["where"], fast ? "devices" : "cpu") << last.dump();
    EXPECT_EQ(last["reason"],
              fast ? "the model: devices are faster" : "the model: the CPU is faster");
    EXPECT_EQ(plan["offload"]["where"], fast ? "devices" : "cpu");
  }
}

TEST(Choice, IsTheCallersByMinimumFlops) {
  const HostContext context(host_options(1) + ";offload=auto;min_flops=250000");

  multiply(context, 40);  // 128,000 flops
  const Json below = Json::parse(context.text(fleet_stats_json))["last"];
  multiply(context, 50);  // 250,000 flops
  const Json enough = Json::parse(context.text(fleet_stats_json))["last"];

  EXPECT_EQ(below["reason"], "below min_flops");
  EXPECT_EQ(below["where"], "cpu");
  EXPECT_EQ(enough["where"], "devices");
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_trace.cpp: costs and timelines of hand-made runs, and the simulating backend.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/sim/backend.hpp"
#include "run/execute.hpp"
#include "sim/busy_time.hpp"
#include "sim/simulate.hpp"
#include "sim/trace.hpp"
#include "support/hand_plan.hpp"
#include "support/shipped.hpp"
#include "tune/tune.hpp"

namespace fleet::test {
namespace {

using Json = nlohmann::json;

constexpr DeviceId kOne = kFirstDevice, kTwo = kFirstDevice + 1;

/// Host -> 0 -> 1 in a chain, a product on 0 and one on 1, the first written back.
struct SmallRun {
  SmallRun()
      : in(machine.link(kHost, kOne, 2)),
        across(machine.link(kOne, kTwo, 2)),
        out(machine.link(kOne, kHost, 4)),
        plan(machine.get(), {8, 4}) {
    machine.get().ports = {{"memory", 1e12}};
    fetch = plan.copy({.link = in, .chunks = 4});
    hop = plan.copy({.link = across, .chunks = 4, .upstream = fetch});
    product = plan.compute({.lane = 3, .after = {fetch}});
    far_product = plan.compute({.device = kTwo, .tile = 1, .after = {hop}});
    home = plan.copy({.link = out, .after = {product}});
    plan.set_workers({kOne, kTwo});
  }
  HandMachine machine{2};
  LinkId in, across, out;
  HandPlan plan;
  TaskId fetch, hop, product, far_product, home;
};

/// Operands that are not accessed.
Arguments arguments() {
  static double nothing[64];
  return {.data = {nothing, nothing, nothing}, .ld = {16, 16, 16}};
}

TEST(BusyTime, CountsOverlappingSpansOnce) {
  EXPECT_DOUBLE_EQ(busy_s({{4, 5}, {0, 2}, {1, 3}, {1, 1.5}}), 4);
  EXPECT_DOUBLE_EQ(busy_s({{0, 2}, {5, -1}}), 2);
  EXPECT_DOUBLE_EQ(busy_s({}), 0);
}

TEST(AFailedRun, LeavesOutWhatNeededATaskThatDidNotComplete) {
  const auto left = [](auto break_one) {
    SmallRun run;
    std::vector<Span> spans(run.plan.get().tasks.size(), Span{0, 1});
    break_one(run, spans);
    leave_out_dependents(run.plan.get(), spans);
    std::vector<bool> done;
    for (const TaskId id : {run.fetch, run.hop, run.product, run.far_product, run.home})
      done.push_back(spans[static_cast<std::size_t>(id)].done());
    return done;
  };
  const auto at = [](std::vector<Span>& spans, TaskId id) -> Span& {
    return spans[static_cast<std::size_t>(id)];
  };
  using Done = std::vector<bool>;
  EXPECT_EQ(left([](const SmallRun&, const std::vector<Span>&) {}),
            (Done{true, true, true, true, true}));
  EXPECT_EQ(left([&](const SmallRun& run, auto& spans) { at(spans, run.fetch).stop_s = -1; }),
            (Done{false, false, false, false, false}));
  EXPECT_EQ(left([&](const SmallRun& run, auto& spans) { at(spans, run.hop) = {}; }),
            (Done{true, false, true, false, true}));
  EXPECT_EQ(left([&](const SmallRun& run, auto& spans) { at(spans, run.product).stop_s = -1; }),
            (Done{true, true, false, true, false}));
}

TEST(AFailedRun, LeavesOutWhatCameLaterInTheQueueOfSuchATask) {
  HandMachine machine{2};
  const LinkId in = machine.link(kHost, kOne, 2);
  HandPlan plan(machine.get(), {8, 4});
  const TaskId first = plan.copy({.link = in}), second = plan.copy({.link = in, .tile = 1});
  std::vector<Span> spans{{0, -1}, {0, 1}};
  leave_out_dependents(plan.get(), spans);
  EXPECT_FALSE(spans[static_cast<std::size_t>(first)].done());
  EXPECT_FALSE(spans[static_cast<std::size_t>(second)].done());
}

constexpr Watts kWatts{
    .idle = 1, .wait = 10, .copy = 20, .exchange = 30, .stream = 50, .multiply = 100};

Device& device(SmallRun& run, DeviceId id) {
  return run.machine.get().devices[static_cast<std::size_t>(id)];
}

TEST(CostOf, CountsBytesPerHopAndJoulesOfDevices) {
  SmallRun run;
  for (const DeviceId id : {kOne, kTwo}) device(run, id).watts = kWatts;
  const Trace trace = simulate(run.plan.get(), run.machine.get());

  const Cost cost = cost_of(run.plan.get(), run.machine.get(), trace);

  EXPECT_EQ(cost.source, CostSource::simulated);
  EXPECT_DOUBLE_EQ(cost.seconds, 4 + 8 + 2);
  EXPECT_EQ(cost.bytes_by_link, (std::vector<std::int64_t>{64, 64, 64}));
  EXPECT_EQ(cost.devices, 2);
  const double kernels_and_copies = cost.joules;
  // Copies alone, with kernels that draw no more than waiting.
  for (const DeviceId id : {kOne, kTwo}) device(run, id).watts.multiply = 10;
  const Cost copies = cost_of(run.plan.get(), run.machine.get(), trace);
  const auto span = [&](TaskId id) { return trace.spans[static_cast<std::size_t>(id)]; };
  const Span fetch = span(run.fetch), hop = span(run.hop), home = span(run.home);
  const Span product = span(run.product), far = span(run.far_product);
  const auto length_s = [](const Span& s) { return s.stop_s - s.start_s; };
  const double fetch_s = length_s(fetch), hop_s = length_s(hop), home_s = length_s(home);
  EXPECT_DOUBLE_EQ(copies.joules, 2 * 10 * 14 + 10 * fetch_s + 20 * hop_s * 2 + 10 * home_s);
  // What goes on at once adds up.
  double expected = 0;
  constexpr double kStep = 1.0 / 64;  // all times are multiples of it
  for (double t = kStep / 2; t < 14; t += kStep) {
    const auto in = [t](const Span& s) { return s.start_s < t && t < s.stop_s; };
    expected += kStep * (10 + (in(product) ? 90 : 0) + (in(hop) ? 20 : 0) +
                         (in(fetch) || in(home) ? 10 : 0));
    expected += kStep * (10 + (in(far) ? 90 : 0) + (in(hop) ? 20 : 0));
  }
  EXPECT_NEAR(kernels_and_copies, expected, 1e-6);
}

TEST(CostOf, TellsDevicesThatTakePartFromTheWholeNode) {
  SmallRun run;
  HandMachine machine{3};
  machine.link(kHost, kOne, 2);
  machine.link(kOne, kTwo, 2);
  machine.link(kOne, kHost, 4);
  machine.get().ports = run.machine.get().ports;
  for (int d = 0; d < 3; ++d)
    machine.get().devices[static_cast<std::size_t>(kFirstDevice + d)].watts = kWatts;
  const Trace trace = simulate(run.plan.get(), machine.get());

  const Cost two = cost_of(run.plan.get(), machine.get(), trace);
  EXPECT_EQ(two.devices, 2);
  EXPECT_DOUBLE_EQ(two.joules_node, two.joules + 1 * two.seconds);

  machine.get().devices[kHost].watts = {.idle = 3, .wait = 5, .copy = 7, .multiply = 9};
  const Cost with_host = cost_of(run.plan.get(), machine.get(), trace);
  EXPECT_EQ(with_host.joules, two.joules);
  EXPECT_GT(with_host.joules_node, two.joules_node + 5 * two.seconds);
  EXPECT_LT(with_host.joules_node, two.joules_node + 7 * two.seconds);

  machine.get().devices.back().watts = {};
  EXPECT_EQ(cost_of(run.plan.get(), machine.get(), trace).joules, 0);
  EXPECT_EQ(cost_of(run.plan.get(), machine.get(), trace).joules_node, 0);
}

TEST(CostOf, LeavesOutWhatDidNotCompleteAndWattsNobodyKnows) {
  SmallRun run;
  Trace trace = simulate(run.plan.get(), run.machine.get());
  trace.spans[static_cast<std::size_t>(run.home)].stop_s = -1;

  const Cost cost = cost_of(run.plan.get(), run.machine.get(), trace);

  EXPECT_EQ(cost.bytes_by_link, (std::vector<std::int64_t>{64, 64, 0}));
  EXPECT_EQ(cost.joules, 0);
}

TEST(ChromeTrace, HasALaneForEachUsedQueueAndAnEventForEachTask) {
  SmallRun run;
  const Trace trace = simulate(run.plan.get(), run.machine.get());

  const Json page = Json::parse(chrome_trace_json(run.plan.get(), run.machine.get(), trace));

  std::set<std::string> lanes, processes;
  std::vector<Json> tasks;
  for (const Json& event : page.at("traceEvents")) {
    if (event.at("name") == "thread_name") lanes.insert(event.at("args").at("name"));
    if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
    if (event.at("ph") == "X") tasks.push_back(event);
  }
  EXPECT_EQ(lanes, (std::set<std::string>{"host->0", "0->1", "0->host", "0 lane 3", "1 lane 0"}));
  EXPECT_EQ(processes, (std::set<std::string>{"host", "device 0", "device 1"}));
  ASSERT_EQ(tasks.size(), 5u);
  const Json& hop = tasks[static_cast<std::size_t>(run.hop)];
  EXPECT_EQ(hop.at("name"), "A(0,0)");
  EXPECT_EQ(hop.at("cat"), "fetch");
  EXPECT_DOUBLE_EQ(hop.at("ts"), 1e6);
  EXPECT_NEAR(hop.at("dur").get<double>(), 4e6, 1e-3);
  EXPECT_EQ(hop.at("args").at("bytes"), 64);
  EXPECT_EQ(hop.at("args").at("link"), "0->1");
  EXPECT_EQ(hop.at("args").at("chunks"), 4);
  EXPECT_EQ(hop.at("args").at("upstream"), run.fetch);
  const Json& product = tasks[static_cast<std::size_t>(run.product)];
  EXPECT_EQ(product.at("name"), "C(0,0) k=0");
  EXPECT_EQ(product.at("cat"), "compute");
  EXPECT_EQ(tasks[static_cast<std::size_t>(run.home)].at("cat"), "writeback");
}

/// The names of the lanes of a product, each once.
std::set<std::string> lanes_of(const std::array<DeviceId, 3>& homes) {
  const Machine machine = test::shipped("h200x4");
  const Problem problem = make_problem({.m = 4096, .n = 4096, .k = 2048}, {.homes = homes});
  const Plan plan = tune(problem, machine, {.tile = 512}).plan;
  const Json page = Json::parse(chrome_trace_json(plan, machine, simulate(plan, machine)));
  std::set<std::string> names;
  for (const Json& queue : page.at("fleetblas").at("queues"))
    EXPECT_TRUE(names.insert(queue.at("name").get<std::string>()).second) << queue;
  return names;
}

TEST(ChromeTrace, HasNoTwoLanesOfOneName) {
  const DeviceId d = kFirstDevice;
  const std::set<std::string> several = lanes_of({d + 2, d + 1, d});
  for (const char* const name : {"2->1 sent", "2->0 results", "1->0 passed on"})
    EXPECT_TRUE(several.contains(name)) << name;
  const std::set<std::string> one = lanes_of({d, d, d});
  EXPECT_TRUE(one.contains("0->1") && one.contains("1->0"));
}

TEST(ChromeTrace, SaysWhatRanAndHowLongItKeptWhatBusy) {
  SmallRun run;
  const Trace trace = simulate(run.plan.get(), run.machine.get());

  const Json said =
      Json::parse(chrome_trace_json(run.plan.get(), run.machine.get(), trace)).at("fleetblas");

  EXPECT_EQ(said.at("problem"), to_text(run.plan.get().problem()));
  EXPECT_EQ(said.at("machine"), "by hand");
  EXPECT_EQ(said.at("source"), "simulated");
  EXPECT_EQ(said.at("status"), "ok");
  EXPECT_DOUBLE_EQ(said.at("seconds"), 14);
  EXPECT_GT(said.at("bound_s"), 0);
  EXPECT_EQ(said.at("tasks"), 5);
  EXPECT_EQ(said.at("unfinished_tasks"), 0);
  EXPECT_EQ(said.at("workers"), (Json{0, 1}));
  EXPECT_EQ(said.at("bytes_by_link"), (Json{{"host->0", 64}, {"0->1", 64}, {"0->host", 64}}));
  EXPECT_DOUBLE_EQ(said.at("busy_s").at("devices").at("0"), 8);
  EXPECT_DOUBLE_EQ(said.at("busy_s").at("links").at("0->host"), 2);
  EXPECT_EQ(said.at("queues").size(), 5u);
}

TEST(ChromeTrace, IsValidForAnEmptyPlan) {
  HandMachine machine(1);
  const HandPlan plan(machine.get(), {});

  const Json page = Json::parse(
      chrome_trace_json(plan.get(), machine.get(), simulate(plan.get(), machine.get())));

  EXPECT_TRUE(page.at("traceEvents").empty());
  EXPECT_EQ(page.at("fleetblas").at("seconds"), 0);
}

TEST(ChromeTrace, TellsOfAFailedTaskInWhateverWords) {
  SmallRun run;
  Trace trace = simulate(run.plan.get(), run.machine.get());
  trace.status = Status::device_failed;
  trace.message = "lost \xff \"0\"";
  trace.failed = run.product;
  for (const TaskId task : {run.product, run.home})
    trace.spans[static_cast<std::size_t>(task)].stop_s = -1;

  const Json page = Json::parse(chrome_trace_json(run.plan.get(), run.machine.get(), trace));

  const Json& said = page.at("fleetblas");
  EXPECT_EQ(said.at("status"), "device_failed");
  EXPECT_EQ(said.at("failed_task"), run.product);
  EXPECT_EQ(said.at("unfinished_tasks"), 2);
  EXPECT_TRUE(said.at("message").is_string());
}

TEST(SimBackend, RunsAPlanAsSimulateTimesIt) {
  SmallRun run;
  const auto backend = make_sim_backend(run.machine.get());

  const Trace trace = execute(run.plan.get(), arguments(), *backend);
  const Trace again = execute(run.plan.get(), arguments(), *backend);

  EXPECT_EQ(trace.status, Status::ok);
  EXPECT_EQ(trace.source, CostSource::simulated);
  EXPECT_DOUBLE_EQ(trace.seconds, 14);
  EXPECT_DOUBLE_EQ(again.seconds, 14);
}

TEST(SimBackend, ReportsAPlanThatWasNotEnqueuedAsAFailedRun) {
  SmallRun run;
  const auto backend = make_sim_backend(run.machine.get());

  const Trace trace = backend->begin(run.plan.get(), {}, 0)->finish();

  EXPECT_EQ(trace.status, Status::internal);
  EXPECT_EQ(trace.spans.size(), run.plan.get().tasks.size());
  EXPECT_FALSE(trace.spans[0].done());
}

TEST(SimBackend, CountsMemoryPerLocation) {
  HandMachine machine(2);
  machine.get().devices[kOne].memory_bytes = 1000;
  const auto backend = make_sim_backend(machine.get());

  void* first = backend->allocate(kOne, 600);
  void* second = backend->allocate(kOne, 400);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(backend->available_bytes(kOne), 0);
  EXPECT_THROW(backend->allocate(kOne, 1), Error);
  EXPECT_NE(backend->allocate(kTwo, 1), nullptr);
  backend->release(kOne, first);
  backend->release(kOne, nullptr);
  EXPECT_EQ(backend->available_bytes(kOne), 600);
  EXPECT_NE(backend->allocate(kOne, 500), nullptr);
}

TEST(SimBackend, RefusesArenasThatDoNotFitAndReusesThoseThatDo) {
  SmallRun run;
  run.machine.get().devices[kOne].memory_bytes = 1000;
  const auto backend = make_sim_backend(run.machine.get());
  Plan plan = run.plan.get();
  plan.arena_bytes[kOne] = 900;

  EXPECT_EQ(execute(plan, arguments(), *backend).status, Status::ok);
  EXPECT_EQ(execute(plan, arguments(), *backend).status, Status::ok);
  EXPECT_EQ(backend->available_bytes(kOne), 1000);
  backend->allocate(kOne, 200);
  EXPECT_THROW(execute(plan, arguments(), *backend), Error);
  plan.arena_bytes[kOne] = 800;
  EXPECT_EQ(execute(plan, arguments(), *backend).status, Status::ok);
  backend->trim();
}

}  // namespace
}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// test_probe_noise.cpp: a probe finds the real ports, or nearly those, where each copy takes a
// different time whenever it is repeated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "probe/link_sets.hpp"
#include "probe/loads.hpp"
#include "probe/probe.hpp"
#include "sim/simulate.hpp"
#include "support/probe_nodes.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"

namespace fleet::test {
namespace {

/// Simulated seconds in which no probe here ends early.
constexpr double kAmpleS = 1e4;

/// Each task takes up to `most` longer than simulated, and one in fifty twice as long; what waits
/// for it is delayed.
class Uneven final : public Disguise {
 public:
  Uneven(const Machine& real, const Machine& said, double most, std::uint64_t seed)
      : Disguise(real, said), more_(0, most), random_(seed) {}
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return std::make_unique<Slower>(Disguise::begin(plan, binding, serial), plan, *this);
  }
  double clock_s() const override { return seconds; }

  double seconds = 0;  ///< of all runs

 private:
  double times() {
    const double more = more_(random_);
    return random_() % 50 == 0 ? 2 : 1 + more;
  }

  struct Slower final : WrappedExecution {
    Slower(std::unique_ptr<Execution> inner, const Plan& plan, Uneven& noise)
        : WrappedExecution(std::move(inner)), plan_(plan), noise_(noise) {}
    Trace finish() override {
      Trace trace = WrappedExecution::finish();
      const std::vector<Span> even = std::exchange(trace.spans, {});
      std::vector<TaskId> last(plan_.queues.size(), kNoTask);
      for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
        const Task& task = plan_.tasks[t];
        double ready_s = 0, even_ready_s = 0;
        const auto wait_for = [&](TaskId earlier) {
          if (earlier == kNoTask) return;
          ready_s = std::max(ready_s, trace.spans[static_cast<std::size_t>(earlier)].stop_s);
          even_ready_s = std::max(even_ready_s, even[static_cast<std::size_t>(earlier)].stop_s);
        };
        wait_for(std::exchange(last[static_cast<std::size_t>(task.queue)], static_cast<TaskId>(t)));
        for (const TaskId earlier : plan_.after(task)) wait_for(earlier);
        const double start_s = ready_s + even[t].start_s - even_ready_s;
        const double taken_s = noise_.times() * (even[t].stop_s - even[t].start_s);
        trace.spans.push_back({start_s, start_s + taken_s});
        trace.seconds = std::max(trace.seconds, start_s + taken_s);
      }
      noise_.seconds += trace.seconds;
      return trace;
    }
    const Plan& plan_;
    Uneven& noise_;
  };
  std::uniform_real_distribution<double> more_;
  std::mt19937_64 random_;
};

/// The machine as far as a probe looks at it: copies between pageable and pinned memory are not
/// loaded beside those of GPUs.
Machine visible(const std::string& name) {
  Machine machine = shipped(name);
  for (Link& link : machine.links)
    if (on_host(link.source) && on_host(link.target) && link.ports.size() > 1) link.ports.resize(1);
  return machine;
}

/// The most by which a simulated load of many links is off on `found`, as a share: of all, of those
/// with the host, of reads, of writes, and of those between devices.
double farthest(const Machine& real, const Machine& found) {
  double most = 0;
  for (const LinkSet& links :
       {wires_of(real), links_that(real, joins_host), links_that(real, joins_devices),
        links_that(real, [](const Link& link) { return joins_host(link) && on_host(link.source); }),
        links_that(real,
                   [](const Link& link) { return joins_host(link) && on_host(link.target); })}) {
    const ProbePlan load = load_plan(real, links, 2048, 8);
    const double real_s = simulate(load.plan(), real).seconds;
    most = std::max(most, std::abs(simulate(load.plan(), found).seconds / real_s - 1));
  }
  return most;
}

void expect_near(const Machine& real, const Machine& found, const std::string& what) {
  const auto ports = static_cast<double>(real.ports.size());
  EXPECT_LE(static_cast<double>(found.ports.size()), 1.25 * ports) << what;
  // Four of h200x8 are never full, and four are slowed down by hardly more than noise.
  EXPECT_GE(static_cast<double>(found.ports.size()), 0.7 * ports) << what;
  EXPECT_LT(farthest(real, found), 0.15) << what;
}

TEST(PortsBehindNoise, AreNotInvented) {
  for (const std::string name : {"dgx1", "clx-ai", "karolina", "h200x4", "h200x8"})
    for (std::int64_t seed = 0; seed < scaled(4); ++seed) {
      const Machine real = visible(name);
      Uneven backend(real, forgotten(stripped(real)), 0.1, static_cast<std::uint64_t>(seed));

      expect_near(real, probe(backend, kAmpleS), name + ", seed " + std::to_string(seed));
    }
}

TEST(PortsBehindNoise, AreNotInventedByACarefulProbe) {
  const Machine real = visible("h200x4");
  Uneven backend(real, forgotten(stripped(real)), 0.1, 1);
  ProbeRequest request;
  request.budget_s = kAmpleS;
  request.least_repeats = kCarefulRepeats;
  request.types = {DataType::f64};
  ProbeReport report;

  expect_near(real, probe(backend, nullptr, request, report), "h200x4");
}

TEST(PortsBehindNoise, TakeNoMoreLooksWhereCopiesRepeatThemselves) {
  const auto taken_s = [](double most) {
    const Machine real = visible("karolina");
    Uneven backend(real, forgotten(stripped(real)), most, 1);
    probe(backend, kAmpleS);
    return backend.seconds;
  };
  const double quiet_s = taken_s(0.01);

  EXPECT_LT(quiet_s, 1.1 * taken_s(0));
  EXPECT_GT(taken_s(0.1), 1.5 * quiet_s);
}

}  // namespace
}  // namespace fleet::test

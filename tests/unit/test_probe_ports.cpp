// SPDX-License-Identifier: BSD-3-Clause
// test_probe_ports.cpp: a probe finds the ports of simulated machines that say nothing of their
// ports, and no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "probe/loads.hpp"
#include "probe/ports.hpp"
#include "probe/probe.hpp"
#include "support/probe_nodes.hpp"
#include "support/scale.hpp"
#include "support/shipped.hpp"

namespace fleet::test {
namespace {

constexpr double kBudgetS = 60;  // simulated runs take no time; machines under test may be busy

double weight_of(const Machine& machine, LinkId link, PortId port) {
  for (const PortShare& share : machine.links[static_cast<std::size_t>(link)].ports)
    if (share.port == port) return share.weight;
  return 0;
}

std::string text_of(const Machine& machine, PortId port) {
  const Port& p = machine.ports[static_cast<std::size_t>(port)];
  std::string text = p.name + " of " + std::to_string(p.capacity / 1e9) + " GB/s:";
  for (const LinkId link : links_at(machine, port)) text += " " + link_name(machine, link);
  return text;
}

std::string texts_of(const Machine& machine) {
  std::string texts;
  for (PortId port = 0; port < static_cast<PortId>(machine.ports.size()); ++port)
    texts += "\n  " + text_of(machine, port);
  return texts;
}

/// Whether both ports have the same links with weights and capacity that differ by `share` at most.
bool same_port(const Machine& a, PortId p, const Machine& b, PortId q, double share) {
  const std::vector<LinkId> links = links_at(a, p);
  const auto near = [&](double x, double y) { return std::abs(x - y) <= share * x; };
  return links == links_at(b, q) &&
         near(a.ports[static_cast<std::size_t>(p)].capacity,
              b.ports[static_cast<std::size_t>(q)].capacity) &&
         std::ranges::all_of(links, [&](LinkId link) {
           return near(weight_of(a, link, p), weight_of(b, link, q));
         });
}

/// The first port that only one of the machines has, or "". Ports of `real` with a name in `hidden`
/// may be missing.
std::string other_ports(const Machine& real, const Machine& found,
                        const std::set<std::string>& hidden = {}, double share = 0.01) {
  const auto has = [&](const Machine& machine, const Machine& other, PortId port) {
    for (PortId id = 0; id < static_cast<PortId>(other.ports.size()); ++id)
      if (same_port(machine, port, other, id, share)) return true;
    return false;
  };
  for (PortId id = 0; id < static_cast<PortId>(real.ports.size()); ++id)
    if (!hidden.contains(real.ports[static_cast<std::size_t>(id)].name) && !has(real, found, id))
      return "not found: " + text_of(real, id) + "\nfound:" + texts_of(found);
  for (PortId id = 0; id < static_cast<PortId>(found.ports.size()); ++id)
    if (!has(found, real, id)) return "invented: " + text_of(found, id);
  return "";
}

TEST(PortsThatAreNotDescribed, AreFoundOnTheMachinesOfThePapers) {
  for (const std::string name : {"dgx1", "clx-ai", "karolina"}) {
    const Machine real = shipped(name);
    Disguise backend(real, forgotten(stripped(real)));

    const Machine found = probe(backend, kBudgetS);

    EXPECT_EQ(other_ports(real, found), "") << name;
    EXPECT_EQ(backend.conflict, "") << name;
  }
}

TEST(PortsThatAreNotDescribed, AreFoundOnMeasuredNodes) {
  for (const std::string name : {"h200x4", "h200x8"}) {
    Machine real = shipped(name);
    // Copies between pageable and pinned memory are not loaded beside those of GPUs.
    for (Link& link : real.links)
      if (on_host(link.source) && on_host(link.target)) link.ports.resize(1);
    // The memory of GPUs 0-3 is full before the PCIe link of any of them.
    std::set<std::string> hidden;
    if (name == "h200x8") hidden = {"pcie 0", "pcie 1", "pcie 2", "pcie 3"};
    Disguise backend(real, forgotten(stripped(real)));

    EXPECT_EQ(other_ports(real, probe(backend, kBudgetS), hidden), "") << name;
  }
}

TEST(PortsThatAreNotDescribed, AreFoundByACarefulProbeToo) {
  for (const std::string name : {"dgx1", "karolina"}) {
    const Machine real = shipped(name);
    Disguise backend(real, forgotten(stripped(real)));
    backend.conflict = "not looked for: the quick probe has the same plans";
    ProbeRequest request;
    request.budget_s = 1e4;
    request.least_repeats = kCarefulRepeats;
    request.types = {DataType::f64};
    ProbeReport report;

    const Machine found = probe(backend, nullptr, request, report);

    EXPECT_EQ(other_ports(real, found), "") << name;
    for (const ProbeValue& value : report.values) EXPECT_TRUE(value.settled) << value.name;
  }
}

TEST(PortsThatAreNotDescribed, AreFoundBesideThoseOfTheHostAndOfGpus) {
  const Machine real = random_node(4);
  // What is certain of any node with GPUs: memory of the host, and the wires that leave a GPU.
  Machine said = forgotten(real);
  const auto is_switch = [](const Port& port) { return port.name.starts_with("switch"); };
  std::vector<PortId> now;
  for (PortId id = 0, kept = 0; id < static_cast<PortId>(said.ports.size()); ++id)
    now.push_back(is_switch(said.ports[static_cast<std::size_t>(id)]) ? -1 : kept++);
  std::erase_if(said.ports, is_switch);
  for (Link& link : said.links) {
    for (PortShare& share : link.ports) share.port = now[static_cast<std::size_t>(share.port)];
    std::erase_if(link.ports, [](const PortShare& share) { return share.port < 0; });
  }
  Disguise backend(real, said);

  const Machine found = probe(backend, kBudgetS);

  EXPECT_EQ(other_ports(real, found), "");
  EXPECT_TRUE(same_shape(found, said));
  EXPECT_FALSE(same_shape(said, found));
  EXPECT_TRUE(same_shape(parse_machine(to_json(found)), said));
}

TEST(PortsThatAreNotDescribed, AreFoundOnRandomNodesWithAWeightWhereWritesNeedMore) {
  for (std::int64_t seed = 0; seed < scaled(10); ++seed) {
    const Machine real = random_node(static_cast<std::uint64_t>(seed));
    Disguise backend(real, forgotten(stripped(real)));

    EXPECT_EQ(other_ports(real, probe(backend, kBudgetS)), "") << "seed " << seed;
  }
}

/// A node whose GPUs share switches in a way of their own, and some copy to each other over them.
class RandomTree {
 public:
  explicit RandomTree(std::uint64_t seed) : random_(seed) {
    const int gpus = 2 + whole(7);
    for (int d = 0; d < kFirstDevice + gpus; ++d) {
      Device device;
      device.name = d == kHost       ? "host"
                    : d == kPageable ? "pageable"
                                     : std::to_string(d - kFirstDevice);
      device.memory_bytes = std::int64_t{1} << 36;
      device.launch_s = 4e-6;
      device.memory_bytes_per_s = 2e12;
      if (d >= kFirstDevice) device.kernels.push_back({DataType::f64, 1024, 1e13});
      machine_.devices.push_back(device);
    }
    machine_.issue_s = 1e-6;
    pcie_ = between(8e9, 60e9);
    for (int first = 0; first < gpus;) {
      const int size = std::min(1 + whole(4), gpus - first);
      add_switch(first, size);
      first += size;
    }
    for (int gpu = 0; gpu < gpus; ++gpu) {
      add(kHost, kFirstDevice + gpu, pcie_ * between(0.95, 1), {into(gpu)});
      add(kFirstDevice + gpu, kHost, pcie_ * between(0.95, 1), {out_of(gpu)});
    }
    for (int from = 0; from < gpus; ++from)
      for (int to = 0; to < gpus; ++to)
        if (from != to) add_peer(from, to);
    if (gpus > 4) add_memory();
    drop_useless();
  }
  Machine take() { return std::move(machine_); }

 private:
  struct Switch {
    PortId up = -1, down = -1;  ///< out of its GPUs, into them; -1: never full
  };

  int whole(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  PortId port(const std::string& name, double capacity) {
    machine_.ports.push_back({name, capacity});
    return static_cast<PortId>(machine_.ports.size() - 1);
  }
  void add_switch(int first, int size) {
    const std::string name = std::to_string(switches_.size());
    const auto some = [&] { return pcie_ * between(1.02, 1.6); };
    Switch here;
    switch (whole(5)) {
      case 0:
        here.up = here.down = port("switch " + name, some());
        break;
      case 1:
        here.up = port("up " + name, some());
        break;
      case 2:
        here.down = port("down " + name, some());
        break;
      case 3:
        here = {.up = port("up " + name, some()), .down = port("down " + name, some())};
        break;
      default:
        break;
    }
    for (int gpu = first; gpu < first + size; ++gpu) switch_of_.push_back(whole_switches());
    switches_.push_back(here);
  }
  int whole_switches() const { return static_cast<int>(switches_.size()); }
  const Switch& at(int gpu) const {
    return switches_[static_cast<std::size_t>(switch_of_[static_cast<std::size_t>(gpu)])];
  }
  PortId into(int gpu) const { return at(gpu).down; }
  PortId out_of(int gpu) const { return at(gpu).up; }
  void add(DeviceId source, DeviceId target, double bytes_per_s, std::vector<PortId> ports) {
    Link link{source, target, 8e-6, bytes_per_s, {}, {}};
    for (const PortId taken : ports)
      if (taken >= 0) link.ports.push_back({taken, 1});
    machine_.links.push_back(std::move(link));
  }
  void add_peer(int from, int to) {
    const DeviceId source = kFirstDevice + from, target = kFirstDevice + to;
    const int kind = whole(4);
    if (kind == 0) return;  // no direct copies
    if (kind == 1) return add(source, target, between(20e9, 90e9), {});
    const double rate = pcie_ * between(0.5, 0.9);
    if (switch_of_[static_cast<std::size_t>(from)] == switch_of_[static_cast<std::size_t>(to)])
      add(source, target, rate, {});
    else
      add(source, target, rate, {out_of(from), into(to)});
  }
  /// Bytes per second that the switches let through in one direction.
  double through(PortId Switch::*direction) const {
    double sum = 0;
    for (int s = 0; s < whole_switches(); ++s) {
      const PortId port = switches_[static_cast<std::size_t>(s)].*direction;
      const auto gpus = static_cast<double>(std::ranges::count(switch_of_, s));
      sum += port < 0 ? gpus * 0.95 * pcie_
                      : std::min(gpus * 0.95 * pcie_,
                                 machine_.ports[static_cast<std::size_t>(port)].capacity);
    }
    return sum;
  }
  /// Memory of the host that is full before the switches are, but not of two links.
  void add_memory() {
    const double least = 2.3 * pcie_, reads = 0.85 * through(&Switch::down),
                 writes = 0.85 * through(&Switch::up);
    const auto share = [&](const std::string& name, double most, bool of_reads, bool of_writes) {
      if (most <= least) return;
      const PortId id = port(name, between(least, most));
      for (Link& link : machine_.links)
        if ((of_reads && link.source == kHost) || (of_writes && link.target == kHost))
          link.ports.push_back({id, 1});
    };
    switch (whole(4)) {
      case 0:
        return share("host memory", std::max(reads, writes), true, true);
      case 1:
        return share("host reads", reads, true, false);
      case 2:
        return share("host writes", writes, false, true);
      default:
        return;
    }
  }
  /// A port that its links hardly fill is never the limit.
  void drop_useless() {
    std::vector<PortId> now;
    std::vector<Port> kept;
    for (PortId id = 0; id < static_cast<PortId>(machine_.ports.size()); ++id) {
      const Port& port = machine_.ports[static_cast<std::size_t>(id)];
      double demand = 0;
      for (const LinkId link : links_at(machine_, id))
        demand += machine_.links[static_cast<std::size_t>(link)].bytes_per_s;
      const bool fills = demand > 1.15 * port.capacity;
      now.push_back(fills ? static_cast<PortId>(kept.size()) : -1);
      if (fills) kept.push_back(port);
    }
    machine_.ports = kept;
    for (Link& link : machine_.links) {
      for (PortShare& share : link.ports) share.port = now[static_cast<std::size_t>(share.port)];
      std::erase_if(link.ports, [](const PortShare& share) { return share.port < 0; });
    }
  }

  std::mt19937_64 random_;
  Machine machine_;
  double pcie_ = 0;
  std::vector<Switch> switches_;
  std::vector<int> switch_of_;  ///< by GPU
};

TEST(PortsThatAreNotDescribed, AreFoundOnRandomTreesOfSwitches) {
  for (std::int64_t seed = 0; seed < scaled(60); ++seed) {
    const Machine real = RandomTree(static_cast<std::uint64_t>(seed)).take();
    Disguise backend(real, forgotten(stripped(real)));

    EXPECT_EQ(other_ports(real, probe(backend, kBudgetS)), "") << "seed " << seed;
    EXPECT_EQ(backend.conflict, "") << "seed " << seed;
  }
}

TEST(PortsThatAreNotDescribed, AreNoneWhereNothingIsShared) {
  for (const std::string name : {"dgx1", "karolina"}) {
    const Machine real = stripped(shipped(name));
    Disguise backend(real, forgotten(real));

    EXPECT_EQ(probe(backend, kBudgetS).ports.size(), 0U) << name;
  }
}

/// Adds up the time of its runs.
class Timed final : public Disguise {
 public:
  using Disguise::Disguise;
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return std::make_unique<Run>(Disguise::begin(plan, binding, serial), seconds);
  }
  double seconds = 0;

 private:
  struct Run final : WrappedExecution {
    Run(std::unique_ptr<Execution> inner, double& sum)
        : WrappedExecution(std::move(inner)), seconds(sum) {}
    Trace finish() override {
      Trace trace = WrappedExecution::finish();
      seconds += trace.seconds;
      return trace;
    }
    double& seconds;
  };
};

TEST(PortsThatAreNotDescribed, TakeSecondsToFind) {
  // Seconds of loads that a quick probe needs for all ports; with the ports described it needs
  // 3.1, 1.3 and 2.3.
  const std::map<std::string, double> most_s = {{"dgx1", 3}, {"karolina", 3.5}, {"h200x8", 5.5}};
  for (const auto& [name, seconds] : most_s) {
    const Machine real = shipped(name);
    Timed backend(real, forgotten(stripped(real)));
    double before_s = 0, ports_s = 0;
    ProbeRequest request;
    request.budget_s = kBudgetS;
    request.save = [&](const Machine&, const ProbeReport& report) {
      if (report.done.back() == "ports") ports_s = backend.seconds - before_s;
      before_s = backend.seconds;
    };
    ProbeReport report;

    probe(backend, nullptr, request, report);

    EXPECT_LT(ports_s, seconds) << name;
    EXPECT_GT(ports_s, 0.1) << name;
  }
}

/// Every run is up to 2 % slower than simulated, and one load in thirty takes twice as long.
class Restless final : public Disguise {
 public:
  Restless(const Machine& real, const Machine& said, std::uint64_t seed)
      : Disguise(real, said), random_(seed) {}
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    const double more = std::uniform_real_distribution<double>(0, 0.02)(random_);
    const bool is_load = plan.queues.size() > 1;
    return std::make_unique<Slower>(Disguise::begin(plan, binding, serial),
                                    is_load && random_() % 30 == 0 ? 2 : 1 + more);
  }

 private:
  struct Slower final : WrappedExecution {
    Slower(std::unique_ptr<Execution> inner, double times)
        : WrappedExecution(std::move(inner)), times_(times) {}
    Trace finish() override {
      Trace trace = WrappedExecution::finish();
      for (Span& span : trace.spans) span = {span.start_s * times_, span.stop_s * times_};
      trace.seconds *= times_;
      return trace;
    }
    double times_;
  };
  std::mt19937_64 random_;
};

TEST(PortsThatAreNotDescribed, AreFoundBesideOtherLoad) {
  for (const std::string name : {"dgx1", "karolina"})
    for (std::int64_t seed = 0; seed < scaled(5); ++seed) {
      const Machine real = shipped(name);
      Restless backend(real, forgotten(stripped(real)), static_cast<std::uint64_t>(seed));

      EXPECT_EQ(other_ports(real, probe(backend, kBudgetS), {}, 0.06), "")
          << name << ", seed " << seed;
    }
}

TEST(PortsOfAnEarlierProbe, AreLookedForAgain) {
  const Machine real = shipped("dgx1");
  Disguise backend(real, forgotten(stripped(real)));
  Machine start = forgotten(stripped(real));
  start.ports.push_back({"gone", 5e9});
  start.links[2].ports.push_back({0, 1});
  start.links[9].ports.push_back({0, 1});
  ProbeRequest request;
  request.budget_s = kBudgetS;
  request.start = &start;
  ProbeReport report;

  EXPECT_EQ(other_ports(real, probe(backend, nullptr, request, report)), "");
}

}  // namespace
}  // namespace fleet::test

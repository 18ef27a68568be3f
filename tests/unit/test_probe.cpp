// SPDX-License-Identifier: BSD-3-Clause
// test_probe.cpp: a probe of a simulated machine finds that machine, from what the runs tell and
// not from what the backend says of itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "exec/probe.hpp"
#include "exec/sim_backend.hpp"
#include "support/scale.hpp"

namespace fleet::test {
namespace {

constexpr double kBudgetS = 60;  // simulated runs take no time; machines under test may be busy

/// Two tasks of which one writes what the other touches, and that nothing orders; or nothing.
std::string unordered_conflict(const Plan& plan) {
  struct Use {
    TaskId task;
    bool writes;
  };
  using Place = std::tuple<Where, TileId>;
  std::map<Place, std::vector<Use>> uses;
  std::vector<std::vector<bool>> behind(plan.tasks.size());
  std::vector<TaskId> last(plan.queues.size(), kNoTask);
  for (TaskId t = 0; t < static_cast<TaskId>(plan.tasks.size()); ++t) {
    const Task& task = plan.tasks[static_cast<std::size_t>(t)];
    std::vector<bool>& before = behind[static_cast<std::size_t>(t)];
    before.assign(static_cast<std::size_t>(t), false);
    const auto follow = [&](TaskId earlier) {
      if (earlier == kNoTask) return;
      const std::vector<bool>& more = behind[static_cast<std::size_t>(earlier)];
      for (std::size_t i = 0; i < more.size(); ++i) before[i] = before[i] || more[i];
      before[static_cast<std::size_t>(earlier)] = true;
    };
    follow(std::exchange(last[static_cast<std::size_t>(task.queue)], t));
    for (const TaskId earlier : plan.after(task)) follow(earlier);

    const auto use = [&](const Where& where, const TileId& tile, bool writes) -> std::string {
      std::vector<Use>& here = uses[{where, where.in_place() ? tile : TileId{0, 0, 0}}];
      for (const Use& other : here)
        if ((writes || other.writes) && other.task != t &&
            !before[static_cast<std::size_t>(other.task)])
          return "tasks " + std::to_string(other.task) + " and " + std::to_string(t);
      here.push_back({t, writes});
      return "";
    };
    std::vector<std::string> found = {use(task.to, task.tile, true)};
    if (task.kind == TaskKind::compute)
      for (std::size_t i = 0; i < task.inputs.size(); ++i)
        found.push_back(use(task.inputs[i], task.input_tiles[i], false));
    else
      found.push_back(use(task.from, task.tile, false));
    for (const std::string& one : found)
      if (!one.empty()) return one;
  }
  return "";
}

/// Runs as `real` does and says that it is `said`: the same shape with other numbers.
class Disguise final : public Backend {
 public:
  Disguise(const Machine& real, Machine said)
      : said_(std::move(said)), backend_(make_sim_backend(real)) {}

  const Machine& machine() const override { return said_; }
  void prepare(const Plan& plan) override {
    if (conflict.empty()) conflict = unordered_conflict(plan);
    backend_->prepare(plan);
  }
  void* slot(const Where& where) override { return backend_->slot(where); }
  void copy(TaskId id, const Task& task, const View& from, const View& to) override {
    backend_->copy(id, task, from, to);
  }
  void launch(TaskId id, const Task& task, const Launch& launch) override {
    backend_->launch(id, task, launch);
  }
  Trace finish() override {
    ++runs;
    Trace trace = backend_->finish();
    if (runs == failing_run) {
      trace.status = Status::device_failed;
      trace.message = "on purpose";
    }
    return trace;
  }
  void* allocate(DeviceId location, std::int64_t bytes) override {
    return backend_->allocate(location, bytes);
  }
  void release(DeviceId location, void* data) override { backend_->release(location, data); }
  void transfer(DeviceId, const View&, DeviceId, const View&, std::int64_t) override {}
  void trim() override { backend_->trim(); }
  std::int64_t available_bytes(DeviceId location) override {
    return backend_->available_bytes(location);
  }

  int runs = 0;
  int failing_run = -1;
  std::string conflict;  ///< of the first plan that has one

 private:
  Machine said_;
  std::unique_ptr<Backend> backend_;
};

/// The same machine with all its rates and capacities forgotten; weights stay unless links of CPU
/// threads, whose weights are made of rates.
Machine forgotten(Machine machine) {
  machine.issue_s = 1;
  for (Port& port : machine.ports)
    if (port.name.find("thread") == port.name.npos && port.name != "cores") port.capacity = 1;
  for (Link& link : machine.links) {
    for (PortShare& share : link.ports)
      if (std::abs(share.weight * link.bytes_per_s - 1) < 1e-9) share.weight = 1 / 1e9;
    link.latency_s = 1;
    link.bytes_per_s = 1e9;
  }
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d) {
    machine.devices[d].launch_s = 1;
    machine.devices[d].memory_bytes_per_s = 1;
    for (KernelRate& rate : machine.devices[d].kernels) rate.flops_per_s = 1;
  }
  return machine;
}

/// Empty, or the first number of `found` that is more than `share` off.
std::string difference(const Machine& real, const Machine& found, double share) {
  const auto off = [&](double a, double b) { return std::abs(a - b) > share * std::abs(a); };
  const auto say = [](const std::string& what, double a, double b) {
    return what + ": " + std::to_string(b) + " instead of " + std::to_string(a);
  };
  if (off(real.issue_s, found.issue_s)) return say("issue", real.issue_s, found.issue_s);
  for (std::size_t l = 0; l < real.links.size(); ++l) {
    const Link &a = real.links[l], &b = found.links[l];
    const std::string name = "link " + std::to_string(l);
    if (off(a.bytes_per_s, b.bytes_per_s)) return say(name, a.bytes_per_s, b.bytes_per_s);
    if (off(a.latency_s, b.latency_s)) return say(name + " latency", a.latency_s, b.latency_s);
    for (std::size_t s = 0; s < a.ports.size(); ++s)
      if (off(a.ports[s].weight, b.ports[s].weight))
        return say(name + " weight", a.ports[s].weight, b.ports[s].weight);
  }
  for (std::size_t p = 0; p < real.ports.size(); ++p)
    if (off(real.ports[p].capacity, found.ports[p].capacity))
      return say("port " + real.ports[p].name, real.ports[p].capacity, found.ports[p].capacity);
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d) {
    const Device &a = real.devices[d], &b = found.devices[d];
    if (off(a.launch_s, b.launch_s)) return say(a.name + " launch", a.launch_s, b.launch_s);
    if (off(a.memory_bytes_per_s, b.memory_bytes_per_s))
      return say(a.name + " memory", a.memory_bytes_per_s, b.memory_bytes_per_s);
    if (a.kernels.size() != b.kernels.size()) return a.name + " has other kernels";
    for (std::size_t k = 0; k < a.kernels.size(); ++k)
      if (a.kernels[k].type != b.kernels[k].type || a.kernels[k].edge != b.kernels[k].edge ||
          off(a.kernels[k].flops_per_s, b.kernels[k].flops_per_s))
        return say(a.name + " kernel " + std::to_string(k), a.kernels[k].flops_per_s,
                   b.kernels[k].flops_per_s);
  }
  return "";
}

/// GPUs on PCIe behind switches of two, host memory that writes wear more than reads, and wires
/// between some of the GPUs. Every port is full when all its links are busy.
Machine random_node(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Machine machine;
  machine.issue_s = between(0.1e-6, 0.9e-6);
  const int gpus = 6 + 2 * static_cast<int>(random() % 2);
  for (int d = 0; d < kFirstDevice + gpus; ++d) {
    Device device;
    device.name = std::to_string(d);
    device.memory_bytes = std::int64_t{1} << 36;
    device.launch_s = between(1e-6, 9e-6);
    device.memory_bytes_per_s = between(1e12, 4e12);
    if (d >= kFirstDevice)
      for (const std::int64_t edge : {256, 1024, 4096})
        device.kernels.push_back({DataType::f64, edge, between(1e13, 6e13)});
    machine.devices.push_back(device);
  }
  const double pcie = between(10e9, 60e9), weight = between(1.2, 1.5);
  machine.ports.push_back({"host memory", pcie * gpus * between(0.4, 0.5)});
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (gpu % 2 == 0) machine.ports.push_back({"switch", pcie * between(1.1, 1.5)});
    const auto its_switch = static_cast<PortId>(1 + gpu / 2);
    const DeviceId d = kFirstDevice + gpu;
    machine.links.push_back(
        {kHost, d, between(2e-6, 9e-6), pcie * between(0.9, 1), {{0, 1}, {its_switch, 1}}});
    machine.links.push_back(
        {d, kHost, between(2e-6, 9e-6), pcie * between(0.9, 1), {{0, weight}, {its_switch, 1}}});
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const double wire = between(50e9, 400e9);
    machine.ports.push_back({"out", wire * between(1, 1.5)});
    for (int other = 0; other < gpus; ++other)
      if (other != gpu)
        machine.links.push_back({kFirstDevice + gpu,
                                 kFirstDevice + other,
                                 between(2e-6, 9e-6),
                                 wire * between(0.8, 1),
                                 {{static_cast<PortId>(machine.ports.size() - 1), 1}}});
  }
  return machine;
}

TEST(Probe, FindsRatesLatenciesAndPortsOfSimulatedNodes) {
  for (std::int64_t seed = 0; seed < scaled(20); ++seed) {
    const Machine real = random_node(static_cast<std::uint64_t>(seed));
    Disguise backend(real, forgotten(real));

    const Machine found = probe(backend, kBudgetS);

    EXPECT_EQ(difference(real, found, 0.01), "") << "seed " << seed;
    EXPECT_EQ(backend.conflict, "") << "seed " << seed;
  }
}

TEST(Probe, FindsShippedMachines) {
  for (const std::string name : {"h200x8", "h200x4", "karolina"}) {
    const Machine real = load_machine(name, FLEETBLAS_SOURCE_DIR "/machines");
    Machine visible = real;
    // There the memory of GPUs 0-3 is full before the PCIe link of any one of them is: all that a
    // load can show is that the link does not limit its two directions.
    for (Port& port : visible.ports)
      if (name == "h200x8" && port.name.starts_with("pcie ") && port.name.back() < '4')
        port.capacity =
            2 *
            real.links[static_cast<std::size_t>(real.find_link(kHost, kFirstDevice))].bytes_per_s;
    Disguise backend(real, forgotten(real));

    EXPECT_EQ(difference(visible, probe(backend, kBudgetS), 0.01), "") << name;
    EXPECT_EQ(backend.conflict, "") << name;
  }
}

TEST(Probe, FindsVirtualDevicesWithTheirThreads) {
  Machine real = host_machine(4, 2, 1 << 30);
  for (Link& link : real.links) {
    const double bytes_per_s =
        4e9 + 1e9 * std::min(link.source, kFirstDevice) + 2e9 * std::min(link.target, kFirstDevice);
    for (PortShare& share : link.ports)
      if (std::abs(share.weight * link.bytes_per_s - 1) < 1e-9) share.weight = 1 / bytes_per_s;
    link.bytes_per_s = bytes_per_s;
    link.latency_s = 3e-6;
  }
  real.issue_s = 0.2e-6;
  real.ports[1].capacity = 12e9;
  ASSERT_EQ(real.ports[1].name, "host memory");
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d) {
    real.devices[d].launch_s = 2e-6;
    for (KernelRate& rate : real.devices[d].kernels)
      rate.flops_per_s = 1e9 * static_cast<double>(rate.edge);
  }
  Disguise backend(real, host_machine(4, 2, 1 << 30));

  const Machine found = probe(backend, kBudgetS);

  EXPECT_EQ(difference(real, found, 0.01), "");
}

TEST(Probe, KeepsACapacityThatNoLoadReaches) {
  Machine real = random_node(1);
  real.ports[0].capacity = 1e15;
  Disguise backend(real, real);

  EXPECT_EQ(difference(real, probe(backend, kBudgetS), 0.01), "");
}

TEST(Probe, MeasuresWithSmallTilesWhereMemoryIsShort) {
  Machine real = host_machine(2, 2, 100 << 10);
  Disguise backend(real, forgotten(real));

  const Machine found = probe(backend, kBudgetS);

  ASSERT_FALSE(found.devices[kFirstDevice].kernels.empty());
  for (const KernelRate& rate : found.devices[kFirstDevice].kernels) {
    EXPECT_LE(rate.edge, 64);
    EXPECT_NEAR(rate.flops_per_s, 10e9, 0.2e9);
  }
}

TEST(Probe, GivesAMachineEvenWhereNothingCanBeMeasured) {
  const Machine real = host_machine(2, 2, 10);
  Disguise backend(real, real);

  const Machine found = probe(backend, kBudgetS);

  EXPECT_EQ(found.devices, real.devices);
}

TEST(Probe, ReportsARunThatFails) {
  const Machine real = random_node(1);
  Disguise backend(real, forgotten(real));
  backend.failing_run = 5;

  EXPECT_THROW(probe(backend, kBudgetS), Error);
}

/// Counts its products, which take so long that there is no time for large ones.
class CountingBlas final : public CpuBlas {
 public:
  explicit CountingBlas(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void gemm(const Launch&) override {
    ++products;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  int products = 0;

 protected:
  void begin_lease(int) override {}
  void end_lease() override {}

 private:
  std::string name_;
};

struct Cache : ::testing::Test {
  Cache() : folder(std::filesystem::path(::testing::TempDir()) / unique_name()) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    options.cache_dir = folder / "fleetblas";
  }
  ~Cache() override { std::filesystem::remove_all(folder); }

  static std::string unique_name() {
    return std::string("fleetblas-") +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
           std::to_string(getpid());
  }

  /// The machine, and whether it was measured for that.
  Machine get(const std::string& blas_name = "blas 1", int devices = 2) {
    CountingBlas blas(blas_name);
    Disguise backend(host_machine(devices, 2, 1 << 30), host_machine(devices, 2, 1 << 30));
    Machine machine = cached_host_machine(options, devices, blas, backend);
    measured = backend.runs > 0;
    EXPECT_EQ(measured, blas.products > 0);
    return machine;
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::exists(options.cache_dir))
      for (const auto& entry : std::filesystem::directory_iterator(options.cache_dir))
        found.push_back(entry.path());
    return found;
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) { std::ofstream(files().at(0)) << text; }

  std::filesystem::path folder;
  Options options;
  bool measured = false;
};

TEST_F(Cache, MeasuresOnceAndThenReads) {
  const Machine first = get();
  EXPECT_TRUE(measured);
  const Machine second = get();
  EXPECT_FALSE(measured);

  EXPECT_EQ(first, second);
  EXPECT_FALSE(second.devices[kHost].kernels.empty());
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(std::filesystem::status(files()[0]).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Cache, KeepsMachinesOfOtherLibrariesAndDeviceCountsApart) {
  get();
  get("blas 2");
  EXPECT_TRUE(measured);
  EXPECT_EQ(get("blas 1", 3).device_count(), 3);
  EXPECT_TRUE(measured);
  get();
  EXPECT_FALSE(measured);
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(Cache, RebuildsAFileThatIsDamagedOrOfAnotherKind) {
  const Machine machine = get();
  const std::string whole = text_of(files().at(0));
  std::string other_schema = whole, other_key = whole, no_links = whole;
  other_schema.replace(other_schema.find("\"schema\": 1"), 11, "\"schema\": 7");
  other_key.replace(other_key.find("blas 1"), 6, "blas X");
  no_links.replace(no_links.find("\"links\""), 7, "\"l1nks\"");
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[1, 2]"),
        std::string("\xff\xfe"), other_schema, other_key, no_links}) {
    write(text);
    EXPECT_EQ(get().links, machine.links);
    EXPECT_TRUE(measured);
    get();
    EXPECT_FALSE(measured);
  }
}

TEST_F(Cache, TrustsNoFileThatOthersCanWrite) {
  get();
  std::filesystem::permissions(files().at(0), std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  get();
  EXPECT_TRUE(measured);
}

TEST_F(Cache, NeitherReadsNorReplacesASymlink) {
  get();
  const std::filesystem::path file = files().at(0), elsewhere = folder / "elsewhere";
  std::filesystem::rename(file, elsewhere);
  std::filesystem::create_symlink(elsewhere, file);
  const std::string before = text_of(elsewhere);

  get();

  EXPECT_TRUE(measured);
  EXPECT_TRUE(std::filesystem::is_symlink(file));
  EXPECT_EQ(text_of(elsewhere), before);
}

TEST_F(Cache, LeavesAFolderOrADeviceInItsPlaceAlone) {
  get();
  const std::filesystem::path file = files().at(0);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);

  get();

  EXPECT_TRUE(measured);
  EXPECT_EQ(files(), std::vector<std::filesystem::path>{file});  // nothing half-written beside it
}

TEST_F(Cache, WorksWithoutAFolder) {
  for (const std::filesystem::path& place :
       {std::filesystem::path(), folder / "not" / "there" / "yet", folder / "file" / "in it"}) {
    std::ofstream(folder / "file") << "no folder";
    options.cache_dir = place;

    get();

    EXPECT_TRUE(measured) << place;
    EXPECT_FALSE(std::filesystem::exists(folder / "not"));
  }
}

TEST_F(Cache, TakesTheMemoryOfTodayAndKeepsNothingThatLittleMemoryAllowed) {
  CountingBlas blas("blas 1");
  Disguise small(host_machine(2, 2, 1 << 20), host_machine(2, 2, 1 << 20));
  cached_host_machine(options, 2, blas, small);
  EXPECT_TRUE(files().empty());

  get();
  const Machine machine = cached_host_machine(options, 2, blas, small);

  EXPECT_EQ(machine.devices[kFirstDevice].memory_bytes, 1 << 20);
}

TEST(HostMachine, HasALinkForEachPairAndAThreadForEachDevice) {
  const Machine machine = host_machine(3, 2, 1 << 20);

  EXPECT_EQ(machine.device_count(), 3);
  EXPECT_EQ(machine.links.size(), 2u + 3 * 2 + 3 * 2);
  for (DeviceId device = kFirstDevice; device < kFirstDevice + 3; ++device) {
    EXPECT_GE(machine.find_link(kHost, device), 0);
    EXPECT_GE(machine.find_link(device, kHost), 0);
    EXPECT_EQ(machine.find_link(kPageable, device), -1);  // pageable memory goes through the ring
    EXPECT_EQ(machine.devices[static_cast<std::size_t>(device)].lanes, 1);
    EXPECT_EQ(machine.devices[static_cast<std::size_t>(device)].memory_bytes, 1 << 20);
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64,
                                DataType::f16, DataType::bf16, DataType::tf32})
      EXPECT_TRUE(machine.can_compute(device, type));
  }
  EXPECT_GE(machine.find_link(kPageable, kHost), 0);
  EXPECT_EQ(parse_machine(to_json(machine)), machine);
}

}  // namespace
}  // namespace fleet::test

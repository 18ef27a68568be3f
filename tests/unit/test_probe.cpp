// SPDX-License-Identifier: BSD-3-Clause
// test_probe.cpp: a probe of a simulated machine finds that machine, from its runs and not from the
// backend's own description.
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

#include "backend/host/machine.hpp"
#include "backend/sim/backend.hpp"
#include "base/error.hpp"
#include "probe/probe.hpp"
#include "probe/times.hpp"
#include "support/probe_nodes.hpp"
#include "support/scale.hpp"

namespace fleet::test {
namespace {

constexpr double kBudgetS = 60;  // simulated runs take no time; machines under test may be busy

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
    // In this machine the memory of GPUs 0-3 is full before the PCIe link of any of them: a load
    // can only show that the link does not limit its two directions.
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

TEST(Probe, FindsTheLatencyOfCopiesSentInTurn) {
  const Machine four = load_machine("h200x4", FLEETBLAS_SOURCE_DIR "/machines");
  for (Machine real : {four, sub_machine(four, {0, 1})}) {
    for (Link& link : real.links)
      if (!on_host(link.source) && !on_host(link.target)) link.sent_latency_s = link.latency_s / 2;
    Disguise backend(real, forgotten(real));

    const Machine found = probe(backend, kBudgetS);

    EXPECT_EQ(found.sends_in_turn(), real.sends_in_turn()) << real.device_count();
    for (LinkId id = 0; id < std::ssize(real.links); ++id) {
      const double sent_s = real.links[static_cast<std::size_t>(id)].sent_latency_s;
      EXPECT_NEAR(found.links[static_cast<std::size_t>(id)].sent_latency_s, sent_s, 0.03 * sent_s)
          << link_name(real, id) << " of " << real.device_count();
    }
    EXPECT_EQ(backend.conflict, "");
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

class Overlapping final : public Disguise {
 public:
  using Disguise::Disguise;
  bool overlaps_launches() const override { return true; }
};

TEST(Probe, TakesNoSmallProductForFasterWhereLaunchesOverlap) {
  Machine real = random_node(3);
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d)
    real.devices[d].kernels = {
        {DataType::f64, 256, 9e13}, {DataType::f64, 1024, 3e13}, {DataType::f64, 4096, 5e13}};
  Overlapping backend(real, forgotten(real));

  const Machine found = probe(backend, kBudgetS);

  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d) {
    EXPECT_NEAR(found.devices[d].kernels[0].flops_per_s, 3e13, 3e11);
    EXPECT_NEAR(found.devices[d].kernels[1].flops_per_s, 3e13, 3e11);
    EXPECT_NEAR(found.devices[d].kernels[2].flops_per_s, 5e13, 5e11);
  }
}

TEST(Probe, MeasuresFastTypesOnLongProductsWhereTimeIsShort) {
  Machine real = random_node(2);
  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d) {
    real.devices[d].kernels.clear();
    for (const DataType type : {DataType::f64, DataType::f16, DataType::tf32})
      for (const std::int64_t edge : {512, 2048, 4096})
        real.devices[d].kernels.push_back({type, edge, 5e13});
  }
  Overlapping backend(real, forgotten(real));

  const Machine found = probe(backend, kBudgetS);

  for (std::size_t d = kFirstDevice; d < real.devices.size(); ++d)
    for (const DataType type : {DataType::f64, DataType::f16, DataType::tf32}) {
      const auto first = std::ranges::find(found.devices[d].kernels, type, &KernelRate::type);
      ASSERT_NE(first, found.devices[d].kernels.end());
      EXPECT_EQ(first->edge, type == DataType::f64 ? 512 : 2048) << word_of(type);
    }
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

/// Counts its products, which are so slow that no time is left for large ones.
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

  /// The machine, and whether this call measured it.
  Machine get(const std::string& blas_name = "blas 1", int devices = 2) {
    CountingBlas blas(blas_name);
    Disguise backend(host_machine(devices, 2, 1 << 30), host_machine(devices, 2, 1 << 30));
    Machine machine = cached_host_machine(options, devices, blas, backend).machine;
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

TEST_F(Cache, ReadsAMachineOfAsManyDevicesAsItWrites) {
  // Its file has a link for each pair: 16,000, or under sanitizers 1000.
  const int devices = test_scale() < 1 ? 32 : 128;
  get("blas 1", devices);
  ASSERT_EQ(files().size(), 1u);

  const Machine machine = get("blas 1", devices);

  EXPECT_FALSE(measured);
  EXPECT_EQ(machine.device_count(), devices);
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

TEST_F(Cache, KeepsMachinesWithFewerPairsThatCopyDirectlyApart) {
  const Machine whole = host_machine(2, 2, 1 << 30);
  Machine without = whole;
  std::erase_if(without.links, [](const Link& link) {  // as nopeer does
    return !on_host(link.source) && !on_host(link.target);
  });
  const auto is_measured = [&](const Machine& shape) {
    CountingBlas blas("blas 1");
    Disguise backend(shape, shape);
    EXPECT_EQ(cached_gpu_machine(options, "GPUs 0 and 1", blas, backend).machine.links.size(),
              shape.links.size());
    return backend.runs > 0;
  };

  EXPECT_TRUE(is_measured(whole));
  EXPECT_TRUE(is_measured(without));

  EXPECT_FALSE(is_measured(whole));
  EXPECT_FALSE(is_measured(without));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Cache, RebuildsAFileThatIsDamagedOrOfAnotherKind) {
  const Machine machine = get();
  const std::string whole = text_of(files().at(0));
  std::string other_schema = whole, other_key = whole, no_links = whole;
  other_schema.replace(other_schema.find("\"schema\": 2"), 11, "\"schema\": 7");
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
  EXPECT_EQ(files(), std::vector<std::filesystem::path>{file});  // no partial file beside it
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
  const Machine machine = cached_host_machine(options, 2, blas, small).machine;

  EXPECT_EQ(machine.devices[kFirstDevice].memory_bytes, 1 << 20);
}

TEST_F(Cache, TakesTheTimesOfPanelsFromTheBackendOfToday) {
  const auto potrf = static_cast<std::size_t>(Factoring::potrf);
  get();
  CountingBlas blas("blas 1");
  Machine today = host_machine(2, 2, 1 << 30);
  today.devices[kFirstDevice].panels[potrf].column_s = 3e-6;
  Disguise backend(today, today);

  const Machine machine = cached_host_machine(options, 2, blas, backend).machine;

  EXPECT_EQ(backend.runs, 0);
  EXPECT_EQ(machine.devices[kFirstDevice].panels[potrf].column_s, 3e-6);
  EXPECT_EQ(machine.devices[kFirstDevice + 1].panels[potrf].column_s, 0);
}

TEST(Spread, IsHowFarTheMedianIsAboveTheLeast) {
  EXPECT_EQ(spread_of({2, 2, 2}), 0);
  EXPECT_EQ(spread_of({4, 2, 2}), 0);  // one sample may be long
  EXPECT_EQ(spread_of({4, 3, 2, 3, 2.5}), 0.5);
  EXPECT_EQ(spread_of({}), 0);
}

TEST(HostMachine, HasALinkForEachPairAndAThreadForEachDevice) {
  const Machine machine = host_machine(3, 2, 1 << 20);

  EXPECT_EQ(machine.device_count(), 3);
  EXPECT_EQ(machine.links.size(), 2u + 3 * 2 + 3 * 2);
  for (DeviceId device = kFirstDevice; device < kFirstDevice + 3; ++device) {
    EXPECT_GE(machine.find_link(kHost, device), 0);
    EXPECT_GE(machine.find_link(device, kHost), 0);
    EXPECT_EQ(machine.find_link(kPageable, device),
              -1);  // pageable memory is reached through the ring
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

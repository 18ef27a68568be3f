// SPDX-License-Identifier: BSD-3-Clause
// test_examine.cpp: an examination relies on data alone: a link or memory that corrupts data, fails
// or is missing is reported by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "backend/sim/backend.hpp"
#include "base/error.hpp"
#include "fleetblas/fleetblas.h"
#include "probe/examine.hpp"
#include "probe/probe.hpp"
#include "support/cpu_blas.hpp"
#include "support/host_context.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet::test {
namespace {

using Json = nlohmann::json;
using Verdict = Finding::Verdict;

constexpr std::int64_t kMemory = std::int64_t{64} << 20;

Options injected(const std::string& faults) {
  Options options;
  if (!faults.empty()) set_option(options, "inject", faults);
  return options;
}

/// Virtual devices with one link, or one memory, that corrupts data.
class Liar final : public WrappedBackend {
 public:
  explicit Liar(const Machine& machine)
      : WrappedBackend(make_host_backend(machine, shared_cpu_blas(), Options{})) {}

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return std::make_unique<LyingRun>(WrappedBackend::begin(plan, binding, serial), plan,
                                      lying_link);
  }
  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    WrappedBackend::transfer(to_location, to, from_location, from, element_bytes);
    if (to_location == lying_memory) static_cast<char*>(to.data)[100] ^= 1;
  }

  LinkId lying_link = -1;
  DeviceId lying_memory = -1;

 private:
  class LyingRun final : public WrappedExecution {
   public:
    LyingRun(std::unique_ptr<Execution> inner, const Plan& plan, LinkId link)
        : WrappedExecution(std::move(inner)), plan_(plan), link_(link) {}
    void copy(TaskId id, const View& from, const View& to) override {
      if (plan_.tasks[static_cast<std::size_t>(id)].link != link_)
        return WrappedExecution::copy(id, from, to);
      // One number of the tile is replaced by another.
      const auto words = static_cast<std::size_t>(from.ld * from.cols);
      const auto* right = static_cast<const double*>(from.data);
      wrong_.assign(right, right + words);
      wrong_[words / 2] = -1;
      View other = from;
      other.data = wrong_.data();
      WrappedExecution::copy(id, other, to);
    }

   private:
    const Plan& plan_;
    const LinkId link_;
    std::vector<double> wrong_;
  };
};

std::vector<std::string> subjects(const std::vector<Finding>& findings, Verdict verdict) {
  std::vector<std::string> names;
  for (const Finding& finding : findings)
    if (finding.verdict == verdict) names.push_back(finding.subject);
  return names;
}

using Names = std::vector<std::string>;

TEST(ExamineLinks, VerifiesEveryDeviceAndEveryPair) {
  const auto backend = make_host_backend(host_machine(3, 2, kMemory), shared_cpu_blas(), Options{});

  const std::vector<Finding> findings = examine_links(*backend, backend->machine());

  EXPECT_EQ(subjects(findings, Verdict::ok),
            (Names{"device 0", "device 1", "device 2", "pageable memory", "link 0->1", "link 0->2",
                   "link 1->0", "link 1->2", "link 2->0", "link 2->1"}));
  EXPECT_EQ(findings.size(), 10U);
}

TEST(ExamineLinks, NamesThePairWhoseDataChangesOnTheWay) {
  Liar backend(host_machine(3, 2, kMemory));
  backend.lying_link = backend.machine().find_link(kFirstDevice + 2, kFirstDevice + 1);

  const std::vector<Finding> findings = examine_links(backend, backend.machine());

  EXPECT_EQ(subjects(findings, Verdict::broken), Names{"link 2->1"});
  const auto lie = std::ranges::find(findings, std::string("link 2->1"), &Finding::subject);
  EXPECT_EQ(lie->text, "1 of 262144 numbers are wrong, the first at byte 1048576");
  EXPECT_NE(lie->advice, "");
}

TEST(ExamineLinks, NamesTheDeviceWhoseMemoryChangesData) {
  Liar backend(host_machine(2, 2, kMemory));
  backend.lying_memory = kFirstDevice + 1;

  const Names broken = subjects(examine_links(backend, backend.machine()), Verdict::broken);

  EXPECT_NE(std::ranges::find(broken, "device 1"), broken.end());
  EXPECT_EQ(std::ranges::find(broken, "device 0"), broken.end());
}

TEST(ExamineLinks, NamesPairsWithoutDirectCopies) {
  const auto backend =
      make_host_backend(host_machine(3, 2, kMemory), shared_cpu_blas(), injected("nopeer:0-2"));

  const std::vector<Finding> findings = examine_links(*backend, backend->machine());

  EXPECT_EQ(subjects(findings, Verdict::slow), Names{"peer copies"});
  const auto peers = std::ranges::find(findings, std::string("peer copies"), &Finding::subject);
  EXPECT_NE(peers->text.find("2 pairs (0->2, 2->0)"), std::string::npos) << peers->text;
  EXPECT_TRUE(subjects(findings, Verdict::broken).empty());
}

TEST(ExamineLinks, ReportsALostDeviceAndGoesOnWithTheOthers) {
  const auto backend =
      make_host_backend(host_machine(3, 2, kMemory), shared_cpu_blas(), injected("lost:1@0"));

  const std::vector<Finding> findings = examine_links(*backend, backend->machine());

  const Names broken = subjects(findings, Verdict::broken), fine = subjects(findings, Verdict::ok);
  EXPECT_NE(std::ranges::find(broken, "device 1"), broken.end());
  EXPECT_NE(std::ranges::find(broken, "link 0->1"), broken.end());
  EXPECT_NE(std::ranges::find(fine, "link 2->0"), fine.end());
}

TEST(ExamineLinks, SendsLessWhereMemoryIsShortAndSaysWhereThereIsNone) {
  const auto tight = make_host_backend(host_machine(2, 2, 64 << 10), shared_cpu_blas(), Options{});
  const auto none = make_host_backend(host_machine(2, 2, 4 << 10), shared_cpu_blas(), Options{});

  EXPECT_TRUE(subjects(examine_links(*tight, tight->machine()), Verdict::broken).empty());
  const std::vector<Finding> findings = examine_links(*none, none->machine());
  const auto device = std::ranges::find(findings, std::string("device 0"), &Finding::subject);
  EXPECT_EQ(device->verdict, Verdict::broken);
  EXPECT_TRUE(device->text.starts_with("no memory")) << device->text;
}

TEST(ExamineLinks, NamesALinkThatIsMuchSlowerThanItsLikes) {
  Machine machine = host_machine(3, 2, kMemory);
  machine.links[static_cast<std::size_t>(machine.find_link(kHost, kFirstDevice + 1))].bytes_per_s =
      1e9;
  const auto backend = make_host_backend(machine, shared_cpu_blas(), Options{});

  const std::vector<Finding> findings = examine_links(*backend, backend->machine());

  EXPECT_EQ(subjects(findings, Verdict::slow), Names{"link host->1"});
  const auto link = std::ranges::find(findings, std::string("link host->1"), &Finding::subject);
  EXPECT_EQ(link->text, "1.0 GB/s where the fastest of its kind has 5.0 GB/s");
}

TEST(ExamineLinks, SaysThatASimulationHasNothingToVerify) {
  const auto backend = make_sim_backend(host_machine(2, 2, kMemory));

  const std::vector<Finding> findings = examine_links(*backend, backend->machine());

  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings)
    EXPECT_EQ(finding.text, "simulated: nothing to verify") << finding.subject;
}

TEST(ExamineHost, SaysWhereMachinesAreKeptAndHowOldTheyAre) {
  namespace fs = std::filesystem;
  const fs::path folder = temporary_file("cache");
  fs::create_directory(folder);
  Options options;
  options.cache_dir = folder.string();
  const auto blas = shared_cpu_blas();
  const auto cache = [&] {
    const std::vector<Finding> findings = examine_host(options, *blas);
    return *std::ranges::find(findings, std::string("cache folder"), &Finding::subject);
  };

  const Finding empty = cache();
  std::ofstream(folder / "machine-1.json") << "{}";
  const Finding fresh = cache();
  fs::last_write_time(folder / "machine-1.json",
                      fs::file_time_type::clock::now() - std::chrono::hours(24 * 100));
  const Finding old = cache();
  fs::remove_all(folder);
  options.cache_dir = "/proc/no/such/folder";
  const Finding unwritable = cache();
  options.cache_dir.clear();
  const Finding none = cache();

  EXPECT_EQ(empty.verdict, Verdict::ok);
  EXPECT_NE(empty.text.find("no measured machine yet"), std::string::npos);
  EXPECT_EQ(fresh.verdict, Verdict::ok);
  EXPECT_NE(fresh.text.find("1 measured machine, the newest 0 days old"), std::string::npos);
  EXPECT_EQ(old.verdict, Verdict::slow);
  EXPECT_NE(old.text.find("100 days old"), std::string::npos);
  EXPECT_EQ(unwritable.verdict, Verdict::slow);
  EXPECT_NE(unwritable.text.find("cannot be written"), std::string::npos);
  EXPECT_EQ(none.verdict, Verdict::slow);
}

TEST(ExamineHost, TriesWhetherTheFolderForMachinesCanBeMade) {
  namespace fs = std::filesystem;
  const fs::path above = temporary_file("above");
  fs::create_directory(above);
  const auto blas = shared_cpu_blas();
  const auto verdict_on = [&](const std::string& folder) {
    Options options;
    options.cache_dir = folder;
    const std::vector<Finding> findings = examine_host(options, *blas);
    return std::ranges::find(findings, std::string("cache folder"), &Finding::subject)->verdict;
  };
  const fs::path before = fs::current_path();
  fs::current_path(above);

  const Verdict relative = verdict_on("relative"), below = verdict_on("some/relative");
  const Verdict two_above = verdict_on((above / "a" / "b").string());
  const Verdict three_above = verdict_on((above / "a" / "b" / "c").string());
  fs::current_path(before);

  EXPECT_EQ(relative, Verdict::ok);
  EXPECT_EQ(below, Verdict::ok);
  EXPECT_EQ(two_above, Verdict::ok);
  EXPECT_EQ(three_above, Verdict::slow);  // the library makes two folders at most
  EXPECT_EQ(verdict_on("/proc/x"), Verdict::slow);
  EXPECT_TRUE(fs::is_empty(above));
}

Json doctor(const std::string& options) {
  char* text = nullptr;
  EXPECT_EQ(fleet_doctor_json(options.c_str(), &text), FLEET_OK) << fleet_message();
  const Json found = Json::parse(text);
  fleet_free_text(text);
  return found;
}

std::map<std::string, std::string> verdicts(const Json& found) {
  std::map<std::string, std::string> by_subject;
  for (const Json& finding : found["findings"]) by_subject[finding["subject"]] = finding["verdict"];
  return by_subject;
}

TEST(Doctor, FindsVirtualDevicesHealthy) {
  const Json found = doctor(host_options(2));

  EXPECT_EQ(found["healthy"], true) << found.dump(1);
  const auto by_subject = verdicts(found);
  for (const char* subject : {"CPU BLAS", "cores", "host memory", "locked memory", "cache folder",
                              "machine", "virtual devices", "device 0", "link 1->0"})
    EXPECT_EQ(by_subject.count(subject), 1U) << subject;
}

TEST(Doctor, ShowsFaultsOnPurpose) {
  const Json slower = doctor(host_options(2) + ";inject=nopeer");
  const Json lost = doctor(host_options(2) + ";inject=lost:1@0");

  EXPECT_EQ(slower["healthy"], true);
  EXPECT_EQ(verdicts(slower)["peer copies"], "slow");
  EXPECT_EQ(verdicts(slower)["inject"], "slow");
  EXPECT_EQ(lost["healthy"], false);
  EXPECT_EQ(verdicts(lost)["device 1"], "broken");
}

TEST(Doctor, TakesWhatDoesNotStartAsAFinding) {
  const Json no_file = doctor("backend=host;machine=/nowhere/at/all.json");
  const Json no_blas = doctor(host_options(1) + ";cpu_blas=/nowhere/libblas.so");

  EXPECT_EQ(no_file["healthy"], false);
  EXPECT_EQ(verdicts(no_file)["devices"], "broken");
  EXPECT_EQ(no_blas["healthy"], false);
}

TEST(Doctor, RefusesOptionsThatMeanNothing) {
  char* text = nullptr;

  EXPECT_EQ(fleet_doctor_json("backend=fast", &text), FLEET_BAD_OPTION);
  EXPECT_EQ(fleet_doctor_json("", nullptr), FLEET_BAD_ARGUMENT);

  EXPECT_EQ(text, nullptr);
}

}  // namespace
}  // namespace fleet::test

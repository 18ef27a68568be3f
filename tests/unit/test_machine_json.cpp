// SPDX-License-Identifier: BSD-3-Clause
// test_machine_json.cpp: machines as JSON, written and read, with every refusal, and as files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/machine.hpp"
#include "support/random_plans.hpp"
#include "support/refusal.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::refusal;
using Random = test::Generator;

/// Any positive double: every exponent, all bits of the fraction.
double any_positive(Random& random) {
  const double fraction = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
  return std::ldexp(fraction, static_cast<int>(between(random, -1022, 1023)));
}

std::vector<PortShare> any_shares(Random& random, std::int64_t ports) {
  std::vector<PortShare> shares;
  for (PortId p = 0; p < ports; ++p)
    if (chance(random, 30)) shares.push_back({p, any_positive(random)});
  return shares;
}

std::vector<ColumnRate> any_columns(Random& random) {
  std::vector<ColumnRate> columns;
  for (std::int64_t bytes = 0; chance(random, 50);) {
    bytes += test::between(random, 1, 9000);
    columns.push_back({bytes, 1 / static_cast<double>(test::between(random, 1, 1000))});
  }
  return columns;
}

Machine any_machine(Random& random) {
  Machine m;
  m.name = "a \"name\"\n\\ of \u00e4\u4e2d";
  m.source = chance(random, 50) ? "" : "measured";
  m.issue_s = chance(random, 50) ? 0 : any_positive(random);
  const std::int64_t ports = between(random, 0, 5), devices = between(random, 0, 5);
  for (std::int64_t p = 0; p < ports; ++p)
    m.ports.push_back({"port " + std::to_string(p), any_positive(random)});
  for (std::int64_t d = -kFirstDevice; d < devices; ++d) {
    Device device{.name = d == -2   ? "host"
                          : d == -1 ? "pageable"
                                    : std::to_string(d),
                  .memory_bytes = between(random, 1, 9'000'000'000'000'000'000),
                  .lanes = static_cast<int>(between(random, 1, 256)),
                  .launch_s = chance(random, 50) ? 0 : any_positive(random),
                  .memory_bytes_per_s = chance(random, 50) ? 0 : any_positive(random)};
    if (chance(random, 50)) device.filling_elements = between(random, 1, 1LL << 40);
    if (chance(random, 50)) device.lanes_beside_solves = static_cast<int>(between(random, 1, 256));
    if (chance(random, 50)) device.inverse_order = between(random, 0, 1LL << 40);
    for (double* usual : {&device.prepare_s, &device.solve_row_s, &device.plain_row_s,
                          &device.solve_element_s, &device.triangle_share})
      if (chance(random, 50)) *usual = any_positive(random);
    for (const DataType type : kDataTypes)
      for (std::int64_t edge = 1; chance(random, 60); edge += between(random, 1, 1'000'000))
        device.kernels.push_back({type, edge, any_positive(random)});
    device.ports = any_shares(random, ports);
    if (chance(random, 50))
      device.watts = {chance(random, 50) ? 0 : any_positive(random),
                      any_positive(random),
                      any_positive(random),
                      any_positive(random),
                      any_positive(random),
                      any_positive(random)};
    m.devices.push_back(device);
  }
  for (DeviceId a = 0; a < std::ssize(m.devices); ++a)
    for (DeviceId b = 0; b < std::ssize(m.devices); ++b)
      if (a != b && chance(random, 70))
        m.links.push_back({.source = a,
                           .target = b,
                           .latency_s = chance(random, 50) ? 0 : any_positive(random),
                           .bytes_per_s = any_positive(random),
                           .ports = any_shares(random, ports),
                           .columns = any_columns(random),
                           .near_columns = any_columns(random),
                           .sent_latency_s = on_host(a) || on_host(b) || chance(random, 50)
                                                 ? 0
                                                 : any_positive(random)});
  return m;
}

TEST(MachineJson, HasWhatIsNotAsUsualOfADeviceOnly) {
  Machine machine = test::node(1);
  const std::string usual = to_json(machine);
  for (const char* key :
       {"filling_elements", "lanes_beside_solves", "inverse_order", "prepare_s", "solve_row_s",
        "plain_row_s", "solve_element_s", "triangle_share", "watts"})
    EXPECT_EQ(usual.find(key), std::string::npos) << key;

  Device& device = machine.devices[kFirstDevice];
  device.filling_elements = 5;
  device.lanes_beside_solves = 7;
  device.inverse_order = 512;
  const Machine again = parse_machine(to_json(machine));
  EXPECT_EQ(again, machine);
  EXPECT_EQ(again.devices[kFirstDevice].filling_elements, 5);
  EXPECT_EQ(again.devices[kFirstDevice].lanes_beside_solves, 7);
  EXPECT_EQ(again.devices[kFirstDevice].inverse_order, 512);
  EXPECT_EQ(again.devices[kHost].inverse_order, 0);
}

TEST(LinkRate, IsInterpolatedForColumnsThatLieApartAtHomeOnly) {
  const Link link{.source = kHost,
                  .target = kFirstDevice,
                  .bytes_per_s = 100,
                  .ports = {},
                  .columns = {{1000, 0.2}, {2000, 0.6}, {4000, 0.5}}};
  const auto rate = [&](std::int64_t column_bytes, DeviceId home = kHost) {
    return link.rate({.bytes = 1, .column_bytes = column_bytes, .home = home});
  };
  EXPECT_DOUBLE_EQ(rate(1000), 20);
  EXPECT_DOUBLE_EQ(rate(1500), 40);
  EXPECT_DOUBLE_EQ(rate(2000), 60);
  EXPECT_DOUBLE_EQ(rate(3000), 55);
  EXPECT_DOUBLE_EQ(rate(9000), 50);  // constant beyond the last
  EXPECT_DOUBLE_EQ(rate(500), 10);   // a column takes at least as long as the shortest known
  EXPECT_DOUBLE_EQ(rate(0), 100);    // contiguous memory
  EXPECT_DOUBLE_EQ(rate(1000, kFirstDevice), 20);
  EXPECT_DOUBLE_EQ(rate(1000, kFirstDevice + 1), 100);  // dense at both ends
  EXPECT_DOUBLE_EQ(Link{.bytes_per_s = 100}.rate({.column_bytes = 8}), 100);
}

TEST(LinkRate, IsInterpolatedBetweenDistancesOfColumns) {
  Link link{.source = kHost,
            .target = kFirstDevice,
            .bytes_per_s = 100,
            .ports = {},
            .columns = {{1000, 0.2}, {2000, 0.6}}};
  const auto rate = [&](std::int64_t column_bytes, std::int64_t apart_bytes) {
    return link.rate({.bytes = 1, .column_bytes = column_bytes, .apart_bytes = apart_bytes});
  };
  EXPECT_DOUBLE_EQ(rate(1000, kNearColumns), 20);  // not known
  link.near_columns = {{1000, 0.8}, {1500, 0.9}, {kNearColumns, 1}};
  EXPECT_DOUBLE_EQ(rate(1000, kNearColumns), 80);
  EXPECT_DOUBLE_EQ(rate(1000, kNearColumns / 4), 95);
  EXPECT_DOUBLE_EQ(rate(1500, kNearColumns), 90);
  EXPECT_DOUBLE_EQ(rate((1500 + kNearColumns) / 2, kNearColumns), 95);  // to what is contiguous
  EXPECT_DOUBLE_EQ(rate(2 * kNearColumns, kNearColumns), 100);
  EXPECT_DOUBLE_EQ(rate(1000, kNearColumns * 3 / 2), 50);
  EXPECT_DOUBLE_EQ(rate(1000, kFarColumns), 20);
  EXPECT_DOUBLE_EQ(rate(2000, kFarColumns * 9), 60);
}

TEST(MachineJson, GivesBackEveryMachineBitForBit) {
  Random random(2);
  for (int trial = 0; trial < test::scaled(500); ++trial) {
    const Machine m = any_machine(random);
    ASSERT_EQ(parse_machine(to_json(m)), m) << to_json(m);
  }
}

TEST(MachineJson, ReadsSchema1WithOneNumberForAllThatADeviceDoes) {
  const Machine m = parse_machine(R"({"schema": 1, "name": "", "source": "", "devices": [
    {"name": "host", "memory_bytes": 1}, {"name": "pageable", "memory_bytes": 1},
    {"name": "0", "memory_bytes": 1, "idle_watts": 50, "busy_watts": 300},
    {"name": "1", "memory_bytes": 1}]})");
  EXPECT_EQ(m.devices[kFirstDevice].watts, (Watts{50, 300, 300, 300, 300, 300}));
  EXPECT_FALSE(m.devices[kFirstDevice + 1].watts.known());
  EXPECT_EQ(parse_machine(to_json(m)), m);
}

TEST(MachineJson, SortsKernelsByTypeAndEdge) {
  const Machine m = parse_machine(R"({"schema": 1, "name": "", "source": "", "devices": [
    {"name": "host", "memory_bytes": 1}, {"name": "pageable", "memory_bytes": 1},
    {"name": "0", "memory_bytes": 1, "kernels": [
      {"type": "d", "edge": 64, "flops_per_s": 2}, {"type": "s", "edge": 8, "flops_per_s": 3},
      {"type": "d", "edge": 32, "flops_per_s": 1}]}]})");
  EXPECT_EQ(m.devices[kFirstDevice].kernels,
            (std::vector<KernelRate>{
                {DataType::f32, 8, 3}, {DataType::f64, 32, 1}, {DataType::f64, 64, 2}}));
  EXPECT_EQ(m.devices[kFirstDevice].lanes, 8);
}

/// A valid file in which `from` is replaced by `to`.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = R"({"schema": 2, "name": "n", "source": "s", "notes": [1, {}], "issue_s": 0,
    "ports": [{"name": "p", "capacity": 5}, {"name": "q", "capacity": 6}],
    "devices": [{"name": "host", "memory_bytes": 7}, {"name": "pageable", "memory_bytes": 7},
      {"name": "0", "memory_bytes": 8, "lanes": 2, "launch_s": 0.5,
       "kernels": [{"type": "d", "edge": 9, "flops_per_s": 10}],
       "ports": [{"port": "p", "weight": 11}]}],
    "links": [{"from": "host", "to": "0", "latency_s": 12, "bytes_per_s": 13,
               "columns": [{"bytes": 15, "share": 0.25}, {"bytes": 16, "share": 0.5}],
               "ports": [{"port": "q", "weight": 14}]}]})";
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;  ///< after "machine file: "
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.message; }

class WrongMachine : public testing::TestWithParam<Wrong> {};

TEST_P(WrongMachine, IsRefusedNamingThePlace) {
  const auto& [from, to, message] = GetParam();
  const std::string said = refusal(Status::bad_file, [&] { parse_machine(edited(from, to)); });
  EXPECT_EQ(said, std::string("machine file: ") + message);
}

INSTANTIATE_TEST_SUITE_P(
    Root, WrongMachine,
    testing::Values(
        Wrong{"{\"schema\"", "\"schema\"", "damaged JSON at byte 9"},
        Wrong{"\"schema\": 2", "\"schema\": 3", "schema 3, this version reads schemas 1 to 2"},
        Wrong{"\"schema\": 2", "\"schema\": 0", "schema 0, this version reads schemas 1 to 2"},
        Wrong{"\"schema\": 2,", "", "the file has no 'schema'"},
        Wrong{"\"schema\": 2", "\"schema\": 1.5", "the file: 'schema' is not a whole number"},
        Wrong{"\"name\": \"n\"", "\"name\": 3", "the file: 'name' is not a string"},
        Wrong{"\"source\": \"s\",", "", "the file has no 'source'"},
        Wrong{"\"issue_s\": 0", "\"issue_s\": -1", "the file: 'issue_s' is negative"},
        Wrong{"\"issue_s\": 0", "\"isue_s\": 0", "the file has an unknown key 'isue_s'"},
        Wrong{"\"notes\": [1, {}]", "\"notes\": 1e999", "a number is out of range"}));

INSTANTIATE_TEST_SUITE_P(
    Ports, WrongMachine,
    testing::Values(
        Wrong{"[{\"name\": \"p\", \"capacity\": 5}", "[3", "port 0 is not an object"},
        Wrong{"\"capacity\": 5", "\"capacity\": 0", "port 0: 'capacity' is not positive"},
        Wrong{"\"capacity\": 6", "\"capacity\": \"6\"", "port 1: 'capacity' is not a number"},
        Wrong{"{\"name\": \"q\"", "{\"name\": \"p\"", "port 1 has the name of another"},
        Wrong{"\"capacity\": 6", "\"capacity\": 6, \"x\": 1", "port 1 has an unknown key 'x'"}));

INSTANTIATE_TEST_SUITE_P(
    Devices, WrongMachine,
    testing::Values(
        Wrong{"{\"name\": \"host\"", "{\"name\": \"hast\"",
              "the first two devices must be 'host' and 'pageable'"},
        Wrong{"{\"name\": \"0\"", "{\"name\": \"host\"", "two devices are named 'host'"},
        Wrong{"\"memory_bytes\": 8", "\"memory_bytes\": 0",
              "device 2: 'memory_bytes' is not positive"},
        Wrong{"\"memory_bytes\": 8", "\"memory_bytes\": 18446744073709551615",
              "device 2: 'memory_bytes' is not a whole number"},
        Wrong{"\"lanes\": 2", "\"lanes\": 0", "device 2: 'lanes' is not between 1 and 256"},
        Wrong{"\"lanes\": 2", "\"lanes\": 4294967297",
              "device 2: 'lanes' is not between 1 and 256"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"filling_elements\": 0",
              "device 2: 'filling_elements' is not between 1 and 1099511627776"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"lanes_beside_solves\": 257",
              "device 2: 'lanes_beside_solves' is not between 1 and 256"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"inverse_order\": -1",
              "device 2: 'inverse_order' is not between 0 and 1099511627776"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"inverse_order\": 0.5",
              "device 2: 'inverse_order' is not a whole number"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"busy_watts\": 300",
              "device 2 has an unknown key 'busy_watts'"},
        Wrong{"\"schema\": 2, \"name\": \"n\"", "\"schema\": 1, \"watts\": {}, \"name\": \"n\"",
              "the file has an unknown key 'watts'"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"watts\": {\"idle\": 1}",
              "device 2, watts has no 'wait'"},
        Wrong{"\"lanes\": 2", "\"lanes\": 2, \"watts\": {\"busy\": 1}",
              "device 2, watts has an unknown key 'busy'"},
        Wrong{"\"lanes\": 2",
              "\"lanes\": 2, \"watts\": {\"idle\": 1, \"wait\": 1, \"copy\": 1, \"exchange\": 1, "
              "\"stream\": 1, \"multiply\": 0}",
              "device 2, watts: 'multiply' is not positive"},
        Wrong{"\"launch_s\": 0.5", "\"launch_s\": null", "device 2: 'launch_s' is not a number"},
        Wrong{"[{\"type\": \"d\", \"edge\": 9, \"flops_per_s\": 10}]", "{}",
              "device 2: 'kernels' is not a list"},
        Wrong{"\"type\": \"d\"", "\"type\": \"q\"",
              "device 2: kernel type 'q' is none of s, d, c, z, h, bf16, tf32"},
        Wrong{"\"edge\": 9", "\"edge\": 0", "device 2: a kernel's edge is not positive"},
        Wrong{"\"edge\": 9", "\"edge\": 9.5", "device 2: 'edge' is not a whole number"},
        Wrong{"\"flops_per_s\": 10", "\"flops_per_s\": -1",
              "device 2: 'flops_per_s' is not positive"},
        Wrong{"\"flops_per_s\": 10}",
              "\"flops_per_s\": 10}, {\"type\": \"d\", \"edge\": 9, \"flops_per_s\": 1}",
              "device 2 gives the rate of one kernel twice"},
        Wrong{"{\"port\": \"p\"", "{\"port\": \"r\"",
              "device 2 names port 'r', which does not exist"},
        Wrong{"\"weight\": 11", "\"weight\": 0", "device 2: 'weight' is not positive"},
        Wrong{"\"weight\": 11", "\"wight\": 0", "device 2, a port has an unknown key 'wight'"}));

INSTANTIATE_TEST_SUITE_P(
    Links, WrongMachine,
    testing::Values(
        Wrong{"\"to\": \"0\"", "\"to\": \"1\"", "link 0 names device '1', which does not exist"},
        Wrong{"\"to\": \"0\"", "\"to\": \"host\"", "link 0 leads from a device to itself"},
        Wrong{"\"links\": [",
              "\"links\": [{\"from\": \"host\", \"to\": \"0\", \"bytes_per_s\": 1},",
              "link 1 appears twice"},
        Wrong{"\"latency_s\": 12", "\"latency_s\": -12", "link 0: 'latency_s' is negative"},
        Wrong{"\"latency_s\": 12", "\"latency_s\": 12, \"sent_latency_s\": 0",
              "link 0: 'sent_latency_s' is not positive"},
        Wrong{"\"latency_s\": 12", "\"latency_s\": 12, \"sent_latency_s\": 1",
              "link 0: 'sent_latency_s' is of links between devices"},
        Wrong{"\"bytes_per_s\": 13", "\"bytes_per_s\": 0", "link 0: 'bytes_per_s' is not positive"},
        Wrong{"\"bytes_per_s\": 13,", "", "link 0 has no 'bytes_per_s'"},
        Wrong{"\"bytes\": 16", "\"bytes\": 15", "link 0, columns are not sorted by bytes"},
        Wrong{"\"bytes\": 15", "\"bytes\": 0", "link 0, columns are not sorted by bytes"},
        Wrong{"\"share\": 0.5", "\"share\": 0", "link 0, columns: 'share' is not positive"},
        Wrong{"\"share\": 0.5", "\"share\": 1.5", "link 0, columns: 'share' is more than 1"},
        Wrong{"\"share\": 0.5", "\"rate\": 1", "link 0, columns has an unknown key 'rate'"},
        Wrong{"{\"port\": \"q\"", "{\"port\": \"Q\"",
              "link 0 names port 'Q', which does not exist"},
        Wrong{"[{\"port\": \"q\", \"weight\": 14}]", "7", "link 0: 'ports' is not a list"}));

TEST(MachineJson, TakesTheFileThatTheWrongOnesAreMadeOf) {
  EXPECT_EQ(parse_machine(edited("n", "n")).links.size(), 1u);
}

TEST(MachineJson, RefusesEveryBeginningOfARightFile) {
  const std::string text = to_json(test::node(2));
  for (std::size_t length = 0; length + 2 < text.size(); length += 7)
    ASSERT_THROW(parse_machine(text.substr(0, length)), Error) << length;
}

// --- files --------------------------------------------------------------------------------------

std::string temporary(const std::string& name, const std::string& text) {
  const std::string file = testing::TempDir() + name;
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

TEST(LoadMachine, ReadsAShippedNameAndAFile) {
  const Machine m = test::node(1);
  const std::string file = temporary("fleet_test_machine.json", to_json(m));
  EXPECT_EQ(load_machine(file, "/nowhere"), m);
  EXPECT_EQ(load_machine("fleet_test_machine", testing::TempDir()), m);
}

TEST(LoadMachine, NamesTheFileThatIsWrong) {
  const std::string file = temporary("fleet_test_damaged.json", "{");
  EXPECT_EQ(refusal(Status::bad_file, [&] { load_machine(file, ""); }),
            file + ": machine file: damaged JSON at byte 2");
}

TEST(LoadMachine, SaysThatThereIsNoSuchFileOrName) {
  for (const char* name : {"h300x9", "h300x9.json", "./h200x8", ""})
    EXPECT_EQ(
        refusal(Status::bad_file, [&] { load_machine(name, testing::TempDir()); }),
        "machine '" + std::string(name) + "': no such file, and no shipped machine of that name");
}

TEST(LoadMachine, RefusesAFolder) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(refusal(Status::bad_file, [&] { load_machine(folder, ""); }),
            folder + ": cannot be read");
}

}  // namespace
}  // namespace fleet

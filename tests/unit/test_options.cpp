// SPDX-License-Identifier: BSD-3-Clause
// test_options.cpp: every setting, from text, file and environment. It starts nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/options.hpp"
#include "base/options_variables.hpp"

namespace fleet {
namespace {

/// Sets variables for one test; removes every FLEETBLAS_ variable before and after it.
class Environment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    unsetenv("FLEETBLAS_CONFIG");
    for (const OptionInfo& info : option_table()) unsetenv(variable(info.name).c_str());
  }

  static std::string variable(std::string name) {
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return "FLEETBLAS_" + name;
  }

  static std::string file_with(const std::string& text) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("fleet_options_" + std::to_string(getpid()) + ".conf");
    std::ofstream(path) << text;
    return path.string();
  }
};

std::string message_of(std::string_view name, std::string_view value) {
  Options options;
  try {
    set_option(options, name, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_option);
    return error.what();
  }
  return "accepted";
}

TEST(ParseSize, KnowsTheBinarySuffixes) {
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("4K"), 4096);
  EXPECT_EQ(parse_size("3m"), 3 * 1024 * 1024);
  EXPECT_EQ(parse_size("2G"), 2147483648);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "1.5G", "4KB", " 4", "9223372036854775807K", "0x10"})
    EXPECT_THROW(parse_size(text), Error) << text;
}

TEST(SetOption, ReadsACountAndAListOfDevices) {
  Options options;

  set_option(options, "devices", "4");
  EXPECT_EQ(options.device_count, 4);
  EXPECT_TRUE(options.device_ids.empty());

  set_option(options, "devices", "2,");
  EXPECT_EQ(options.device_ids, std::vector<int>{2});
  EXPECT_EQ(options.device_count, 0);

  set_option(options, "devices", "0,2");
  EXPECT_EQ(options.device_ids, (std::vector<int>{0, 2}));

  set_option(options, "devices", "split");
  EXPECT_TRUE(options.split.has_value());
  EXPECT_TRUE(options.device_ids.empty());

  set_option(options, "devices", "all");
  EXPECT_FALSE(options.split.has_value());
  EXPECT_EQ(options.device_count, 0);
  EXPECT_TRUE(options.device_ids.empty());
}

TEST(SetOption, ReadsThePartOfTheCpu) {
  Options options;
  EXPECT_FALSE(options.cpu_share.has_value());
  set_option(options, "cpu_share", "0.25");
  EXPECT_EQ(options.cpu_share, 0.25);
  EXPECT_NE(to_json(options).find("\"cpu_share\":{\"value\":\"0.25\""), std::string::npos)
      << to_json(options);
  set_option(options, "cpu_share", "off");
  EXPECT_EQ(options.cpu_share, 0.0);
  set_option(options, "cpu_share", "auto");
  EXPECT_FALSE(options.cpu_share.has_value());
  for (const char* value : {"1", "-0.1", "half", "nan"})
    EXPECT_EQ(message_of("cpu_share", value),
              std::string("cpu_share=") + value +
                  ": expected auto, off or a number from 0 to less than 1");
}

TEST(SetOption, LetsCallsSelectDevicesOnlyIfNoneIsAskedFor) {
  EXPECT_TRUE(Options().selects_devices);
  for (const char* value : {"all", "4", "2,", "0,2", "split"}) {
    Options options;
    set_option(options, "devices", value);
    EXPECT_FALSE(options.selects_devices) << value;
    set_option(options, "devices", "auto");
    EXPECT_TRUE(options.selects_devices);
    EXPECT_EQ(options.device_count, 0);
    EXPECT_TRUE(options.device_ids.empty());
    EXPECT_FALSE(options.split.has_value());
  }
}

TEST(SetOption, ReadsEveryFault) {
  Options options;

  set_option(options, "inject",
             "alloc:3,copy:4,launch:5,lost:1@7,slow:host->0*2.5,delay:0->1+1e-3,nopeer:0-1,nopeer,"
             "order:42,poison,issuers");

  const Inject& inject = options.inject;
  EXPECT_EQ(inject.alloc, 3);
  EXPECT_EQ(inject.copy, 4);
  EXPECT_EQ(inject.launch, 5);
  ASSERT_TRUE(inject.lost.has_value());
  EXPECT_EQ(inject.lost->device, 1);
  EXPECT_EQ(inject.lost->tiles, 7);
  ASSERT_EQ(inject.slow.size(), 1u);
  EXPECT_EQ(inject.slow[0].link, "host->0");
  EXPECT_DOUBLE_EQ(inject.slow[0].factor, 2.5);
  ASSERT_EQ(inject.delay.size(), 1u);
  EXPECT_EQ(inject.delay[0].link, "0->1");
  EXPECT_DOUBLE_EQ(inject.delay[0].seconds, 0.001);
  ASSERT_EQ(inject.nopeer.size(), 2u);
  EXPECT_EQ(inject.nopeer[0].a, 0);
  EXPECT_EQ(inject.nopeer[0].b, 1);
  EXPECT_EQ(inject.nopeer[1].a, -1);
  EXPECT_EQ(inject.order, 42u);
  EXPECT_TRUE(inject.poison);
  EXPECT_TRUE(inject.issuers);
}

TEST(SetOption, SaysNameValueAndWhatIsAllowedInOneLine) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"backend", "gpu"},     {"devices", "x"},        {"devices", "0,0"},
      {"devices", "-1"},      {"devices", ","},        {"offload", "maybe"},
      {"memory_cap", "lots"}, {"tile", "-4"},          {"grid", "2"},
      {"grid", "2x"},         {"grid", "0x4"},         {"min_flops", "-1"},
      {"min_flops", "nan"},   {"verbose", "9"},        {"log_level", "6"},
      {"deterministic", "2"}, {"device_memory", "1T"}, {"inject", "alloc:0"},
      {"inject", "copy"},     {"inject", "lost:1"},    {"inject", "slow:host*2"},
      {"inject", "nopeer:1"}, {"inject", "explode:1"}, {"inject", "slow:a->b*0"},
      {"inject", "poison:1"}, {"inject", "issuers:1"}, {"inject", "delay:a->b"},
      {"inject", "order:-1"}};

  for (const auto& [name, value] : wrong) {
    const std::string message = message_of(name, value);
    EXPECT_NE(message.find(name + "="), std::string::npos) << message;
    EXPECT_NE(message.find(value), std::string::npos) << message;
    EXPECT_NE(message.find("expected"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(SetOption, TakesZeroForNoReport) {
  for (const std::string_view name : {"summary", "trace"}) {
    Options options;
    set_option(options, name, "file");
    set_option(options, name, "0");
    EXPECT_EQ(name == "trace" ? options.trace : options.summary, "") << name;
  }
}

TEST(SetOption, SaysWhichWordsASwitchTakes) {
  EXPECT_EQ(message_of("online", "foo"), "online=foo: expected on or off, 1 or 0");
  EXPECT_EQ(message_of("verbose", "3"), "verbose=3: expected on or off, 1 or 0");
  EXPECT_EQ(message_of("verbose", "2"), "accepted");
  for (const char* value : {"0", "1", "off", "on"})
    EXPECT_EQ(message_of("verbose", value), "accepted");
}

TEST(SetOption, NamesTheOptionsThereAreWhenOneIsUnknown) {
  const std::string message = message_of("colour", "red");

  EXPECT_NE(message.find("colour: no such option"), std::string::npos) << message;
  EXPECT_NE(message.find("memory_cap"), std::string::npos) << message;
}

TEST(SetOption, LeavesTheOldValueWhenTheNewOneIsBad) {
  Options options;
  set_option(options, "inject", "alloc:2");

  EXPECT_THROW(set_option(options, "inject", "copy:3,alloc:x"), Error);

  EXPECT_EQ(options.inject.alloc, 2);
  EXPECT_EQ(options.inject.copy, 0);
}

TEST(SetOption, ReadsNumbersTheSameWayInEveryLocale) {
  const char* german = std::setlocale(LC_NUMERIC, "de_DE.UTF-8");

  Options options;
  set_option(options, "min_flops", "1.5e9");
  const std::string json = to_json(options);

  EXPECT_DOUBLE_EQ(options.min_flops, 1.5e9);
  EXPECT_NE(json.find(R"({"value":1.5e+09,)"), std::string::npos) << json;
  if (german != nullptr) std::setlocale(LC_NUMERIC, "C");
}

TEST(SetOptions, TakesLinesAndSemicolons) {
  Options options;

  set_options(options, "backend=host; devices = 2\n\n tile=512 ;");

  EXPECT_EQ(options.backend, BackendKind::host);
  EXPECT_EQ(options.device_count, 2);
  EXPECT_EQ(options.tile, 512);
  EXPECT_THROW(set_options(options, "tile"), Error);
}

TEST(OptionTable, AcceptsItsOwnDefaults) {
  for (const OptionInfo& info : option_table()) {
    Options options;
    EXPECT_NO_THROW(set_option(options, info.name, info.fallback)) << info.name;
    EXPECT_EQ(to_json(options).find("null"), std::string::npos) << info.name;
  }
}

TEST_F(Environment, SaysWhetherCublasIsAskedToEmulate) {
  for (const char* name : {"CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION",
                           "NVIDIA_TF32_OVERRIDE"}) {
    unsetenv(name);
    EXPECT_FALSE(environment_changes_cublas()) << name;
    setenv(name, "0", 1);
    EXPECT_FALSE(environment_changes_cublas()) << name;
    setenv(name, "1", 1);
    EXPECT_TRUE(environment_changes_cublas()) << name;
    unsetenv(name);
  }
}

TEST_F(Environment, GoesBeforeTheFileAndNamesItsBadValues) {
  const std::string file = file_with("# comment\ntile=256\ndevices=3\nnonsense\nbackend=moon\n");
  setenv("FLEETBLAS_CONFIG", file.c_str(), 1);
  setenv("FLEETBLAS_TILE", "512", 1);
  setenv("FLEETBLAS_VERBOSE", "loud", 1);
  std::vector<std::string> complaints;

  const Options options = read_options(complaints);

  EXPECT_EQ(options.tile, 512);
  EXPECT_EQ(options.device_count, 3);
  EXPECT_EQ(options.verbose, 0);
  ASSERT_EQ(complaints.size(), 3u);
  EXPECT_NE(complaints[0].find(":4: expected name=value"), std::string::npos) << complaints[0];
  EXPECT_NE(complaints[1].find("backend=moon"), std::string::npos) << complaints[1];
  EXPECT_NE(complaints[2].find("FLEETBLAS_VERBOSE: verbose=loud"), std::string::npos)
      << complaints[2];
  const std::string json = to_json(options);
  EXPECT_NE(json.find(R"("tile":{"value":512,"origin":"environment"})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("devices":{"value":"3","origin":"file"})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("rules":{"value":"all","origin":"default"})"), std::string::npos) << json;
  std::filesystem::remove(file);
}

TEST_F(Environment, ListsItsVariablesOfOurs) {
  setenv("FLEETBLAS_TILE", "512", 1);
  setenv("FLEETBLAS_FROBNICATE", "1", 1);
  setenv("FLEET_TILE", "1", 1);

  std::vector<std::string> found;
  for (const Variable& variable : own_variables())
    if (variable.name == "FLEETBLAS_TILE" || !is_known_variable(variable.name))
      found.push_back(variable.name + "=" + variable.value);

  EXPECT_EQ(found, (std::vector<std::string>{"FLEETBLAS_FROBNICATE=1", "FLEETBLAS_TILE=512"}));
  unsetenv("FLEETBLAS_FROBNICATE");
  unsetenv("FLEET_TILE");
}

TEST(Variables, AreKnownIfSomebodyReadsThem) {
  for (const OptionInfo& info : option_table()) {
    std::string name = std::string("FLEETBLAS_") + info.name;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_TRUE(is_known_variable(name)) << name;
  }
  for (const char* name : {"FLEETBLAS_CONFIG", "FLEETBLAS_POOL", "FLEETBLAS_LIB_DIR",
                           "FLEETBLAS_TEST_SCALE", "FLEETBLAS_BENCH_COMMIT"})
    EXPECT_TRUE(is_known_variable(name)) << name;
  for (const char* name : {"FLEETBLAS_", "FLEETBLAS_FROBNICATE", "FLEETBLAS_tile", "TILE"})
    EXPECT_FALSE(is_known_variable(name)) << name;
}

TEST(Variables, HaveANearestOneThatIsKnown) {
  EXPECT_EQ(nearest_variable("FLEETBLAS_OFLOAD"), "FLEETBLAS_OFFLOAD");
  EXPECT_EQ(nearest_variable("FLEETBLAS_DEVICE"), "FLEETBLAS_DEVICES");
  EXPECT_EQ(nearest_variable("FLEETBLAS_VEBROSE"), "FLEETBLAS_VERBOSE");
  EXPECT_EQ(nearest_variable("FLEETBLAS_POL"), "FLEETBLAS_POOL");
  EXPECT_EQ(nearest_variable("FLEETBLAS_CACHEDIR"), "FLEETBLAS_CACHE_DIR");
  EXPECT_EQ(nearest_variable("FLEETBLAS_FROBNICATE"), "");
  EXPECT_EQ(nearest_variable("FLEETBLAS_FOIL"), "");  // half of "POOL" would be another word
}

TEST_F(Environment, NeverReadsAConfigurationFromTheCurrentFolder) {
  setenv("FLEETBLAS_CONFIG", "fleetblas.conf", 1);
  std::vector<std::string> complaints;

  read_options(complaints);

  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("absolute path"), std::string::npos) << complaints[0];
}

TEST_F(Environment, SurvivesAMissingConfigurationFileAndAMissingHome) {
  const char* home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  setenv("FLEETBLAS_CONFIG", "/nonexistent/fleetblas.conf", 1);
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  std::vector<std::string> complaints;

  const Options options = read_options(complaints);

  EXPECT_EQ(complaints.size(), 1u);
  EXPECT_EQ(options.cache_dir, "");
  if (home != nullptr) setenv("HOME", kept.c_str(), 1);
}

TEST_F(Environment, KeepsWhatIsMeasuredInTheUsersCacheFolder) {
  setenv("XDG_CACHE_HOME", "/some/cache", 1);
  std::vector<std::string> complaints;

  EXPECT_EQ(read_options(complaints).cache_dir, "/some/cache/fleetblas");
  setenv("FLEETBLAS_CACHE_DIR", "/other", 1);
  EXPECT_EQ(read_options(complaints).cache_dir, "/other");
  setenv("FLEETBLAS_CACHE_DIR", "", 1);  // nothing is kept
  EXPECT_EQ(read_options(complaints).cache_dir, "");
  EXPECT_TRUE(complaints.empty());
  unsetenv("FLEETBLAS_CACHE_DIR");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace fleet

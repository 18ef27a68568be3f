// SPDX-License-Identifier: BSD-3-Clause
// test_context_settings.cpp: what becomes of settings that cannot have the effect that their user
// wants: of one that is bad, of the others beside it, and what the doctor says. Each test is a
// separate program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/options_variables.hpp"
#include "fleetblas/fleetblas.h"
#include "support/dropin_calls.hpp"
#include "support/host_context.hpp"
#include "support/processes.hpp"

namespace fleet {
namespace {

using test::Ended;
using test::host_options;
using test::run_program;
using test::temporary_file;
using Json = nlohmann::json;
using Settings = std::map<std::string, std::string>;

/// Settings of whoever runs the tests are none of theirs; but for the BLAS they need.
void forget_others() {
  for (const Variable& variable : own_variables())
    if (variable.name != "FLEETBLAS_CPU_BLAS") unsetenv(variable.name.c_str());
}

void set(const Settings& settings) {
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
}

/// A program with these settings, which says its options as JSON after its log.
Ended with_default_context(const Settings& settings) {
  return run_program([&] {
    set({{"FLEETBLAS_BACKEND", "host"}, {"FLEETBLAS_OFFLOAD", "always"}, {"FLEETBLAS_TILE", "64"}});
    set(settings);
    set({{"FLEETBLAS_LOG_LEVEL", "2"}});
    char* text = nullptr;
    if (fleet_config_json(nullptr, &text) != FLEET_OK) return 1;
    std::cerr << Json::parse(text)["options"].dump() << "\n";
    fleet_free_text(text);
    return 0;
  });
}

/// The last line of what a program said, as JSON.
Json last_line_of(const std::string& output) {
  const std::size_t begin = output.rfind("\n{");
  return Json::parse(output.substr(begin == std::string::npos ? 0 : begin));
}

TEST(ABadSetting, IsLeftOutAndNoOtherIs) {
  const std::string machine = temporary_file("two.json");
  std::ofstream(machine) << to_json(host_machine(2, 2, 1 << 20));
  const std::vector<std::tuple<std::string, Settings, std::string>> wrong = {
      {"machine", {{"FLEETBLAS_MACHINE", "nosuch"}}, ""},
      {"rules", {{"FLEETBLAS_RULES", "foo"}}, "all"},
      {"preset", {{"FLEETBLAS_PRESET", "foo"}}, ""},
      {"cpu_blas", {{"FLEETBLAS_CPU_BLAS", "/nonexist.so"}}, ""},
      {"devices", {{"FLEETBLAS_DEVICES", "9,"}, {"FLEETBLAS_MACHINE", machine}}, "auto"},
      {"backend", {{"FLEETBLAS_BACKEND", "sim"}}, "auto"}};

  for (const auto& [name, settings, fallback] : wrong) {
    const Ended ended = with_default_context(settings);

    ASSERT_EQ(ended.code, 0) << ended.output;
    EXPECT_NE(ended.output.find("the default of " + name + " is used"), std::string::npos)
        << ended.output;
    const Json options = last_line_of(ended.output);
    EXPECT_EQ(options[name], (Json{{"value", fallback}, {"origin", "default"}}));
    EXPECT_EQ(options["offload"]["value"], "always") << name;
    EXPECT_EQ(options["tile"]["value"], 64) << name;
    EXPECT_EQ(options["backend"]["value"], name == "backend" ? "auto" : "host") << name;
    if (name == "devices") {
      EXPECT_EQ(options["machine"]["value"], machine);
    }
  }
}

TEST(TwoBadSettings, AreLeftOutOneByOne) {
  const Ended ended =
      with_default_context({{"FLEETBLAS_MACHINE", "nosuch"}, {"FLEETBLAS_RULES", "foo"}});

  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json options = last_line_of(ended.output);
  EXPECT_EQ(options["machine"]["origin"], "default");
  EXPECT_EQ(options["rules"]["origin"], "default");
  EXPECT_EQ(options["offload"]["value"], "always");
  EXPECT_NE(ended.output.find("'foo' is no rule"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("nosuch"), std::string::npos) << ended.output;
}

/// The summary of a program whose call the drop-in did not offer, on a machine without GPUs.
std::string summary_without_devices(const Settings& settings) {
  return run_program([&] {
           set({{"FLEETBLAS_DEVICE_LIBRARY", "/nonexistent/library.so"},
                {"FLEETBLAS_SUMMARY", "1"},
                {"FLEETBLAS_VERBOSE", "1"}});
           set(settings);
           test::Offer offer(64);
           const fleet_dropin_call call = offer.call();
           fleet_dropin()->note_host(&call, 0.25);
           return 0;
         })
      .output;
}

TEST(TheDropin, SaysThatThereAreNoDevicesWhereThereAreNone) {
  const std::string plain = summary_without_devices({});
  const std::string never = summary_without_devices({{"FLEETBLAS_OFFLOAD", "never"}});

  EXPECT_NE(plain.find("cpu (no usable device)"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("below min_flops"), std::string::npos) << plain;
  EXPECT_NE(never.find("cpu (offload=never)"), std::string::npos) << never;
}

TEST(ALogFile, ThatCannotBeOpenedLeavesTheLogToStderr) {
  const auto logged = [](const std::string& level) {
    return run_program([&] {
      const test::HostContext context(host_options(1) + ";log_level=" + level +
                                      ";log_file=/nonexistent/log");
      return 0;
    });
  };

  const Ended loud = logged("4"), silent = logged("0");

  EXPECT_EQ(loud.output.find("fleetblas: log_file=/nonexistent/log cannot be opened (No such file "
                             "or directory): the log is written to stderr\n"),
            0U)
      << loud.output;
  EXPECT_NE(loud.output.find("fleetblas: CPU BLAS: "), std::string::npos) << loud.output;
  EXPECT_EQ(silent.output, "");
}

/// subject -> "verdict: text (advice)" of what the doctor finds in settings.
std::multimap<std::string, std::string> doctor_says(const Settings& settings) {
  const Ended ended = run_program([&] {
    forget_others();
    set(settings);
    char* text = nullptr;
    if (fleet_doctor_json(host_options(1).c_str(), &text) != FLEET_OK) return 1;
    std::cerr << "\n" << text << "\n";
    fleet_free_text(text);
    return 0;
  });
  std::multimap<std::string, std::string> said;
  EXPECT_EQ(ended.code, 0) << ended.output;
  const Json found = last_line_of(ended.output);
  for (const Json& finding : found["findings"])
    said.emplace(finding["subject"], finding["verdict"].get<std::string>() + ": " +
                                         finding["text"].get<std::string>() + " (" +
                                         finding["advice"].get<std::string>() + ")");
  return said;
}

TEST(TheDoctor, SaysNothingOfSettingsThatAreFine) {
  const std::string file = temporary_file("log");
  const auto said = doctor_says({{"FLEETBLAS_POOL", "0.25"},
                                 {"FLEETBLAS_TEST_SCALE", "1"},
                                 {"FLEETBLAS_NCCL", "/somewhere"},
                                 {"FLEETBLAS_RULES", "all,-lazy"},
                                 {"FLEETBLAS_PRESET", "blasx"},
                                 {"FLEETBLAS_LOG_FILE", file},
                                 {"FLEETBLAS_SUMMARY", "1"},
                                 {"FLEETBLAS_TRACE", file + "-%p.json"}});

  for (const char* subject : {"settings", "pool", "log_file", "summary", "trace"})
    EXPECT_EQ(said.count(subject), 0U) << subject << " " << said.find(subject)->second;
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(TheDoctor, NamesRulesAndPresetsThatDoNotExist) {
  const auto rules = doctor_says({{"FLEETBLAS_RULES", "foo"}});
  const auto preset = doctor_says({{"FLEETBLAS_PRESET", "foo"}});

  ASSERT_EQ(rules.count("settings"), 1U);
  EXPECT_EQ(rules.find("settings")->second.find("broken: rules: 'foo' is no rule"), 0U);
  ASSERT_EQ(preset.count("settings"), 1U);
  EXPECT_EQ(preset.find("settings")->second.find("broken: preset=foo: expected one of"), 0U);
}

TEST(TheDoctor, NamesVariablesThatNobodyReads) {
  const auto far = doctor_says({{"FLEETBLAS_FROBNICATE", "1"}});
  const auto near = doctor_says({{"FLEETBLAS_OFLOAD", "never"}});

  ASSERT_EQ(far.count("settings"), 1U);
  EXPECT_EQ(far.find("settings")->second,
            "slow: FLEETBLAS_FROBNICATE: no such setting (no part of FleetBLAS reads it)");
  ASSERT_EQ(near.count("settings"), 1U);
  EXPECT_EQ(near.find("settings")->second,
            "slow: FLEETBLAS_OFLOAD: no such setting (is FLEETBLAS_OFFLOAD meant?)");
}

TEST(TheDoctor, NamesAPoolAndFilesThatCannotBe) {
  const auto said = doctor_says({{"FLEETBLAS_POOL", "foo"},
                                 {"FLEETBLAS_LOG_FILE", "/nonexistent/log"},
                                 {"FLEETBLAS_SUMMARY", "/nonexistent/%p.json"},
                                 {"FLEETBLAS_TRACE", std::filesystem::temp_directory_path()}});

  const std::map<std::string, std::string> wanted = {
      {"pool", "broken: FLEETBLAS_POOL=foo: there is no pool"},
      {"log_file", "slow: /nonexistent/log cannot be written: the log goes to stderr"},
      {"summary", "broken: /nonexistent/"},
      {"trace", "broken: "}};
  for (const auto& [subject, text] : wanted) {
    ASSERT_EQ(said.count(subject), 1U) << subject;
    EXPECT_EQ(said.find(subject)->second.find(text), 0U) << said.find(subject)->second;
  }
}

}  // namespace
}  // namespace fleet

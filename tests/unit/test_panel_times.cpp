// SPDX-License-Identifier: BSD-3-Clause
// test_panel_times.cpp: what machine files say of panels is read as it was written, and no file
// asks for panels that no backend has.
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "machine/machine.hpp"
#include "support/random_plans.hpp"

namespace fleet {
namespace {

constexpr auto kPotrf = static_cast<std::size_t>(Factoring::potrf);
constexpr auto kGetrf = static_cast<std::size_t>(Factoring::getrf);

TEST(PanelTimes, AreReadAsTheyWereWritten) {
  Machine machine = test::node(1);
  EXPECT_EQ(to_json(machine).find("panels"), std::string::npos);
  machine.devices[kFirstDevice].panels[kPotrf] = {
      .column_s = 0.4e-6, .element_s = 1e-11, .widest = 16384};
  machine.devices[kFirstDevice].panels[kGetrf] = {.column_s = 2e-6};

  const std::string text = to_json(machine);

  EXPECT_EQ(parse_machine(text), machine);
  const std::size_t widest = text.find("\"widest\"");
  ASSERT_NE(widest, std::string::npos);
  EXPECT_EQ(text.find("\"widest\"", widest + 1), std::string::npos);  // getrf's is the usual one
}

TEST(PanelTimes, AreRefusedWhereNoBackendHasSuchPanels) {
  Machine machine = test::node(1);
  const auto message_of = [&](std::size_t routine, std::int64_t widest) -> std::string {
    machine.devices[kFirstDevice].panels = {};
    machine.devices[kFirstDevice].panels[routine].widest = widest;
    try {
      parse_machine(to_json(machine));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };

  EXPECT_EQ(message_of(kPotrf, 100000), "");
  EXPECT_EQ(message_of(kGetrf, 512), "");
  EXPECT_NE(message_of(kGetrf, 2048).find("getrf: 'widest' is less than 1, or more than 1024"),
            std::string::npos);
  EXPECT_NE(message_of(kPotrf, 0).find("potrf: 'widest' is less than 1"), std::string::npos);
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_settings_document.cpp: docs/reference/settings.md agrees with the table of settings. It
// reads two tables and runs nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace fleet {
namespace {

std::vector<std::string> document_rows() {
  std::ifstream file(FLEETBLAS_SOURCE_DIR "/docs/reference/settings.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `FLEETBLAS_")) rows.push_back(line);
  return rows;
}

std::string row_of(const OptionInfo& info) {
  std::string name = info.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::string fallback = info.fallback;
  return "| `FLEETBLAS_" + name + "` | " + (fallback.empty() ? "" : "`" + fallback + "` ") + "| " +
         info.meaning + " |";
}

TEST(SettingsDocument, HasTheVeryRowOfEachSetting) {
  const std::vector<std::string> rows = document_rows();

  for (const OptionInfo& info : option_table())
    EXPECT_EQ(std::ranges::count(rows, row_of(info)), 1) << "docs/reference/settings.md lacks\n"
                                                         << row_of(info);
}

TEST(SettingsDocument, NamesNoSettingThatDoesNotExist) {
  std::set<std::string> known;
  for (const OptionInfo& info : option_table()) known.insert(row_of(info));

  for (const std::string& row : document_rows())
    EXPECT_TRUE(known.contains(row) || row.starts_with("| `FLEETBLAS_CONFIG` |")) << row;
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// main.cpp: runs all tests of this program, or those of the named test files. A program may contain
// the tests of many files (tests/CMakeLists.txt). It knows no test.
//
//   tests_plan                                  all
//   tests_plan test_plan test_bound             those of test_plan.cpp and test_bound.cpp
//   tests_plan test_plan --gtest_filter=*Cap*   those among them with such a name
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// "/src/tests/unit/test_plan.cpp" -> "test_plan"
std::string stem(std::string_view file) {
  file.remove_prefix(file.find_last_of('/') + 1);  // npos + 1 is 0
  return std::string(file.substr(0, file.find('.')));
}

/// Excludes the tests of files that are not in `wanted` from the filter, and counts the others by
/// file. Returns the name of a test that is in files of both kinds, so that no filter can separate
/// them, or "".
std::string keep_only(std::map<std::string, int>& wanted) {
  std::set<std::string> kept;
  std::vector<std::string> others;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string name = std::string(suite.name()) + "." + test.name();
      const auto file = wanted.find(stem(test.file()));
      if (file == wanted.end()) {
        others.push_back(name);
      } else {
        kept.insert(name);
        ++file->second;
      }
    }
  }
  std::string filter = testing::GTEST_FLAG(filter);
  char before = filter.find('-') == std::string::npos ? '-' : ':';
  for (const std::string& other : others) {
    if (kept.contains(other)) return other;
    filter += before + other;
    before = ':';
  }
  testing::GTEST_FLAG(filter) = filter;
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 1) return RUN_ALL_TESTS();
  std::map<std::string, int> wanted;
  for (int a = 1; a < argc; ++a) wanted[argv[a]] = 0;
  if (const std::string twice = keep_only(wanted); !twice.empty()) {
    std::fprintf(stderr, "%s: two files have a test %s\n", argv[0], twice.c_str());
    return 1;
  }
  for (const auto& [file, tests] : wanted)
    if (tests == 0) {
      std::fprintf(stderr, "%s: no test of %s is in this program\n", argv[0], file.c_str());
      return 1;
    }
  return RUN_ALL_TESTS();
}

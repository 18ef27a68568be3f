// SPDX-License-Identifier: BSD-3-Clause
// test_copy_crew.cpp: two lines of copies at once, by threads that help each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "cpu/copy_crew.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kRows = 5000, kCols = 61, kBytes = 8;  // a few shares

std::vector<double> numbers(double first) {
  std::vector<double> all(kRows * kCols);
  for (double& each : all) each = first++;
  return all;
}

View view(std::vector<double>& of, std::int64_t cols = kCols) {
  return {.data = of.data(), .rows = kRows, .cols = cols, .ld = kRows};
}

void expect_copied(CopyCrew& crew, int line, int times) {
  std::vector<double> from = numbers(line * 1e9);
  for (int time = 0; time < times; ++time) {
    const std::int64_t cols = kCols - 7 * (time % 3);
    std::vector<double> to(from.size(), -1), expected = to;
    std::copy_n(from.begin(), kRows * cols, expected.begin());
    crew.copy(line, {view(from, cols), view(to, cols), kBytes});
    ASSERT_EQ(to, expected) << "copy " << time << " of line " << line;
  }
}

void expect_copied_in_both(CopyCrew& crew, int times) {
  std::thread other([&] { expect_copied(crew, 1, times); });
  expect_copied(crew, 0, times);
  other.join();
}

TEST(CopyCrew, CopiesInBothLinesAtOnce) {
  for (const int threads : {2, 3, 8}) {
    CopyCrew crew(threads, threads * 2 / 3);
    ASSERT_TRUE(crew.hire());
    expect_copied_in_both(crew, 40);
  }
}

TEST(CopyCrew, HelpsALineThatHasNoThreadOfItsOwn) {
  CopyCrew crew(1, 1);
  ASSERT_TRUE(crew.hire());

  // The thread has to wake while the caller copies.
  for (int time = 0; time < 1000 && crew.helped() == 0; ++time) expect_copied(crew, 1, 3);
  EXPECT_GT(crew.helped(), 0);
  expect_copied_in_both(crew, 10);
}

TEST(CopyCrew, ReturnsAtOnceWhereThereIsNothingToCopy) {
  CopyCrew crew(2, 1);
  ASSERT_TRUE(crew.hire());
  double untouched = 1;
  const View none{.data = &untouched, .rows = 1, .cols = 0, .ld = 1};

  crew.copy(0, {none, none, kBytes});
  crew.copy(1, {none, none, kBytes});

  EXPECT_EQ(untouched, 1);
}

}  // namespace
}  // namespace fleet

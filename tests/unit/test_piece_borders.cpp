// SPDX-License-Identifier: BSD-3-Clause
// test_piece_borders.cpp: copies are cut where pinned pieces end, and nowhere else.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "run/piece_borders.hpp"

namespace fleet {
namespace {

std::vector<ColumnBytes> cut(std::uintptr_t address, std::int64_t pitch, std::int64_t bytes,
                             std::int64_t cols, std::int64_t piece) {
  std::vector<ColumnBytes> parts;
  cut_at_borders(address, pitch, bytes, cols, piece,
                 [&](ColumnBytes part) { parts.push_back(part); });
  return parts;
}

TEST(PieceBorders, CutBetweenColumnsIsTwoParts) {
  // Columns of 3 bytes at 100, 104, 108, 112: a piece ends at 108.
  EXPECT_EQ(cut(100, 4, 3, 4, 54), (std::vector<ColumnBytes>{{0, 3, 0, 2}, {0, 3, 2, 2}}));
}

TEST(PieceBorders, AColumnThatGoesOverABorderIsCutItself) {
  // The column at 104 goes over 106.
  EXPECT_EQ(cut(100, 4, 3, 3, 53),
            (std::vector<ColumnBytes>{{0, 3, 0, 1}, {0, 2, 1, 1}, {2, 1, 1, 1}, {0, 3, 2, 1}}));
}

TEST(PieceBorders, WithinAPieceNothingIsCut) {
  EXPECT_EQ(cut(64, 4, 4, 8, 32), (std::vector<ColumnBytes>{{0, 4, 0, 8}}));
  EXPECT_EQ(cut(96, 0, 32, 1, 32), (std::vector<ColumnBytes>{{0, 32, 0, 1}}));
  EXPECT_TRUE(cut(96, 4, 4, 0, 32).empty());
}

TEST(PieceBorders, AnyColumnsAreCutIntoAllTheirBytesAndWithinPieces) {
  std::mt19937 random(1);
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const std::int64_t piece = number(1, 64), bytes = number(1, 200), cols = number(1, 20);
    const std::int64_t pitch = bytes + number(0, 40);
    const auto address = static_cast<std::uintptr_t>(number(0, 1000));
    std::vector<int> seen(static_cast<std::size_t>(pitch * cols), 0);
    for (const ColumnBytes& part : cut(address, pitch, bytes, cols, piece)) {
      const std::int64_t first =
          static_cast<std::int64_t>(address) + part.first_col * pitch + part.first_byte;
      const std::int64_t last = first + (part.cols - 1) * pitch + part.bytes - 1;
      ASSERT_EQ(first / piece, last / piece);
      for (std::int64_t col = part.first_col; col < part.first_col + part.cols; ++col)
        for (std::int64_t at = part.first_byte; at < part.first_byte + part.bytes; ++at)
          ++seen[static_cast<std::size_t>(col * pitch + at)];
    }
    for (std::int64_t at = 0; at < pitch * cols; ++at)
      ASSERT_EQ(seen[static_cast<std::size_t>(at)], at % pitch < bytes ? 1 : 0);
  }
}

}  // namespace
}  // namespace fleet

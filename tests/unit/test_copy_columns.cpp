// SPDX-License-Identifier: BSD-3-Clause
// test_copy_columns.cpp: both ways of copying columns, at every misalignment and with borders that
// must not change.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cpu/copies.hpp"

namespace fleet {
namespace {

using Copy = void (*)(const View&, const View&, std::int64_t, std::int64_t, std::int64_t);

constexpr unsigned char kBorder = 0xa5;

unsigned char byte_at(std::int64_t row, std::int64_t col) {
  return static_cast<unsigned char>((row * 7 + col * 31) & 0x7f);  // never the value of the border
}

/// Copies columns [1, cols - 1) of bytes; both blocks begin `shift` bytes into their memory.
void expect_right(Copy copy, std::int64_t rows, std::int64_t ld_from, std::int64_t ld_to,
                  std::int64_t shift) {
  constexpr std::int64_t kCols = 5;
  std::vector<unsigned char> from(static_cast<std::size_t>(ld_from * kCols + 64), kBorder);
  std::vector<unsigned char> to(static_cast<std::size_t>(shift + ld_to * kCols + 64), kBorder);
  for (std::int64_t col = 0; col < kCols; ++col)
    for (std::int64_t row = 0; row < rows; ++row)
      from[static_cast<std::size_t>(row + col * ld_from)] = byte_at(row, col);
  std::vector<unsigned char> expected = to;
  for (std::int64_t col = 1; col < kCols - 1; ++col)
    for (std::int64_t row = 0; row < rows; ++row)
      expected[static_cast<std::size_t>(shift + row + col * ld_to)] = byte_at(row, col);

  copy({.data = from.data(), .rows = rows, .cols = kCols, .ld = ld_from},
       {.data = to.data() + shift, .rows = rows, .cols = kCols, .ld = ld_to}, 1, 1, kCols - 1);

  EXPECT_EQ(to, expected) << rows << " rows, " << ld_from << " -> " << ld_to << ", shift " << shift;
}

TEST(CopyColumns, CopiesThemAndNothingElseWhateverTheAlignment) {
  for (const Copy copy : {Copy{copy_columns}, Copy{copy_columns_past_caches}})
    for (const std::int64_t rows : {1, 3, 63, 64, 65, 127, 128, 200, 1000})
      for (std::int64_t shift = 0; shift < 65; shift += shift < 4 ? 1 : 15) {
        expect_right(copy, rows, rows, rows, shift);
        expect_right(copy, rows, rows + 5, rows, shift);
        expect_right(copy, rows, rows, rows + 9, shift);
      }
}

TEST(CopyColumns, DoesNothingWithoutRowsOrColumns) {
  unsigned char byte = kBorder;
  const View empty{.data = &byte, .rows = 0, .cols = 3, .ld = 1};
  const View one{.data = &byte, .rows = 1, .cols = 1, .ld = 1};
  for (const Copy copy : {Copy{copy_columns}, Copy{copy_columns_past_caches}}) {
    copy(empty, empty, 1, 0, 3);
    copy(one, one, 1, 1, 1);
  }
  EXPECT_EQ(byte, kBorder);
}

}  // namespace
}  // namespace fleet

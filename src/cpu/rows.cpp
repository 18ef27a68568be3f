// SPDX-License-Identifier: BSD-3-Clause
// rows.cpp: a few columns of the matrix at a time, so that packed rows are touched by whole cache
// lines.
#include "cpu/rows.hpp"

#include <algorithm>

#include "cpu/element.hpp"

namespace fleet {
namespace {

/// Calls `move(element of the matrix, element of the packed rows)` for all that are named.
template <typename T, typename Move>
void for_rows(const View& matrix, const View& numbers, const View& packed, Move&& move) {
  constexpr std::int64_t kFew = 8;
  const auto* const rows = static_cast<const RowNumber*>(numbers.data);
  for (std::int64_t first = 0; first < packed.rows; first += kFew)
    for (std::int64_t i = 0; i < packed.cols; ++i)
      for (std::int64_t col = first; col < std::min(first + kFew, packed.rows); ++col)
        move(static_cast<T*>(matrix.data)[rows[i] - 1 + col * matrix.ld],
             static_cast<T*>(packed.data)[col + i * packed.ld]);
}

}  // namespace

void pack_rows(const Launch& launch) {
  with_wide_element(launch.type.storage, [&]<typename T>(T) {
    for_rows<T>(launch.a, launch.b, launch.c, [](const T& element, T& place) { place = element; });
  });
}

void unpack_rows(const Launch& launch) {
  with_wide_element(launch.type.storage, [&]<typename T>(T) {
    for_rows<T>(launch.c, launch.b, launch.a, [](T& element, const T& place) { element = place; });
  });
}

}  // namespace fleet

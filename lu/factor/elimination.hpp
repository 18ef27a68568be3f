// SPDX-License-Identifier: BSD-3-Clause
// elimination.hpp: one column of a panel and those after it, in some of its rows. It knows no
// ranks.
#pragma once
#include <cstdint>

namespace fleet::lu {

/// The first of the largest numbers of a column, by their size.
struct Largest {
  double size = -1;       ///< -1 where nothing is a number
  std::int64_t row = -1;  ///< none: nothing has been looked at

  /// Rows [begin, end), which come after those before.
  void look_at(const double* column, std::int64_t begin, std::int64_t end);
  /// What was found in rows that come after these.
  void or_later(const Largest& later);
};

/// Rows [begin, end) of `columns`, a pivot's column and `count` - 1 others. `pivot_row`: the pivot
/// and what follows it. The first column becomes the multipliers, the others lose their multiples.
/// Returns the largest number that is then in the second one.
Largest eliminate(const double* pivot_row, std::int64_t count, double* columns, std::int64_t ld,
                  std::int64_t begin, std::int64_t end);

}  // namespace fleet::lu

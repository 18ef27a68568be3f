// SPDX-License-Identifier: BSD-3-Clause
// panel.hpp: the steps of an LU factorization, for programs that deal the columns of a matrix over
// devices or processes themselves. It knows no C types.
#pragma once
#include <cstdint>

#include "linalg/level3.hpp"

namespace fleet::linalg {

/// Pivots have 32 bits.
constexpr std::int64_t kMostPanelRows = INT32_MAX;

/// A panel in memory that the program gives, with all that its columns' neighbours need of it.
struct LuPanel {
  std::int64_t rows = 0, width = 0;  ///< rows >= width, at most kMostPanelRows
  void* data = nullptr;
};

/// Throws Error(bad_argument) where there is no such number.
std::int64_t panel_bytes(Storage storage, std::int64_t rows, std::int64_t width);

// What a function takes lies in one place, where it computes without a plan. Each throws
// Error(unsupported) otherwise, and as other calls do.

/// As getrf, in the place of a, which has the shape of the panel; and the panel is made.
void factor_panel(const Level3& on, const View& a, const LuPanel& panel);
/// Pivots, 1-based, and LAPACK's info of a panel.
std::int64_t panel_pivots(const Level3& on, const LuPanel& panel, std::int64_t* pivots);
/// Columns beside the panel, which have its rows: these are exchanged as the panel's were, the
/// first become those of U, and the product is subtracted from the others.
void apply_panel(const Level3& on, const LuPanel& panel, const View& c);
/// The same where the rows have been exchanged, and `upper` is not above c: `l` has as many rows as
/// both, and its upper triangle does not count.
void update_by_panel(const Level3& on, const View& l, const View& upper, const View& c);

}  // namespace fleet::linalg

// SPDX-License-Identifier: BSD-3-Clause
// triangle_panels.hpp: the panels of columns in which copy engines move a triangle, each a
// rectangle. It must not know what copies them.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/sizes.hpp"

namespace fleet {

/// Panels of a triangle: 8 move an eighth more than the triangle. Every panel is a copy of its own,
/// so a small tile has fewer.
inline constexpr std::int64_t kTrianglePanels = 8;
inline constexpr std::int64_t kLeastPanelColumns = 256;

/// The width of the panels of a triangle of so many columns.
inline std::int64_t panel_columns(std::int64_t cols) {
  return std::max(kLeastPanelColumns, ceil_div(cols, kTrianglePanels));
}

}  // namespace fleet

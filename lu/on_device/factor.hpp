// SPDX-License-Identifier: BSD-3-Clause
// factor.hpp: a system of equations in the memory of devices, factored and solved there by all
// ranks of a grid of one row.
#pragma once
#include "factor/factor.hpp"
#include "on_device/columns.hpp"
#include "on_device/mail.hpp"

namespace fleet::lu {

/// As factor() of a System, by the same tasks: rows are exchanged where columns are updated, since
/// a rank has all rows.
Factored factor(const Grid& grid, const Columns& columns, Mail& mail, const Device& device,
                const Rank& rank, Overlap overlap,
                const std::function<void(std::int64_t, std::int64_t)>& after_step = {});

/// Memory of a solution.
struct SolutionPlace {
  Device::Memory left;    ///< n numbers
  Device::Memory solved;  ///< nb numbers
  /// Nothing where the device has no room.
  static std::optional<SolutionPlace> make(const Columns& columns, const Device& device);
};
/// As solve() of a System.
std::vector<double> solve(const Grid& grid, const Columns& columns, const Device& device,
                          const SolutionPlace& place);

}  // namespace fleet::lu

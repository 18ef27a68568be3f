// SPDX-License-Identifier: BSD-3-Clause
// factor.hpp: a system of equations in the memory of devices, factored there by all ranks of a grid
// of one row.
#pragma once
#include "factor/factor.hpp"
#include "on_device/mail.hpp"
#include "on_device/system.hpp"

namespace fleet::lu {

/// As factor() of a System, by the same tasks: rows are exchanged where columns are updated, since
/// a rank has all rows.
Factored factor(const Grid& grid, const DeviceSystem& system, Mail& mail, const Device& device,
                const Rank& rank, Overlap overlap,
                const std::function<void(std::int64_t, std::int64_t)>& after_step = {});

}  // namespace fleet::lu

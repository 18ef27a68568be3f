// SPDX-License-Identifier: BSD-3-Clause
// hpl_tasks.hpp: the order of HPL with a look-ahead of one panel, from which Endo et al. started
// (paper 3, 5). It knows no data, and is for the simulator only.
#pragma once
#include <vector>

#include "schedule/tasks.hpp"

namespace fleet::lu {

/// What comes before the first step, with look-ahead.
std::vector<Task> first_hpl_tasks(const Shape& shape, int col, Overlap overlap);
/// As step_tasks(), but rows of all columns are exchanged right before these are updated: only the
/// panel travels during products (HPL_pdgesvK2, HPL_pdupdateTT).
std::vector<Task> hpl_tasks(const Shape& shape, int col, Overlap overlap, std::int64_t step);

}  // namespace fleet::lu

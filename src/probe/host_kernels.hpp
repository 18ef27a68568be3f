// SPDX-License-Identifier: BSD-3-Clause
// host_kernels.hpp: how fast all cores of the host multiply, which is how calls that are not
// offloaded are computed. It knows no files.
#pragma once
#include <vector>

#include "cpu/blas.hpp"
#include "machine/machine.hpp"

namespace fleet {

/// Measures the kernels, the start of one and the memory of the host for about `budget_s`.
void measure_host_kernels(CpuBlas& blas, double budget_s, Device& host);

/// Leaves out the rates of the largest products while they are below half of those of the next
/// smaller ones of their type. `rates` are ordered by type and edge. The last rate of a type is
/// that of all larger products, and products on all cores suffer most from other load: 128 on two
/// busy cores had 0.4 GFLOPS, 64 had 94.
void drop_slow_end(std::vector<KernelRate>& rates);

/// Gives each kernel the higher rate of two measurements of one device, and adds those that only
/// the other one came to. `rates` are ordered by type and edge.
void take_faster(std::vector<KernelRate>& rates, const std::vector<KernelRate>& others);

}  // namespace fleet

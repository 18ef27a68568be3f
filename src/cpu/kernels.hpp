// SPDX-License-Identifier: BSD-3-Clause
// kernels.hpp: any kernel of a program, by the CPU. It knows no plan.
#pragma once
#include "cpu/blas.hpp"
#include "run/launch.hpp"

namespace fleet {

/// Does the launch, whose operands are in host memory. Throws what `blas` does, and std::bad_alloc.
void run_kernel(const Launch& launch, CpuBlas& blas);

}  // namespace fleet

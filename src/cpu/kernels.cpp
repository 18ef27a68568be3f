// SPDX-License-Identifier: BSD-3-Clause
// kernels.cpp: from the kernel of a launch to the function that does it.
#include "cpu/kernels.hpp"

#include "cpu/narrow.hpp"
#include "cpu/panels.hpp"
#include "cpu/rows.hpp"
#include "cpu/triangles.hpp"
#include "cpu/triangular.hpp"

namespace fleet {

void run_kernel(const Launch& launch, CpuBlas& blas) {
  switch (launch.kernel) {
    case Kernel::multiply:
    case Kernel::gemv:
    case Kernel::axpy:
    case Kernel::dot:
      return multiply(launch, blas);
    case Kernel::solve:
      return solve(launch, blas);
    case Kernel::prepare:
      return prepare(launch, blas);
    case Kernel::add:
      return add_scaled(launch);
    case Kernel::scale:
      return scale(launch);
    case Kernel::narrow:
      return narrow(launch);
    case Kernel::pack:
      return pack_rows(launch);
    case Kernel::unpack:
      return unpack_rows(launch);
    default:
      return run_factoring(launch, blas);
  }
}

}  // namespace fleet

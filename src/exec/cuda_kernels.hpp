// SPDX-License-Identifier: BSD-3-Clause
// cuda_kernels.hpp: the kernels that are not cuBLAS's: they stream tiles through a GPU's memory.
#pragma once
#include <cuda_runtime.h>

#include "exec/backend.hpp"

namespace fleet::cuda {

/// c += beta * a (Kernel::add) or c = beta * c (Kernel::scale; zero when beta is, whatever was
/// there), on `stream` of the current device. Throws Error(device_failed).
void stream_through(const Launch& launch, cudaStream_t stream);

}  // namespace fleet::cuda

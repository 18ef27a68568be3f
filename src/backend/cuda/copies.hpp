// SPDX-License-Identifier: BSD-3-Clause
// copies.hpp: copies of matrices and triangles between any two places, in the order of a
// stream. It must not know plans.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "run/launch.hpp"

namespace fleet::cuda {

/// Columns [first, last) of `from` into the same of `to`, which has the same shape and fill.
struct ColumnCopy {
  /// Whose the target is. Nobody reads the opposite triangle in a slot; other threads may write to
  /// the caller's.
  enum class Target { slot, callers };

  View from;
  View to;
  std::int64_t element_bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  Target target = Target::callers;
};

/// This piece of host memory (pool/pool.hpp) is pinned by itself from now on, or will be: no copy
/// of CUDA may go over its ends. For all copies of the process, as pins are.
void note_piece(const void* data, std::int64_t bytes);

/// Column-major memory to memory, wherever they are, in order with `stream` of the current device.
/// Touches nothing between the columns, and of a caller's triangle nothing but the triangle. Throws
/// Error(device_failed).
void copy_columns(const ColumnCopy& copy, cudaStream_t stream);

}  // namespace fleet::cuda

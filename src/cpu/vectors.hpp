// SPDX-License-Identifier: BSD-3-Clause
// vectors.hpp: the products of levels 1 and 2 by the CPU (Kernel::gemv, axpy, dot). It must
// not know plans.
#pragma once
#include "cpu/library.hpp"
#include "run/launch.hpp"

namespace fleet {

/// The increment of a vector that is a matrix of one row; 1 for a single element.
std::int64_t increment_of(const View& vector);

/// By plain loops that allocate nothing. Increments may be zero, as the reference BLAS allows in
/// axpy and dot. c is not read when beta == 0.
void plain_vectors(const Launch& launch);

/// By the library; false, with nothing done, where it cannot.
bool vectors_by_library(const BlasLibrary& library, const Launch& launch);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// library_search.hpp: which files may be the CPU BLAS, where nobody named one. It opens none of
// them.
#pragma once
#include <string>
#include <vector>

namespace fleet {

/// Names for dlopen, the best first: the OpenBLAS wheels installed beside the Python package whose
/// library folder is `folder` (SITE/fleetblas/lib), the OpenBLAS, BLIS and MKL of the system, those
/// that the NumPy and SciPy beside it came with, those that this process has loaded, and last the
/// reference BLAS, which is many times slower. Files that are named by a path exist.
std::vector<std::string> blas_candidates(const std::string& folder);

/// The folder of the library or program that this code is in; empty if unknown.
std::string own_folder();

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// cpu_blas.hpp: the CPU BLAS of the tests: the one that FLEETBLAS_CPU_BLAS names, so that no test
// depends on other installed libraries. It knows no test.
#pragma once
#include <cstdlib>
#include <memory>
#include <string>

#include "cpu/blas.hpp"

namespace fleet::test {

/// Its file; empty if none is named, so that the library searches for one.
inline std::string configured_cpu_blas() {
  const char* file = std::getenv("FLEETBLAS_CPU_BLAS");
  return file != nullptr ? file : "";
}

/// Loaded once per program: a BLAS has threads, and ThreadSanitizer needs it to stay loaded.
inline std::shared_ptr<CpuBlas> shared_cpu_blas() {
  static const std::shared_ptr<CpuBlas> blas = CpuBlas::load(configured_cpu_blas());
  return blas;
}

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// cpu_blas.hpp: the CPU BLAS that tests compute with: the one that FLEETBLAS_CPU_BLAS names, so
// that no test depends on what the machine has besides. It knows no test.
#pragma once
#include <cstdlib>
#include <memory>
#include <string>

#include "cpu/blas.hpp"

namespace fleet::test {

/// Its file; empty where none is named: then it is searched for.
inline std::string configured_cpu_blas() {
  const char* file = std::getenv("FLEETBLAS_CPU_BLAS");
  return file != nullptr ? file : "";
}

/// Loaded once per program: a BLAS has threads, and ThreadSanitizer wants it to stay.
inline std::shared_ptr<CpuBlas> shared_cpu_blas() {
  static const std::shared_ptr<CpuBlas> blas = CpuBlas::load(configured_cpu_blas());
  return blas;
}

}  // namespace fleet::test

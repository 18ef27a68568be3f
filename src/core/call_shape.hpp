// SPDX-License-Identifier: BSD-3-Clause
// call_shape.hpp: what a call is, apart from its matrices and scalars. It knows no address.
#pragma once
#include <cstdint>

#include "problem/problem.hpp"

namespace fleet {

/// Sizes are as Problem has them: m == n where C is a triangle, and k of what has a side from
/// there.
struct CallShape {
  /// The name that was called, "cblas_dgemm64_"; never freed: the books keep it.
  const char* symbol = "";
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Diag diag = Diag::non_unit;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;  ///< as given
  std::int64_t batch = 1;

  const RoutineTraits& traits() const { return traits_of(routine); }
  double flops() const {
    return (is_complex(type.storage) ? 8 : 2) * traits().part_of_products() *
           static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
};

}  // namespace fleet

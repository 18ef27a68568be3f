// SPDX-License-Identifier: BSD-3-Clause
// vector_call.hpp: a call of gemv, axpy or dot as a caller gave it, checked. It knows no context.
#pragma once
#include "core/call.hpp"

namespace fleet {

/// A call as it came in, in the words of the reference BLAS. What the routine does not have is not
/// looked at.
struct RawVectorCall {
  const char* function;
  Routine routine = Routine::gemv;
  DataType type = DataType::f64;
  int trans = 'n';  ///< dot: 'c' for dotc
  std::int64_t m = 0;
  std::int64_t n = 0;
  const void* alpha = nullptr;
  const void* a = nullptr;
  std::int64_t lda = 1;
  const void* x = nullptr;
  std::int64_t incx = 1;
  const void* beta = nullptr;
  const void* y = nullptr;  ///< written by gemv and axpy
  std::int64_t incy = 1;
  void* result = nullptr;  ///< dot
};

/// The call in the terms of Problem: A, and B and C as matrices of one row with the increments as
/// leading dimensions. As the reference has it, gemv with m == 0 or n == 0 changes nothing, and
/// axpy and dot take a negative n for 0 and any increment. Throws Error(bad_argument) naming the
/// function and the first illegal argument, counted from 1 with the context.
Call parse(const RawVectorCall& raw);

}  // namespace fleet

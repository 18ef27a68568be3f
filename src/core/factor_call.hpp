// SPDX-License-Identifier: BSD-3-Clause
// factor_call.hpp: one factorization as a caller gave it, checked, and what follows from its sizes.
// It knows no context and no device.
#pragma once
#include <cstdint>

#include "core/call.hpp"

namespace fleet {

/// A = L*L^H or U^H*U; A = P*L*U; A = Q*R.
enum class Factoring { potrf, getrf, geqrf };
const char* word_of(Factoring routine);  ///< "potrf"

/// As benchmarks count them: n^3/3 for potrf, m*n^2 - n^3/3 for getrf and twice that for geqrf
/// where m >= n; complex ones 4 times as much.
double flops(Factoring routine, Storage storage, std::int64_t m, std::int64_t n);

/// What LAPACK's routine of that name takes. a may lie anywhere, pivots and tau in host memory.
struct FactorCall {
  const char* symbol = "";  ///< the name that was called; never freed: the books keep it
  Factoring routine = Factoring::getrf;
  Storage storage = Storage::f64;
  Uplo uplo = Uplo::lower;  ///< of potrf
  std::int64_t m = 0;       ///< n for potrf
  std::int64_t n = 0;
  void* a = nullptr;
  std::int64_t lda = 1;
  std::int64_t* pivots = nullptr;  ///< of getrf: min(m, n), 1-based
  void* tau = nullptr;             ///< of geqrf: min(m, n) elements

  bool is_empty() const { return m == 0 || n == 0; }
  /// The matrix; of potrf the triangle that counts.
  View matrix() const;
};

}  // namespace fleet

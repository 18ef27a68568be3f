// SPDX-License-Identifier: BSD-3-Clause
// blas.hpp: the products, solutions and factors of a rank, by FleetBLAS. It knows no algorithm.
#pragma once
#include <cstdint>

#include "fleetblas/lapack.h"

namespace fleet::lu {

/// Column-major, as in BLAS. Each throws Failure.
class Blas {
 public:
  /// nullptr: the default context. `most_flops_per_s`: no call is faster, for tests that need rates
  /// which they know; 0: as fast as it is.
  explicit Blas(fleet_context* context = nullptr, double most_flops_per_s = 0)
      : context_(context), most_flops_per_s_(most_flops_per_s) {}
  fleet_context* context() const { return context_; }

  /// c -= a*op(b): c m x n, a m x k.
  void subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                        std::int64_t lda, fleet_op op_b, const double* b, std::int64_t ldb,
                        double* c, std::int64_t ldc) const;

  struct Triangle {
    fleet_side side;
    fleet_uplo uplo;
    fleet_op op;
    fleet_diag diag;
    const double* elements;
    std::int64_t ld;
  };
  /// b = op(t)^-1 * b or b * op(t)^-1: b m x n.
  void solve(const Triangle& t, std::int64_t m, std::int64_t n, double* b, std::int64_t ldb) const;

  /// a, m x n, becomes its factors, as LAPACK's getrf leaves them; pivots are 1-based. Returns its
  /// info.
  std::int64_t factor(std::int64_t m, std::int64_t n, double* a, std::int64_t lda,
                      std::int64_t* pivots) const;

 private:
  /// Calls `work` of so many operations, and sleeps where it was too fast.
  template <typename Work>
  void pace(double flops, Work&& work) const;

  fleet_context* context_;
  double most_flops_per_s_;
};

}  // namespace fleet::lu

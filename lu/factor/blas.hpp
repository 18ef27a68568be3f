// SPDX-License-Identifier: BSD-3-Clause
// blas.hpp: the products and solutions of a rank, by FleetBLAS. It knows no algorithm.
#pragma once
#include <cstdint>

#include "fleetblas/fleetblas.h"

namespace fleet::lu {

/// Column-major matrices, m x n and so on as in BLAS. Each throws Failure.
class Blas {
 public:
  /// nullptr: the default context.
  explicit Blas(fleet_context* context = nullptr) : context_(context) {}

  /// c -= a*b, with a m x k.
  void subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                        std::int64_t lda, const double* b, std::int64_t ldb, double* c,
                        std::int64_t ldc) const;
  /// The same with b n x k, transposed.
  void subtract_product_turned(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                               std::int64_t lda, const double* b, std::int64_t ldb, double* c,
                               std::int64_t ldc) const;
  /// b = l^-1 * b with l unit lower triangular, m x m.
  void solve_lower(std::int64_t m, std::int64_t n, const double* l, std::int64_t ldl, double* b,
                   std::int64_t ldb) const;
  /// b = b * l^-T, n x n.
  void solve_lower_turned(std::int64_t m, std::int64_t n, const double* l, std::int64_t ldl,
                          double* b, std::int64_t ldb) const;
  /// x = u^-1 * x with u upper triangular.
  void solve_upper(std::int64_t m, const double* u, std::int64_t ldu, double* x) const;

 private:
  fleet_context* context_;
};

}  // namespace fleet::lu

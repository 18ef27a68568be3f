// SPDX-License-Identifier: BSD-3-Clause
// blas.cpp: calls of the public header, and its statuses as failures.
#include "factor/blas.hpp"

#include <algorithm>

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

void check(fleet_status status) {
  if (status != FLEET_OK) throw Failure(std::string("FleetBLAS: ") + fleet_message());
}

std::int64_t legal(std::int64_t ld) { return std::max<std::int64_t>(1, ld); }

}  // namespace

void Blas::subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                            std::int64_t lda, const double* b, std::int64_t ldb, double* c,
                            std::int64_t ldc) const {
  if (m == 0 || n == 0 || k == 0) return;
  check(fleet_dgemm(context_, FLEET_NO_TRANS, FLEET_NO_TRANS, m, n, k, -1, a, legal(lda), b,
                    legal(ldb), 1, c, legal(ldc)));
}

void Blas::subtract_product_turned(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                                   std::int64_t lda, const double* b, std::int64_t ldb, double* c,
                                   std::int64_t ldc) const {
  if (m == 0 || n == 0 || k == 0) return;
  check(fleet_dgemm(context_, FLEET_NO_TRANS, FLEET_TRANS, m, n, k, -1, a, legal(lda), b,
                    legal(ldb), 1, c, legal(ldc)));
}

void Blas::solve_lower(std::int64_t m, std::int64_t n, const double* l, std::int64_t ldl, double* b,
                       std::int64_t ldb) const {
  if (m == 0 || n == 0) return;
  check(fleet_dtrsm(context_, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT, m, n, 1, l,
                    legal(ldl), b, legal(ldb)));
}

void Blas::solve_lower_turned(std::int64_t m, std::int64_t n, const double* l, std::int64_t ldl,
                              double* b, std::int64_t ldb) const {
  if (m == 0 || n == 0) return;
  check(fleet_dtrsm(context_, FLEET_RIGHT, FLEET_LOWER, FLEET_TRANS, FLEET_UNIT, m, n, 1, l,
                    legal(ldl), b, legal(ldb)));
}

void Blas::solve_upper(std::int64_t m, const double* u, std::int64_t ldu, double* x) const {
  if (m == 0) return;
  check(fleet_dtrsm(context_, FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, m, 1, 1, u,
                    legal(ldu), x, m));
}

}  // namespace fleet::lu

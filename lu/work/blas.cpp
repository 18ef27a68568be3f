// SPDX-License-Identifier: BSD-3-Clause
// blas.cpp: calls of the public header, and its statuses as failures.
#include "work/blas.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "work/context.hpp"

namespace fleet::lu {
template <typename Work>
void Blas::pace(double flops, Work&& work) const {
  const auto begin = std::chrono::steady_clock::now();
  work();
  if (most_flops_per_s_ > 0)
    std::this_thread::sleep_until(begin + std::chrono::duration<double>(flops / most_flops_per_s_));
}

void Blas::subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                            std::int64_t lda, fleet_op op_b, const double* b, std::int64_t ldb,
                            double* c, std::int64_t ldc) const {
  if (m == 0 || n == 0 || k == 0) return;
  pace(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), [&] {
    check(fleet_dgemm(context_, FLEET_NO_TRANS, op_b, m, n, k, -1, a, legal(lda), b, legal(ldb), 1,
                      c, legal(ldc)));
  });
}

void Blas::solve(const Triangle& t, std::int64_t m, std::int64_t n, double* b,
                 std::int64_t ldb) const {
  if (m == 0 || n == 0) return;
  const auto order = static_cast<double>(t.side == FLEET_LEFT ? m : n);
  pace(order * static_cast<double>(m) * static_cast<double>(n), [&] {
    check(fleet_dtrsm(context_, t.side, t.uplo, t.op, t.diag, m, n, 1, t.elements, legal(t.ld), b,
                      legal(ldb)));
  });
}

std::int64_t Blas::factor(std::int64_t m, std::int64_t n, double* a, std::int64_t lda,
                          std::int64_t* pivots) const {
  std::int64_t info = 0;
  check(fleet_dgetrf(context_, m, n, a, legal(lda), pivots, &info));
  return info;
}

}  // namespace fleet::lu

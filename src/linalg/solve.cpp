// SPDX-License-Identifier: BSD-3-Clause
// solve.cpp: factorizations, and the triangular equations that are left of others by them. It knows
// no C types.
#include "linalg/solve.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "linalg/host_matrix.hpp"

namespace fleet::linalg {
namespace {

FactorCall factor_call(const Level3& on, Factoring routine, const View& a) {
  return {.symbol = on.symbol(),
          .routine = routine,
          .storage = on.storage(),
          .uplo = a.fill == Fill::upper ? Uplo::upper : Uplo::lower,
          .m = a.rows,
          .n = a.cols,
          .a = a.data,
          .lda = std::max<std::int64_t>(1, a.ld)};
}

View triangle(const View& a, Fill fill) {
  View part = a;
  part.fill = fill;
  return part;
}

}  // namespace

std::int64_t potrf(const Level3& on, const View& a) {
  return on.context().factor(factor_call(on, Factoring::potrf, a));
}

std::int64_t getrf(const Level3& on, const View& a, std::int64_t* pivots) {
  FactorCall call = factor_call(on, Factoring::getrf, a);
  call.pivots = pivots;
  return on.context().factor(call);
}

void geqrf(const Level3& on, const View& a, void* tau) {
  FactorCall call = factor_call(on, Factoring::geqrf, a);
  call.tau = tau;
  on.context().factor(call);
}

void potrs(const Level3& on, const View& a, const View& b) {
  const Op first = a.fill == Fill::lower ? Op::none : on.turned();
  const Op second = a.fill == Fill::lower ? on.turned() : Op::none;
  on.trsm({.side = Side::left, .op = first}, 1, a, b);
  past_first_write([&] { on.trsm({.side = Side::left, .op = second}, 1, a, b); });
}

void getrs(const Level3& on, Op op, const View& a, const std::int64_t* pivots, const View& b) {
  if (is_empty(b)) return;
  const View lower = triangle(a, Fill::lower), upper = triangle(a, Fill::upper);
  const Level3::Triangular unit{.side = Side::left, .op = op, .diag = Diag::unit};
  const Level3::Triangular own{.side = Side::left, .op = op};
  if (op == Op::none) {
    exchange_rows(on, b, pivots, a.rows, Order::forward);
    past_first_write([&] {
      on.trsm(unit, 1, lower, b);
      on.trsm(own, 1, upper, b);
    });
  } else {
    on.trsm(own, 1, upper, b);
    past_first_write([&] {
      on.trsm(unit, 1, lower, b);
      exchange_rows(on, b, pivots, a.rows, Order::backward);
    });
  }
}

std::int64_t posv(const Level3& on, const View& a, const View& b) {
  const std::int64_t info = potrf(on, a);
  if (info == 0) past_first_write([&] { potrs(on, a, b); });
  return info;
}

std::int64_t gesv(const Level3& on, const View& a, std::int64_t* pivots, const View& b) {
  const std::int64_t info = getrf(on, a, pivots);
  if (info == 0) past_first_write([&] { getrs(on, Op::none, a, pivots, b); });
  return info;
}

std::int64_t trtrs(const Level3& on, Op op, Diag diag, const View& a, const View& b) {
  const std::int64_t zero = diag == Diag::unit ? 0 : first_zero(on, a);
  if (zero == 0) on.trsm({.side = Side::left, .op = op, .diag = diag}, 1, a, b);
  return zero;
}

}  // namespace fleet::linalg

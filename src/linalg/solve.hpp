// SPDX-License-Identifier: BSD-3-Clause
// solve.hpp: equations by factorizations, as LAPACK's routines of the same names. Arguments are
// legal; it knows no C types.
#pragma once
#include <complex>

#include "linalg/level3.hpp"

namespace fleet::linalg {

// A view's fill is the uplo of a triangle. Results of type int64 are LAPACK's info. Each throws
// Error, with everything untouched unless the status is device_failed.

/// In the place of a: its factors. Pivots, 1-based, and tau lie on the host.
std::int64_t potrf(const Level3& on, const View& a);
std::int64_t getrf(const Level3& on, const View& a, std::int64_t* pivots);
void geqrf(const Level3& on, const View& a, void* tau);

/// b = x, with a*x = b and a as potrf left it.
void potrs(const Level3& on, const View& a, const View& b);
/// b = x, with op(a)*x = b and a as getrf left it.
void getrs(const Level3& on, Op op, const View& a, const std::int64_t* pivots, const View& b);
/// Both steps; b is left alone where the result is not 0.
std::int64_t posv(const Level3& on, const View& a, const View& b);
std::int64_t gesv(const Level3& on, const View& a, std::int64_t* pivots, const View& b);
/// b = x, with op(a)*x = b and a triangle; b is left alone where its diagonal has a zero.
std::int64_t trtrs(const Level3& on, Op op, Diag diag, const View& a, const View& b);

/// x = the solution of op(a)*x = b, where x may be b; a is only read. Where the result is not 0, x
/// is left alone.
std::int64_t solve(const Level3& on, Op op, const View& a, const View& b, const View& x);
/// x = the inverse of a, where x may be a, which is only read else. Where the result is not 0, x
/// has nothing of use.
std::int64_t inverse(const Level3& on, const View& a, const View& x);
/// The determinant is sign * exp(log): 0 and minus infinity of a singular matrix.
struct LogDet {
  std::complex<double> sign = 1;
  double log = 0;
};
LogDet log_det(const Level3& on, const View& a);

/// What a*x = b is solved with in mixed precision.
struct MixedSolve {
  View a;  ///< square; its factors where `iterations` is negative
  std::int64_t* pivots;
  View b;
  View x;  ///< as b
};
/// dsgesv and zcgesv: factors in single precision, refined in double, which `on` is of; by factors
/// in double where that does not do. `iterations` is LAPACK's iter.
std::int64_t mixed_gesv(const Level3& on, const MixedSolve& call, std::int64_t& iterations);

}  // namespace fleet::linalg

// SPDX-License-Identifier: BSD-3-Clause
// orthogonal.hpp: products of reflectors, made and applied, as LAPACK's routines of the same names.
// Arguments are legal; it knows no C types.
#pragma once
#include "linalg/level3.hpp"

namespace fleet::linalg {

// As in solve.hpp. ungqr and unmqr are the complex orgqr and ormqr.

/// The first a.cols columns of the product of k reflectors, which geqrf left in a, in their place.
void orgqr(const Level3& on, const View& a, std::int64_t k, const void* tau);
/// c = op(Q)*c or c*op(Q), Q being the product of the reflectors in the columns of v, as geqrf left
/// them there.
void ormqr(const Level3& on, Side side, Op op, const View& v, const void* tau, const View& c);

/// A product of reflectors H = 1 - V*T*V^H, or 1 - V^H*T*V where they are the rows of V. Ones, and
/// zeros beyond them, are not stored.
struct BlockReflector {
  bool backward = false;  ///< the last reflector is applied last: T is a lower triangle
  bool by_rows = false;
  View v;
  View t;
};
/// larfb: c = op(H)*c or c*op(H).
void larfb(const Level3& on, Side side, Op op, const BlockReflector& h, const View& c);

}  // namespace fleet::linalg

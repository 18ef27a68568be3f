// SPDX-License-Identifier: BSD-3-Clause
// inverse.hpp: inverses, and products of a triangle with itself, as LAPACK's routines of the same
// names. Arguments are legal; it knows no C types.
#pragma once
#include "linalg/level3.hpp"

namespace fleet::linalg {

// As in solve.hpp.

/// The inverse of a triangle in its place; nothing changes where its diagonal has a zero.
std::int64_t trtri(const Level3& on, const View& a, Diag diag);
/// U*U^H or L^H*L in the place of the triangle.
void lauum(const Level3& on, const View& a);
/// The inverse of the matrix of which `a` has what potrf made of it: its triangle.
std::int64_t potri(const Level3& on, const View& a);
/// The inverse of the matrix of which `a` has what getrf made of it.
std::int64_t getri(const Level3& on, const View& a, const std::int64_t* pivots);

}  // namespace fleet::linalg

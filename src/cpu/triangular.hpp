// SPDX-License-Identifier: BSD-3-Clause
// triangular.hpp: products with a triangular matrix, and the solution of equations with one, made
// of plain products. It must not know who computes these.
#pragma once
#include "cpu/blas.hpp"
#include "cpu/triangles.hpp"

namespace fleet {

/// c = alpha*op(a)*op(b), where one factor is a triangle (its fill says which), and the other one
/// may be c itself. The old contents of c are only read as that factor.
void multiply_triangular(const Launch& launch, CpuBlas& blas);

/// c = x, with op(a)*x = beta*c or, with a on the right, x*op(a) = beta*c; by the inverses in b
/// where there are any.
void solve(const Launch& launch, CpuBlas& blas);

/// c = the inverses of the blocks of order inverse_block() on the diagonal of the triangle a,
/// beside each other.
void prepare(const Launch& launch, CpuBlas& blas);

/// The leading dimension of a copy of c is a multiple of this, so that its columns are aligned.
constexpr std::int64_t kCopyRows = 16;

/// Who computes products for solve_by_inverses, and copies a part of c to memory of its own. A copy
/// takes the place of the one before, and at most `most_bytes`, with its leading dimension rounded
/// up to kCopyRows.
struct Products {
  std::function<void(const Launch&)> plain;
  std::function<View(const View& c)> copied;
  std::int64_t most_bytes = 0;  ///< enough for kCopyRows and a block of the triangle
};

/// The solution by the inverses that `prepare` made, with nothing but products. The zeros of an
/// inverse are multiplied too: an element of c that is not finite spreads to all that are solved
/// with the same block of the triangle.
void solve_by_inverses(const Launch& launch, const Products& products);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// triangular.hpp: products with a triangular matrix, and the solution of equations with one, made
// of plain products. It must not know who computes these.
#pragma once
#include "exec/cpu_blas.hpp"
#include "exec/triangles.hpp"

namespace fleet {

/// c = alpha*op(a)*op(b), where one factor is a triangle (its fill says which), and the other one
/// may be c itself. The old contents of c are not looked at but as that factor.
void multiply_triangular(const Launch& launch, CpuBlas& blas);

/// c = x, with op(a)*x = beta*c or, with a on the right, x*op(a) = beta*c.
void solve(const Launch& launch, CpuBlas& blas);

/// The same, by whoever is given. A leaf is the solution with one block on the diagonal of a, which
/// begins at a multiple of the leaves' edge.
void solve(const Launch& launch, const Halves& halves);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// triangles.hpp: products with a triangle in them, made of plain ones. It must not know who
// computes these.
#pragma once
#include <cstdint>
#include <functional>

#include "base/sizes.hpp"
#include "cpu/blas.hpp"

namespace fleet {

/// How far triangles are halved, and who computes the products that remain. Both get launches in an
/// order that gives the right sums.
struct Halves {
  std::int64_t leaf_edge = 0;  ///< a triangle with this many rows or fewer is not halved
  std::function<void(const Launch&)> plain;  ///< products without a triangle
  std::function<void(const Launch&)> leaf;   ///< products with a triangle that small
};

/// c = alpha*op(a)*op(b) + beta*c, where c may be a triangle, or one of the factors may be the
/// triangle of a symmetric (Hermitian) matrix.
void multiply(const Launch& launch, const Halves& halves);

/// The same by the CPU, with triangular factors too: triangles are halved until the blocks on the
/// diagonal are so small that it does not matter to compute them whole.
void multiply(const Launch& launch, CpuBlas& blas);

/// The larger half of n, in whole leaves.
inline std::int64_t half_of(std::int64_t n, std::int64_t leaf_edge) {
  return round_up(n / 2, leaf_edge);
}

}  // namespace fleet

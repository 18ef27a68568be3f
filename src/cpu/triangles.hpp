// SPDX-License-Identifier: BSD-3-Clause
// triangles.hpp: products with a triangle in them, made of plain ones. It must not know who
// computes these.
#pragma once
#include <cstdint>
#include <functional>

#include "base/sizes.hpp"
#include "cpu/blas.hpp"

namespace fleet {

/// How far triangles are halved, and who does what is left of a product then. Both get launches in
/// an order that gives the right sums.
struct Halves {
  std::int64_t leaf_edge = 0;  ///< a triangle of at most so many rows is not halved again
  std::function<void(const Launch&)> plain;  ///< products without a triangle
  std::function<void(const Launch&)> leaf;   ///< products with a triangle that small
};

/// c = alpha*op(a)*op(b) + beta*c, where c may be a triangle, or one of the factors one that stands
/// for a symmetric (Hermitian) matrix.
void multiply(const Launch& launch, const Halves& halves);

/// The same by the CPU, of triangular factors too: halves are taken until blocks on the diagonal
/// are so small that what is computed for nothing there does not matter.
void multiply(const Launch& launch, CpuBlas& blas);

/// The larger half of n, which is whole leaves.
inline std::int64_t half_of(std::int64_t n, std::int64_t leaf_edge) {
  return round_up(n / 2, leaf_edge);
}

}  // namespace fleet

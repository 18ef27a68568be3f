// SPDX-License-Identifier: BSD-3-Clause
// triangles.cpp: halves of triangles, and the blocks that are left on their diagonals. It must not
// know plans.
#include "cpu/triangles.hpp"

#include <array>
#include <utility>

#include "cpu/copies.hpp"
#include "cpu/element.hpp"
#include "cpu/gemm_pieces.hpp"
#include "cpu/triangular.hpp"
#include "run/launch.hpp"

namespace fleet {
namespace {

/// Half of each leaf is computed in vain: with 64 in a tile of 2048, 3 % more than its triangle. A
/// leaf fits on the stack, so that nothing has to be allocated.
constexpr std::int64_t kDiagonalLeafEdge = 64;

struct Scratch {
  alignas(64) std::array<char, kDiagonalLeafEdge * kDiagonalLeafEdge * 16> bytes;
  View view(std::int64_t edge) {
    return {.data = bytes.data(), .rows = edge, .cols = edge, .ld = edge};
  }
};

/// Rows of op(x), and columns of it.
View rows_of_factor(const View& x, Op op, Storage storage, std::int64_t row, std::int64_t rows) {
  return op == Op::none ? part(x, storage, row, 0, rows, x.cols)
                        : part(x, storage, 0, row, x.rows, rows);
}
View cols_of_factor(const View& x, Op op, Storage storage, std::int64_t col, std::int64_t cols) {
  return op == Op::none ? part(x, storage, 0, col, x.rows, cols)
                        : part(x, storage, col, 0, cols, x.cols);
}

/// Adds the sums in `block` to a triangle of C.
template <typename T>
void merge(const Launch& launch, const View& block) {
  const auto beta = scalar<T>(launch.beta);
  for (std::int64_t col = 0; col < launch.c.cols; ++col) {
    const T* sums = static_cast<const T*>(block.data) + col * block.ld;
    T* to = static_cast<T*>(launch.c.data) + col * launch.c.ld;
    const auto [begin, end] = rows_of(launch.c, col);
    for (std::int64_t row = begin; row < end; ++row) {
      T value = sums[row];
      if (beta != T(0)) value += product(beta, to[row]);
      if constexpr (requires { value.imag(); }) {
        // The imaginary part may be no number: only the real part of a Hermitian matrix counts.
        if (launch.hermitian && row == col)
          value = T(sums[row].real() + (beta != T(0) ? beta.real() * to[row].real() : 0));
      }
      to[row] = value;
    }
  }
}

/// The whole symmetric block whose one triangle is in `from`.
template <typename T>
void complete(const View& from, const View& to, bool hermitian) {
  for (std::int64_t col = 0; col < from.cols; ++col) {
    const auto [begin, end] = rows_of(from, col);
    for (std::int64_t row = begin; row < end; ++row) {
      T value = static_cast<const T*>(from.data)[row + col * from.ld];
      T mirrored = value;
      if constexpr (requires { value.imag(); }) {
        if (hermitian && row == col) value = T(value.real());
        mirrored = hermitian ? std::conj(value) : value;
      }
      static_cast<T*>(to.data)[row + col * to.ld] = value;
      static_cast<T*>(to.data)[col + row * to.ld] = mirrored;
    }
  }
}

void into_triangle(const Launch& launch, const Halves& halves) {
  const std::int64_t n = launch.c.rows;
  const Storage storage = launch.type.storage;
  const std::int64_t half = half_of(n, halves.leaf_edge), rest = n - half;
  const bool lower = launch.c.fill == Fill::lower;
  const auto multiply_part = [&](std::int64_t row, std::int64_t rows, std::int64_t col,
                                 std::int64_t cols) {
    Launch piece = launch;
    piece.a = rows_of_factor(launch.a, launch.op_a, storage, row, rows);
    piece.b = cols_of_factor(launch.b, launch.op_b, storage, col, cols);
    piece.c =
        part(launch.c, storage, row, col, rows, cols, row == col ? launch.c.fill : Fill::full);
    multiply(piece, halves);
  };
  multiply_part(0, half, 0, half);
  lower ? multiply_part(half, rest, 0, half) : multiply_part(0, half, half, rest);
  multiply_part(half, rest, half, rest);
}

/// A part of a symmetric factor as it is read: as stored, or the opposite part transposed.
struct SymmetricPart {
  View view;
  Op op = Op::none;
};

SymmetricPart part_of_symmetric(const Launch& launch, const View& x, std::int64_t row,
                                std::int64_t rows, std::int64_t col, std::int64_t cols) {
  if (row == col) return {part(x, launch.type.storage, row, col, rows, cols, x.fill)};
  const bool stored = (x.fill == Fill::lower) == (row > col);
  if (stored) return {part(x, launch.type.storage, row, col, rows, cols)};
  return {part(x, launch.type.storage, col, row, cols, rows),
          launch.hermitian ? Op::conjugate : Op::transpose};
}

void by_symmetric(const Launch& launch, const Halves& halves) {
  const bool on_left = launch.a.fill != Fill::full;
  const View& symmetric = on_left ? launch.a : launch.b;
  const std::int64_t n = symmetric.rows;
  const Storage storage = launch.type.storage;
  const std::int64_t half = half_of(n, halves.leaf_edge);
  const std::int64_t begins[2] = {0, half}, sizes[2] = {half, n - half};
  for (int out = 0; out < 2; ++out)
    for (int in = 0; in < 2; ++in) {
      Launch piece = launch;
      if (on_left) {
        const auto of_a =
            part_of_symmetric(launch, symmetric, begins[out], sizes[out], begins[in], sizes[in]);
        piece.a = of_a.view;
        piece.op_a = of_a.op;
        piece.b = rows_of_factor(launch.b, launch.op_b, storage, begins[in], sizes[in]);
        piece.c = part(launch.c, storage, begins[out], 0, sizes[out], launch.c.cols);
      } else {
        const auto of_b =
            part_of_symmetric(launch, symmetric, begins[in], sizes[in], begins[out], sizes[out]);
        piece.b = of_b.view;
        piece.op_b = of_b.op;
        piece.a = cols_of_factor(launch.a, launch.op_a, storage, begins[in], sizes[in]);
        piece.c = part(launch.c, storage, 0, begins[out], launch.c.rows, sizes[out]);
      }
      if (in > 0) piece.beta = 1.0;
      multiply(piece, halves);
    }
}

/// The operand that is a triangle, if one is.
const View* triangle_of(const Launch& launch) {
  for (const View* operand : {&launch.c, &launch.a, &launch.b})
    if (operand->fill != Fill::full) return operand;
  return nullptr;
}

/// By a product of whole blocks.
void multiply_leaf(const Launch& launch, CpuBlas& blas) {
  Scratch scratch;
  Launch whole = launch;
  if (launch.c.fill != Fill::full) {
    whole.c = scratch.view(launch.c.rows);
    whole.beta = 0.0;
    blas.gemm(whole);
    return with_wide_element(launch.type.storage,
                             [&](auto zero) { merge<decltype(zero)>(launch, whole.c); });
  }
  View& factor = launch.a.fill != Fill::full ? whole.a : whole.b;
  const View symmetric = std::exchange(factor, scratch.view(factor.rows));
  with_wide_element(launch.type.storage, [&](auto zero) {
    complete<decltype(zero)>(symmetric, factor, launch.hermitian);
  });
  blas.gemm(whole);
}

}  // namespace

void multiply(const Launch& launch, const Halves& halves) {
  const View* triangle = triangle_of(launch);
  if (triangle == nullptr) return halves.plain(launch);
  if (triangle->rows <= halves.leaf_edge) return halves.leaf(launch);
  triangle == &launch.c ? into_triangle(launch, halves) : by_symmetric(launch, halves);
}

void multiply(const Launch& launch, CpuBlas& blas) {
  if (has_vectors(launch.kernel)) return blas.multiply_vectors(launch);
  if (launch.triangular && triangle_of(launch) != nullptr) return multiply_triangular(launch, blas);
  multiply(launch, {.leaf_edge = kDiagonalLeafEdge,
                    .plain = [&](const Launch& plain) { blas.gemm(plain); },
                    .leaf = [&](const Launch& leaf) { multiply_leaf(leaf, blas); }});
}

}  // namespace fleet

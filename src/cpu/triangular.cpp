// SPDX-License-Identifier: BSD-3-Clause
// triangular.cpp: halves of triangular matrices, and loops for what is left on the diagonal. It
// must not know plans.
#include "cpu/triangular.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "cpu/copies.hpp"
#include "cpu/element.hpp"
#include "run/launch.hpp"

namespace fleet {
namespace {

/// Small enough for the stack, large enough that most of the arithmetic is in plain products.
constexpr std::int64_t kLeafEdge = 64;
/// What a library's trsm or trmm does at once: so much that it is fast, so little that most of the
/// arithmetic of large triangles is in products, which are faster, and that a fork waits for none
/// long.
constexpr std::int64_t kLibraryEdge = 512, kLibraryOthers = 16384;

/// op(a), on one side of c, which it is multiplied with or solved for.
struct Triangular {
  DataType type;
  View a;
  Op op;
  bool on_left;
  bool unit;
  bool solves;
  bool lower() const { return (a.fill == Fill::lower) == (op == Op::none); }
  /// Whether results along the side depend on those before them, not on those after them.
  bool looks_back() const { return lower() == on_left; }
};

/// op(a) as a dense matrix whose triangle is set; with ones where the diagonal is not stored.
template <typename T>
class Leaf {
 public:
  explicit Leaf(const Triangular& t) : edge_(t.a.rows) {
    for (std::int64_t col = 0; col < t.a.cols; ++col) {
      const auto [begin, end] = rows_of(t.a, col);
      for (std::int64_t row = begin; row < end; ++row) {
        T value = T(1);
        if (row != col || !t.unit) value = static_cast<const T*>(t.a.data)[row + col * t.a.ld];
        if constexpr (requires { value.imag(); })
          if (t.op == Op::conjugate) value = std::conj(value);
        (t.op == Op::none ? at(row, col) : at(col, row)) = value;
      }
    }
  }
  T& at(std::int64_t row, std::int64_t col) {
    return values_[static_cast<std::size_t>(row + col * edge_)];
  }

 private:
  std::int64_t edge_;
  std::array<T, kLeafEdge * kLeafEdge> values_;
};

/// Calls `each(l, begin, end)` for each row of a column of c (a on the left) or each column of c (a
/// on the right): the l-th adds to those in [begin, end). Solving begins at the one that depends on
/// no other, multiplying at the one on which no other depends: inputs are right when they are read.
template <typename Each>
void in_turn(const Triangular& t, Each each) {
  const std::int64_t n = t.a.rows;
  const bool ascending = t.looks_back() == t.solves;
  for (std::int64_t turn = 0; turn < n; ++turn) {
    const std::int64_t l = ascending ? turn : n - 1 - turn;
    t.looks_back() ? each(l, l + 1, n) : each(l, std::int64_t{0}, l);
  }
}

template <typename T>
void sweep_column(const Triangular& t, Leaf<T>& leaf, T factor, T* x) {
  in_turn(t, [&](std::int64_t l, std::int64_t begin, std::int64_t end) {
    const T* column = &leaf.at(0, l);
    const T given = t.solves ? (t.unit ? x[l] : x[l] / column[l]) : product(factor, x[l]);
    const T times = t.solves ? -given : given;
    for (std::int64_t i = begin; i < end; ++i) x[i] += product(times, column[i]);
    x[l] = t.solves || t.unit ? given : product(given, column[l]);
  });
}

template <typename T>
void sweep_rows(const Triangular& t, Leaf<T>& leaf, T factor, const View& c) {
  const auto column = [&](std::int64_t l) { return static_cast<T*>(c.data) + l * c.ld; };
  in_turn(t, [&](std::int64_t l, std::int64_t begin, std::int64_t end) {
    T* x = column(l);
    const T diagonal = leaf.at(l, l);
    for (std::int64_t i = 0; i < c.rows; ++i)
      x[i] = !t.solves ? product(factor, x[i]) : t.unit ? x[i] : x[i] / diagonal;
    for (std::int64_t other = begin; other < end; ++other) {
      const T times = t.solves ? -leaf.at(l, other) : leaf.at(l, other);
      T* y = column(other);
      for (std::int64_t i = 0; i < c.rows; ++i) y[i] += product(times, x[i]);
    }
    if (t.solves || t.unit) return;
    for (std::int64_t i = 0; i < c.rows; ++i) x[i] = product(diagonal, x[i]);
  });
}

template <typename T>
void compute_leaf(const Triangular& t, const View& c, std::complex<double> factor) {
  Leaf<T> leaf(t);
  T* data = static_cast<T*>(c.data);
  const T by = scalar<T>(factor);
  if (t.solves && by != T(1))
    for (std::int64_t col = 0; col < c.cols; ++col)
      for (std::int64_t row = 0; row < c.rows; ++row)
        data[row + col * c.ld] = product(by, data[row + col * c.ld]);
  if (!t.on_left) return sweep_rows(t, leaf, by, c);
  for (std::int64_t col = 0; col < c.cols; ++col) sweep_column(t, leaf, by, data + col * c.ld);
}

/// What a triangle is multiplied with or solved for, and where the result goes: `c` itself, or, of
/// a solution, right-hand sides that lie elsewhere and are used up.
struct Sides {
  View right;
  View c;
};

/// How far a matrix is halved, and who does the rest.
struct Halving {
  std::int64_t leaf_edge;
  std::function<void(const Launch&)> plain;
  std::function<void(const Triangular&, const Sides&, std::complex<double> factor)> leaf;
};

void compute(const Triangular& t, const Sides& sides, std::complex<double> factor,
             const Halving& halving) {
  const std::int64_t n = t.a.rows;
  if (n <= halving.leaf_edge) return halving.leaf(t, sides, factor);
  const std::int64_t half = half_of(n, halving.leaf_edge), rest = n - half;
  const auto along_side = [&](std::int64_t begin, std::int64_t size) {
    const auto of = [&](const View& x) {
      return t.on_left ? part(x, t.type.storage, begin, 0, size, x.cols)
                       : part(x, t.type.storage, 0, begin, x.rows, size);
    };
    return Sides{of(sides.right), of(sides.c)};
  };
  const auto on_diagonal = [&](std::int64_t begin, std::int64_t size) {
    Triangular block = t;
    block.a = part(t.a, t.type.storage, begin, begin, size, size, t.a.fill);
    return block;
  };
  Triangular giver = on_diagonal(0, half), taker = on_diagonal(half, rest);
  Sides given = along_side(0, half), taken = along_side(half, rest);
  if (!t.looks_back()) {
    std::swap(giver, taker);
    std::swap(given, taken);
  }
  const View off = t.a.fill == Fill::lower ? part(t.a, t.type.storage, half, 0, rest, half)
                                           : part(t.a, t.type.storage, 0, half, half, rest);
  Launch between{.type = t.type, .a = off, .b = given.c, .c = taken.right};
  between.op_a = t.op;
  if (!t.on_left) {
    std::swap(between.a, between.b);
    std::swap(between.op_a, between.op_b);
  }
  between.alpha = t.solves ? -1.0 : factor;
  between.beta = t.solves ? factor : 1.0;
  compute(t.solves ? giver : taker, t.solves ? given : taken, factor, halving);
  halving.plain(between);
  compute(t.solves ? taker : giver, t.solves ? taken : given, t.solves ? 1.0 : factor, halving);
}

Halving on_cpu(CpuBlas& blas) {
  return {.leaf_edge = kLeafEdge,
          .plain = [&](const Launch& plain) { blas.gemm(plain); },
          .leaf =
              [](const Triangular& t, const Sides& sides, std::complex<double> factor) {
                with_wide_element(t.type.storage, [&](auto zero) {
                  compute_leaf<decltype(zero)>(t, sides.c, factor);
                });
              }};
}

/// By the library's trsm or trmm, in pieces along the other side; what it does not do, by loops.
void compute_by_library(const Triangular& t, const View& c, std::complex<double> factor,
                        CpuBlas& blas) {
  Launch launch{.type = t.type, .op_a = t.op, .beta = factor, .a = t.a};
  launch.side = t.on_left ? Side::left : Side::right;
  launch.diag = t.unit ? Diag::unit : Diag::non_unit;
  const std::int64_t others = t.on_left ? c.cols : c.rows;
  for (std::int64_t begin = 0; begin < others; begin += kLibraryOthers) {
    const std::int64_t size = std::min(kLibraryOthers, others - begin);
    launch.c = t.on_left ? part(c, t.type.storage, 0, begin, c.rows, size)
                         : part(c, t.type.storage, begin, 0, size, c.cols);
    if (!(t.solves ? blas.solve(launch) : blas.multiply_in_place(launch)))
      compute(t, {launch.c, launch.c}, factor, on_cpu(blas));
  }
}

Halving by_library(CpuBlas& blas) {
  return {
      .leaf_edge = kLibraryEdge,
      .plain = [&](const Launch& plain) { blas.gemm(plain); },
      .leaf = [&](const Triangular& t, const Sides& sides,
                  std::complex<double> factor) { compute_by_library(t, sides.c, factor, blas); }};
}

Triangular solved_with(const Launch& launch) {
  return {.type = launch.type,
          .a = launch.a,
          .op = launch.op_a,
          .on_left = launch.side == Side::left,
          .unit = launch.diag == Diag::unit,
          .solves = true};
}

}  // namespace

void multiply_triangular(const Launch& launch, CpuBlas& blas) {
  const bool on_left = launch.a.fill != Fill::full;
  const View& other = on_left ? launch.b : launch.a;
  if (other.data != launch.c.data)
    copy_columns(other, launch.c, bytes_of(launch.type.storage), 0, other.cols);
  compute({.type = launch.type,
           .a = on_left ? launch.a : launch.b,
           .op = on_left ? launch.op_a : launch.op_b,
           .on_left = on_left,
           .unit = launch.diag == Diag::unit,
           .solves = false},
          {launch.c, launch.c}, launch.alpha, by_library(blas));
}

void solve(const Launch& launch, CpuBlas& blas) {
  if (launch.b.data == nullptr)
    return compute(solved_with(launch), {launch.c, launch.c}, launch.beta, by_library(blas));
  constexpr std::int64_t kMostBytes = std::int64_t{4} << 20;
  std::vector<char> memory;
  const std::int64_t element = bytes_of(launch.type.storage);
  solve_by_inverses(launch,
                    {.plain = [&](const Launch& plain) { blas.gemm(plain); },
                     .copied =
                         [&](const View& c) {
                           const std::int64_t ld = round_up(c.rows, kCopyRows);
                           memory.resize(static_cast<std::size_t>(ld * c.cols * element));
                           const View copy{
                               .data = memory.data(), .rows = c.rows, .cols = c.cols, .ld = ld};
                           copy_columns(c, copy, element, 0, c.cols);
                           return copy;
                         },
                     .most_bytes = kMostBytes});
}

void prepare(const Launch& launch, CpuBlas& blas) {
  const std::int64_t edge = launch.c.ld;
  Launch inverting = launch;
  inverting.b = {};
  inverting.op_a = Op::none;
  inverting.side = Side::left;
  inverting.beta = 1.0;
  for (std::int64_t begin = 0; begin < launch.a.rows; begin += edge) {
    const std::int64_t size = std::min(edge, launch.a.rows - begin);
    inverting.a = part(launch.a, launch.type.storage, begin, begin, size, size, launch.a.fill);
    inverting.c = part(launch.c, launch.type.storage, 0, begin, size, size);
    with_wide_element(launch.type.storage, [&](auto zero) {
      using T = decltype(zero);
      auto* identity = static_cast<T*>(inverting.c.data);
      for (std::int64_t col = 0; col < size; ++col)
        for (std::int64_t row = 0; row < size; ++row)
          identity[row + col * edge] = row == col ? T(1) : T(0);
    });
    solve(inverting, blas);
  }
}

void solve_by_inverses(const Launch& launch, const Products& products) {
  const Triangular whole = solved_with(launch);
  const std::int64_t edge = launch.b.ld, bytes = bytes_of(launch.type.storage);
  const std::int64_t right_sides = whole.on_left ? launch.c.cols : launch.c.rows;
  if (right_sides == 0 || launch.a.rows == 0) return;
  const auto by_inverse = [&](const Triangular& t, const Sides& sides,
                              std::complex<double> factor) {
    const std::int64_t distance = static_cast<char*>(t.a.data) - static_cast<char*>(launch.a.data);
    const std::int64_t begin = distance / ((launch.a.ld + 1) * bytes);
    Launch product{.type = launch.type,
                   .op_a = launch.op_a,
                   .alpha = factor,
                   .a = part(launch.b, launch.type.storage, 0, begin, t.a.rows, t.a.cols),
                   .b = sides.right,
                   .c = sides.c};
    if (!t.on_left) {
      std::swap(product.a, product.b);
      std::swap(product.op_a, product.op_b);
    }
    products.plain(product);
  };
  // Right-hand sides of as many blocks as there is room for are copied at once, and used up where
  // the copy is: products with inverses cannot take the place of what they multiply.
  const auto by_copy = [&](const Triangular& t, const Sides& sides, std::complex<double> factor) {
    const View& c = sides.c;
    const std::int64_t line = (t.on_left ? round_up(c.rows, kCopyRows) : c.cols) * bytes;
    const std::int64_t step = t.on_left ? 1 : kCopyRows;
    const std::int64_t most = std::max(step, products.most_bytes / line / step * step);
    for (std::int64_t begin = 0; begin < right_sides; begin += most) {
      const std::int64_t size = std::min(most, right_sides - begin);
      const View some = t.on_left ? part(c, t.type.storage, 0, begin, c.rows, size)
                                  : part(c, t.type.storage, begin, 0, size, c.cols);
      compute(t, {products.copied(some), some}, factor,
              {.leaf_edge = edge, .plain = products.plain, .leaf = by_inverse});
    }
  };
  const std::int64_t across = whole.on_left ? right_sides : round_up(right_sides, kCopyRows);
  const std::int64_t blocks = products.most_bytes / (across * bytes * edge);
  compute(whole, {launch.c, launch.c}, launch.beta,
          {.leaf_edge = std::max<std::int64_t>(1, blocks) * edge,
           .plain = products.plain,
           .leaf = by_copy});
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// interpreter.hpp: the meaning of a tile program: its ops in order, on whole matrices, element by
// element. It uses no plan, slot, view or BLAS, so that it can be their oracle.
#pragma once
#include <complex>
#include <span>
#include <vector>

#include "program/tile_program.hpp"

namespace fleet::test {

/// One matrix of a program, all items of its batch.
template <typename T>
struct Stored {
  T* data = nullptr;
  std::int64_t ld = 0;
  std::int64_t stride = 0;
};

/// The scalars of a program of one or more calls, by their ids.
inline std::vector<std::complex<double>> scalars_of(
    std::span<const std::pair<std::complex<double>, std::complex<double>>> alphas_and_betas) {
  std::vector<std::complex<double>> scalars{1.0, -1.0};
  for (const auto& [alpha, beta] : alphas_and_betas) {
    scalars.push_back(alpha);
    scalars.push_back(beta);
    scalars.push_back(std::conj(alpha));
  }
  return scalars;
}

template <typename T>
class Interpreter {
 public:
  Interpreter(const TileProgram& program, std::span<const Stored<T>> matrices,
              std::span<const std::complex<double>> scalars)
      : program_(program), matrices_(matrices), scalars_(scalars) {}

  void run() {
    for (const OpChain& chain : program_.chains)
      for (OpId id = chain.first; id < chain.first + chain.ops; ++id)
        run(program_.ops[static_cast<std::size_t>(id)], chain.target);
  }

 private:
  static constexpr bool kIsComplex = !std::is_floating_point_v<T>;

  static T conjugate(T x) {
    if constexpr (kIsComplex) return std::conj(x);
    return x;
  }
  static T real_part(T x) {
    if constexpr (kIsComplex) return x.real();
    return x;
  }
  T scalar(ScalarId id) const {
    if constexpr (kIsComplex)
      return static_cast<T>(scalars_[id]);
    else
      return static_cast<T>(scalars_[id].real());
  }

  /// Element (row, col) of a stored tile.
  T& stored(const TileId& tile, std::int64_t row, std::int64_t col) const {
    const Matrix& matrix = program_.matrices[static_cast<std::size_t>(tile.matrix)];
    const Stored<T>& is = matrices_[static_cast<std::size_t>(tile.matrix)];
    const int rows = tile_count(matrix.row_cuts);
    const std::int64_t item = tile.row / rows;
    const std::int64_t i = matrix.row_cuts[static_cast<std::size_t>(tile.row % rows)] + row;
    const std::int64_t j = matrix.col_cuts[static_cast<std::size_t>(tile.col)] + col;
    return is.data[item * is.stride + i + j * is.ld];
  }

  Fill fill(const TileId& tile) const {
    const Matrix& matrix = program_.matrices[static_cast<std::size_t>(tile.matrix)];
    return tile.row == tile.col ? matrix.diagonal : Fill::full;
  }
  static bool counts(Fill fill, std::int64_t row, std::int64_t col) {
    return fill == Fill::full || (fill == Fill::lower ? row >= col : row <= col);
  }

  /// Element (row, col) of a tile after the structure of its matrix: mirrored, zero, one or real.
  T meant(const TileId& tile, std::int64_t row, std::int64_t col) const {
    const Structure structure = program_.matrices[static_cast<std::size_t>(tile.matrix)].structure;
    const Fill of_tile = fill(tile);
    const bool on_diagonal = of_tile != Fill::full && row == col;
    if (on_diagonal && structure == Structure::unit_triangular) return T(1);
    if (on_diagonal && structure == Structure::hermitian) return real_part(stored(tile, row, col));
    if (counts(of_tile, row, col)) return stored(tile, row, col);
    if (structure >= Structure::triangular) return T(0);
    const T mirrored = stored(tile, col, row);
    return structure == Structure::hermitian ? conjugate(mirrored) : mirrored;
  }

  /// Element (row, col) of an input as the op reads it (transposed or conjugated).
  T read(const Factor& input, std::int64_t row, std::int64_t col) const {
    if (input.op == Op::none) return meant(input.tile, row, col);
    const T turned = meant(input.tile, col, row);
    return input.op == Op::conjugate ? conjugate(turned) : turned;
  }
  std::int64_t rows(const TileId& tile) const { return program_.rows_of(tile); }
  std::int64_t cols(const TileId& tile) const { return program_.cols_of(tile); }
  std::int64_t inner(const Factor& left) const {
    return left.op == Op::none ? cols(left.tile) : rows(left.tile);
  }

  /// The previous value of the target's element times its factor: 0, 1 or beta.
  T kept(const TileOp& op, const TileId& target, std::int64_t row, std::int64_t col) const {
    if (op.accumulate == Accumulate::overwrite) return T(0);
    const T factor = op.accumulate == Accumulate::beta ? scalar(op.beta) : T(1);
    if (factor == T(0)) return T(0);
    const bool real = program_.matrix_of(target).structure == Structure::hermitian &&
                      fill(target) != Fill::full && row == col;
    const T old = stored(target, row, col);
    return factor * (real ? real_part(old) : old);
  }

  /// Sets each stored element of the target to element(row, col), after computing all of them.
  template <typename Element>
  void set(const TileId& target, Element element) {
    std::vector<T> made;
    for_each(target,
             [&](std::int64_t row, std::int64_t col) { made.push_back(element(row, col)); });
    std::size_t next = 0;
    for_each(target, [&](std::int64_t row, std::int64_t col) {
      const bool real = program_.matrix_of(target).structure == Structure::hermitian &&
                        fill(target) != Fill::full && row == col;
      stored(target, row, col) = real ? real_part(made[next]) : made[next];
      ++next;
    });
  }
  template <typename Act>
  void for_each(const TileId& target, Act act) {
    for (std::int64_t col = 0; col < cols(target); ++col)
      for (std::int64_t row = 0; row < rows(target); ++row)
        if (counts(fill(target), row, col)) act(row, col);
  }

  void run(const TileOp& op, const TileId& target) {
    const auto& [left, right] = op.inputs;
    const T alpha = scalar(op.alpha);
    const auto keep = [&](std::int64_t row, std::int64_t col) {
      return kept(op, target, row, col);
    };
    const auto sum = [&](std::int64_t depth, auto term) {
      T all(0);
      for (std::int64_t k = 0; k < depth; ++k) all += term(k);
      return alpha * all;
    };
    switch (op.kernel) {
      case Kernel::multiply:
        return set(target, [&](std::int64_t row, std::int64_t col) {
          return keep(row, col) + sum(inner(left), [&](std::int64_t k) {
                   return read(left, row, k) * read(right, k, col);
                 });
        });
      case Kernel::scale:
        return set(target, keep);
      case Kernel::gemv:  // vectors are matrices of one row
        return set(target, [&](std::int64_t row, std::int64_t col) {
          return keep(row, col) + sum(inner(left), [&](std::int64_t k) {
                   return read(left, col, k) * stored(right.tile, 0, k);
                 });
        });
      case Kernel::axpy:
        return set(target, [&](std::int64_t row, std::int64_t col) {
          return keep(row, col) + alpha * stored(left.tile, 0, col);
        });
      case Kernel::dot:  // conjugated or not, x is a row
        return set(target, [&](std::int64_t row, std::int64_t col) {
          return keep(row, col) + sum(cols(left.tile), [&](std::int64_t k) {
                   const T x = stored(left.tile, 0, k);
                   return (left.op == Op::conjugate ? conjugate(x) : x) * stored(right.tile, 0, k);
                 });
        });
      case Kernel::solve:
        set(target, keep);
        return left.form == Form::stored ? solve(left, target, false) : solve(right, target, true);
      default:  // kernels that only plans have
        return;
    }
  }

  /// Substitution, one unknown after another in the order given by the triangle.
  void solve(const Factor& triangle, const TileId& target, bool from_right) {
    const std::int64_t order = rows(triangle.tile);
    const std::int64_t systems = from_right ? rows(target) : cols(target);
    const auto coefficient = [&](std::int64_t equation, std::int64_t unknown) {
      return from_right ? read(triangle, unknown, equation) : read(triangle, equation, unknown);
    };
    const auto x = [&](std::int64_t unknown, std::int64_t system) -> T& {
      return from_right ? stored(target, system, unknown) : stored(target, unknown, system);
    };
    const bool lower = (fill(triangle.tile) == Fill::lower) == (triangle.op == Op::none);
    const bool first_to_last = lower != from_right;
    for (std::int64_t system = 0; system < systems; ++system)
      for (std::int64_t done = 0; done < order; ++done) {
        const std::int64_t at = first_to_last ? done : order - 1 - done;
        T value = x(at, system);
        for (std::int64_t before = 0; before < done; ++before) {
          const std::int64_t known = first_to_last ? before : order - 1 - before;
          value -= coefficient(at, known) * x(known, system);
        }
        x(at, system) = value / coefficient(at, at);
      }
  }

  const TileProgram& program_;
  std::span<const Stored<T>> matrices_;
  std::span<const std::complex<double>> scalars_;
};

template <typename T>
void interpret(const TileProgram& program, std::span<const Stored<T>> matrices,
               std::span<const std::complex<double>> scalars) {
  Interpreter<T>(program, matrices, scalars).run();
}

// As in reference.hpp: oracle.cpp has them, optimised.
extern template class Interpreter<float>;
extern template class Interpreter<double>;
extern template class Interpreter<std::complex<float>>;
extern template class Interpreter<std::complex<double>>;

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// program_oracle.hpp: what the matrices of a random program hold when its calls are made one by one
// on the CPU, and how far any other order of rounding may be from that. It queues nothing.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "support/random_programs.hpp"
#include "support/reference.hpp"

namespace fleet::test {

/// Numbers of which products do not grow, with triangles that can be solved with: near +-1.5 on the
/// matrix's diagonal, and small elsewhere. Dense, column by column.
template <typename T>
std::vector<T> fresh_numbers(const MatrixPart& part, std::int64_t order, std::uint64_t seed) {
  using Real = typename Scalar<T>::Real;
  Random random(seed);
  std::vector<T> numbers;
  numbers.reserve(static_cast<std::size_t>(part.rows * part.cols));
  for (std::int64_t col = part.col; col < part.col + part.cols; ++col)
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
      T x = random_scalar<T>(random) / static_cast<Real>(order);
      if (row == col) x += static_cast<Real>(random.chance(0.5) ? 1.5 : -1.5);
      numbers.push_back(x);
    }
  return numbers;
}

/// Elements, dense, and the most by which a right result may differ from each.
template <typename T>
struct Bounded {
  std::vector<T> is;
  std::vector<double> off;
};

template <typename T>
class ProgramOracle {
 public:
  /// `cpu` computes on the CPU only. The program may still grow.
  ProgramOracle(const RandomProgram& program, fleet_context* cpu) : program_(program), cpu_(cpu) {
    for (int m = 0; m < std::ssize(program.matrices); ++m) {
      const MatrixPart whole = program.whole(m);
      held_.push_back({fresh_numbers<T>(whole, whole.rows, initial_seed(program, m)),
                       std::vector<double>(static_cast<std::size_t>(whole.rows * whole.cols))});
    }
  }

  static std::uint64_t initial_seed(const RandomProgram& program, int matrix) {
    if (matrix == 0 && program.shares_first) return 0;
    return program.seed * 16 + static_cast<std::uint64_t>(matrix);
  }

  void write(const MatrixPart& part, std::uint64_t seed) {
    const std::vector<T> numbers = fresh_numbers<T>(part, rows_of(part), seed);
    for (std::int64_t col = 0; col < part.cols; ++col)
      for (std::int64_t row = 0; row < part.rows; ++row) {
        is(part, row, col) = numbers[static_cast<std::size_t>(row + col * part.rows)];
        off(part, row, col) = 0;
      }
  }

  void call(const ProgramStep& step) {
    const MatrixPart& c = step.operands[kC].part;
    const std::vector<double> bounds =
        step.call.traits().solves ? std::vector<double>{} : bounds_of_product(step);
    const auto stored = [&](int x) { return at(step.operands[static_cast<std::size_t>(x)].part); };
    EXPECT_EQ(call_at_once<T>(cpu_, step.call, stored(kA), stored(kB), stored(kC)), FLEET_OK)
        << fleet_message();
    if (!changes_output(step.call)) return;
    const std::vector<double> now = bounds.empty() ? bounds_of_solution(step) : bounds;
    for_each_used(step, kC, [&](std::int64_t row, std::int64_t col) {
      off(c, row, col) = now[static_cast<std::size_t>(row + col * c.rows)];
    });
  }

  Bounded<T> read(const MatrixPart& part) const {
    Bounded<T> read;
    for (std::int64_t col = part.col; col < part.col + part.cols; ++col)
      for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
        const auto i = static_cast<std::size_t>(row + col * rows_of(part));
        read.is.push_back(held(part).is[i]);
        read.off.push_back(held(part).off[i]);
      }
    return read;
  }

  /// To go back to: all that the matrix holds.
  const Bounded<T>& held(const MatrixPart& part) const {
    return held_[static_cast<std::size_t>(part.matrix)];
  }
  void restore(const MatrixPart& part, Bounded<T> before) {
    held_[static_cast<std::size_t>(part.matrix)] = std::move(before);
  }

 private:
  /// A factor as the product takes it: absolute values, and bounds of what they differ by.
  struct Factor {
    std::int64_t rows = 0, cols = 0;
    std::vector<double> size, off;
    std::size_t index(std::int64_t row, std::int64_t col) const {
      return static_cast<std::size_t>(row + col * rows);
    }
  };
  enum class Kind { general, symmetric, triangular };

  std::int64_t rows_of(const MatrixPart& part) const {
    return program_.matrices[static_cast<std::size_t>(part.matrix)].rows;
  }
  std::size_t index(const MatrixPart& part, std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(part.row + row + (part.col + col) * rows_of(part));
  }
  T& is(const MatrixPart& part, std::int64_t row, std::int64_t col) {
    return held_[static_cast<std::size_t>(part.matrix)].is[index(part, row, col)];
  }
  double& off(const MatrixPart& part, std::int64_t row, std::int64_t col) {
    return held_[static_cast<std::size_t>(part.matrix)].off[index(part, row, col)];
  }
  StoredMatrix<T> at(const MatrixPart& part) {
    if (part.matrix < 0) return {};
    return {&is(part, 0, 0), part.rows, part.cols, rows_of(part)};
  }

  Factor factor(const MatrixPart& part, bool turned, Kind kind, const RoutineCall& call) {
    Factor made{.rows = turned ? part.cols : part.rows, .cols = turned ? part.rows : part.cols};
    for (std::int64_t col = 0; col < made.cols; ++col)
      for (std::int64_t row = 0; row < made.rows; ++row) {
        std::int64_t r = turned ? col : row, c = turned ? row : col;
        const bool opposite = call.uplo == Uplo::lower ? r < c : r > c;
        if (kind == Kind::symmetric && opposite) std::swap(r, c);
        const bool none = kind == Kind::triangular && opposite;
        const bool one = kind == Kind::triangular && r == c && call.diag == Diag::unit;
        made.size.push_back(none ? 0 : one ? 1 : static_cast<double>(std::abs(is(part, r, c))));
        made.off.push_back(none || one ? 0 : off(part, r, c));
      }
    return made;
  }
  Factor general(const MatrixPart& part, bool turned, const RoutineCall& call) {
    return factor(part, turned, Kind::general, call);
  }

  /// Two sums of `terms` products, each in any order, differ by this share of the sum of absolute
  /// values at most.
  static double rounding(std::int64_t terms) {
    return 2 * static_cast<double>(terms + 8) * static_cast<double>(kEpsilon<T>) *
           (Scalar<T>::kComplex ? 4 : 1);
  }

  void multiply(const std::vector<double>& left, const std::vector<double>& right, std::int64_t m,
                std::int64_t n, std::int64_t k, std::vector<double>& sum) {
    EXPECT_EQ(fleet_dgemm(cpu_, FLEET_NO_TRANS, FLEET_NO_TRANS, m, n, k, 1.0, left.data(), m,
                          right.data(), k, 1.0, sum.data(), m),
              FLEET_OK);
  }

  /// Adds alpha*L*R: what the values add to the rounding, and what their bounds add to the bound.
  void add_product(const Factor& left, Factor right, std::vector<double>& sizes,
                   std::vector<double>& offs) {
    const std::int64_t m = left.rows, n = right.cols, k = left.cols;
    multiply(left.size, right.size, m, n, k, sizes);
    multiply(left.size, right.off, m, n, k, offs);
    for (std::size_t i = 0; i < right.size.size(); ++i) right.size[i] += right.off[i];
    multiply(left.off, right.size, m, n, k, offs);
  }

  /// Before the call: bounds of C after it, in the order of C's part.
  std::vector<double> bounds_of_product(const ProgramStep& step) {
    const RoutineCall& call = step.call;
    const RoutineTraits& traits = call.traits();
    const MatrixPart &a = step.operands[kA].part, &b = step.operands[kB].part,
                     &c = step.operands[kC].part;
    const auto elements = static_cast<std::size_t>(c.rows * c.cols);
    std::vector<double> sizes(elements, 0.0), offs(elements, 0.0);
    const bool turned = call.op_a != Op::none, left = call.side == Side::left;
    std::int64_t k = 1;
    const auto add = [&](const Factor& l, Factor r) {
      k = l.cols;
      add_product(l, std::move(r), sizes, offs);
    };
    if (!reads_factors(call)) {
    } else if (traits.has_side()) {
      const Factor one = traits.symmetric ? factor(a, false, Kind::symmetric, call)
                                          : factor(a, turned, Kind::triangular, call);
      const Factor other = general(traits.symmetric ? b : c, false, call);
      left ? add(one, other) : add(other, one);
    } else if (traits.by_itself) {
      const MatrixPart& other = traits.has_b ? b : a;
      add(general(a, turned, call), general(other, !turned, call));
      if (traits.twice) add(general(other, turned, call), general(a, !turned, call));
    } else if (call.routine == Routine::gemv) {
      add(general(a, turned, call), general(b, b.rows == 1 && b.cols > 1, call));
    } else if (call.routine == Routine::axpy) {
      add(general(a, a.rows == 1 && a.cols > 1, call), {1, 1, {1.0}, {0.0}});
    } else if (call.routine == Routine::dot) {
      add(general(a, a.rows > 1, call), general(b, b.rows == 1 && b.cols > 1, call));
    } else {
      add(general(a, turned, call), general(b, call.op_b != Op::none, call));
    }
    const double alpha = std::abs(call.alpha), gamma = rounding(k);
    const double beta = reads_output(call) && !traits.triangular ? std::abs(call.beta) : 0;
    std::vector<double> bounds;
    for (std::int64_t col = 0; col < c.cols; ++col)
      for (std::int64_t row = 0; row < c.rows; ++row) {
        // y has its elements in one column or row: in their order in both cases.
        const auto i = static_cast<std::size_t>(row + col * c.rows);
        const double old = beta == 0 ? 0 : static_cast<double>(std::abs(is(c, row, col)));
        const double by = beta == 0 ? 0 : beta * off(c, row, col);
        bounds.push_back((alpha * offs[i] + by) * (1 + gamma) +
                         gamma * (alpha * sizes[i] + beta * old));
      }
    return bounds;
  }

  /// After the call: T*(X' - X) is at most what the bounds of T and B and the rounding leave, and
  /// |inverse of T| at most the inverse of T with its diagonal's sizes less all other sizes.
  std::vector<double> bounds_of_solution(const ProgramStep& step) {
    const RoutineCall& call = step.call;
    const MatrixPart &a = step.operands[kA].part, &c = step.operands[kC].part;
    Factor t = factor(a, call.op_a != Op::none, Kind::triangular, call);
    // Devices may solve by inverses of blocks: a second product, and its rounding.
    const double gamma = 4 * rounding(a.rows), alpha = std::abs(call.alpha);
    std::vector<double> rest(static_cast<std::size_t>(c.rows * c.cols)), x(rest.size());
    for (std::int64_t col = 0; col < c.cols; ++col)
      for (std::int64_t row = 0; row < c.rows; ++row) {
        const auto i = static_cast<std::size_t>(row + col * c.rows);
        x[i] = static_cast<double>(std::abs(is(c, row, col)));
        rest[i] = alpha * off(c, row, col);  // still that of B
      }
    for (std::size_t i = 0; i < t.size.size(); ++i) {
      const double share = t.size[i] * gamma + t.off[i];
      t.off[i] = 2 * share;
      t.size[i] += share;
    }
    call.side == Side::left ? multiply(t.off, x, c.rows, c.cols, c.rows, rest)
                            : multiply(x, t.off, c.rows, c.cols, c.cols, rest);
    for (std::int64_t row = 0; row < t.rows; ++row)
      for (std::int64_t col = 0; col < t.cols; ++col)
        if (double& size = t.size[t.index(row, col)]; row == col)
          size -= t.off[t.index(row, col)];
        else
          size = -size;
    for (std::int64_t i = 0; i < t.rows; ++i)
      if (t.size[t.index(i, i)] <= 0)
        return std::vector<double>(rest.size(), std::numeric_limits<double>::infinity());
    const bool lower = (call.uplo == Uplo::lower) == (call.op_a == Op::none);
    EXPECT_EQ(fleet_dtrsm(cpu_, call.side == Side::left ? FLEET_LEFT : FLEET_RIGHT,
                          lower ? FLEET_LOWER : FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, c.rows,
                          c.cols, 1.0, t.size.data(), t.rows, rest.data(), c.rows),
              FLEET_OK);
    return rest;
  }

  const RandomProgram& program_;
  fleet_context* cpu_;
  std::vector<Bounded<T>> held_;
};

}  // namespace fleet::test

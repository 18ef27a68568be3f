// SPDX-License-Identifier: BSD-3-Clause
// dealt_matrix.hpp: matrices for tests, whole and dealt over a grid.
#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "dist/dealt.hpp"
#include "dist/grid.hpp"

namespace fleet::lu {

/// Column-major, in one piece.
struct Whole {
  std::int64_t rows, cols;
  std::vector<double> elements;

  Whole(std::int64_t m, std::int64_t n)
      : rows(m), cols(n), elements(static_cast<std::size_t>(std::max<std::int64_t>(1, m * n))) {}
  std::int64_t ld() const { return std::max<std::int64_t>(1, rows); }
  double& at(std::int64_t row, std::int64_t col) {
    return elements[static_cast<std::size_t>(row + col * rows)];
  }
  double at(std::int64_t row, std::int64_t col) const {
    return elements[static_cast<std::size_t>(row + col * rows)];
  }
};

inline Whole random_matrix(std::int64_t m, std::int64_t n, unsigned seed) {
  Whole made(m, n);
  std::mt19937 bits(seed);
  std::uniform_real_distribution<double> numbers(-1, 1);
  for (double& element : made.elements) element = numbers(bits);
  return made;
}

/// Symmetric, with positive eigenvalues.
inline Whole positive_matrix(std::int64_t n, unsigned seed) {
  Whole made = random_matrix(n, n, seed);
  for (std::int64_t c = 0; c < n; ++c)
    for (std::int64_t r = 0; r <= c; ++r)
      made.at(r, c) = made.at(c, r) = made.at(r, c) + (r == c ? static_cast<double>(n) + 1 : 0);
  return made;
}

/// The number that the largest difference of two matrices is of the size that its own are.
inline double difference(const Whole& found, const Whole& right) {
  double largest = 0, size = 1;
  for (std::size_t i = 0; i < right.elements.size(); ++i) {
    const double apart = std::abs(found.elements[i] - right.elements[i]);
    if (std::isnan(found.elements[i]) != std::isnan(right.elements[i])) return INFINITY;
    largest = std::fmax(largest, apart);
    size = std::fmax(size, std::abs(right.elements[i]));
  }
  return largest / size;
}

/// Where a matrix is on a grid: its first block is on that row and column.
struct Origin {
  int row = 0, col = 0;
};

/// A rank's part of a matrix, with more rows than it needs.
class Local {
 public:
  Local(const Grid& grid, const Whole& whole, std::int64_t nb, Origin origin = {})
      : grid_(grid),
        rows_{{whole.rows, nb, grid.rows}, origin.row % grid.rows},
        cols_{{whole.cols, nb, grid.cols}, origin.col % grid.cols},
        ld_(rows_.local_size(grid.row) + 3),
        elements_(static_cast<std::size_t>(ld_ * (cols_.local_size(grid.col) + 1)), kBeyond) {
    visit(
        [&](std::int64_t row, std::int64_t col, double& element) { element = whole.at(row, col); });
  }

  Dealt get() { return {rows_, cols_, elements_.data(), ld_}; }
  /// To where it came from. False where something beside it has changed.
  bool put(Whole& whole) {
    visit([&](std::int64_t row, std::int64_t col, double& element) {
      whole.at(row, col) = std::exchange(element, kBeyond);
    });
    return std::ranges::all_of(elements_, [](double element) { return element == kBeyond; });
  }

 private:
  static constexpr double kBeyond = 12345;

  template <typename Visit>
  void visit(Visit&& visit) {
    for (std::int64_t c = 0; c < cols_.local_size(grid_.col); ++c)
      for (std::int64_t r = 0; r < rows_.local_size(grid_.row); ++r)
        visit(rows_.global(r, grid_.row), cols_.global(c, grid_.col),
              elements_[static_cast<std::size_t>(r + c * ld_)]);
  }

  const Grid& grid_;
  const Dimension rows_, cols_;
  const std::int64_t ld_;
  std::vector<double> elements_;
};

}  // namespace fleet::lu

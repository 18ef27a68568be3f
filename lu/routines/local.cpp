// SPDX-License-Identifier: BSD-3-Clause
// local.cpp: triangles by halves, so that nearly all of them is large products.
#include "routines/local.hpp"

#include <algorithm>
#include <cmath>

#include "fleetblas/lapack.h"
#include "work/context.hpp"

namespace fleet::lu {
namespace {

/// An update by one thread.
class Updating {
 public:
  Updating(const Blas& blas, const Update& with)
      : context_(blas.context()), with_(with), c_(with.c) {}

  void run(Range rows, Range cols) const {
    if (rows.is_empty() || cols.is_empty()) return;
    switch (with_.which) {
      case Elements::all:
        return rectangle(rows, cols);
      case Elements::lower: {
        // What is below all of the diagonal is one product, as wide as can be.
        const std::int64_t below = std::clamp(with_.row_of(cols.end - 1, 1), rows.begin, rows.end);
        rectangle({below, rows.end}, cols);
        return lower({rows.begin, below}, cols);
      }
      case Elements::upper: {
        const std::int64_t above = std::clamp(with_.row_of(cols.begin), rows.begin, rows.end);
        rectangle({rows.begin, above}, cols);
        return upper({above, rows.end}, cols);
      }
    }
  }

 private:
  /// Whether the rank has that row, too, so that its part has a piece of the diagonal there.
  bool has_diagonal(std::int64_t col) const {
    return c_.rows.owner(c_.cols.global(col, with_.col)) == with_.row;
  }
  /// The border of blocks that halves the columns; none if they are of one block.
  std::int64_t middle(Range cols) const {
    const std::int64_t nb = c_.cols.blocks.nb;
    const std::int64_t half = (cols.begin + cols.size() / 2) / nb * nb;
    if (half > cols.begin) return half;
    return (cols.begin / nb + 1) * nb;
  }

  void lower(Range rows, Range cols) const {
    if (rows.is_empty() || cols.is_empty()) return;
    const std::int64_t border = middle(cols);
    if (border >= cols.end) {
      const std::int64_t top = with_.row_of(cols.begin);
      if (!has_diagonal(cols.begin) || top < rows.begin)
        return rectangle({std::max(rows.begin, top), rows.end}, cols);
      const std::int64_t below = std::min(rows.end, top + cols.size());
      triangle(FLEET_LOWER, {top, below}, cols);
      return rectangle({below, rows.end}, cols);
    }
    const std::int64_t row = std::clamp(with_.row_of(border), rows.begin, rows.end);
    rectangle({row, rows.end}, {cols.begin, border});
    lower({rows.begin, row}, {cols.begin, border});
    lower({row, rows.end}, {border, cols.end});
  }

  void upper(Range rows, Range cols) const {
    if (rows.is_empty() || cols.is_empty()) return;
    const std::int64_t border = middle(cols);
    if (border >= cols.end) {
      const std::int64_t top = with_.row_of(cols.begin);
      rectangle({rows.begin, std::min(rows.end, top)}, cols);
      if (has_diagonal(cols.begin) && top < rows.end && top >= rows.begin)
        triangle(FLEET_UPPER, {top, std::min(rows.end, top + cols.size())}, cols);
      return;
    }
    const std::int64_t row = std::clamp(with_.row_of(border), rows.begin, rows.end);
    rectangle({rows.begin, row}, {border, cols.end});
    upper({rows.begin, row}, {cols.begin, border});
    upper({row, rows.end}, {border, cols.end});
  }

  /// Squares on the diagonal: rows and columns with the same indices.
  void triangle(fleet_uplo uplo, Range rows, Range cols) const {
    if (rows.is_empty()) return;
    double* const c = c_.at(rows.begin, cols.begin);
    if (with_.depth == 0) {
      for (std::int64_t i = 0; i < rows.size(); ++i)
        uplo == FLEET_LOWER ? scale(c + i + i * c_.ld, rows.size() - i)
                            : scale(c + i * c_.ld, i + 1);
      return;
    }
    check(fleet_dgemmt(context_, uplo, with_.left.as_left(), with_.right.as_right(), rows.size(),
                       with_.depth, with_.alpha, with_.left.at(rows.begin), legal(with_.left.ld),
                       with_.right.at(cols.begin), legal(with_.right.ld), with_.beta, c,
                       legal(c_.ld)));
  }

  void rectangle(Range rows, Range cols) const {
    if (rows.is_empty() || cols.is_empty()) return;
    if (with_.depth == 0) {
      for (std::int64_t col = cols.begin; col < cols.end; ++col)
        scale(c_.at(rows.begin, col), rows.size());
      return;
    }
    check(fleet_dgemm(context_, with_.left.as_left(), with_.right.as_right(), rows.size(),
                      cols.size(), with_.depth, with_.alpha, with_.left.at(rows.begin),
                      legal(with_.left.ld), with_.right.at(cols.begin), legal(with_.right.ld),
                      with_.beta, c_.at(rows.begin, cols.begin), legal(c_.ld)));
  }

  /// As BLAS does it: what is multiplied by 0 is not read.
  void scale(double* from, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) from[i] = with_.beta == 0 ? 0 : with_.beta * from[i];
  }

  fleet_context* const context_;
  const Update& with_;
  const Dealt& c_;
};

}  // namespace

void update(const Rank& rank, const Update& with, Range rows, Range cols,
            const std::function<void()>& between) {
  if (rows.is_empty()) return;
  rank.share(
      cols.size(),
      [&](std::int64_t begin, std::int64_t end) {
        Updating(rank.one_core, with).run(rows, {cols.begin + begin, cols.begin + end});
      },
      between);
}

void update_at_once(const Rank& rank, const Update& with, Range rows, Range cols) {
  Updating(rank.all_cores, with).run(rows, cols);
}

std::int64_t cholesky_at_once(const Rank& rank, fleet_uplo uplo, std::int64_t n, double* a,
                              std::int64_t lda) {
  std::int64_t info = 0;
  check(fleet_dpotrf(rank.all_cores.context(), uplo, n, a, legal(lda), &info));
  // Not every LAPACK sees that a number which is none is not positive.
  for (std::int64_t i = 0; i < n && info == 0; ++i)
    if (std::isnan(a[i + i * lda])) info = i + 1;
  return info;
}

}  // namespace fleet::lu

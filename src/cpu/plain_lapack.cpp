// SPDX-License-Identifier: BSD-3-Clause
// plain_lapack.cpp: Cholesky, LU, inverses of triangles and their products, one column at a time.
// It must not know libraries or threads.
#include "cpu/plain_lapack.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cpu/element.hpp"
#include "cpu/plain_matrix.hpp"

namespace fleet::plain_lapack {
namespace {

/// Column by column from the left. An upper triangle is the lower one of the transpose.
template <typename T>
std::int64_t cholesky(const PlainMatrix<T>& a, bool upper) {
  const auto at = [&](std::int64_t row, std::int64_t col) -> T& {
    return upper ? a(col, row) : a(row, col);
  };
  const std::int64_t n = a.rows();
  for (std::int64_t j = 0; j < n; ++j) {
    auto pivot = real_part(at(j, j));
    for (std::int64_t l = 0; l < j; ++l) pivot -= square(at(j, l));
    at(j, j) = T(pivot);
    if (!(pivot > 0)) return j + 1;  // not for NaN either
    const auto root = std::sqrt(pivot);
    at(j, j) = T(root);
    for (std::int64_t i = j + 1; i < n; ++i) {
      T sum = at(i, j);
      for (std::int64_t l = 0; l < j; ++l) sum -= product(at(i, l), conjugate(at(j, l)));
      at(i, j) = sum / root;
    }
  }
  return 0;
}

template <typename T>
void swap_rows(const PlainMatrix<T>& a, std::int64_t one, std::int64_t other) {
  if (one == other) return;
  for (std::int64_t col = 0; col < a.cols(); ++col) std::swap(a(one, col), a(other, col));
}

template <typename T>
std::int64_t gauss(const PlainMatrix<T>& a, std::int64_t* pivots) {
  std::int64_t info = 0;
  for (std::int64_t j = 0; j < std::min(a.rows(), a.cols()); ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < a.rows(); ++i)
      if (size_of(a(i, j)) > size_of(a(best, j))) best = i;
    pivots[j] = best + 1;
    if (a(best, j) == T(0)) {
      if (info == 0) info = j + 1;
      continue;
    }
    swap_rows(a, j, best);
    for (std::int64_t i = j + 1; i < a.rows(); ++i) a(i, j) = a(i, j) / a(j, j);
    for (std::int64_t col = j + 1; col < a.cols(); ++col)
      for (std::int64_t i = j + 1; i < a.rows(); ++i) a(i, col) -= product(a(i, j), a(j, col));
  }
  return info;
}

/// The inverse of an upper triangle, column by column; a lower one is turned round by its corner.
template <typename T>
std::int64_t invert_triangle(const PlainMatrix<T>& a, bool upper, bool unit) {
  const std::int64_t n = a.rows();
  const auto at = [&](std::int64_t row, std::int64_t col) -> T& {
    return upper ? a(row, col) : a(n - 1 - row, n - 1 - col);
  };
  if (!unit)
    for (std::int64_t i = 0; i < n; ++i)
      if (a(i, i) == T(0)) return i + 1;
  for (std::int64_t j = 0; j < n; ++j) {
    if (!unit) at(j, j) = T(1) / at(j, j);
    const T factor = unit ? T(-1) : -at(j, j);
    // The column above the diagonal by the inverse that is done: each element needs those below it.
    for (std::int64_t i = 0; i < j; ++i) {
      T sum = unit ? at(i, j) : product(at(i, i), at(i, j));
      for (std::int64_t l = i + 1; l < j; ++l) sum += product(at(i, l), at(l, j));
      at(i, j) = product(factor, sum);
    }
  }
  return 0;
}

/// U*U^H in the place of U, or L^H*L in that of L, which is the same of the transpose.
template <typename T>
void square_triangle(const PlainMatrix<T>& a, bool upper) {
  const std::int64_t n = a.rows();
  const auto at = [&](std::int64_t row, std::int64_t col) -> T& {
    return upper ? a(row, col) : a(col, row);
  };
  // Element (i, j) is that of rows i and j of U, of which only columns from j on are not yet lost.
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) {
      T sum(0);
      for (std::int64_t l = j; l < n; ++l)
        sum +=
            upper ? product(at(i, l), conjugate(at(j, l))) : product(conjugate(at(j, l)), at(i, l));
      at(i, j) = i == j ? T(real_part(sum)) : sum;
    }
}

}  // namespace

std::int64_t potrf(Storage storage, const View& a) {
  std::int64_t info = 0;
  with_wide_element(
      storage, [&]<typename T>(T) { info = cholesky(PlainMatrix<T>(a), a.fill == Fill::upper); });
  return info;
}

std::int64_t getrf(Storage storage, const View& a, std::int64_t* pivots) {
  std::int64_t info = 0;
  with_wide_element(storage, [&]<typename T>(T) { info = gauss(PlainMatrix<T>(a), pivots); });
  return info;
}

std::int64_t trtri(Storage storage, const View& a, Diag diag) {
  std::int64_t info = 0;
  with_wide_element(storage, [&]<typename T>(T) {
    info = invert_triangle(PlainMatrix<T>(a), a.fill == Fill::upper, diag == Diag::unit);
  });
  return info;
}

void lauum(Storage storage, const View& a) {
  with_wide_element(
      storage, [&]<typename T>(T) { square_triangle(PlainMatrix<T>(a), a.fill == Fill::upper); });
}

}  // namespace fleet::plain_lapack

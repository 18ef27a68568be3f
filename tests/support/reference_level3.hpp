// SPDX-License-Identifier: BSD-3-Clause
// reference_level3.hpp: the oracle of the level-3 routines other than gemm: expected values, error
// bounds, the memory that must not change, and operands that reveal a violation. It knows no plan
// and no backend.
//
//   Random random(seed);
//   Level3Operands<double> operands({.routine = Level3::syrk, .uplo = Uplo::lower, .n = n, .k = k,
//       .alpha = 2, .beta = 0.5}, guard_rows, random);
//   const Level3Call<double> call = operands.call();
//   const auto expected = expect_level3(call);
//   ... the routine under test reads call.a and call.b, and writes operands.output() ...
//   EXPECT_EQ(first_difference(expected, operands.output(), operands.output_ld()), "");
//   EXPECT_EQ(operands.first_overwritten(), "");
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "problem/problem.hpp"
#include "support/reference.hpp"

namespace fleet::test {

enum class Level3 { symm, hemm, syrk, herk, syr2k, her2k, gemmt, trmm, trsm };

inline char letter_of(Side side) { return side == Side::left ? 'l' : 'r'; }
inline char letter_of(Uplo uplo) { return uplo == Uplo::upper ? 'u' : 'l'; }
inline char letter_of(Diag diag) { return diag == Diag::unit ? 'u' : 'n'; }

inline constexpr std::array kTriangles = {Uplo::upper, Uplo::lower};

/// Calls f.operator()<T>() for the four types.
template <typename F>
void for_each_type(F f) {
  f.template operator()<float>();
  f.template operator()<double>();
  f.template operator()<std::complex<float>>();
  f.template operator()<std::complex<double>>();
}

inline const char* word_of(Level3 routine) {
  constexpr std::array<const char*, 9> kWords = {"symm",  "hemm",  "syrk", "herk", "syr2k",
                                                 "her2k", "gemmt", "trmm", "trsm"};
  return kWords[static_cast<std::size_t>(routine)];
}

/// Whether A multiplies or divides an m x n matrix from the left or the right.
inline bool has_side(Level3 routine) {
  return routine == Level3::symm || routine == Level3::hemm || routine == Level3::trmm ||
         routine == Level3::trsm;
}
/// Whether the result overwrites B; such routines have no C and no beta.
inline bool is_in_place(Level3 routine) {
  return routine == Level3::trmm || routine == Level3::trsm;
}
/// Whether C is Hermitian: beta is real, and the diagonal of the result is real whatever C held.
inline bool has_hermitian_c(Level3 routine) {
  return routine == Level3::herk || routine == Level3::her2k;
}

/// A call with the arguments of the reference BLAS. Parameters that a routine lacks are ignored.
///   symm, hemm     C = alpha*A*B + beta*C, or B*A; C m x n; A symmetric or Hermitian
///   syrk, herk     C = alpha*op(A)*op(A)^T (^H) + beta*C; C n x n, op(A) n x k
///   syr2k, her2k   C = alpha*op(A)*op(B)^T (^H) + alpha (conjugate)*op(B)*op(A)^T (^H) + beta*C
///   gemmt          C = alpha*op(A)*op(B) + beta*C; C n x n, inner size k; one triangle
///   trmm, trsm     B = alpha*op(A)*B, or B*op(A); B = X with op(A)*X = alpha*B, or X*op(A)
/// alpha of herk and beta of herk and her2k are real: their imaginary parts are ignored.
template <typename T>
struct Level3Call {
  Level3 routine = Level3::symm;
  Side side = Side::left;
  Uplo uplo = Uplo::upper;  ///< of A if the routine has a side, else of C
  Op op_a = Op::none;       ///< also of B in syr2k and her2k
  Op op_b = Op::none;       ///< gemmt only
  Diag diag = Diag::non_unit;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  T alpha{1};
  const T* a = nullptr;
  std::int64_t lda = 1;
  const T* b = nullptr;
  std::int64_t ldb = 1;
  T beta{1};
  const T* c = nullptr;
  std::int64_t ldc = 1;
};

/// "strsm side=l uplo=u transa=n transb=n diag=n m=5 n=3 k=0 alpha=(1, 0) beta=(1, 0)".
template <typename T>
std::string to_text(const Level3Call<T>& call) {
  const auto number = [](const T& x) {
    const detail::Wide wide = detail::widen(x);
    return "(" + std::to_string(wide.re) + ", " + std::to_string(wide.im) + ")";
  };
  return fleet::word_of(kTypeOf<T>) + std::string(word_of(call.routine)) +
         " side=" + letter_of(call.side) + " uplo=" + letter_of(call.uplo) +
         " transa=" + fleet::letter_of(call.op_a) + " transb=" + fleet::letter_of(call.op_b) +
         " diag=" + letter_of(call.diag) + " m=" + std::to_string(call.m) +
         " n=" + std::to_string(call.n) + " k=" + std::to_string(call.k) +
         " alpha=" + number(call.alpha) + " beta=" + number(call.beta);
}

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// The shape of A as stored.
template <typename T>
Shape shape_of_a(const Level3Call<T>& call) {
  const std::int64_t order = call.side == Side::left ? call.m : call.n;
  if (has_side(call.routine)) return {order, order};
  return call.op_a == Op::none ? Shape{call.n, call.k} : Shape{call.k, call.n};
}

/// The shape of B as stored; 0 x 0 if the routine has no B.
template <typename T>
Shape shape_of_b(const Level3Call<T>& call) {
  if (has_side(call.routine)) return {call.m, call.n};
  if (call.routine == Level3::syrk || call.routine == Level3::herk) return {};
  if (call.routine != Level3::gemmt) return shape_of_a(call);
  return call.op_b == Op::none ? Shape{call.k, call.n} : Shape{call.n, call.k};
}

/// The shape of C; 0 x 0 if the routine has no C.
template <typename T>
Shape shape_of_c(const Level3Call<T>& call) {
  if (is_in_place(call.routine)) return {};
  return has_side(call.routine) ? Shape{call.m, call.n} : Shape{call.n, call.n};
}

/// The shape of the output: C, or B of trmm and trsm.
template <typename T>
Shape shape_of_output(const Level3Call<T>& call) {
  return is_in_place(call.routine) ? shape_of_b(call) : shape_of_c(call);
}

/// A part of a matrix; upper and lower include the diagonal.
enum class Part { none, upper, lower, all };

inline Part part_of(Uplo uplo) { return uplo == Uplo::upper ? Part::upper : Part::lower; }

inline bool is_within(Part part, std::int64_t row, std::int64_t col) {
  if (part == Part::upper) return row <= col;
  if (part == Part::lower) return row >= col;
  return part == Part::all;
}

namespace detail {

template <typename T>
Wide alpha_of(const Level3Call<T>& call) {
  const Wide alpha = widen(call.alpha);
  return {alpha.re, call.routine == Level3::herk ? 0 : alpha.im};
}

template <typename T>
Wide beta_of(const Level3Call<T>& call) {
  const Wide beta = widen(call.beta);
  return {beta.re, has_hermitian_c(call.routine) ? 0 : beta.im};
}

inline bool is_equal(Wide x, long double y) { return x.re == y && x.im == 0; }

inline bool is_finite(Wide x) { return std::isfinite(x.re) && std::isfinite(x.im); }

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;  ///< exclusive
};

/// The rows of column `col` that belong to `part` of a matrix with `rows` rows.
inline Range rows_within(Part part, std::int64_t rows, std::int64_t col) {
  if (part == Part::none) return {0, 0};
  return {part == Part::lower ? std::min(rows, col) : 0,
          part == Part::upper ? std::min(rows, col + 1) : rows};
}

/// A factor of a product, with op and mirroring applied. It is zero outside `part`, where nothing
/// is multiplied.
struct Factor {
  Factor(std::int64_t rows_, std::int64_t cols_, Part part_ = Part::all)
      : rows(rows_), cols(cols_), part(part_), value(static_cast<std::size_t>(rows_ * cols_)) {}
  Wide& at(std::int64_t row, std::int64_t col) {
    return value[static_cast<std::size_t>(row + col * rows)];
  }
  const Wide& at(std::int64_t row, std::int64_t col) const {
    return value[static_cast<std::size_t>(row + col * rows)];
  }

  std::int64_t rows, cols;
  Part part;
  std::vector<Wide> value;
};

/// op(X) of a stored X.
template <typename T>
Factor general(const T* x, std::int64_t ld, Shape stored, Op op) {
  const bool flips = op != Op::none;
  Factor factor(flips ? stored.cols : stored.rows, flips ? stored.rows : stored.cols);
  for (std::int64_t col = 0; col < stored.cols; ++col)
    for (std::int64_t row = 0; row < stored.rows; ++row)
      factor.at(flips ? col : row, flips ? row : col) =
          widen(x[row + col * ld], op == Op::conjugate);
  return factor;
}

/// X^T, or X^H.
inline Factor flipped(const Factor& x, Op op) {
  Factor factor(x.cols, x.rows);
  for (std::int64_t col = 0; col < x.cols; ++col)
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const Wide& from = x.at(row, col);
      factor.at(col, row) = {from.re, op == Op::conjugate ? -from.im : from.im};
    }
  return factor;
}

/// A of symm or hemm; one triangle is stored.
template <typename T>
Factor mirrored(const Level3Call<T>& call) {
  const bool hermitian = call.routine == Level3::hemm;
  const std::int64_t order = shape_of_a(call).rows;
  Factor factor(order, order);
  for (std::int64_t col = 0; col < order; ++col) {
    const Range rows = rows_within(part_of(call.uplo), order, col);
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const T& stored = call.a[row + col * call.lda];
      factor.at(col, row) = widen(stored, hermitian);
      factor.at(row, col) = widen(stored);
    }
    if (hermitian) factor.at(col, col).im = 0;
  }
  return factor;
}

/// op(A) of trmm or trsm.
template <typename T>
Factor triangular(const Level3Call<T>& call) {
  const bool flips = call.op_a != Op::none;
  const bool upper = (call.uplo == Uplo::upper) != flips;
  const std::int64_t order = shape_of_a(call).rows;
  Factor factor(order, order, upper ? Part::upper : Part::lower);
  for (std::int64_t col = 0; col < order; ++col) {
    const Range rows = rows_within(part_of(call.uplo), order, col);
    for (std::int64_t row = rows.first; row < rows.last; ++row)
      factor.at(flips ? col : row, flips ? row : col) =
          row == col && call.diag == Diag::unit
              ? Wide{1, 0}
              : widen(call.a[row + col * call.lda], call.op_a == Op::conjugate);
  }
  return factor;
}

/// The sums that form the output, and the sums of absolute values.
struct Sums {
  explicit Sums(Shape shape)
      : rows(shape.rows),
        value(static_cast<std::size_t>(shape.rows * shape.cols)),
        size(value.size(), 0.0L) {}
  void add(std::int64_t row, std::int64_t col, Wide term, long double term_size) {
    const auto at = static_cast<std::size_t>(row + col * rows);
    value[at].re += term.re;
    value[at].im += term.im;
    size[at] += term_size;
  }

  std::int64_t rows;
  std::vector<Wide> value;
  std::vector<long double> size;
};

/// Adds alpha*left*right to `part` of the sums.
inline void add_product(Wide alpha, const Factor& left, const Factor& right, Part part, Sums& to) {
  for (std::int64_t col = 0; col < right.cols; ++col) {
    const Range written = rows_within(part, left.rows, col);
    const Range inner = rows_within(right.part, right.rows, col);
    for (std::int64_t l = inner.first; l < inner.last; ++l) {
      const Wide b = times(alpha, right.at(l, col));
      const long double b_size = b.size();
      const Range stored = rows_within(left.part, left.rows, l);
      const std::int64_t last = std::min(written.last, stored.last);
      for (std::int64_t row = std::max(written.first, stored.first); row < last; ++row) {
        const Wide& a = left.at(row, l);
        to.add(row, col, times(a, b), (std::fabs(a.re) + std::fabs(a.im)) * b_size);
      }
    }
  }
}

/// alpha times the product of `call`; for trsm the right-hand side, alpha*B.
template <typename T>
void add_products(const Level3Call<T>& call, Part part, Sums& to) {
  const Wide alpha = alpha_of(call);
  if (has_side(call.routine)) {
    const Factor b = general(call.b, call.ldb, shape_of_b(call), Op::none);
    if (call.routine == Level3::trsm) {
      for (std::int64_t col = 0; col < b.cols; ++col)
        for (std::int64_t row = 0; row < b.rows; ++row)
          to.add(row, col, times(alpha, b.at(row, col)), 0);
      return;
    }
    const Factor a = is_in_place(call.routine) ? triangular(call) : mirrored(call);
    const bool left = call.side == Side::left;
    return add_product(alpha, left ? a : b, left ? b : a, part, to);
  }
  const Factor a = general(call.a, call.lda, shape_of_a(call), call.op_a);
  if (call.routine == Level3::gemmt)
    return add_product(alpha, a, general(call.b, call.ldb, shape_of_b(call), call.op_b), part, to);
  const Op flip = has_hermitian_c(call.routine) ? Op::conjugate : Op::transpose;
  if (call.routine == Level3::syrk || call.routine == Level3::herk)
    return add_product(alpha, a, flipped(a, flip), part, to);
  const Factor b = general(call.b, call.ldb, shape_of_b(call), call.op_a);
  add_product(alpha, a, flipped(b, flip), part, to);
  const Wide other = {alpha.re, flip == Op::conjugate ? -alpha.im : alpha.im};
  add_product(other, b, flipped(a, flip), part, to);
}

/// "" if `is` is within `tolerance` of `want`, or neither is finite; else a text with the error.
inline std::string difference(Wide is, Wide want, long double tolerance) {
  const long double off = Wide{is.re - want.re, is.im - want.im}.size();
  if (is_finite(is) == is_finite(want) && (!is_finite(want) || off <= tolerance)) return "";
  const auto text = [](Wide x) {
    return "(" + std::to_string(x.re) + ", " + std::to_string(x.im) + ")";
  };
  return "is " + text(is) + ", should be " + text(want) + ", off by " +
         std::to_string(static_cast<double>(off / tolerance)) + " times the bound";
}

inline std::string element(const char* matrix, std::int64_t row, std::int64_t col) {
  return matrix + ("(" + std::to_string(row)) + ", " + std::to_string(col) + ") ";
}

/// The error bound of a sum of `inner` products, as a multiple of its absolute sum.
template <typename T>
long double rounding(std::int64_t inner) {
  return kEpsilon<T> * static_cast<long double>(inner) * (Scalar<T>::kComplex ? 4 : 1);
}

}  // namespace detail

/// The part of the output that `call` writes; none if the reference BLAS returns at once.
template <typename T>
Part part_written(const Level3Call<T>& call) {
  if (is_in_place(call.routine)) return Part::all;
  const bool no_product =
      detail::is_equal(detail::alpha_of(call), 0) || (!has_side(call.routine) && call.k == 0);
  if (no_product && detail::is_equal(detail::beta_of(call), 1)) return Part::none;
  return has_side(call.routine) ? Part::all : part_of(call.uplo);
}

/// The expected values in `part` of the output, with the tolerances of Expected, where k is the
/// inner size of the routine (the order of A if it has a side; 2k in syr2k and her2k). `before` is
/// the whole initial output, to check the unwritten part; empty if all is written. trsm:
/// `all.value` is alpha*B, and the residual is checked, which reads A again.
template <typename T>
struct ExpectedLevel3 {
  Level3Call<T> call;
  Part part = Part::all;
  Expected all;
  std::vector<T> before;
};

/// The expected result of `call`. Reads A and B only if alpha != 0, only the part of A that the
/// routine reads, the unwritten part of C, and its written part if beta != 0.
template <typename T>
ExpectedLevel3<T> expect_level3(const Level3Call<T>& call) {
  const Shape shape = shape_of_output(call);
  const Part part = part_written(call);
  const detail::Wide beta = is_in_place(call.routine) ? detail::Wide{} : detail::beta_of(call);
  detail::Sums sums(shape);
  if (part != Part::none && !detail::is_equal(detail::alpha_of(call), 0))
    detail::add_products(call, part, sums);

  ExpectedLevel3<T> expected{.call = call, .part = part, .all = {}, .before = {}};
  const bool twice = call.routine == Level3::syr2k || call.routine == Level3::her2k;
  const std::int64_t inner =
      has_side(call.routine) ? shape_of_a(call).rows : call.k * (twice ? 2 : 1);
  const long double factor = detail::rounding<T>(inner + 4);
  expected.all.m = shape.rows;
  expected.all.n = shape.cols;
  for (std::int64_t col = 0; col < shape.cols; ++col)
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const bool real = has_hermitian_c(call.routine) && row == col;
      if (is_within(part, row, col) && !detail::is_equal(beta, 0)) {
        detail::Wide old = detail::widen(call.c[row + col * call.ldc]);
        if (real) old.im = 0;
        const detail::Wide term = detail::times(beta, old);
        sums.add(row, col, term, term.size());
      }
      const auto at = static_cast<std::size_t>(row + col * shape.rows);
      expected.all.value.emplace_back(sums.value[at].re, real ? 0 : sums.value[at].im);
      expected.all.tolerance.push_back(factor * sums.size[at]);
      if (part != Part::all) expected.before.push_back(call.c[row + col * call.ldc]);
    }
  return expected;
}

/// "" if x solves the systems of a trsm with alpha != 0: |op(A)*X - alpha*B| <= (order of A + 8) *
/// eps * |op(A)| |X| in each element, four times that for complex types. Else a sentence about the
/// first wrong element. If an element of alpha*B is not finite, that of X must not be either; the
/// rest of its system (a column of B, or from the right a row) is not checked.
template <typename T>
std::string first_residual(const ExpectedLevel3<T>& expected, const T* x, std::int64_t ldx) {
  const Level3Call<T>& call = expected.call;
  const Shape shape = shape_of_output(call);
  const bool left = call.side == Side::left;
  const detail::Factor a = detail::triangular(call);
  const detail::Factor solution = detail::general(x, ldx, shape, Op::none);
  detail::Sums sums(shape);
  detail::add_product({1, 0}, left ? a : solution, left ? solution : a, Part::all, sums);

  const auto right_side = [&](std::int64_t row, std::int64_t col) {
    const auto& value = expected.all.value[static_cast<std::size_t>(row + col * shape.rows)];
    return detail::Wide{value.real(), value.imag()};
  };
  std::vector<bool> is_judged(static_cast<std::size_t>(left ? shape.cols : shape.rows), true);
  for (std::int64_t col = 0; col < shape.cols; ++col)
    for (std::int64_t row = 0; row < shape.rows; ++row)
      if (!detail::is_finite(right_side(row, col)))
        is_judged[static_cast<std::size_t>(left ? col : row)] = false;

  const long double factor = detail::rounding<T>(shape_of_a(call).rows + 8);
  for (std::int64_t col = 0; col < shape.cols; ++col)
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const detail::Wide want = right_side(row, col);
      if (!detail::is_finite(want) && detail::is_finite(solution.at(row, col)))
        return detail::element("X", row, col) + "is finite, and should not be";
      if (!is_judged[static_cast<std::size_t>(left ? col : row)]) continue;
      const auto at = static_cast<std::size_t>(row + col * shape.rows);
      const std::string wrong = detail::difference(sums.value[at], want, factor * sums.size[at]);
      if (!wrong.empty())
        return detail::element(left ? "(op(A)*X)" : "(X*op(A))", row, col) + wrong;
    }
  return "";
}

/// "" if every element of the output is right: within its tolerance (trsm: see first_residual),
/// exactly real on the diagonal of a Hermitian C, bit for bit unchanged where the routine does not
/// write. Else a sentence about the first wrong element.
template <typename T>
std::string first_difference(const ExpectedLevel3<T>& expected, const T* output, std::int64_t ld) {
  const Level3Call<T>& call = expected.call;
  if (call.routine == Level3::trsm && call.alpha != T(0))
    return first_residual(expected, output, ld);
  const char* const name = is_in_place(call.routine) ? "B" : "C";
  for (std::int64_t col = 0; col < expected.all.n; ++col)
    for (std::int64_t row = 0; row < expected.all.m; ++row) {
      const auto at = static_cast<std::size_t>(row + col * expected.all.m);
      const T& stored = output[row + col * ld];
      if (!is_within(expected.part, row, col)) {
        if (std::memcmp(&stored, &expected.before[at], sizeof(T)) == 0) continue;
        return detail::element(name, row, col) + "was written, and should stay as it was";
      }
      const detail::Wide is = detail::widen(stored);
      if (has_hermitian_c(call.routine) && row == col && is.im != 0)
        return detail::element(name, row, col) + "is not real";
      const std::complex<long double>& want = expected.all.value[at];
      const std::string wrong =
          detail::difference(is, {want.real(), want.imag()}, expected.all.tolerance[at]);
      if (!wrong.empty()) return detail::element(name, row, col) + wrong;
    }
  return "";
}

// As in reference.hpp: oracle.cpp has them, optimised.
extern template ExpectedLevel3<float> expect_level3(const Level3Call<float>&);
extern template ExpectedLevel3<double> expect_level3(const Level3Call<double>&);
extern template ExpectedLevel3<std::complex<float>> expect_level3(
    const Level3Call<std::complex<float>>&);
extern template ExpectedLevel3<std::complex<double>> expect_level3(
    const Level3Call<std::complex<double>>&);
extern template std::string first_difference(const ExpectedLevel3<float>&, const float*,
                                             std::int64_t);
extern template std::string first_difference(const ExpectedLevel3<double>&, const double*,
                                             std::int64_t);
extern template std::string first_difference(const ExpectedLevel3<std::complex<float>>&,
                                             const std::complex<float>*, std::int64_t);
extern template std::string first_difference(const ExpectedLevel3<std::complex<double>>&,
                                             const std::complex<double>*, std::int64_t);

}  // namespace fleet::test

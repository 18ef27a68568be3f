// SPDX-License-Identifier: BSD-3-Clause
// level3_operands.hpp: random operands of one call of a routine with triangles, with NaN where it
// must not read. It makes no calls.
#pragma once
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/reference_level3.hpp"

namespace fleet::test {

/// Random operands of one call, with guard rows under each matrix. Elements that the routine must
/// not read are NaN: guard rows, the other triangle and a unit diagonal of A, imaginary parts of
/// the diagonals of Hermitian matrices, A and B if alpha == 0, the written part of C if beta == 0.
/// In the output's guard rows and its unwritten part, about every other element is a number
/// instead, since a NaN that is read, scaled and written back can keep its bits. A of trsm is
/// well-conditioned: its diagonal is about 1 or more in absolute value, and the real and imaginary
/// parts of other elements are at most 1/order.
template <typename T>
class Level3Operands {
 public:
  /// Pointers and leading dimensions of `shape` are not used; each leading dimension is
  /// `guard_rows` more than the rows of its matrix.
  Level3Operands(const Level3Call<T>& shape, std::int64_t guard_rows, Random& random)
      : shape_(shape),
        now_{matrix(shape_of_a(shape), guard_rows), matrix(shape_of_b(shape), guard_rows),
             matrix(shape_of_c(shape), guard_rows)} {
    if (!detail::is_equal(detail::alpha_of(shape), 0)) fill_factors(random);
    if (!detail::is_equal(detail::beta_of(shape), 0)) fill_c(random);
    show_writes(random);
    before_ = now_;
  }

  /// The call on these operands, valid while they live.
  Level3Call<T> call() const {
    Level3Call<T> call = shape_;
    call.a = now_[kA].data();
    call.lda = now_[kA].ld();
    call.b = now_[kB].data();
    call.ldb = now_[kB].ld();
    call.c = now_[kC].data();
    call.ldc = now_[kC].ld();
    return call;
  }
  /// The output of the routine: C, or B of trmm and trsm.
  T* output() { return now_[output_index()].data(); }
  const T* output() const { return now_[output_index()].data(); }
  std::int64_t output_ld() const { return now_[output_index()].ld(); }

  /// "" if everything but the part that the routine writes is bit for bit unchanged: A, B, guard
  /// rows, the other triangle of C, and the memory before and after each matrix. Else names the
  /// first change.
  std::string first_overwritten() const {
    for (const int matrix : {kA, kB, kC}) {
      const Guarded<T>& is = now_[index(matrix)];
      const Guarded<T>& was = before_[index(matrix)];
      const std::string name(1, "ABC"[matrix]);
      if (const std::string broken = is.broken_guard(); !broken.empty())
        return name + ": " + broken;
      const bool is_output = index(matrix) == output_index();
      const Part part = is_output ? part_written(shape_) : Part::none;
      const std::int64_t rows = is_output ? shape_of_output(shape_).rows : 0;
      for (std::int64_t col = 0; col < is.cols(); ++col)
        for (std::int64_t row = 0; row < is.ld(); ++row) {
          if (row < rows && is_within(part, row, col)) continue;
          const std::int64_t at = row + col * is.ld();
          if (std::memcmp(is.data() + at, was.data() + at, sizeof(T)) != 0)
            return detail::element(name.c_str(), row, col) +
                   "was written, and should stay as it was";
        }
    }
    return "";
  }

 private:
  using Real = typename Scalar<T>::Real;
  static constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();

  /// A matrix of `ld` rows, so that its guard rows are elements that can be filled.
  static Guarded<T> matrix(Shape shape, std::int64_t guard_rows) {
    return Guarded<T>(std::max<std::int64_t>(1, shape.rows) + guard_rows, shape.cols);
  }
  static std::size_t index(int matrix) { return static_cast<std::size_t>(matrix); }
  std::size_t output_index() const { return index(is_in_place(shape_.routine) ? kB : kC); }

  /// Sets each element of `part` to `element` of a random number.
  template <typename F>
  void fill(int matrix, Shape shape, Part part, Random& random, F element) {
    for (std::int64_t col = 0; col < shape.cols; ++col)
      for (std::int64_t row = 0; row < shape.rows; ++row)
        if (is_within(part, row, col))
          now_[index(matrix)].at(row, col) = element(random_scalar<T>(random), row == col);
  }
  /// For the diagonal of a Hermitian matrix.
  static T without_imaginary(T number) {
    if constexpr (Scalar<T>::kComplex) return T(number.real(), kNan);
    return number;
  }

  void fill_factors(Random& random) {
    const Part part = has_side(shape_.routine) ? part_of(shape_.uplo) : Part::all;
    const Shape shape = shape_of_a(shape_);
    const auto order = static_cast<Real>(shape.rows);
    fill(kA, shape, part, random, [&](T number, bool diagonal) {
      if (shape_.routine == Level3::hemm && diagonal) return without_imaginary(number);
      if (!is_in_place(shape_.routine)) return number;
      if (diagonal && shape_.diag == Diag::unit) return T(kNan);
      if (shape_.routine == Level3::trmm) return number;
      return diagonal ? number / Real(2) + Real(1.5) : number / order;
    });
    fill(kB, shape_of_b(shape_), Part::all, random, [](T number, bool) { return number; });
  }

  void fill_c(Random& random) {
    fill(kC, shape_of_c(shape_), part_written(shape_), random, [&](T number, bool diagonal) {
      return diagonal && has_hermitian_c(shape_.routine) ? without_imaginary(number) : number;
    });
  }

  void show_writes(Random& random) {
    Guarded<T>& output = now_[output_index()];
    const Part part = part_written(shape_);
    const std::int64_t rows = shape_of_output(shape_).rows;
    for (std::int64_t col = 0; col < output.cols(); ++col)
      for (std::int64_t row = 0; row < output.ld(); ++row)
        if (row >= rows || !is_within(part, row, col))
          output.at(row, col) = random.chance(0.5) ? T(kNan) : random_scalar<T>(random);
  }

  Level3Call<T> shape_;
  std::vector<Guarded<T>> now_;     ///< A, B, C; an absent one has 0 columns
  std::vector<Guarded<T>> before_;  ///< their initial values
};

template <typename T>
T rounded(const std::complex<long double>& value) {
  using Real = typename Scalar<T>::Real;
  if constexpr (Scalar<T>::kComplex)
    return T(static_cast<Real>(value.real()), static_cast<Real>(value.imag()));
  else
    return static_cast<T>(value.real());
}

/// Writes values of the oracle, rounded to T, to the part of the output.
template <typename T>
void write_rounded(const std::vector<std::complex<long double>>& values, Part part,
                   Level3Operands<T>& operands) {
  const Shape shape = shape_of_output(operands.call());
  for (std::int64_t col = 0; col < shape.cols; ++col)
    for (std::int64_t row = 0; row < shape.rows; ++row)
      if (is_within(part, row, col))
        operands.output()[row + col * operands.output_ld()] =
            rounded<T>(values[static_cast<std::size_t>(row + col * shape.rows)]);
}

}  // namespace fleet::test

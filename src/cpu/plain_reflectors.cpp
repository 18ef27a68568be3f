// SPDX-License-Identifier: BSD-3-Clause
// plain_reflectors.cpp: QR by Householder reflectors, one at a time, and what is done with them. It
// must not know libraries or threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/element.hpp"
#include "cpu/plain_lapack.hpp"
#include "cpu/plain_matrix.hpp"

namespace fleet::plain_lapack {
namespace {

template <typename T>
using Real = decltype(real_part(T()));

/// The vector of a reflector: 1, then the elements below the diagonal of a column of v.
template <typename T>
class Reflector {
 public:
  Reflector(const PlainMatrix<T>& v, std::int64_t index) : v_(v), index_(index) {}
  std::int64_t first() const { return index_; }
  std::int64_t end() const { return v_.rows(); }
  T at(std::int64_t row) const { return row == index_ ? T(1) : v_(row, index_); }

 private:
  const PlainMatrix<T>& v_;
  std::int64_t index_;
};

/// The norm of a column from `row` on, without overflow.
template <typename T>
Real<T> norm(const PlainMatrix<T>& a, std::int64_t row, std::int64_t col) {
  Real<T> largest = 0;
  for (std::int64_t i = row; i < a.rows(); ++i) {
    const Real<T> size = size_of(a(i, col));
    if (!(size <= std::numeric_limits<Real<T>>::max())) return size;  // infinite, or NaN
    largest = std::max(largest, size);
  }
  if (largest == 0) return 0;
  Real<T> sum = 0;
  for (std::int64_t i = row; i < a.rows(); ++i) sum += square(a(i, col) / largest);
  return largest * std::sqrt(sum);
}

inline float hypotenuse(float alpha, float rest) { return std::hypot(alpha, rest); }
inline double hypotenuse(double alpha, double rest) { return std::hypot(alpha, rest); }
template <typename R>
R hypotenuse(std::complex<R> alpha, R rest) {
  return std::hypot(alpha.real(), alpha.imag(), rest);
}

/// (beta - alpha) / beta.
inline float tau_of(float alpha, float beta) { return (beta - alpha) / beta; }
inline double tau_of(double alpha, double beta) { return (beta - alpha) / beta; }
template <typename R>
std::complex<R> tau_of(std::complex<R> alpha, R beta) {
  return {(beta - alpha.real()) / beta, -alpha.imag() / beta};
}

template <typename T>
bool is_real(T value) {
  if constexpr (requires { value.imag(); })
    return value.imag() == 0;
  else
    return true;
}

template <typename T>
void scale_column(const PlainMatrix<T>& a, std::int64_t row, std::int64_t col, T factor) {
  for (std::int64_t i = row; i < a.rows(); ++i) a(i, col) = product(factor, a(i, col));
}

/// Makes the reflector of column j that leaves beta, which is real, on the diagonal.
template <typename T>
T make_reflector(const PlainMatrix<T>& a, std::int64_t j) {
  using R = Real<T>;
  constexpr R kTiny = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon() * 2;
  constexpr int kMostScalings = 20;
  R rest = norm(a, j + 1, j);
  if (rest == 0 && is_real(a(j, j))) return T(0);
  const auto beta_of = [&](T alpha) {
    return -std::copysign(hypotenuse(alpha, rest), real_part(alpha));
  };
  R beta = beta_of(a(j, j));
  int scalings = 0;
  while (std::fabs(beta) < kTiny && scalings < kMostScalings) {
    ++scalings;
    scale_column(a, j, j, T(1 / kTiny));
    rest = norm(a, j + 1, j);
    beta = beta_of(a(j, j));
  }
  const T alpha = a(j, j);
  scale_column(a, j + 1, j, T(1) / (alpha - T(beta)));
  const T tau = tau_of(alpha, beta);
  for (; scalings > 0; --scalings) beta *= kTiny;
  a(j, j) = T(beta);
  return tau;
}

/// C = (1 - tau*v*v^H)*C in the columns of c from `col` on.
template <typename T>
void apply_left(const Reflector<T>& v, T tau, const PlainMatrix<T>& c, std::int64_t col = 0) {
  if (tau == T(0)) return;
  for (; col < c.cols(); ++col) {
    T sum(0);
    for (std::int64_t i = v.first(); i < v.end(); ++i)
      sum += product(conjugate(v.at(i)), c(i, col));
    sum = product(tau, sum);
    for (std::int64_t i = v.first(); i < v.end(); ++i) c(i, col) -= product(sum, v.at(i));
  }
}

/// C = C*(1 - tau*v*v^H).
template <typename T>
void apply_right(const Reflector<T>& v, T tau, const PlainMatrix<T>& c) {
  if (tau == T(0)) return;
  for (std::int64_t row = 0; row < c.rows(); ++row) {
    T sum(0);
    for (std::int64_t j = v.first(); j < v.end(); ++j) sum += product(c(row, j), v.at(j));
    sum = product(tau, sum);
    for (std::int64_t j = v.first(); j < v.end(); ++j)
      c(row, j) -= product(sum, conjugate(v.at(j)));
  }
}

template <typename T>
void make_triangle(const PlainMatrix<T>& v, const T* tau, const PlainMatrix<T>& t) {
  for (std::int64_t i = 0; i < v.cols(); ++i) {
    const Reflector<T> last(v, i);
    for (std::int64_t j = 0; j < i; ++j) {
      const Reflector<T> earlier(v, j);
      T sum(0);
      for (std::int64_t row = i; row < v.rows(); ++row)
        sum += product(conjugate(earlier.at(row)), last.at(row));
      t(j, i) = product(-tau[i], sum);
    }
    // By the triangle that is done, from the top: each element needs those below it.
    for (std::int64_t j = 0; j < i; ++j) {
      T sum(0);
      for (std::int64_t l = j; l < i; ++l) sum += product(t(j, l), t(l, i));
      t(j, i) = sum;
    }
    t(i, i) = tau[i];
  }
}

}  // namespace

void geqrf(Storage storage, const View& a, void* tau) {
  with_wide_element(storage, [&]<typename T>(T) {
    const PlainMatrix<T> matrix(a);
    for (std::int64_t j = 0; j < std::min(a.rows, a.cols); ++j) {
      const T factor = make_reflector(matrix, j);
      static_cast<T*>(tau)[j] = factor;
      apply_left(Reflector<T>(matrix, j), conjugate(factor), matrix, j + 1);
    }
  });
}

void larft(Storage storage, const View& v, const void* tau, const View& t) {
  with_wide_element(storage, [&]<typename T>(T) {
    make_triangle(PlainMatrix<T>(v), static_cast<const T*>(tau), PlainMatrix<T>(t));
  });
}

void ormqr(Storage storage, Side side, Op op, const View& v, const void* tau, const View& c) {
  const bool ascending = (side == Side::left) == (op != Op::none);
  with_wide_element(storage, [&]<typename T>(T) {
    const PlainMatrix<T> reflectors(v), target(c);
    for (std::int64_t turn = 0; turn < v.cols; ++turn) {
      const std::int64_t i = ascending ? turn : v.cols - 1 - turn;
      const T given = static_cast<const T*>(tau)[i];
      const T factor = op == Op::none ? given : conjugate(given);
      const Reflector<T> reflector(reflectors, i);
      side == Side::left ? apply_left(reflector, factor, target)
                         : apply_right(reflector, factor, target);
    }
  });
}

}  // namespace fleet::plain_lapack

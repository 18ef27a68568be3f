// SPDX-License-Identifier: BSD-3-Clause
// reference.hpp: the oracle of the tests: random matrices with guarded borders, a plain product in
// long double, and a comparison within the error bound of any order of summation. It knows no plan
// and no backend.
//
//   Random random(seed);
//   Guarded<double> a(m, k, m + 3), b(k, n), c(m, n, m + 1);
//   a.fill_random(random); b.fill_random(random); c.fill_random(random);
//   const auto expected = expect_gemm<double>({.m = m, .n = n, .k = k, .alpha = 2, .a = a.data(),
//       .lda = a.ld(), .b = b.data(), .ldb = b.ld(), .beta = 0.5, .c = c.data(), .ldc = c.ld()});
//   ... the product under test writes c ...
//   EXPECT_EQ(first_difference(expected, c.data(), c.ld()), "");
//   EXPECT_EQ(c.broken_guard(), "");
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "cpu/half.hpp"
#include "problem/problem.hpp"

namespace fleet::test {

/// A repeatable source of numbers (splitmix64): the same on every platform, unlike <random>'s
/// distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// A random integer in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// In [-1, 1).
  double symmetric() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0; }
  bool chance(double probability) { return symmetric() < 2 * probability - 1; }
  template <typename T>
  const T& pick(const std::vector<T>& of) {
    return of[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(of.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

/// A two-byte number for tests: converts from float by rounding, and to float exactly.
template <typename Stored>
struct Small {
  Stored stored;
  Small() = default;
  explicit Small(double value) : stored(narrow<Stored>(static_cast<float>(value))) {}
  operator float() const { return widen(stored); }
};
using F16 = Small<Half>;
using BF16 = Small<BFloat16>;

template <typename T>
inline constexpr bool kSmall = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

/// eps of the type: twice the largest rounding error of numbers near 1.
template <typename T>
inline constexpr long double kEpsilon = std::numeric_limits<T>::epsilon();
template <typename R>
inline constexpr long double kEpsilon<std::complex<R>> = kEpsilon<R>;
template <>
inline constexpr long double kEpsilon<F16> = 0x1p-10L;
template <>
inline constexpr long double kEpsilon<BF16> = 0x1p-7L;
inline constexpr long double kEpsilonTf32 = 0x1p-10L;
/// The largest rounding error of f16 if the result is subnormal.
inline constexpr long double kLeastF16 = 0x1p-25L;

template <typename T>
struct Scalar {
  using Real = std::conditional_t<kSmall<T>, float, T>;
  static constexpr bool kComplex = false;
};
template <typename R>
struct Scalar<std::complex<R>> {
  using Real = R;
  static constexpr bool kComplex = true;
};

template <typename T>
inline constexpr DataType kTypeOf = std::is_same_v<T, float>                 ? DataType::f32
                                    : std::is_same_v<T, double>              ? DataType::f64
                                    : std::is_same_v<T, std::complex<float>> ? DataType::c32
                                    : std::is_same_v<T, F16>                 ? DataType::f16
                                    : std::is_same_v<T, BF16>                ? DataType::bf16
                                                                             : DataType::c64;

/// Calls `f.template operator()<T>()` with the C++ storage type of `type`.
template <typename F>
decltype(auto) with_type(DataType type, F&& f) {
  switch (type.storage) {
    case Storage::f32:
      return f.template operator()<float>();
    case Storage::f64:
      return f.template operator()<double>();
    case Storage::c32:
      return f.template operator()<std::complex<float>>();
    case Storage::c64:
      return f.template operator()<std::complex<double>>();
    case Storage::f16:
      return f.template operator()<F16>();
    case Storage::bf16:
      break;
  }
  return f.template operator()<BF16>();
}

/// The same for the four types of BLAS only.
template <typename F>
decltype(auto) with_blas_type(DataType type, F&& f) {
  switch (type.storage) {
    case Storage::f32:
      return f.template operator()<float>();
    case Storage::f64:
      return f.template operator()<double>();
    case Storage::c32:
      return f.template operator()<std::complex<float>>();
    default:
      return f.template operator()<std::complex<double>>();
  }
}

template <typename T>
T random_scalar(Random& random) {
  using Real = typename Scalar<T>::Real;
  const Real real = static_cast<Real>(random.symmetric());
  if constexpr (Scalar<T>::kComplex) return T(real, static_cast<Real>(random.symmetric()));
  return T(real);
}

/// `items` column-major matrices in one allocation. Memory outside the matrices (64 elements at
/// each end, the rows between `rows` and `ld`, the gap up to `stride`) holds a byte pattern that
/// broken_guard checks. The elements start as NaN.
template <typename T>
class Guarded {
 public:
  Guarded(std::int64_t rows, std::int64_t cols, std::int64_t ld = 0, std::int64_t items = 1,
          std::int64_t stride = 0)
      : rows_(rows),
        cols_(cols),
        ld_(ld > 0 ? ld : std::max<std::int64_t>(1, rows)),
        items_(items),
        stride_(stride > 0 ? stride : ld_ * cols) {
    const std::int64_t elements = (items > 0 ? (items - 1) * stride_ + ld_ * cols : 0);
    storage_.resize(static_cast<std::size_t>(elements + 2 * kBorder));
    std::memset(static_cast<void*>(storage_.data()), kGuard, storage_.size() * sizeof(T));
    fill(T(std::numeric_limits<typename Scalar<T>::Real>::quiet_NaN()));
  }

  T* data() { return storage_.data() + kBorder; }
  const T* data() const { return storage_.data() + kBorder; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t ld() const { return ld_; }
  std::int64_t stride() const { return stride_; }
  T* item(std::int64_t index) { return data() + index * stride_; }
  T& at(std::int64_t row, std::int64_t col, std::int64_t index = 0) {
    return item(index)[row + col * ld_];
  }

  void fill(T value) {
    for_each([&](T& element) { element = value; });
  }
  void fill_random(Random& random) {
    for_each([&](T& element) { element = random_scalar<T>(random); });
  }

  /// "" if the pattern is intact, else the first element outside the matrices that was written.
  std::string broken_guard() const {
    Guarded clean(*this);
    std::memset(static_cast<void*>(clean.storage_.data()), kGuard,
                clean.storage_.size() * sizeof(T));
    std::size_t at = 0;
    for (std::int64_t index = 0; index < items_; ++index)
      for (std::int64_t col = 0; col < cols_; ++col)
        if (at = offset(index, col); rows_ > 0)
          std::memcpy(static_cast<void*>(&clean.storage_[at]), &storage_[at],
                      static_cast<std::size_t>(rows_) * sizeof(T));
    for (std::size_t i = 0; i < storage_.size(); ++i)
      if (std::memcmp(&storage_[i], &clean.storage_[i], sizeof(T)) != 0)
        return "element " + std::to_string(static_cast<std::int64_t>(i) - kBorder) +
               " of the allocation lies outside the matrix and was written";
    return "";
  }

 private:
  static constexpr std::int64_t kBorder = 64;
  static constexpr int kGuard = 0x5a;

  std::size_t offset(std::int64_t index, std::int64_t col) const {
    return static_cast<std::size_t>(kBorder + index * stride_ + col * ld_);
  }
  template <typename F>
  void for_each(F f) {
    for (std::int64_t index = 0; index < items_; ++index)
      for (std::int64_t col = 0; col < cols_; ++col)
        for (std::int64_t row = 0; row < rows_; ++row) f(at(row, col, index));
  }

  std::int64_t rows_, cols_, ld_, items_, stride_;
  std::vector<T> storage_;
};

/// C = alpha*op(A)*op(B) + beta*C with the arguments of a BLAS call.
template <typename T>
struct GemmCall {
  Op op_a = Op::none;
  Op op_b = Op::none;
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
  std::int64_t roundings = 1;  ///< half types: how often C may be rounded on the way
  DataType type = kTypeOf<T>;  ///< tf32: A and B may be rounded to it
};

/// The expected values, m x n, dense and column-major, and the error bound of a sum of k products
/// in any order: (k + 4) * eps * (|alpha| |op(A)| |op(B)| + |beta| |C|); four times that for
/// complex types, whose products are sums themselves. Half types use eps of float, plus (roundings
/// + 1) * eps of the type. tf32 adds twice its eps, one for each rounded factor.
struct Expected {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::vector<std::complex<long double>> value;
  std::vector<long double> tolerance;
};

namespace detail {

struct Wide {
  long double re = 0;
  long double im = 0;
  long double size() const { return std::hypot(re, im); }
};

template <typename T>
Wide widen(const T& x, bool conjugate = false) {
  if constexpr (Scalar<T>::kComplex)
    return {x.real(), conjugate ? -x.imag() : x.imag()};
  else
    return {x, 0};
}

inline Wide times(Wide x, Wide y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

/// |x|, in complex types of both parts.
template <typename T>
long double size_of(const Wide& x) {
  return Scalar<T>::kComplex ? x.size() : std::fabs(x.re);
}

/// A number of op(B), multiplied by alpha, and its absolute value.
struct Scaled {
  Wide value;
  long double size = 0;
};

/// alpha*op(B)(:,j)
template <typename T>
std::vector<Scaled> scaled_column(const GemmCall<T>& call, std::int64_t j) {
  std::vector<Scaled> column;
  column.reserve(static_cast<std::size_t>(call.k));
  for (std::int64_t l = 0; l < call.k; ++l) {
    const T& stored = call.op_b == Op::none ? call.b[l + j * call.ldb] : call.b[j + l * call.ldb];
    const Wide b = times(widen(call.alpha), widen(stored, call.op_b == Op::conjugate));
    column.push_back({b, size_of<T>(b)});
  }
  return column;
}

/// op(A)(i,:) * column, and the same of the absolute values. Sums are kept in registers: tests
/// spend much of their time here, under ThreadSanitizer for each access to memory.
template <typename T>
Scaled row_times(const GemmCall<T>& call, std::int64_t i, const std::vector<Scaled>& column) {
  const std::int64_t k_step = call.op_a == Op::none ? call.lda : 1;
  const T* a = call.a + i * (call.op_a == Op::none ? 1 : call.lda);
  long double re = 0, im = 0, size = 0;
  for (std::int64_t l = 0; l < std::ssize(column); ++l) {
    const Scaled& b = column[static_cast<std::size_t>(l)];
    const T& x = a[l * k_step];
    if constexpr (Scalar<T>::kComplex) {
      const Wide product = times(widen(x, call.op_a == Op::conjugate), b.value);
      re += product.re;
      im += product.im;
      size += (std::fabs(static_cast<long double>(x.real())) +
               std::fabs(static_cast<long double>(x.imag()))) *
              b.size;
    } else {
      const auto wide = static_cast<long double>(x);
      re += wide * b.value.re;
      size += std::fabs(wide) * b.size;
    }
  }
  return {{re, im}, size};
}

}  // namespace detail

/// The expected result of `call`. Reads A and B only if alpha != 0 and k > 0, C only if beta != 0.
template <typename T>
Expected expect_gemm(const GemmCall<T>& call) {
  using Real = typename Scalar<T>::Real;
  long double factor =
      kEpsilon<Real> * static_cast<long double>(call.k + 4) * (Scalar<T>::kComplex ? 4 : 1);
  const auto roundings = static_cast<long double>(call.roundings + 1);
  if constexpr (kSmall<T>) factor += kEpsilon<T> * roundings;
  if (call.type == DataType::tf32) factor += 2 * kEpsilonTf32;
  const long double least = std::is_same_v<T, F16> ? kLeastF16 * roundings : 0;
  Expected expected{.m = call.m, .n = call.n, .value = {}, .tolerance = {}};
  for (std::int64_t j = 0; j < call.n; ++j) {
    const std::vector<detail::Scaled> column =
        call.alpha != T(0) ? detail::scaled_column(call, j) : std::vector<detail::Scaled>{};
    for (std::int64_t i = 0; i < call.m; ++i) {
      auto [to, size] = detail::row_times(call, i, column);
      if (call.beta != T(0)) {
        const detail::Wide old =
            detail::times(detail::widen(call.beta), detail::widen(call.c[i + j * call.ldc]));
        to.re += old.re;
        to.im += old.im;
        size += detail::size_of<T>(old);
      }
      expected.value.emplace_back(to.re, to.im);
      expected.tolerance.push_back(factor * size + least);
    }
  }
  return expected;
}

/// "" if every element of `c` is within its tolerance, and finite exactly if its expected value is.
/// Else a sentence about the first wrong element.
template <typename T>
std::string first_difference(const Expected& expected, const T* c, std::int64_t ldc) {
  for (std::int64_t j = 0; j < expected.n; ++j)
    for (std::int64_t i = 0; i < expected.m; ++i) {
      const auto at = static_cast<std::size_t>(i + j * expected.m);
      const detail::Wide is = detail::widen(c[i + j * ldc]);
      const std::complex<long double>& want = expected.value[at];
      const bool want_finite = std::isfinite(want.real()) && std::isfinite(want.imag());
      const bool is_finite = std::isfinite(is.re) && std::isfinite(is.im);
      const long double off = std::hypot(is.re - want.real(), is.im - want.imag());
      if (want_finite == is_finite && (!want_finite || off <= expected.tolerance[at])) continue;
      const auto text = [](long double re, long double im) {
        return "(" + std::to_string(re) + ", " + std::to_string(im) + ")";
      };
      return "C(" + std::to_string(i) + ", " + std::to_string(j) + ") is " + text(is.re, is.im) +
             ", should be " + text(want.real(), want.imag()) + ", off by " +
             std::to_string(static_cast<double>(off / expected.tolerance[at])) + " times the bound";
    }
  return "";
}

// Tests compute with these for longer than with the library: oracle.cpp has them, optimised.
extern template class Guarded<float>;
extern template class Guarded<double>;
extern template class Guarded<std::complex<float>>;
extern template class Guarded<std::complex<double>>;
extern template class Guarded<F16>;
extern template class Guarded<BF16>;
extern template Expected expect_gemm(const GemmCall<float>&);
extern template Expected expect_gemm(const GemmCall<double>&);
extern template Expected expect_gemm(const GemmCall<std::complex<float>>&);
extern template Expected expect_gemm(const GemmCall<std::complex<double>>&);
extern template Expected expect_gemm(const GemmCall<F16>&);
extern template Expected expect_gemm(const GemmCall<BF16>&);
extern template std::string first_difference(const Expected&, const float*, std::int64_t);
extern template std::string first_difference(const Expected&, const double*, std::int64_t);
extern template std::string first_difference(const Expected&, const std::complex<float>*,
                                             std::int64_t);
extern template std::string first_difference(const Expected&, const std::complex<double>*,
                                             std::int64_t);
extern template std::string first_difference(const Expected&, const F16*, std::int64_t);
extern template std::string first_difference(const Expected&, const BF16*, std::int64_t);

}  // namespace fleet::test

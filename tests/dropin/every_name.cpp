// SPDX-License-Identifier: BSD-3-Clause
// every_name.cpp: calls GEMM under every exported name, with all flags, both layouts and the NaN
// rules, and compares with loops of its own. It is linked to the preload library and must not know
// where a call is computed.
//
// Usage: every_name EDGE (the sizes are random up to it). Prints one line per wrong call.
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "preload/names.hpp"

namespace {

using fleet::preload::ComplexDouble;
using fleet::preload::ComplexFloat;

template <class T>
struct Number {
  using type = T;
};
template <>
struct Number<ComplexFloat> {
  using type = std::complex<float>;
};
template <>
struct Number<ComplexDouble> {
  using type = std::complex<double>;
};

using Wide = std::complex<double>;
std::mt19937_64 generator(7);
int wrong_calls = 0;

template <class T>
T random_number() {
  const auto uniform = [] { return std::uniform_real_distribution<double>(-1, 1)(generator); };
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(uniform());
  else
    return T(static_cast<typename T::value_type>(uniform()),
             static_cast<typename T::value_type>(uniform()));
}

int random_size(int largest) { return std::uniform_int_distribution<int>(1, largest)(generator); }

template <class T>
T not_a_number() {
  return T(std::numeric_limits<float>::quiet_NaN());
}

/// A column-major matrix with a gap of sentinels below each column.
template <class T>
struct Matrix {
  int rows, columns, ld;
  std::vector<T> data;
  Matrix(int r, int c, int gap)
      : rows(r), columns(c), ld(r + gap), data(static_cast<std::size_t>(ld) * c, T(-777)) {
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < rows; ++i) at(i, j) = random_number<T>();
  }
  T& at(int i, int j) { return data[static_cast<std::size_t>(j) * ld + i]; }
};

template <class T>
Wide element(Matrix<T>& x, char trans, int i, int j) {
  const Wide value = trans == 'n' ? Wide(x.at(i, j)) : Wide(x.at(j, i));
  return trans == 'c' ? std::conj(value) : value;
}

enum class Rule { ordinary, beta_zero, alpha_zero, k_zero };

template <class T, class Call>
void check(const char* name, int edge, Rule rule, char transa, char transb, const char* how,
           Call call) {
  const int m = random_size(edge), n = random_size(edge);
  const int k = rule == Rule::k_zero ? 0 : random_size(edge);
  Matrix<T> a(transa == 'n' ? m : k, transa == 'n' ? k : m, 3);
  Matrix<T> b(transb == 'n' ? k : n, transb == 'n' ? n : k, 2);
  Matrix<T> c(m, n, 5);
  T alpha = random_number<T>(), beta = random_number<T>();
  if (rule == Rule::alpha_zero) {
    alpha = T(0);
    for (T& x : a.data) x = not_a_number<T>();
    for (T& x : b.data) x = not_a_number<T>();
  }
  if (rule == Rule::beta_zero) {
    beta = T(0);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) c.at(i, j) = not_a_number<T>();
  }
  Matrix<T> expected = c;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      Wide sum = 0;
      for (int l = 0; l < k && alpha != T(0); ++l)
        sum += element(a, transa, i, l) * element(b, transb, l, j);
      const Wide old = beta == T(0) ? Wide(0) : Wide(beta) * Wide(c.at(i, j));
      const Wide value = Wide(alpha) * sum + old;
      if constexpr (std::is_floating_point_v<T>)
        expected.at(i, j) = static_cast<T>(value.real());
      else
        expected.at(i, j) = T(value);
    }

  call(m, n, k, alpha, a, b, beta, c);

  const double tolerance =
      32.0 * (k + 1) * (sizeof(T) == 4 || std::is_same_v<T, std::complex<float>> ? 6e-8 : 1.1e-16);
  for (std::size_t i = 0; i < c.data.size(); ++i)
    if (!(std::abs(Wide(c.data[i]) - Wide(expected.data[i])) <= tolerance)) {
      std::printf("%s %s %c%c m=%d n=%d k=%d rule %d: wrong at %zu\n", name, how, transa, transb, m,
                  n, k, static_cast<int>(rule), i);
      ++wrong_calls;
      return;
    }
}

template <class T, class Int, class Gemm>
void check_fortran(const char* name, int edge, Rule rule, char transa, char transb, Gemm* gemm) {
  for (const bool upper : {false, true})
    check<T>(name, edge, rule, transa, transb, upper ? "upper" : "lower",
             [&](Int m, Int n, Int k, T alpha, Matrix<T>& a, Matrix<T>& b, T beta, Matrix<T>& c) {
               const char ta = static_cast<char>(upper ? std::toupper(transa) : transa);
               const char tb = static_cast<char>(upper ? std::toupper(transb) : transb);
               const Int lda = a.ld, ldb = b.ld, ldc = c.ld;
               gemm(&ta, &tb, &m, &n, &k, &alpha, a.data.data(), &lda, b.data.data(), &ldb, &beta,
                    c.data.data(), &ldc, 1, 1);
             });
}

int cblas_flag(char trans) { return trans == 'n' ? 111 : trans == 't' ? 112 : 113; }
float scalar(const float& x) { return x; }
double scalar(const double& x) { return x; }
template <class R>
const void* scalar(const std::complex<R>& x) {
  return &x;
}

template <class T, class Int, class Gemm>
void check_cblas(const char* name, int edge, Rule rule, char transa, char transb, Gemm* gemm) {
  check<T>(name, edge, rule, transa, transb, "column-major",
           [&](Int m, Int n, Int k, const T& alpha, Matrix<T>& a, Matrix<T>& b, const T& beta,
               Matrix<T>& c) {
             gemm(102, cblas_flag(transa), cblas_flag(transb), m, n, k, scalar(alpha),
                  a.data.data(), a.ld, b.data.data(), b.ld, scalar(beta), c.data.data(), c.ld);
           });
  // The same memory read by rows is the product of the transposes: C^T = op(B)^T op(A)^T.
  check<T>(name, edge, rule, transa, transb, "row-major",
           [&](Int m, Int n, Int k, const T& alpha, Matrix<T>& a, Matrix<T>& b, const T& beta,
               Matrix<T>& c) {
             gemm(101, cblas_flag(transb), cblas_flag(transa), n, m, k, scalar(alpha),
                  b.data.data(), b.ld, a.data.data(), a.ld, scalar(beta), c.data.data(), c.ld);
           });
}

template <class Body>
void for_all_cases(Body body) {
  for (const Rule rule : {Rule::ordinary, Rule::beta_zero, Rule::alpha_zero, Rule::k_zero})
    for (const char transa : {'n', 't', 'c'})
      for (const char transb : {'n', 't', 'c'}) body(rule, transa, transb);
}

}  // namespace

namespace fleet::preload {
#define FLEET_DECLARE_fortran(name, T, Int)                                                       \
  extern "C" void name(const char*, const char*, const Int*, const Int*, const Int*, const void*, \
                       const void*, const Int*, const void*, const Int*, const void*, void*,      \
                       const Int*, std::size_t, std::size_t);
#define FLEET_DECLARE_cblas(name, T, Int)                                                        \
  extern "C" void name(int, int, int, Int, Int, Int, ElementTraits<T>::CblasScalar, const void*, \
                       Int, const void*, Int, ElementTraits<T>::CblasScalar, void*, Int);
#define FLEET_DECLARE(name, T, shape, Int, xerbla, cblas_err) FLEET_DECLARE_##shape(name, T, Int)
FLEET_GEMM_NAMES(FLEET_DECLARE)
}  // namespace fleet::preload

int main(int argc, char** argv) {
  using namespace fleet::preload;
  const int edge = argc > 1 ? std::atoi(argv[1]) : 12;
#define FLEET_CHECK(name, T, shape, Int, xerbla, cblas_err)                        \
  for_all_cases([&](Rule rule, char transa, char transb) {                         \
    check_##shape<Number<T>::type, Int>(#name, edge, rule, transa, transb, &name); \
  });
  FLEET_GEMM_NAMES(FLEET_CHECK)
  return wrong_calls != 0;
}

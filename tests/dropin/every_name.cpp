// SPDX-License-Identifier: BSD-3-Clause
// every_name.cpp: calls every routine under every exported name, with random flags, in both
// layouts, with NaN wherever the reference does not look, and compares with loops of its own. It is
// linked to the preload library, knows the arguments of each routine by itself, and must not know
// where a call is computed.
//
// Usage: every_name EDGE DRAWS [ROUTINE] (random sizes up to EDGE; DRAWS calls of each kind; all
// but ROUTINE). Prints one line per wrong call.
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
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
constexpr bool kReal = std::is_floating_point_v<T>;

double uniform() { return std::uniform_real_distribution<double>(-1, 1)(generator); }
int random_size(int largest) { return std::uniform_int_distribution<int>(1, largest)(generator); }
char one_of(const std::string& letters) { return letters[generator() % letters.size()]; }

template <class T>
T number(Wide value) {
  if constexpr (kReal<T>)
    return static_cast<T>(value.real());
  else
    return T(value);
}
const Wide kNaN = {std::numeric_limits<double>::quiet_NaN(),
                   std::numeric_limits<double>::quiet_NaN()};

/// A matrix by columns or by rows, with a gap of sentinels behind each.
template <class T>
struct Matrix {
  int rows = 0, columns = 0, ld = 0;
  bool by_rows = false;
  std::vector<T> data;
  Matrix() = default;
  Matrix(int r, int c, bool rows_first, int gap)
      : rows(r),
        columns(c),
        ld((rows_first ? c : r) + gap),
        by_rows(rows_first),
        data(static_cast<std::size_t>(ld) * (rows_first ? r : c), T(-777)) {
    fill([](int, int) { return Wide(uniform(), uniform()); });
  }
  T& at(int i, int j) { return data[static_cast<std::size_t>(by_rows ? i * ld + j : j * ld + i)]; }
  template <class Value>
  void fill(Value value) {
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < rows; ++i) at(i, j) = number<T>(value(i, j));
  }
};

enum class Rule { ordinary, beta_zero, alpha_zero, k_zero, nothing };
enum class Way { lower, upper, by_columns, by_rows };

/// A routine by its name, looked at letter by letter.
struct Routine {
  std::string word;
  bool is(const char* other) const { return word == other; }
  bool symmetric() const { return is("symm") || is("hemm"); }
  bool in_place() const { return is("trmm") || is("trsm"); }
  bool hermitian() const { return word[0] == 'h'; }
  bool by_itself() const { return word.substr(2, 1) == "r" && !in_place(); }
  bool twice() const { return word.size() > 3 && word[3] == '2'; }
  bool writes_triangle() const { return by_itself() || is("gemmt"); }
  bool has_side() const { return symmetric() || in_place(); }
  bool real_alpha() const { return is("herk"); }
  bool real_beta() const { return is("herk") || is("her2k"); }
};

template <class T>
struct Case {
  Routine routine;
  char side, uplo, transa, transb, diag;
  int m, n, k;
  T alpha, beta;
  Matrix<T> a, b, c;

  bool stored(int i, int j) const { return uplo == 'l' ? i >= j : i <= j; }
  bool written(int i, int j) const { return !routine.writes_triangle() || stored(i, j); }
  /// The element of op(A), or of what A stands for.
  Wide op_a(int i, int j) {
    if (!routine.has_side()) return op(a, transa, i, j);
    if (routine.symmetric()) {
      if (routine.hermitian() && i == j) return Wide(a.at(i, i)).real();
      if (stored(i, j)) return a.at(i, j);
      return routine.hermitian() ? std::conj(Wide(a.at(j, i))) : Wide(a.at(j, i));
    }
    if (i == j && diag == 'u') return 1;
    const bool there = transa == 'n' ? stored(i, j) : stored(j, i);
    return there ? op(a, transa, i, j) : Wide(0);
  }
  static Wide op(Matrix<T>& x, char trans, int i, int j) {
    const Wide value = trans == 'n' ? Wide(x.at(i, j)) : Wide(x.at(j, i));
    return trans == 'c' ? std::conj(value) : value;
  }
  /// Its transpose, conjugated where the routine does.
  Wide turned(Wide value) const { return routine.hermitian() ? std::conj(value) : value; }
  Wide product(int i, int j) {
    Wide sum = 0, other = 0;
    for (int l = 0; l < k; ++l)
      if (routine.symmetric()) {
        sum += side == 'l' ? op_a(i, l) * Wide(b.at(l, j)) : Wide(b.at(i, l)) * op_a(l, j);
      } else if (routine.twice()) {
        sum += op_a(i, l) * turned(op(b, transa, j, l));
        other += op(b, transa, i, l) * turned(op_a(j, l));
      } else {
        sum += op_a(i, l) * (routine.by_itself() ? turned(op_a(j, l)) : op(b, transb, l, j));
      }
    return Wide(alpha) * sum + turned(Wide(alpha)) * other;
  }
};

template <class T>
Case<T> random_case(const Routine& routine, Rule rule, bool by_rows, int edge) {
  const std::string by_itself_flags = kReal<T> ? "ntc" : routine.hermitian() ? "nc" : "nt";
  Case<T> x{.routine = routine,
            .side = one_of("lr"),
            .uplo = one_of("lu"),
            .transa = one_of(routine.by_itself() ? by_itself_flags : "ntc"),
            .transb = one_of("ntc"),
            .diag = one_of("nu"),
            .m = random_size(edge),
            .n = random_size(edge),
            .k = rule == Rule::k_zero && !routine.has_side() ? 0 : random_size(edge),
            .alpha = number<T>(Wide(uniform(), routine.real_alpha() ? 0 : uniform())),
            .beta = number<T>(Wide(uniform(), routine.real_beta() ? 0 : uniform())),
            .a = {},
            .b = {},
            .c = {}};
  if (routine.writes_triangle()) x.m = x.n;
  if (routine.has_side()) x.k = x.side == 'l' ? x.m : x.n;
  const auto matrix = [&](int rows, int columns, bool turned, int gap) {
    return Matrix<T>(turned ? columns : rows, turned ? rows : columns, by_rows, gap);
  };
  const int rows_of_a = routine.has_side() ? x.k : x.m;
  x.a = matrix(rows_of_a, x.k, !routine.has_side() && x.transa != 'n', 3);
  const bool b_like_a = routine.by_itself();
  if (b_like_a)
    x.b = matrix(x.n, x.k, x.transa != 'n', 2);
  else if (routine.symmetric())
    x.b = matrix(x.m, x.n, false, 2);
  else
    x.b = matrix(x.k, x.n, x.transb != 'n', 2);
  x.c = matrix(x.m, x.n, false, 5);
  return x;
}

/// NaN wherever the reference does not look.
template <class T>
void hide(Case<T>& x, Rule rule) {
  if (x.routine.has_side())
    for (int j = 0; j < x.k; ++j)
      for (int i = 0; i < x.k; ++i) {
        if (!x.stored(i, j) || (i == j && x.routine.in_place() && x.diag == 'u'))
          x.a.at(i, j) = number<T>(kNaN);
        else if (i == j && x.routine.hermitian())
          x.a.at(i, i) = number<T>(Wide(Wide(x.a.at(i, i)).real(), kNaN.imag()));
        else if (x.routine.in_place())  // far from singular
          x.a.at(i, j) = number<T>(i == j ? Wide(2, 1) : Wide(x.a.at(i, j)) / double(x.k));
      }
  if (rule == Rule::alpha_zero || rule == Rule::nothing) {
    x.alpha = T(0);
    x.a.fill([](int, int) { return kNaN; });
    x.b.fill([](int, int) { return kNaN; });
  }
  if (rule == Rule::nothing) x.beta = T(1);
  if (rule == Rule::beta_zero && !x.routine.in_place()) {
    x.beta = T(0);
    x.c.fill([&](int i, int j) { return x.written(i, j) ? kNaN : Wide(x.c.at(i, j)); });
  }
}

/// U*X or the solution of U*Y = X by columns, U lower or upper.
template <class T>
Matrix<T> worked_in_place(Case<T>& x) {
  const bool left = x.side == 'l';
  Matrix<T> result = x.c;
  const bool upper = (x.uplo == 'u') == ((x.transa == 'n') == left);
  for (int v = 0; v < (left ? x.n : x.m); ++v) {
    std::vector<Wide> in(static_cast<std::size_t>(x.k)), out(in);
    const auto u = [&](int i, int l) { return left ? x.op_a(i, l) : x.op_a(l, i); };
    for (int i = 0; i < x.k; ++i) in[i] = Wide(x.alpha) * Wide(left ? x.c.at(i, v) : x.c.at(v, i));
    for (int step = 0; step < x.k && x.alpha != T(0); ++step) {
      const int i = upper ? x.k - 1 - step : step;
      Wide sum = 0;
      for (int l = 0; l < x.k; ++l)
        if (x.routine.is("trmm"))
          sum += u(i, l) * in[l];
        else if (l != i)
          sum += u(i, l) * out[l];
      out[i] = x.routine.is("trmm") ? sum : (in[i] - sum) / u(i, i);
    }
    for (int i = 0; i < x.k; ++i) (left ? result.at(i, v) : result.at(v, i)) = number<T>(out[i]);
  }
  return result;
}

template <class T>
Matrix<T> expected_of(Case<T>& x) {
  if (x.routine.in_place()) return worked_in_place(x);
  Matrix<T> expected = x.c;
  const bool touched = x.alpha != T(0) || x.beta != T(1);
  const bool real_diagonal = x.routine.by_itself() && x.routine.hermitian() && touched;
  expected.fill([&](int i, int j) {
    if (!x.written(i, j)) return Wide(x.c.at(i, j));
    const Wide added = x.alpha == T(0) ? Wide(0) : x.product(i, j);
    const Wide old = x.beta == T(0) ? Wide(0) : Wide(x.beta) * Wide(x.c.at(i, j));
    return real_diagonal && i == j ? Wide((added + old).real()) : added + old;
  });
  return expected;
}

template <class T>
void check(const char* name, const Routine& routine, Rule rule, Way way, int edge,
           const std::function<void(Case<T>&)>& call) {
  Case<T> x = random_case<T>(routine, rule, way == Way::by_rows, edge);
  hide(x, rule);
  Matrix<T> expected = expected_of(x);

  call(x);

  const bool single = sizeof(T) == 4 || std::is_same_v<T, std::complex<float>>;
  const double tolerance = 32.0 * (x.k + 1) * (single ? 6e-8 : 1.1e-16);
  for (std::size_t i = 0; i < x.c.data.size(); ++i)
    if (!(std::abs(Wide(x.c.data[i]) - Wide(expected.data[i])) <= tolerance)) {
      std::printf("%s way %d %c%c%c%c%c m=%d n=%d k=%d rule %d: wrong at %zu: %g, not %g\n", name,
                  static_cast<int>(way), x.side, x.uplo, x.transa, x.transb, x.diag, x.m, x.n, x.k,
                  static_cast<int>(rule), i, std::abs(Wide(x.c.data[i])),
                  std::abs(Wide(expected.data[i])));
      ++wrong_calls;
      return;
    }
}

}  // namespace

// The arguments of each routine, as the reference's manual has them.
#define FORTRAN_gemm(I)                                                                       \
  const char*, const char*, const I*, const I*, const I*, const void*, const void*, const I*, \
      const void*, const I*, const void*, void*, const I*, std::size_t, std::size_t
#define FORTRAN_gemmt(I)                                                                         \
  const char*, const char*, const char*, const I*, const I*, const void*, const void*, const I*, \
      const void*, const I*, const void*, void*, const I*, std::size_t, std::size_t, std::size_t
#define FORTRAN_symm(I)                                                                          \
  const char*, const char*, const I*, const I*, const void*, const void*, const I*, const void*, \
      const I*, const void*, void*, const I*, std::size_t, std::size_t
#define FORTRAN_hemm FORTRAN_symm
#define FORTRAN_syrk(I)                                                                          \
  const char*, const char*, const I*, const I*, const void*, const void*, const I*, const void*, \
      void*, const I*, std::size_t, std::size_t
#define FORTRAN_herk FORTRAN_syrk
#define FORTRAN_syr2k FORTRAN_symm
#define FORTRAN_her2k FORTRAN_symm
#define FORTRAN_trmm(I)                                                                \
  const char*, const char*, const char*, const char*, const I*, const I*, const void*, \
      const void*, const I*, void*, const I*, std::size_t, std::size_t, std::size_t, std::size_t
#define FORTRAN_trsm FORTRAN_trmm
// S is a scalar of the type, R a real one where the type is complex too.
#define CBLAS_gemm(I, S, R) int, int, int, I, I, I, S, const void*, I, const void*, I, S, void*, I
#define CBLAS_gemmt(I, S, R) \
  int, int, int, int, I, I, S, const void*, I, const void*, I, S, void*, I
#define CBLAS_symm(I, S, R) int, int, int, I, I, S, const void*, I, const void*, I, S, void*, I
#define CBLAS_hemm CBLAS_symm
#define CBLAS_syrk(I, S, R) int, int, int, I, I, S, const void*, I, S, void*, I
#define CBLAS_herk(I, S, R) int, int, int, I, I, R, const void*, I, R, void*, I
#define CBLAS_syr2k CBLAS_symm
#define CBLAS_her2k(I, S, R) int, int, int, I, I, S, const void*, I, const void*, I, R, void*, I
#define CBLAS_trmm(I, S, R) int, int, int, int, int, I, I, S, const void*, I, void*, I
#define CBLAS_trsm CBLAS_trmm

namespace {

char capital(char flag, bool upper) { return static_cast<char>(upper ? std::toupper(flag) : flag); }

template <class Int, class T, class Function>
void call_fortran(Case<T>& x, bool upper, Function* f) {
  const char side = capital(x.side, upper), uplo = capital(x.uplo, upper),
             ta = capital(x.transa, upper), tb = capital(x.transb, upper),
             diag = capital(x.diag, upper);
  const Int m = x.m, n = x.n, k = x.k, lda = x.a.ld, ldb = x.b.ld, ldc = x.c.ld;
  const T *a = x.a.data.data(), *b = x.b.data.data();
  T* c = x.c.data.data();
  const void *alpha = &x.alpha, *beta = &x.beta;
  if constexpr (std::is_same_v<Function, void(FORTRAN_gemm(Int))>)
    f(&ta, &tb, &m, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
  else if constexpr (std::is_same_v<Function, void(FORTRAN_gemmt(Int))>)
    f(&uplo, &ta, &tb, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc, 1, 1, 1);
  else if constexpr (std::is_same_v<Function, void(FORTRAN_syrk(Int))>)
    f(&uplo, &ta, &n, &k, alpha, a, &lda, beta, c, &ldc, 1, 1);
  else if constexpr (std::is_same_v<Function, void(FORTRAN_trmm(Int))>)
    f(&side, &uplo, &ta, &diag, &m, &n, alpha, a, &lda, c, &ldc, 1, 1, 1, 1);
  else if (x.routine.symmetric())
    f(&side, &uplo, &m, &n, alpha, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
  else
    f(&uplo, &ta, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
}

int trans_number(char trans) { return trans == 'n' ? 111 : trans == 't' ? 112 : 113; }
float scalar(const float& x) { return x; }
double scalar(const double& x) { return x; }
template <class R>
const void* scalar(const std::complex<R>& x) {
  return &x;
}
template <class T>
auto real_scalar(const T& x) {
  return std::real(x);
}

template <class Int, class T, class Function>
void call_cblas(Case<T>& x, bool by_rows, Function* f) {
  using S = decltype(scalar(x.alpha));
  using R = decltype(real_scalar(x.alpha));
  const int layout = by_rows ? 101 : 102, side = x.side == 'l' ? 141 : 142,
            uplo = x.uplo == 'u' ? 121 : 122, ta = trans_number(x.transa),
            tb = trans_number(x.transb), diag = x.diag == 'n' ? 131 : 132;
  const Int m = x.m, n = x.n, k = x.k, lda = x.a.ld, ldb = x.b.ld, ldc = x.c.ld;
  const T *a = x.a.data.data(), *b = x.b.data.data();
  T* c = x.c.data.data();
  const S alpha = scalar(x.alpha), beta = scalar(x.beta);
  const R real_alpha = real_scalar(x.alpha), real_beta = real_scalar(x.beta);
  if constexpr (std::is_same_v<Function, void(CBLAS_gemm(Int, S, R))> && !std::is_same_v<Int, int>)
    f(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else if constexpr (std::is_same_v<Function, void(CBLAS_gemmt(Int, S, R))>) {
    // With 32-bit integers gemm and gemmt have parameters of the same types.
    if (x.routine.is("gemm"))
      f(layout, ta, tb, static_cast<int>(m), n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else
      f(layout, uplo, ta, tb, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else if constexpr (std::is_same_v<Function, void(CBLAS_trmm(Int, S, R))>)
    f(layout, side, uplo, ta, diag, m, n, alpha, a, lda, c, ldc);
  else if constexpr (std::is_same_v<Function, void(CBLAS_syrk(Int, S, R))>)
    f(layout, uplo, ta, n, k, alpha, a, lda, beta, c, ldc);
  else if constexpr (std::is_same_v<Function, void(CBLAS_herk(Int, S, R))>)
    f(layout, uplo, ta, n, k, real_alpha, a, lda, real_beta, c, ldc);
  else if constexpr (std::is_same_v<Function, void(CBLAS_symm(Int, S, R))>) {
    if (x.routine.symmetric())
      f(layout, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc);
    else
      f(layout, uplo, ta, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else
    f(layout, uplo, ta, n, k, alpha, a, lda, b, ldb, real_beta, c, ldc);
}

/// All rules in both ways of a shape.
template <class T>
void check_name(const char* name, const char* routine, bool fortran, int edge, int draws,
                const std::function<void(Case<T>&, Way)>& call) {
  for (const Rule rule :
       {Rule::ordinary, Rule::beta_zero, Rule::alpha_zero, Rule::k_zero, Rule::nothing})
    for (const Way way : {Way::lower, Way::upper, Way::by_columns, Way::by_rows})
      for (int draw = 0; draw < draws; ++draw)
        if (fortran == (way == Way::lower || way == Way::upper))
          check<T>(name, {routine}, rule, way, edge, [&](Case<T>& x) { call(x, way); });
}

template <class Int, class T, class Function>
void check_fortran(const char* name, const char* routine, int edge, int draws, Function* f) {
  check_name<T>(name, routine, true, edge, draws,
                [&](Case<T>& x, Way way) { call_fortran<Int>(x, way == Way::upper, f); });
}
template <class Int, class T, class Function>
void check_cblas(const char* name, const char* routine, int edge, int draws, Function* f) {
  check_name<T>(name, routine, false, edge, draws,
                [&](Case<T>& x, Way way) { call_cblas<Int>(x, way == Way::by_rows, f); });
}

}  // namespace

namespace fleet::preload {
#define FLEET_DECLARE_fortran(name, routine, T, Int) extern "C" void name(FORTRAN_##routine(Int));
#define FLEET_DECLARE_cblas(name, routine, T, Int) \
  extern "C" void name(CBLAS_##routine(Int, ElementTraits<T>::CblasScalar, ElementTraits<T>::Real));
#define FLEET_DECLARE(name, word, routine, T, shape, Int, xerbla, cblas_err) \
  FLEET_DECLARE_##shape(name, routine, T, Int)
FLEET_NAMES(FLEET_DECLARE)
}  // namespace fleet::preload

int main(int argc, char** argv) {
  using namespace fleet::preload;
  const int edge = argc > 1 ? std::atoi(argv[1]) : 12;
  const int draws = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::string left_out = argc > 3 ? argv[3] : "";
#define FLEET_CHECK(name, word, routine, T, shape, Int, xerbla, cblas_err) \
  if (left_out != #routine)                                                \
    check_##shape<Int, Number<T>::type>(#name, #routine, edge, draws, &name);
  FLEET_NAMES(FLEET_CHECK)
  return wrong_calls != 0;
}

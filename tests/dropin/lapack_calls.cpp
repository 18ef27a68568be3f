// SPDX-License-Identifier: BSD-3-Clause
// lapack_calls.cpp: every served routine of LAPACK in every type by its Fortran name, with info and
// a few numbers of each result on stdout. What is between the columns must stay as it is. It knows
// nothing of what stands in front of LAPACK.
//
// `lapack_calls [N]`: with matrices of about N rows, 40 if not said.
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using Complex8 = std::complex<float>;
using Complex16 = std::complex<double>;

// Every argument is an address, but for the lengths of flags: no prototype is needed.
#define ALL(X) \
  X(getrf)     \
  X(potrf)     \
  X(geqrf)     \
  X(getrs) X(potrs) X(gesv) X(posv) X(getri) X(potri) X(trtri) X(trtrs) X(lauum) X(larfb) X(larft)
#define DECLARE(word) void s##word##_(...), d##word##_(...), c##word##_(...), z##word##_(...);
extern "C" {
ALL(DECLARE)
void sorgqr_(...), dorgqr_(...), cungqr_(...), zungqr_(...);
void sormqr_(...), dormqr_(...), cunmqr_(...), zunmqr_(...);
void dsgesv_(...), zcgesv_(...);
}

using Function = void (*)(...);
template <class T>
struct Lapack;
#define MEMBER_s(word) static constexpr Function word = &s##word##_;
#define MEMBER_d(word) static constexpr Function word = &d##word##_;
#define MEMBER_c(word) static constexpr Function word = &c##word##_;
#define MEMBER_z(word) static constexpr Function word = &z##word##_;
#define LAPACK(T, t, orgqr_word, ormqr_word, h)          \
  template <>                                            \
  struct Lapack<T> {                                     \
    ALL(MEMBER_##t)                                      \
    static constexpr Function orgqr = &t##orgqr_word##_; \
    static constexpr Function ormqr = &t##ormqr_word##_; \
    static constexpr char letter = *#t, transposing = h; \
  };
LAPACK(float, s, orgqr, ormqr, 't')
LAPACK(double, d, orgqr, ormqr, 't')
LAPACK(Complex8, c, ungqr, unmqr, 'c')
LAPACK(Complex16, z, ungqr, unmqr, 'c')

namespace {

constexpr int kGap = 3;  // rows of each leading dimension that belong to nobody
constexpr std::size_t kLength = 1;

double next() {
  static unsigned long long state = 12345;
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>(state >> 40) / (1 << 24) - 0.5;
}

template <class T>
T number(double re, double im) {
  if constexpr (sizeof(T) == 2 * sizeof(double) || std::is_same_v<T, Complex8>)
    return T(static_cast<typename T::value_type>(re), static_cast<typename T::value_type>(im));
  else
    return static_cast<T>(re);
}

template <class T>
struct Matrix {
  int rows, cols, ld;
  std::vector<T> data;
  Matrix(int m, int n) : rows(m), cols(n), ld(m + kGap), data(std::size_t(ld) * n) {
    for (T& x : data) x = number<T>(next(), next());
    for (int j = 0; j < n; ++j)
      for (int i = m; i < ld; ++i) data[i + std::size_t(j) * ld] = number<T>(77, 0);
  }
  T& operator()(int i, int j) { return data[i + std::size_t(j) * ld]; }
  operator T*() { return data.data(); }
  void add_to_diagonal(double x) {
    for (int i = 0; i < std::min(rows, cols); ++i) (*this)(i, i) += number<T>(x, 0);
  }
  void make_real_diagonal() {
    for (int i = 0; i < rows; ++i) (*this)(i, i) = number<T>(std::real((*this)(i, i)), 0);
  }
  // Sums over columns with weights, which tell any two elements apart.
  void show() {
    Complex16 sums[3] = {};
    for (int j = 0; j < cols; ++j)
      for (int i = 0; i < ld; ++i) {
        const Complex16 x = (*this)(i, j);
        if (i >= rows && x != Complex16(77)) printf(" touched");
        if (i >= rows) continue;
        sums[0] += x * (1.0 + i % 7);
        sums[1] += x * (1.0 + j % 5);
        sums[2] += x * double((i * 31 + j * 17) % 11);
      }
    for (const Complex16& sum : sums) printf(" %.10e %.10e", sum.real(), sum.imag());
  }
};

template <class... Matrices>
void show(const std::string& call, int info, Matrices&... results) {
  printf("%s %d", call.c_str(), info);
  (results.show(), ...);
  printf("\n");
}

void show_pivots(const std::vector<int>& pivots) {
  long sum = 0;
  for (std::size_t i = 0; i < pivots.size(); ++i) sum += long(i + 1) * pivots[i];
  printf("pivots 0 %ld\n", sum);
}

template <class T>
void factor_and_solve(int n) {
  const std::string t(1, Lapack<T>::letter);
  int info = -99, nrhs = n / 3 + 1, m = n + 9;
  for (auto [rows, cols] : {std::pair{m, n}, {n, m}}) {
    Matrix<T> a(rows, cols);
    std::vector<int> pivots(n);
    Lapack<T>::getrf(&rows, &cols, (T*)a, &a.ld, pivots.data(), &info);
    show(t + "getrf", info, a);
    show_pivots(pivots);
  }
  Matrix<T> a(n, n), b(n, nrhs);
  a.add_to_diagonal(4);
  const Matrix<T> a_before = a, b_before = b;
  std::vector<int> pivots(n);
  Lapack<T>::gesv(&n, &nrhs, (T*)a, &a.ld, pivots.data(), (T*)b, &b.ld, &info);
  show(t + "gesv", info, a, b);
  show_pivots(pivots);
  for (const char* trans : {"N", "t", "C"}) {
    b = b_before;
    Lapack<T>::getrs(trans, &n, &nrhs, (T*)a, &a.ld, pivots.data(), (T*)b, &b.ld, &info, kLength);
    show(t + "getrs" + trans, info, b);
  }
  std::vector<T> work(64 * n);
  int lwork = int(work.size()), asks = -1;
  Lapack<T>::getri(&n, (T*)a, &a.ld, pivots.data(), work.data(), &asks, &info);
  printf("%sgetri-room 0 %g\n", t.c_str(), std::real(Complex16(work[0])));
  Lapack<T>::getri(&n, (T*)a, &a.ld, pivots.data(), work.data(), &lwork, &info);
  show(t + "getri", info, a);
  printf("%sgetri-best 0 %g\n", t.c_str(), std::real(Complex16(work[0])));
  a = a_before;
  for (int i = 0; i < n; ++i) a(i, 2) = T(0);
  b = b_before;
  Lapack<T>::gesv(&n, &nrhs, (T*)a, &a.ld, pivots.data(), (T*)b, &b.ld, &info);
  show(t + "gesv-singular", info, b);
}

template <class T>
void positive_definite(int n) {
  const std::string t(1, Lapack<T>::letter);
  int info = -99, nrhs = n / 3 + 1;
  for (const char* uplo : {"L", "u"}) {
    Matrix<T> a(n, n), b(n, nrhs);
    a.add_to_diagonal(n);
    a.make_real_diagonal();
    const Matrix<T> a_before = a, b_before = b;
    Lapack<T>::potrf(uplo, &n, (T*)a, &a.ld, &info, kLength);
    show(t + "potrf" + uplo, info, a);
    Lapack<T>::potrs(uplo, &n, &nrhs, (T*)a, &a.ld, (T*)b, &b.ld, &info, kLength);
    show(t + "potrs" + uplo, info, b);
    Matrix<T> c = a;
    Lapack<T>::potri(uplo, &n, (T*)c, &c.ld, &info, kLength);
    show(t + "potri" + uplo, info, c);
    Lapack<T>::lauum(uplo, &n, (T*)a, &a.ld, &info, kLength);
    show(t + "lauum" + uplo, info, a);
    a = a_before, b = b_before;
    Lapack<T>::posv(uplo, &n, &nrhs, (T*)a, &a.ld, (T*)b, &b.ld, &info, kLength);
    show(t + "posv" + uplo, info, a, b);
    a = a_before;
    a(n / 2, n / 2) = T(-1);
    Lapack<T>::potrf(uplo, &n, (T*)a, &a.ld, &info, kLength);
    printf("%spotrf-indefinite %d\n", t.c_str(), info);
  }
}

template <class T>
void triangles(int n) {
  const std::string t(1, Lapack<T>::letter);
  int info = -99, nrhs = n / 3 + 1;
  for (const char* uplo : {"l", "U"})
    for (const char* diag : {"N", "u"}) {
      Matrix<T> a(n, n), b(n, nrhs);
      for (T& x : a.data)
        if (x != number<T>(77, 0)) x /= T(n);
      a.add_to_diagonal(2);
      const Matrix<T> b_before = b;
      for (const char* trans : {"n", "T", "c"}) {
        b = b_before;
        Lapack<T>::trtrs(uplo, trans, diag, &n, &nrhs, (T*)a, &a.ld, (T*)b, &b.ld, &info, kLength,
                         kLength, kLength);
        show(t + "trtrs" + uplo + trans + diag, info, b);
      }
      Lapack<T>::trtri(uplo, diag, &n, (T*)a, &a.ld, &info, kLength, kLength);
      show(t + "trtri" + uplo + diag, info, a);
    }
}

template <class T>
void orthogonal(int n) {
  const std::string t(1, Lapack<T>::letter);
  int info = -99, m = n + 9, k = n, asks = -1;
  Matrix<T> a(m, n), c(m, n), d(n, m);
  std::vector<T> tau(n), work(64 * m);
  int lwork = int(work.size());
  Lapack<T>::geqrf(&m, &n, (T*)a, &a.ld, tau.data(), work.data(), &asks, &info);
  printf("%sgeqrf-room 0 %g\n", t.c_str(), std::real(Complex16(work[0])));
  Lapack<T>::geqrf(&m, &n, (T*)a, &a.ld, tau.data(), work.data(), &lwork, &info);
  show(t + "geqrf", info, a);
  const char* transposing = Lapack<T>::transposing == 't' ? "T" : "C";
  for (const char* trans : {"N", transposing}) {
    Lapack<T>::ormqr("L", trans, &m, &n, &k, (T*)a, &a.ld, tau.data(), (T*)c, &c.ld, work.data(),
                     &lwork, &info, kLength, kLength);
    show(t + "ormqrL" + trans, info, c);
    Lapack<T>::ormqr("R", trans, &n, &m, &k, (T*)a, &a.ld, tau.data(), (T*)d, &d.ld, work.data(),
                     &lwork, &info, kLength, kLength);
    show(t + "ormqrR" + trans, info, d);
  }
  int few = n / 2;
  Matrix<T> factor(few, few);
  Lapack<T>::larft("F", "C", &m, &few, (T*)a, &a.ld, tau.data(), (T*)factor, &factor.ld, kLength,
                   kLength);
  for (const char* trans : {"N", transposing}) {
    Lapack<T>::larfb("L", trans, "F", "C", &m, &n, &few, (T*)a, &a.ld, (T*)factor, &factor.ld,
                     (T*)c, &c.ld, work.data(), &m, kLength, kLength, kLength, kLength);
    show(t + "larfbL" + trans, 0, c);
    Lapack<T>::larfb("R", trans, "F", "C", &n, &m, &few, (T*)a, &a.ld, (T*)factor, &factor.ld,
                     (T*)d, &d.ld, work.data(), &m, kLength, kLength, kLength, kLength);
    show(t + "larfbR" + trans, 0, d);
  }
  Lapack<T>::orgqr(&m, &n, &k, (T*)a, &a.ld, tau.data(), work.data(), &lwork, &info);
  show(t + "orgqr", info, a);
}

template <class T>
void all_of(int n) {
  factor_and_solve<T>(n);
  positive_definite<T>(n);
  triangles<T>(n);
  orthogonal<T>(n);
}

void mixed(int n) {
  int info = -99, iter = -99, nrhs = 3;
  std::vector<int> pivots(n);
  std::vector<double> reals(n);
  std::vector<Complex16> work(n * nrhs), more(n * (n + nrhs));
  Matrix<double> a(n, n), b(n, nrhs), x(n, nrhs);
  a.add_to_diagonal(4);
  dsgesv_(&n, &nrhs, (double*)a, &a.ld, pivots.data(), (double*)b, &b.ld, (double*)x, &x.ld,
          work.data(), more.data(), &iter, &info);
  show("dsgesv", info, b, x);
  printf("converged %d\n", iter >= 0);
  Matrix<Complex16> c(n, n), d(n, nrhs), y(n, nrhs);
  c.add_to_diagonal(4);
  zcgesv_(&n, &nrhs, (Complex16*)c, &c.ld, pivots.data(), (Complex16*)d, &d.ld, (Complex16*)y,
          &y.ld, work.data(), more.data(), reals.data(), &iter, &info);
  show("zcgesv", info, d, y);
  printf("converged %d\n", iter >= 0);
}

// Nothing to do: LAPACK returns at once.
void empty() {
  int zero = 0, one = 1, info = -99, pivot = 7;
  double x = 5;
  dgesv_(&zero, &one, &x, &one, &pivot, &x, &one, &info);
  printf("empty-gesv %d %g %d\n", info, x, pivot);
  dpotrf_("L", &zero, &x, &one, &info, kLength);
  printf("empty-potrf %d %g\n", info, x);
  dgetrf_(&one, &zero, &x, &one, &pivot, &info);
  printf("empty-getrf %d %g %d\n", info, x, pivot);
  dgeqrf_(&zero, &zero, &x, &one, &x, &x, &one, &info);
  printf("empty-geqrf %d\n", info);
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 40;
  all_of<float>(n);
  all_of<double>(n);
  all_of<Complex8>(n);
  all_of<Complex16>(n);
  mixed(n);
  empty();
}

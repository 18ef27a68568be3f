// SPDX-License-Identifier: BSD-3-Clause
// every_routine.hpp: a call of any routine as a value, made at once or queued by the C API. It
// knows the public headers and the table of routines only.
#pragma once
#include <algorithm>
#include <complex>
#include <cstdint>

#include "fleetblas/fleetblas.hpp"
#include "problem/problem.hpp"
#include "support/reference.hpp"

namespace fleet::test {

/// A call without its matrices. Scalars are exact in every type; real types take their real parts.
struct RoutineCall {
  Routine routine = Routine::gemm;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Op op_a = Op::none;  ///< dot: conjugate for dotc
  Op op_b = Op::none;
  Diag diag = Diag::non_unit;
  std::complex<double> alpha = 1;
  std::complex<double> beta = 0;
  const RoutineTraits& traits() const { return traits_of(routine); }
};

/// A column-major matrix; a vector is one of one row or column.
template <typename T>
struct StoredMatrix {
  T* data = nullptr;
  std::int64_t rows = 0, cols = 0, ld = 1;
  std::int64_t length() const { return std::max(rows, cols); }
  std::int64_t step() const { return cols == 1 ? 1 : ld; }
};

template <typename T>
struct DirectProducts;
template <>
struct DirectProducts<float> {
  static constexpr auto gemm = &fleet_sgemm;
  static constexpr auto gemv = &fleet_sgemv;
  static constexpr auto axpy = &fleet_saxpy;
  static constexpr auto dotu = &fleet_sdot;
  static constexpr auto dotc = &fleet_sdot;
};
template <>
struct DirectProducts<double> {
  static constexpr auto gemm = &fleet_dgemm;
  static constexpr auto gemv = &fleet_dgemv;
  static constexpr auto axpy = &fleet_daxpy;
  static constexpr auto dotu = &fleet_ddot;
  static constexpr auto dotc = &fleet_ddot;
};
template <>
struct DirectProducts<std::complex<float>> {
  static constexpr auto gemm = &fleet_cgemm;
  static constexpr auto gemv = &fleet_cgemv;
  static constexpr auto axpy = &fleet_caxpy;
  static constexpr auto dotu = &fleet_cdotu;
  static constexpr auto dotc = &fleet_cdotc;
};
template <>
struct DirectProducts<std::complex<double>> {
  static constexpr auto gemm = &fleet_zgemm;
  static constexpr auto gemv = &fleet_zgemv;
  static constexpr auto axpy = &fleet_zaxpy;
  static constexpr auto dotu = &fleet_zdotu;
  static constexpr auto dotc = &fleet_zdotc;
};

template <typename T>
struct QueuedRoutines;
template <>
struct QueuedRoutines<float> {
  static constexpr auto gemm = &fleet_sgemm_async;
  static constexpr auto gemmt = &fleet_sgemmt_async;
  static constexpr auto symm = &fleet_ssymm_async;
  static constexpr auto syrk = &fleet_ssyrk_async;
  static constexpr auto syr2k = &fleet_ssyr2k_async;
  static constexpr auto trmm = &fleet_strmm_async;
  static constexpr auto trsm = &fleet_strsm_async;
  static constexpr auto gemv = &fleet_sgemv_async;
  static constexpr auto axpy = &fleet_saxpy_async;
  static constexpr auto dotu = &fleet_sdot_async;
  static constexpr auto dotc = &fleet_sdot_async;
};
template <>
struct QueuedRoutines<double> {
  static constexpr auto gemm = &fleet_dgemm_async;
  static constexpr auto gemmt = &fleet_dgemmt_async;
  static constexpr auto symm = &fleet_dsymm_async;
  static constexpr auto syrk = &fleet_dsyrk_async;
  static constexpr auto syr2k = &fleet_dsyr2k_async;
  static constexpr auto trmm = &fleet_dtrmm_async;
  static constexpr auto trsm = &fleet_dtrsm_async;
  static constexpr auto gemv = &fleet_dgemv_async;
  static constexpr auto axpy = &fleet_daxpy_async;
  static constexpr auto dotu = &fleet_ddot_async;
  static constexpr auto dotc = &fleet_ddot_async;
};
template <>
struct QueuedRoutines<std::complex<float>> {
  static constexpr auto gemm = &fleet_cgemm_async;
  static constexpr auto gemmt = &fleet_cgemmt_async;
  static constexpr auto symm = &fleet_csymm_async;
  static constexpr auto hemm = &fleet_chemm_async;
  static constexpr auto syrk = &fleet_csyrk_async;
  static constexpr auto herk = &fleet_cherk_async;
  static constexpr auto syr2k = &fleet_csyr2k_async;
  static constexpr auto her2k = &fleet_cher2k_async;
  static constexpr auto trmm = &fleet_ctrmm_async;
  static constexpr auto trsm = &fleet_ctrsm_async;
  static constexpr auto gemv = &fleet_cgemv_async;
  static constexpr auto axpy = &fleet_caxpy_async;
  static constexpr auto dotu = &fleet_cdotu_async;
  static constexpr auto dotc = &fleet_cdotc_async;
};
template <>
struct QueuedRoutines<std::complex<double>> {
  static constexpr auto gemm = &fleet_zgemm_async;
  static constexpr auto gemmt = &fleet_zgemmt_async;
  static constexpr auto symm = &fleet_zsymm_async;
  static constexpr auto hemm = &fleet_zhemm_async;
  static constexpr auto syrk = &fleet_zsyrk_async;
  static constexpr auto herk = &fleet_zherk_async;
  static constexpr auto syr2k = &fleet_zsyr2k_async;
  static constexpr auto her2k = &fleet_zher2k_async;
  static constexpr auto trmm = &fleet_ztrmm_async;
  static constexpr auto trsm = &fleet_ztrsm_async;
  static constexpr auto gemv = &fleet_zgemv_async;
  static constexpr auto axpy = &fleet_zaxpy_async;
  static constexpr auto dotu = &fleet_zdotu_async;
  static constexpr auto dotc = &fleet_zdotc_async;
};

/// The arguments of a call in the forms in which the C API takes them.
template <typename T>
struct Flags {
  explicit Flags(const RoutineCall& call)
      : side(static_cast<fleet_side>(call.side == Side::left ? 'l' : 'r')),
        uplo(static_cast<fleet_uplo>(call.uplo == Uplo::lower ? 'l' : 'u')),
        diag(static_cast<fleet_diag>(call.diag == Diag::unit ? 'u' : 'n')),
        a(static_cast<fleet_op>(letter_of(call.op_a))),
        b(static_cast<fleet_op>(letter_of(call.op_b))),
        alpha(scalar(call.alpha)),
        beta(scalar(call.beta)) {}

  static T scalar(std::complex<double> x) {
    using Real = typename Scalar<T>::Real;
    if constexpr (Scalar<T>::kComplex)
      return T(static_cast<Real>(x.real()), static_cast<Real>(x.imag()));
    else
      return static_cast<Real>(x.real());
  }

  fleet_side side;
  fleet_uplo uplo;
  fleet_diag diag;
  fleet_op a, b;
  T alpha, beta;
};

/// The call on memory, complete on return.
template <typename T>
fleet_status call_at_once(fleet_context* on, const RoutineCall& call, const StoredMatrix<T>& a,
                          const StoredMatrix<T>& b, const StoredMatrix<T>& c) {
  using fleetblas::detail::given;
  using P = DirectProducts<T>;
  using R = fleetblas::detail::Routines<T>;
  const Flags<T> f(call);
  const std::int64_t m = c.rows, n = c.cols, k = f.a == FLEET_NO_TRANS ? a.cols : a.rows;
  const auto alpha = given(f.alpha), beta = given(f.beta);
  switch (call.routine) {
    case Routine::gemm:
      return P::gemm(on, f.a, f.b, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, c.data, c.ld);
    case Routine::gemmt:
      return R::gemmt(on, f.uplo, f.a, f.b, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, c.data,
                      c.ld);
    case Routine::symm:
      return R::symm(on, f.side, f.uplo, m, n, alpha, a.data, a.ld, b.data, b.ld, beta, c.data,
                     c.ld);
    case Routine::syrk:
      return R::syrk(on, f.uplo, f.a, n, k, alpha, a.data, a.ld, beta, c.data, c.ld);
    case Routine::syr2k:
      return R::syr2k(on, f.uplo, f.a, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, c.data, c.ld);
    case Routine::trmm:
      return R::trmm(on, f.side, f.uplo, f.a, f.diag, m, n, alpha, a.data, a.ld, c.data, c.ld);
    case Routine::trsm:
      return R::trsm(on, f.side, f.uplo, f.a, f.diag, m, n, alpha, a.data, a.ld, c.data, c.ld);
    case Routine::gemv:
      return P::gemv(on, f.a, a.rows, a.cols, alpha, a.data, a.ld, b.data, b.step(), beta, c.data,
                     c.step());
    case Routine::axpy:
      return P::axpy(on, a.length(), alpha, a.data, a.step(), c.data, c.step());
    case Routine::dot:
      return (call.op_a == Op::conjugate ? P::dotc : P::dotu)(on, a.length(), a.data, a.step(),
                                                              b.data, b.step(), c.data);
    default:
      break;
  }
  if constexpr (Scalar<T>::kComplex) {
    if (call.routine == Routine::hemm)
      return R::hemm(on, f.side, f.uplo, m, n, alpha, a.data, a.ld, b.data, b.ld, beta, c.data,
                     c.ld);
    if (call.routine == Routine::herk)
      return R::herk(on, f.uplo, f.a, n, k, f.alpha.real(), a.data, a.ld, f.beta.real(), c.data,
                     c.ld);
    if (call.routine == Routine::her2k)
      return R::her2k(on, f.uplo, f.a, n, k, alpha, a.data, a.ld, b.data, b.ld, f.beta.real(),
                      c.data, c.ld);
  }
  return FLEET_INTERNAL;
}

/// The same on matrices, queued.
template <typename T>
fleet_status queue_call(fleet_context* on, const RoutineCall& call, const fleet_matrix* a,
                        const fleet_matrix* b, fleet_matrix* c, fleet_event** event) {
  using fleetblas::detail::given;
  using R = QueuedRoutines<T>;
  const Flags<T> f(call);
  const auto alpha = given(f.alpha), beta = given(f.beta);
  switch (call.routine) {
    case Routine::gemm:
      return R::gemm(on, f.a, f.b, alpha, a, b, beta, c, event);
    case Routine::gemmt:
      return R::gemmt(on, f.uplo, f.a, f.b, alpha, a, b, beta, c, event);
    case Routine::symm:
      return R::symm(on, f.side, f.uplo, alpha, a, b, beta, c, event);
    case Routine::syrk:
      return R::syrk(on, f.uplo, f.a, alpha, a, beta, c, event);
    case Routine::syr2k:
      return R::syr2k(on, f.uplo, f.a, alpha, a, b, beta, c, event);
    case Routine::trmm:
      return R::trmm(on, f.side, f.uplo, f.a, f.diag, alpha, a, c, event);
    case Routine::trsm:
      return R::trsm(on, f.side, f.uplo, f.a, f.diag, alpha, a, c, event);
    case Routine::gemv:
      return R::gemv(on, f.a, alpha, a, b, beta, c, event);
    case Routine::axpy:
      return R::axpy(on, alpha, a, c, event);
    case Routine::dot:
      return (call.op_a == Op::conjugate ? R::dotc : R::dotu)(on, a, b, c, event);
    default:
      break;
  }
  if constexpr (Scalar<T>::kComplex) {
    if (call.routine == Routine::hemm)
      return R::hemm(on, f.side, f.uplo, alpha, a, b, beta, c, event);
    if (call.routine == Routine::herk)
      return R::herk(on, f.uplo, f.a, f.alpha.real(), a, f.beta.real(), c, event);
    if (call.routine == Routine::her2k)
      return R::her2k(on, f.uplo, f.a, alpha, a, b, f.beta.real(), c, event);
  }
  return FLEET_INTERNAL;
}

}  // namespace fleet::test

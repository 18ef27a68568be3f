// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: gemv, axpy and dot of the C API. Flags become enums here; it decides nothing.
#include "api/boundary.hpp"

using namespace fleet;  // NOLINT: this file is the border between the two languages

fleet_status fleet_sgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n, float alpha,
                         const float* a, int64_t lda, const float* x, int64_t incx, float beta,
                         float* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_sgemv",
                                              .type = DataType::f32,
                                              .trans = trans,
                                              .m = m,
                                              .n = n,
                                              .alpha = &alpha,
                                              .a = a,
                                              .lda = lda,
                                              .x = x,
                                              .incx = incx,
                                              .beta = &beta,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_dgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n, double alpha,
                         const double* a, int64_t lda, const double* x, int64_t incx, double beta,
                         double* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_dgemv",
                                              .type = DataType::f64,
                                              .trans = trans,
                                              .m = m,
                                              .n = n,
                                              .alpha = &alpha,
                                              .a = a,
                                              .lda = lda,
                                              .x = x,
                                              .incx = incx,
                                              .beta = &beta,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_cgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                         const void* alpha, const void* a, int64_t lda, const void* x, int64_t incx,
                         const void* beta, void* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_cgemv",
                                              .type = DataType::c32,
                                              .trans = trans,
                                              .m = m,
                                              .n = n,
                                              .alpha = alpha,
                                              .a = a,
                                              .lda = lda,
                                              .x = x,
                                              .incx = incx,
                                              .beta = beta,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_zgemv(fleet_context* context, fleet_op trans, int64_t m, int64_t n,
                         const void* alpha, const void* a, int64_t lda, const void* x, int64_t incx,
                         const void* beta, void* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_zgemv",
                                              .type = DataType::c64,
                                              .trans = trans,
                                              .m = m,
                                              .n = n,
                                              .alpha = alpha,
                                              .a = a,
                                              .lda = lda,
                                              .x = x,
                                              .incx = incx,
                                              .beta = beta,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_saxpy(fleet_context* context, int64_t n, float alpha, const float* x,
                         int64_t incx, float* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_saxpy",
                                              .routine = Routine::axpy,
                                              .type = DataType::f32,
                                              .n = n,
                                              .alpha = &alpha,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_daxpy(fleet_context* context, int64_t n, double alpha, const double* x,
                         int64_t incx, double* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_daxpy",
                                              .routine = Routine::axpy,
                                              .type = DataType::f64,
                                              .n = n,
                                              .alpha = &alpha,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_caxpy(fleet_context* context, int64_t n, const void* alpha, const void* x,
                         int64_t incx, void* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_caxpy",
                                              .routine = Routine::axpy,
                                              .type = DataType::c32,
                                              .n = n,
                                              .alpha = alpha,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_zaxpy(fleet_context* context, int64_t n, const void* alpha, const void* x,
                         int64_t incx, void* y, int64_t incy) {
  return capi::compute(context, RawVectorCall{.function = "fleet_zaxpy",
                                              .routine = Routine::axpy,
                                              .type = DataType::c64,
                                              .n = n,
                                              .alpha = alpha,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy});
}

fleet_status fleet_sdot(fleet_context* context, int64_t n, const float* x, int64_t incx,
                        const float* y, int64_t incy, float* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_sdot",
                                              .routine = Routine::dot,
                                              .type = DataType::f32,
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

fleet_status fleet_ddot(fleet_context* context, int64_t n, const double* x, int64_t incx,
                        const double* y, int64_t incy, double* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_ddot",
                                              .routine = Routine::dot,
                                              .type = DataType::f64,
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

fleet_status fleet_cdotu(fleet_context* context, int64_t n, const void* x, int64_t incx,
                         const void* y, int64_t incy, void* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_cdotu",
                                              .routine = Routine::dot,
                                              .type = DataType::c32,
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

fleet_status fleet_cdotc(fleet_context* context, int64_t n, const void* x, int64_t incx,
                         const void* y, int64_t incy, void* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_cdotc",
                                              .routine = Routine::dot,
                                              .type = DataType::c32,
                                              .trans = 'c',
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

fleet_status fleet_zdotu(fleet_context* context, int64_t n, const void* x, int64_t incx,
                         const void* y, int64_t incy, void* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_zdotu",
                                              .routine = Routine::dot,
                                              .type = DataType::c64,
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

fleet_status fleet_zdotc(fleet_context* context, int64_t n, const void* x, int64_t incx,
                         const void* y, int64_t incy, void* result) {
  return capi::compute(context, RawVectorCall{.function = "fleet_zdotc",
                                              .routine = Routine::dot,
                                              .type = DataType::c64,
                                              .trans = 'c',
                                              .n = n,
                                              .x = x,
                                              .incx = incx,
                                              .y = y,
                                              .incy = incy,
                                              .result = result});
}

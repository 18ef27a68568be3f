// SPDX-License-Identifier: BSD-3-Clause
// level3.cpp: the routines of the C API of which one triangle counts. Flags become enums here;
// it decides nothing.
#include "api/boundary.hpp"

using namespace fleet;  // NOLINT: this file is the border between the two languages

namespace {

/// Behind the context.
constexpr Signature signature(const char* function, Routine routine) {
  return signature_of(function, routine, 2);
}

}  // namespace

fleet_status fleet_sgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa, fleet_op transb,
                          int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_sgemmt", Routine::gemmt);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::gemmt,
                                 .type = DataType::f32,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .transb = transb,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_dgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa, fleet_op transb,
                          int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
                          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_dgemmt", Routine::gemmt);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::gemmt,
                                 .type = DataType::f64,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .transb = transb,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_cgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa, fleet_op transb,
                          int64_t n, int64_t k, const void* alpha, const void* a, int64_t lda,
                          const void* b, int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_cgemmt", Routine::gemmt);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::gemmt,
                                 .type = DataType::c32,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .transb = transb,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zgemmt(fleet_context* context, fleet_uplo uplo, fleet_op transa, fleet_op transb,
                          int64_t n, int64_t k, const void* alpha, const void* a, int64_t lda,
                          const void* b, int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zgemmt", Routine::gemmt);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::gemmt,
                                 .type = DataType::c64,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .transb = transb,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_ssymm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, float alpha, const float* a, int64_t lda, const float* b,
                         int64_t ldb, float beta, float* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_ssymm", Routine::symm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::symm,
                                 .type = DataType::f32,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_dsymm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, double alpha, const double* a, int64_t lda, const double* b,
                         int64_t ldb, double beta, double* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_dsymm", Routine::symm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::symm,
                                 .type = DataType::f64,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_csymm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, const void* alpha, const void* a, int64_t lda, const void* b,
                         int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_csymm", Routine::symm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::symm,
                                 .type = DataType::c32,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zsymm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, const void* alpha, const void* a, int64_t lda, const void* b,
                         int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zsymm", Routine::symm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::symm,
                                 .type = DataType::c64,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_chemm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, const void* alpha, const void* a, int64_t lda, const void* b,
                         int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_chemm", Routine::hemm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::hemm,
                                 .type = DataType::c32,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zhemm(fleet_context* context, fleet_side side, fleet_uplo uplo, int64_t m,
                         int64_t n, const void* alpha, const void* a, int64_t lda, const void* b,
                         int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zhemm", Routine::hemm);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::hemm,
                                 .type = DataType::c64,
                                 .side = side,
                                 .uplo = uplo,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_ssyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, float alpha, const float* a, int64_t lda, float beta, float* c,
                         int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_ssyrk", Routine::syrk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syrk,
                                 .type = DataType::f32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_dsyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, double alpha, const double* a, int64_t lda, double beta,
                         double* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_dsyrk", Routine::syrk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syrk,
                                 .type = DataType::f64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_csyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, const void* alpha, const void* a, int64_t lda, const void* beta,
                         void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_csyrk", Routine::syrk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syrk,
                                 .type = DataType::c32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zsyrk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, const void* alpha, const void* a, int64_t lda, const void* beta,
                         void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zsyrk", Routine::syrk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syrk,
                                 .type = DataType::c64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_cherk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, float alpha, const void* a, int64_t lda, float beta, void* c,
                         int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_cherk", Routine::herk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::herk,
                                 .type = DataType::c32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zherk(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                         int64_t k, double alpha, const void* a, int64_t lda, double beta, void* c,
                         int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zherk", Routine::herk);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::herk,
                                 .type = DataType::c64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_ssyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, float alpha, const float* a, int64_t lda, const float* b,
                          int64_t ldb, float beta, float* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_ssyr2k", Routine::syr2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syr2k,
                                 .type = DataType::f32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_dsyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, double alpha, const double* a, int64_t lda, const double* b,
                          int64_t ldb, double beta, double* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_dsyr2k", Routine::syr2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syr2k,
                                 .type = DataType::f64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_csyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, const void* alpha, const void* a, int64_t lda, const void* b,
                          int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_csyr2k", Routine::syr2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syr2k,
                                 .type = DataType::c32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zsyr2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, const void* alpha, const void* a, int64_t lda, const void* b,
                          int64_t ldb, const void* beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zsyr2k", Routine::syr2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::syr2k,
                                 .type = DataType::c64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_cher2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, const void* alpha, const void* a, int64_t lda, const void* b,
                          int64_t ldb, float beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_cher2k", Routine::her2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::her2k,
                                 .type = DataType::c32,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

fleet_status fleet_zher2k(fleet_context* context, fleet_uplo uplo, fleet_op trans, int64_t n,
                          int64_t k, const void* alpha, const void* a, int64_t lda, const void* b,
                          int64_t ldb, double beta, void* c, int64_t ldc) {
  static constexpr Signature kSignature = signature("fleet_zher2k", Routine::her2k);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::her2k,
                                 .type = DataType::c64,
                                 .uplo = uplo,
                                 .transa = trans,
                                 .n = n,
                                 .k = k,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .b = b,
                                 .ldb = ldb,
                                 .beta = &beta,
                                 .c = c,
                                 .ldc = ldc});
}

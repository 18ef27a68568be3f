// SPDX-License-Identifier: BSD-3-Clause
// triangular.cpp: trmm and trsm of the C API. Flags become enums here; it decides nothing.
#include "api/boundary.hpp"

using namespace fleet;  // NOLINT: this file is the border between the two languages

fleet_status fleet_strmm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, float alpha, const float* a,
                         int64_t lda, float* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_strmm", Routine::trmm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trmm,
                                 .type = DataType::f32,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_dtrmm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, double alpha, const double* a,
                         int64_t lda, double* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_dtrmm", Routine::trmm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trmm,
                                 .type = DataType::f64,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_ctrmm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, const void* alpha, const void* a,
                         int64_t lda, void* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_ctrmm", Routine::trmm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trmm,
                                 .type = DataType::c32,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_ztrmm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, const void* alpha, const void* a,
                         int64_t lda, void* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_ztrmm", Routine::trmm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trmm,
                                 .type = DataType::c64,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_strsm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, float alpha, const float* a,
                         int64_t lda, float* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_strsm", Routine::trsm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trsm,
                                 .type = DataType::f32,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_dtrsm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, double alpha, const double* a,
                         int64_t lda, double* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_dtrsm", Routine::trsm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trsm,
                                 .type = DataType::f64,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = &alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_ctrsm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, const void* alpha, const void* a,
                         int64_t lda, void* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_ctrsm", Routine::trsm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trsm,
                                 .type = DataType::c32,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

fleet_status fleet_ztrsm(fleet_context* context, fleet_side side, fleet_uplo uplo, fleet_op transa,
                         fleet_diag diag, int64_t m, int64_t n, const void* alpha, const void* a,
                         int64_t lda, void* b, int64_t ldb) {
  static constexpr Signature kSignature = signature_of("fleet_ztrsm", Routine::trsm, 2);
  return capi::compute(context, {.signature = kSignature,
                                 .routine = Routine::trsm,
                                 .type = DataType::c64,
                                 .side = side,
                                 .uplo = uplo,
                                 .transa = transa,
                                 .diag = diag,
                                 .m = m,
                                 .n = n,
                                 .alpha = alpha,
                                 .a = a,
                                 .lda = lda,
                                 .c = b,
                                 .ldc = ldb});
}

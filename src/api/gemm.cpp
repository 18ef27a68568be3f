// SPDX-License-Identifier: BSD-3-Clause
// gemm.cpp: the products of the C API. Flags become enums here; it decides nothing.
#include "api/boundary.hpp"

using namespace fleet;  // NOLINT: this file is the border between the two languages

namespace {

constexpr Front kPlain{.first = 2};  // behind the context
constexpr Front kBatched{.first = 2, .strides = true};
constexpr Signature kSgemm = signature_of("fleet_sgemm", kPlain);
constexpr Signature kDgemm = signature_of("fleet_dgemm", kPlain);
constexpr Signature kCgemm = signature_of("fleet_cgemm", kPlain);
constexpr Signature kZgemm = signature_of("fleet_zgemm", kPlain);
constexpr Signature kSgemmBatched = signature_of("fleet_sgemm_strided_batched", kBatched);
constexpr Signature kDgemmBatched = signature_of("fleet_dgemm_strided_batched", kBatched);
constexpr Signature kCgemmBatched = signature_of("fleet_cgemm_strided_batched", kBatched);
constexpr Signature kZgemmBatched = signature_of("fleet_zgemm_strided_batched", kBatched);
constexpr Signature kGemmEx = signature_of("fleet_gemm_ex", {.first = 2, .types = true});
constexpr Signature kGemmBatchedEx =
    signature_of("fleet_gemm_strided_batched_ex", {.first = 2, .types = true, .strides = true});

/// Everything but the scalars, which come by value in the real routines.
struct Shape {
  fleet_op transa, transb;
  std::int64_t m, n, k;
  const void* a;
  std::int64_t lda, stride_a;
  const void* b;
  std::int64_t ldb, stride_b;
  void* c;
  std::int64_t ldc, stride_c;
  std::int64_t batch;
};

fleet_status run(fleet_context* context, const Signature& signature, DataType type,
                 const Shape& shape, const void* alpha, const void* beta) {
  return capi::compute(context, {.signature = signature,
                                 .type = type,
                                 .transa = shape.transa,
                                 .transb = shape.transb,
                                 .m = shape.m,
                                 .n = shape.n,
                                 .k = shape.k,
                                 .alpha = alpha,
                                 .a = shape.a,
                                 .lda = shape.lda,
                                 .stride_a = shape.stride_a,
                                 .b = shape.b,
                                 .ldb = shape.ldb,
                                 .stride_b = shape.stride_b,
                                 .beta = beta,
                                 .c = shape.c,
                                 .ldc = shape.ldc,
                                 .stride_c = shape.stride_c,
                                 .batch = shape.batch});
}

/// The types of one call, and where its arguments name them.
struct Types {
  fleet_type a, b, c, compute;
};
struct Positions {
  int atype, btype, ctype, compute;
};

DataType type_of(fleet_type type, const char* function, int position, const char* name) {
  switch (type) {
    case FLEET_F32:
      return DataType::f32;
    case FLEET_F64:
      return DataType::f64;
    case FLEET_C32:
      return DataType::c32;
    case FLEET_C64:
      return DataType::c64;
    case FLEET_F16:
      return DataType::f16;
    case FLEET_BF16:
      return DataType::bf16;
    case FLEET_TF32:
      return DataType::tf32;
  }
  throw Error(Status::bad_argument, std::string(function) + ": argument " +
                                        std::to_string(position) + " (" + name + ") is " +
                                        std::to_string(static_cast<int>(type)) +
                                        ", expected 's', 'd', 'c', 'z', 'h', 'b' or 't'");
}

/// What a product of these types is called inside.
DataType product_type(const char* function, const Types& types, const Positions& at) {
  const DataType compute = type_of(types.compute, function, at.compute, "compute");
  const DataType a = type_of(types.a, function, at.atype, "atype");
  const DataType b = type_of(types.b, function, at.btype, "btype");
  const DataType c = type_of(types.c, function, at.ctype, "ctype");
  const bool equal = a == b && b == c;
  if (equal && is_half(c.storage) && compute == DataType::f32) return c;
  if (equal && c == DataType::f32 && compute == DataType::tf32) return compute;
  if (equal && !is_half(c.storage) && c != DataType::tf32 && compute == c) return c;
  throw Error(Status::unsupported, std::string(function) + ": this version does not multiply " +
                                       word_of(a) + " by " + word_of(b) + " into " + word_of(c) +
                                       " computed as " + word_of(compute));
}

fleet_status run(fleet_context* context, const Signature& signature, const Types& types,
                 const Positions& at, const Shape& shape, const void* alpha, const void* beta) {
  DataType type = DataType::f64;
  const fleet_status status =
      capi::guarded([&] { type = product_type(signature.function, types, at); });
  return status == FLEET_OK ? run(context, signature, type, shape, alpha, beta) : status;
}

}  // namespace

fleet_status fleet_sgemm(fleet_context* context, fleet_op transa, fleet_op transb, int64_t m,
                         int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                         const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  return run(context, kSgemm, DataType::f32,
             {transa, transb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, &alpha, &beta);
}

fleet_status fleet_dgemm(fleet_context* context, fleet_op transa, fleet_op transb, int64_t m,
                         int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
                         const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  return run(context, kDgemm, DataType::f64,
             {transa, transb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, &alpha, &beta);
}

fleet_status fleet_cgemm(fleet_context* context, fleet_op transa, fleet_op transb, int64_t m,
                         int64_t n, int64_t k, const void* alpha, const void* a, int64_t lda,
                         const void* b, int64_t ldb, const void* beta, void* c, int64_t ldc) {
  return run(context, kCgemm, DataType::c32,
             {transa, transb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, alpha, beta);
}

fleet_status fleet_zgemm(fleet_context* context, fleet_op transa, fleet_op transb, int64_t m,
                         int64_t n, int64_t k, const void* alpha, const void* a, int64_t lda,
                         const void* b, int64_t ldb, const void* beta, void* c, int64_t ldc) {
  return run(context, kZgemm, DataType::c64,
             {transa, transb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, alpha, beta);
}

fleet_status fleet_gemm_ex(fleet_context* context, fleet_op transa, fleet_op transb, int64_t m,
                           int64_t n, int64_t k, const void* alpha, const void* a, fleet_type atype,
                           int64_t lda, const void* b, fleet_type btype, int64_t ldb,
                           const void* beta, void* c, fleet_type ctype, int64_t ldc,
                           fleet_type compute) {
  return run(context, kGemmEx, {atype, btype, ctype, compute},
             {.atype = 9, .btype = 12, .ctype = 16, .compute = 18},
             {transa, transb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, alpha, beta);
}

fleet_status fleet_sgemm_strided_batched(fleet_context* context, fleet_op transa, fleet_op transb,
                                         int64_t m, int64_t n, int64_t k, float alpha,
                                         const float* a, int64_t lda, int64_t stride_a,
                                         const float* b, int64_t ldb, int64_t stride_b, float beta,
                                         float* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  return run(context, kSgemmBatched, DataType::f32,
             {transa, transb, m, n, k, a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, batch},
             &alpha, &beta);
}

fleet_status fleet_dgemm_strided_batched(fleet_context* context, fleet_op transa, fleet_op transb,
                                         int64_t m, int64_t n, int64_t k, double alpha,
                                         const double* a, int64_t lda, int64_t stride_a,
                                         const double* b, int64_t ldb, int64_t stride_b,
                                         double beta, double* c, int64_t ldc, int64_t stride_c,
                                         int64_t batch) {
  return run(context, kDgemmBatched, DataType::f64,
             {transa, transb, m, n, k, a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, batch},
             &alpha, &beta);
}

fleet_status fleet_cgemm_strided_batched(fleet_context* context, fleet_op transa, fleet_op transb,
                                         int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* a, int64_t lda, int64_t stride_a,
                                         const void* b, int64_t ldb, int64_t stride_b,
                                         const void* beta, void* c, int64_t ldc, int64_t stride_c,
                                         int64_t batch) {
  return run(context, kCgemmBatched, DataType::c32,
             {transa, transb, m, n, k, a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, batch},
             alpha, beta);
}

fleet_status fleet_zgemm_strided_batched(fleet_context* context, fleet_op transa, fleet_op transb,
                                         int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* a, int64_t lda, int64_t stride_a,
                                         const void* b, int64_t ldb, int64_t stride_b,
                                         const void* beta, void* c, int64_t ldc, int64_t stride_c,
                                         int64_t batch) {
  return run(context, kZgemmBatched, DataType::c64,
             {transa, transb, m, n, k, a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, batch},
             alpha, beta);
}

fleet_status fleet_gemm_strided_batched_ex(fleet_context* context, fleet_op transa, fleet_op transb,
                                           int64_t m, int64_t n, int64_t k, const void* alpha,
                                           const void* a, fleet_type atype, int64_t lda,
                                           int64_t stride_a, const void* b, fleet_type btype,
                                           int64_t ldb, int64_t stride_b, const void* beta, void* c,
                                           fleet_type ctype, int64_t ldc, int64_t stride_c,
                                           int64_t batch, fleet_type compute) {
  return run(context, kGemmBatchedEx, {atype, btype, ctype, compute},
             {.atype = 9, .btype = 13, .ctype = 18, .compute = 22},
             {transa, transb, m, n, k, a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, batch},
             alpha, beta);
}

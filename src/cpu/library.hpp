// SPDX-License-Identifier: BSD-3-Clause
// library.hpp: a BLAS found by dlopen: its gemm under whatever name it has, the width of its
// integers, its thread count. It must not know launches, leases or plans.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cpu/lapack_library.hpp"
#include "problem/problem.hpp"

namespace fleet {

/// One product in the words of the reference BLAS; flags are 'N', 'T', 'C'. Scalars are of the
/// call's type.
struct BlasCall {
  char trans_a, trans_b;
  std::int64_t m, n, k;
  const void* alpha;
  const void* a;
  std::int64_t lda;
  const void* b;
  std::int64_t ldb;
  const void* beta;
  void* c;
  std::int64_t ldc;
};

/// y = alpha*op(A)*x + beta*y, likewise.
struct GemvCall {
  char trans;
  std::int64_t m, n;
  const void* alpha;
  const void* a;
  std::int64_t lda;
  const void* x;
  std::int64_t incx;
  const void* beta;
  void* y;
  std::int64_t incy;
};

/// y = alpha*x + y, likewise.
struct AxpyCall {
  std::int64_t n;
  const void* alpha;
  const void* x;
  std::int64_t incx;
  void* y;
  std::int64_t incy;
};

/// B = alpha*op(A)*B ('L') or alpha*B*op(A) ('R'), A triangular, likewise, or with op(A)^-1 where
/// it solves.
struct TriangularCall {
  bool solves;
  char side, uplo, trans, diag;
  std::int64_t m, n;
  const void* alpha;
  const void* a;
  std::int64_t lda;
  void* b;
  std::int64_t ldb;
};

/// Entry points of a loaded library. A value; the library stays loaded for good, since its threads
/// may be anywhere.
struct BlasLibrary {
  std::string file;
  std::string version;  ///< as the library words it; may be empty
  bool fortran = true;  ///< else the CBLAS interface
  bool wide_ints = false;
  bool in_use_before = false;           ///< the program had it loaded: its thread count is not ours
  std::array<void*, kStorages> gemm{};  ///< none but those of s, d, c and z
  std::array<void*, kStorages> gemv{}, axpy{}, trmm{}, trsm{};  ///< or none
  LapackLibrary lapack;  ///< none where the library is a BLAS alone
  void (*set_threads)(std::int64_t) = nullptr;
  std::int64_t (*get_threads)() = nullptr;

  bool has(Storage storage) const { return gemm[static_cast<std::size_t>(storage)] != nullptr; }
  /// Sizes must fit the library's integers.
  void call(Storage storage, const BlasCall& call) const;
  void call(Storage storage, const GemvCall& call) const;
  void call(Storage storage, const AxpyCall& call) const;
  void call(Storage storage, const TriangularCall& call) const;
};

/// Loads `file` (a path or a soname). Empty when it cannot be loaded, has no gemm, or would be this
/// library itself; `why` then says so in one line. Signal mask, floating-point state and
/// environment are left as they were.
std::optional<BlasLibrary> open_blas(const std::string& file, std::string& why);

}  // namespace fleet

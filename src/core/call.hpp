// SPDX-License-Identifier: BSD-3-Clause
// call.hpp: one call of a level-3 routine as a caller gave it, checked, and what follows from its
// sizes and addresses. It knows no context and no device.
#pragma once
#include <array>
#include <cstdint>

#include "core/call_shape.hpp"
#include "problem/problem.hpp"
#include "run/backend.hpp"

namespace fleet {

/// Positions of the arguments of one front, from 1; 0: it has no such argument.
struct Signature {
  const char* function;
  int side = 0, uplo = 0, transa = 0, transb = 0, diag = 0, m = 0, n = 0, k = 0, alpha = 0, a = 0,
      lda = 0, stride_a = 0, b = 0, ldb = 0, stride_b = 0, beta = 0, c = 0, ldc = 0, stride_c = 0,
      batch = 0;
};

/// What one front has around and between the arguments that all have.
struct Front {
  int first = 1;         ///< position of transa
  bool types = false;    ///< a type behind each matrix
  bool strides = false;  ///< a stride behind each leading dimension, and the batch at the end
};

/// The positions in the order that all fronts have: transa, transb, m, n, k, alpha, A, B, beta, C.
constexpr Signature signature_of(const char* function, Front front) {
  Signature s{.function = function};
  int at = front.first;
  const auto matrix = [&](int& data, int& ld, int& stride) {
    data = at++;
    if (front.types) ++at;
    ld = at++;
    if (front.strides) stride = at++;
  };
  for (int* one : {&s.transa, &s.transb, &s.m, &s.n, &s.k, &s.alpha}) *one = at++;
  matrix(s.a, s.lda, s.stride_a);
  matrix(s.b, s.ldb, s.stride_b);
  s.beta = at++;
  matrix(s.c, s.ldc, s.stride_c);
  if (front.strides) s.batch = at++;
  return s;
}

/// The positions of any routine's arguments in the order of the reference BLAS, the first of which
/// is at `first`: flags, sizes, alpha, A, B, beta, C, as far as the routine has them. What trmm and
/// trsm call B is their C.
constexpr Signature signature_of(const char* function, Routine routine, int first) {
  Signature s{.function = function};
  int at = first;
  const bool symmetric = routine == Routine::symm || routine == Routine::hemm;
  const bool triangular = routine == Routine::trmm || routine == Routine::trsm;
  const bool has_b = routine != Routine::syrk && routine != Routine::herk && !triangular;
  const bool has_side = symmetric || triangular;
  if (has_side) s.side = at++;
  s.uplo = at++;
  if (!symmetric) s.transa = at++;
  if (routine == Routine::gemmt) s.transb = at++;
  if (triangular) s.diag = at++;
  if (has_side) s.m = at++;
  s.n = at++;
  if (!has_side) s.k = at++;
  for (int* one : {&s.alpha, &s.a, &s.lda}) *one = at++;
  if (has_b) s.b = at++, s.ldb = at++;
  if (!triangular) s.beta = at++;
  for (int* one : {&s.c, &s.ldc}) *one = at++;
  return s;
}

/// A call as it came in. What the routine does not have is not looked at.
struct RawCall {
  const Signature& signature;
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  int side = 'l';
  int uplo = 'l';
  int transa = 'n';
  int transb = 'n';
  int diag = 'n';
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  /// Of the call's type; f32 for the types that sum in it. herk's alpha and the beta of herk and
  /// her2k are real.
  const void* alpha = nullptr;
  const void* a = nullptr;
  std::int64_t lda = 1;
  std::int64_t stride_a = 0;
  const void* b = nullptr;
  std::int64_t ldb = 1;
  std::int64_t stride_b = 0;
  const void* beta = nullptr;
  void* c = nullptr;
  std::int64_t ldc = 1;
  std::int64_t stride_c = 0;
  std::int64_t batch = 1;
};

/// A legal call. beta of trmm and trsm is 0: what counts where alpha is.
struct Call : CallShape {
  Arguments arguments;

  bool alpha_is_zero() const;
  bool beta_is_zero() const;
  bool beta_is_one() const;
  /// k == 0 or alpha == 0: A and B are not looked at.
  bool only_scales() const { return k == 0 || alpha_is_zero(); }
  /// A vector whose increment is zero: the same element over and over.
  bool repeats() const;
  /// Nothing of C changes.
  bool changes_nothing() const;
  std::int64_t stored_rows(int operand) const;
  std::int64_t stored_cols(int operand) const;
  /// Bytes from the first to the last element of one item, and of all items.
  std::int64_t item_bytes(int operand) const;
  std::int64_t all_bytes(int operand) const;
};

/// A scalar of a call of this type, which `data` points to.
std::complex<double> scalar_of(const void* data, DataType type);

/// Throws Error(bad_argument) naming the function and the first illegal argument.
Call parse(const RawCall& raw);

/// The same for a call whose arguments are known to be legal, without looking again.
Call describe(const RawCall& raw);

inline Op op_of(int flag) {
  return flag == 'n' ? Op::none : flag == 't' ? Op::transpose : Op::conjugate;
}

/// The shape alone of a call that is known to be legal. Millions of small calls go into the books
/// by it: so it is inline.
inline CallShape shape_of(const RawCall& raw) {
  const RoutineTraits& traits = traits_of(raw.routine);
  CallShape shape{.symbol = raw.signature.function,
                  .routine = raw.routine,
                  .type = raw.type,
                  .m = traits.triangle ? raw.n : raw.m,
                  .n = raw.n,
                  .k = raw.k,
                  .batch = raw.batch};
  if (traits.has_side()) {
    shape.side = raw.side == 'r' ? Side::right : Side::left;
    shape.k = shape.side == Side::left ? raw.m : raw.n;
  }
  if (raw.routine != Routine::gemm) shape.uplo = raw.uplo == 'u' ? Uplo::upper : Uplo::lower;
  if (traits.triangular) shape.diag = raw.diag == 'u' ? Diag::unit : Diag::non_unit;
  if (!traits.symmetric) shape.op_a = op_of(raw.transa);
  if (!traits.has_side() && !traits.by_itself) shape.op_b = op_of(raw.transb);
  // A real matrix is its own conjugate.
  if (traits.by_itself && shape.op_a == Op::conjugate && !is_complex(raw.type.storage))
    shape.op_a = Op::transpose;
  return shape;
}

/// Does any element of C belong to A or B too (of any item)? Blocks of one larger matrix that only
/// lie between each other's columns do not overlap; where that cannot be told the answer is yes.
bool output_overlaps(const Call& call);

/// The Problem with its operands at `homes`, for `items` consecutive items.
Problem problem_of(const Call& call, const std::array<DeviceId, 3>& homes, std::int64_t items);

/// The arguments of the items from `first` on.
Arguments arguments_from(const Call& call, std::int64_t first);

}  // namespace fleet

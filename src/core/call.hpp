// SPDX-License-Identifier: BSD-3-Clause
// call.hpp: one call of a routine as a caller gave it, checked, and what follows from its sizes and
// addresses. It knows no context and no device.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "problem/signature.hpp"
#include "run/backend.hpp"

namespace fleet {

/// The first of three forms of one call: as its caller wrote it. Arguments that the routine does
/// not have are not looked at. `signature` numbers them in messages, the first of them being
/// `first`.
struct RawCall {
  /// The name that was called, "cblas_dgemm64_"; never freed: the books keep it.
  const char* symbol = "";
  Signature signature;
  int first = 1;
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  int side = 'l';
  int uplo = 'l';
  int transa = 'n';  ///< dot: 'c' for dotc
  int transb = 'n';
  int diag = 'n';
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  /// Scalars have the call's type; those of f16, bf16 and tf32 are floats. herk's alpha and the
  /// beta of herk and her2k are real.
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

/// The second form: a legal call, its shape completed. The third is the Problem that its plan is
/// made for, once it is known where its operands are; what became of it is a CallRecord. A scalar
/// that the routine does not have is 1, but beta is 0 where C is overwritten (trmm, trsm, dot).
struct Call : CallShape {
  const char* symbol = "";  ///< as in RawCall
  Arguments arguments;

  bool alpha_is_zero() const;
  bool beta_is_zero() const;
  bool beta_is_one() const;
  /// No products: A and B are not looked at.
  bool only_scales() const;
  /// A vector whose increment is zero: the same element over and over.
  bool repeats() const;
  /// Nothing of C changes. As in the reference, gemv scales no y where m or n is 0.
  bool changes_nothing() const;
  std::int64_t stored_rows(int operand) const { return stored_extent(*this, operand).rows; }
  std::int64_t stored_cols(int operand) const { return stored_extent(*this, operand).cols; }
  /// Bytes from the first to the last element of one item, and of all items.
  std::int64_t item_bytes(int operand) const;
  std::int64_t all_bytes(int operand) const;
};

/// Throws Error(bad_argument) naming the symbol and the first illegal argument.
Call parse(const RawCall& raw);

/// The same for a call whose arguments are known to be legal, without looking again.
Call describe(const RawCall& raw);

/// Throws Error(bad_argument): "fleet_dgemm: argument 4 (m) " and why.
[[noreturn]] void refuse(const RawCall& raw, Arg arg, const std::string& why);

inline Op op_of(int flag) {
  return flag == 'n' ? Op::none : flag == 't' ? Op::transpose : Op::conjugate;
}

/// The shape alone of a call that is known to be legal. Inline, as complete() is.
inline CallShape shape_of(const RawCall& raw) {
  CallShape shape{.routine = raw.routine,
                  .type = raw.type,
                  .side = raw.side == 'r' ? Side::right : Side::left,
                  .uplo = raw.uplo == 'u' ? Uplo::upper : Uplo::lower,
                  .diag = raw.diag == 'u' ? Diag::unit : Diag::non_unit,
                  .op_a = op_of(raw.transa),
                  .op_b = op_of(raw.transb),
                  .m = raw.m,
                  .n = raw.n,
                  .k = raw.k,
                  .batch = raw.batch};
  complete(shape);
  return shape;
}

/// The memory of an operand: a column-major block, or (vectors, batches) any elements of a range.
struct Block {
  std::uintptr_t begin = 0;
  std::int64_t bytes = 0;  ///< from the first to the last element
  std::int64_t ld = 0, rows = 0, cols = 0;
  Storage storage = Storage::f64;
  bool is_plain = true;  ///< a block, and nothing between its columns
  friend bool operator==(const Block&, const Block&) = default;
};
Block block_of(const Call& call, int operand);
inline Block block_of(const View& matrix, Storage storage) {
  const bool is_empty = matrix.rows == 0 || matrix.cols == 0;
  return {.begin = reinterpret_cast<std::uintptr_t>(matrix.data),
          .bytes = is_empty ? 0 : ((matrix.cols - 1) * matrix.ld + matrix.rows) * bytes_of(storage),
          .ld = matrix.ld,
          .rows = matrix.rows,
          .cols = matrix.cols,
          .storage = storage};
}
/// Access::write: all of its block is overwritten, whatever was there.
Access access_of(const Call& call, int operand);
/// Any elements of a range.
inline Block range_of(const void* data, std::int64_t bytes) {
  return {.begin = reinterpret_cast<std::uintptr_t>(data), .bytes = bytes, .is_plain = false};
}
/// Do they share an element? Where that cannot be told the answer is yes.
bool overlap(const Block& a, const Block& b);
/// Is `inner` a part of `outer`? Where that cannot be told the answer is no.
bool covers(const Block& outer, const Block& inner);
/// The elements of a plain block from (row, col) on.
Block part_of(const Block& block, std::int64_t row, std::int64_t col, std::int64_t rows,
              std::int64_t cols);
/// The elements of `block` that are in `other`, which meets it: all where that cannot be told.
Block common(const Block& block, const Block& other);
/// The parts of `block` that are not in `other`: all of it where that cannot be told.
std::vector<Block> without(const Block& block, const Block& other);

/// Does any element of C belong to A or B too (of any item)? Blocks of one larger matrix that only
/// lie between each other's columns do not overlap; where that cannot be told the answer is yes.
bool output_overlaps(const Call& call);

/// The Problem with its operands at `homes`, for `items` consecutive items.
Problem problem_of(const Call& call, const std::array<DeviceId, 3>& homes, std::int64_t items);

/// The arguments of the items from `first` on.
Arguments arguments_from(const Call& call, std::int64_t first);

}  // namespace fleet

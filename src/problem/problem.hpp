// SPDX-License-Identifier: BSD-3-Clause
// problem.hpp: what to compute. Shapes, flags and placement; no pointer and no scalar value, so
// that two calls with equal Problems may share one Plan.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace fleet {

/// Index into Machine::devices. The host is two places: pinned memory that devices can reach, and
/// pageable memory that only the CPU's own copies reach. User-facing device d is kFirstDevice + d.
using DeviceId = int;
inline constexpr DeviceId kHost = 0;
inline constexpr DeviceId kPageable = 1;
inline constexpr DeviceId kFirstDevice = 2;

inline bool on_host(DeviceId d) { return d < kFirstDevice; }
/// Pinned memory, pageable memory, or any device.
inline DeviceId place_kind(DeviceId d) { return d < kFirstDevice ? d : kFirstDevice; }

/// The word of `--place` for a location: "h", "p", or the user-facing device number.
std::string place_word(DeviceId location);
/// The inverse of place_word; throws Error(bad_argument) for anything else.
DeviceId parse_place(std::string_view word);

/// How elements are stored: all that copies know of them. c32 is a pair of f32, c64 of f64; f16 and
/// bf16 are IEEE binary16 and bfloat16.
enum class Storage : std::uint8_t { f32, f64, c32, c64, f16, bf16 };
inline constexpr int kStorages = 6;

/// Bytes of one element.
constexpr std::int64_t bytes_of(Storage storage) {
  constexpr std::array<std::int64_t, kStorages> kBytes{4, 8, 8, 16, 2, 2};
  return kBytes[static_cast<std::size_t>(storage)];
}
inline bool is_complex(Storage storage) {
  return storage == Storage::c32 || storage == Storage::c64;
}
/// Double precision, of which there is a single one.
inline bool is_wide(Storage storage) { return storage == Storage::f64 || storage == Storage::c64; }
inline Storage narrow_of(Storage wide) {
  return wide == Storage::c64 ? Storage::c32 : Storage::f32;
}
inline bool is_half(Storage storage) { return storage == Storage::f16 || storage == Storage::bf16; }

/// How products are computed.
enum class Compute : std::uint8_t {
  native,  ///< in the type of the elements; halves are summed in f32, with scalars in f32, and C
           ///< is rounded to its storage after each step of k
  tf32,    ///< f32 only: A and B may first be rounded to 11 significant bits
};
inline constexpr int kComputes = 2;

/// Users name this pair by one word, and machines have the rates of kernels by it. Native types
/// come first in its order.
struct DataType {
  Compute compute = Compute::native;
  Storage storage = Storage::f64;
  static const DataType f32, f64, c32, c64, f16, bf16, tf32;
  friend auto operator<=>(const DataType&, const DataType&) = default;
};
inline constexpr DataType DataType::f32{.storage = Storage::f32};
inline constexpr DataType DataType::f64{.storage = Storage::f64};
inline constexpr DataType DataType::c32{.storage = Storage::c32};
inline constexpr DataType DataType::c64{.storage = Storage::c64};
inline constexpr DataType DataType::f16{.storage = Storage::f16};
inline constexpr DataType DataType::bf16{.storage = Storage::bf16};
inline constexpr DataType DataType::tf32{.compute = Compute::tf32, .storage = Storage::f32};
inline constexpr std::array kDataTypes{DataType::f32, DataType::f64,  DataType::c32, DataType::c64,
                                       DataType::f16, DataType::bf16, DataType::tf32};

const char* word_of(DataType type);  ///< "s", "d", "c", "z", "h", "bf16", "tf32"

enum class Op : std::uint8_t { none, transpose, conjugate };  ///< op(X) = X, X^T, X^H

char letter_of(Op op);  ///< 'n', 't', 'c'

/// How a routine touches an operand. `write` means that the old contents are not read (beta == 0).
enum class Access { read, write, update };

enum class Routine {
  gemm,
  gemmt,
  symm,
  hemm,
  syrk,
  herk,
  syr2k,
  her2k,
  trmm,
  trsm,
  gemv,
  axpy,
  dot
};
inline constexpr int kRoutines = 13;
inline constexpr int kLevel3Routines = 10;  ///< those before gemv, which have matrices only

enum class Side { left, right };     ///< of the product: where the symmetric or triangular A stands
enum class Uplo { lower, upper };    ///< the triangle that is stored, or written
enum class Diag { non_unit, unit };  ///< unit: ones that are not stored

/// A row of the table of routines. The product is always op(X)*op(Y) with X along the rows of C and
/// Y along its columns, summed over k.
struct RoutineTraits {
  const char* word;         ///< as in "dsyrk" without its type
  bool has_b = true;        ///< syrk and herk have A only, which is both factors; axpy has x only
  bool symmetric = false;   ///< A is symmetric, and one triangle of it is stored
  bool triangle = false;    ///< one triangle of C is computed; all but gemmt's are symmetric
  bool twice = false;       ///< adds the same product with A and B exchanged (syr2k, her2k)
  bool hermitian = false;   ///< conjugated where others are transposed; a diagonal is real
  bool by_itself = false;   ///< a factor times the other's transpose: one flag for both
  bool triangular = false;  ///< A is triangular; the result replaces the other factor (trmm, trsm)
  bool solves = false;      ///< op(A)*X = alpha*C or X*op(A) = alpha*C for X (trsm)
  bool vectors = false;     ///< levels 1 and 2: B and C are vectors, stored as matrices of one row
  /// A stands on one side of the product: its order, which is also k, is m or n.
  constexpr bool has_side() const { return symmetric || triangular; }
  constexpr Op turned() const { return hermitian ? Op::conjugate : Op::transpose; }
  /// The scalar is a real number, whatever the matrices are made of.
  constexpr bool has_real_alpha() const { return has_real_beta() && !twice; }
  constexpr bool has_real_beta() const { return hermitian && by_itself; }
  /// Multiply-adds as a share of m*n*k.
  constexpr double part_of_products() const { return triangular || (triangle && !twice) ? 0.5 : 1; }
};
inline constexpr std::array<RoutineTraits, kRoutines> kRoutineTraits{{
    {.word = "gemm"},
    {.word = "gemmt", .triangle = true},
    {.word = "symm", .symmetric = true},
    {.word = "hemm", .symmetric = true, .hermitian = true},
    {.word = "syrk", .has_b = false, .triangle = true, .by_itself = true},
    {.word = "herk", .has_b = false, .triangle = true, .hermitian = true, .by_itself = true},
    {.word = "syr2k", .triangle = true, .twice = true, .by_itself = true},
    {.word = "her2k", .triangle = true, .twice = true, .hermitian = true, .by_itself = true},
    {.word = "trmm", .has_b = false, .triangular = true},
    {.word = "trsm", .has_b = false, .triangular = true, .solves = true},
    {.word = "gemv", .vectors = true},
    {.word = "axpy", .has_b = false, .vectors = true},
    {.word = "dot", .vectors = true},
}};

constexpr const RoutineTraits& traits_of(Routine routine) {
  return kRoutineTraits[static_cast<std::size_t>(routine)];
}

/// One stored matrix (column-major): its shape before op() is applied, and where it is at home.
struct Operand {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Access access = Access::read;
  DeviceId home = kHost;
  bool shared = false;  ///< one matrix for every item of a batch (stride 0)
  friend bool operator==(const Operand&, const Operand&) = default;
};

inline constexpr int kA = 0, kB = 1, kC = 2;

/// C = alpha*op(A)*op(B) + beta*C with op(A) m x k, op(B) k x n, C m x n, `batch` times over, and
/// what the other routines make of it:
///   gemmt        m == n, one triangle of C
///   symm, hemm   C = alpha*A*B + beta*C (left, k == m) or alpha*B*A + beta*C (right, k == n)
///   syrk, herk   m == n, C = alpha*op(A)*op(A)^T + beta*C; op_a is none where A is n x k
///   syr2k, her2k the same with alpha*op(A)*op(B)^T + alpha*op(B)*op(A)^T; herk and her2k: ^H, and
///                the second alpha conjugated
///   trmm         C = alpha*op(A)*C (left, k == m) or alpha*C*op(A) (right, k == n)
///   trsm         C = X with op(A)*X = alpha*C (left) or X*op(A) = alpha*C (right)
///   gemv         m == 1: y^T = alpha*(op(A)*x)^T + beta*y^T, y of length n, x (B) of length k
///   axpy         m == k == 1, no B: y = alpha*x + y with x as A
///   dot          m == n == 1: C = A*B^T over k, with x as A and y as B; op_a conjugate is of x
/// k == 0 means C = beta*C whatever the caller's k was: calls with alpha == 0 become that, trmm and
/// trsm with beta == 0.
struct Problem {
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  Side side = Side::left;      ///< symm, hemm, trmm, trsm
  Uplo uplo = Uplo::lower;     ///< of A in symm, hemm, trmm, trsm; else of C
  Diag diag = Diag::non_unit;  ///< trmm, trsm
  std::array<Operand, 3> operands{};
  friend bool operator==(const Problem&, const Problem&) = default;

  const RoutineTraits& traits() const { return traits_of(routine); }
};

/// One call in the words of BLAS: A m x n in gemv, n elements in axpy and dot. Flags and sizes that
/// the routine does not have keep their defaults.
struct CallShape {
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Diag diag = Diag::non_unit;
  Op op_a = Op::none;  ///< dot: conjugate for dotc, whose x is
  Op op_b = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;

  const RoutineTraits& traits() const { return traits_of(routine); }
  friend auto operator<=>(const CallShape&, const CallShape&) = default;
};

/// Fills in what follows from the rest: m == n where C is a triangle, k is the order of an A that
/// has a side, sizes that a routine with vectors does not have are 1, flags that the routine does
/// not have are at their defaults, and a real matrix is its own conjugate. Inline, since millions
/// of small calls go into the books by it.
inline void complete(CallShape& shape) {
  const RoutineTraits& traits = shape.traits();
  const bool real = !is_complex(shape.type.storage);
  if (traits.triangle) shape.m = shape.n;
  if (!traits.has_side())
    shape.side = Side::left;
  else
    shape.k = shape.side == Side::left ? shape.m : shape.n;
  if (shape.routine == Routine::gemm || traits.vectors) shape.uplo = Uplo::lower;
  if (!traits.triangular) shape.diag = Diag::non_unit;
  if (traits.has_side() || traits.by_itself || traits.vectors) shape.op_b = Op::none;
  if (real && (traits.by_itself || traits.vectors) && shape.op_a == Op::conjugate)
    shape.op_a = Op::transpose;
  if (traits.symmetric || shape.routine == Routine::axpy ||
      (shape.routine == Routine::dot && shape.op_a != Op::conjugate))
    shape.op_a = Op::none;
  if (traits.vectors) shape.k = 1;
  if (traits.vectors && shape.routine != Routine::gemv) shape.m = 1;
}

/// The stored rows and columns of an operand of a completed shape. Vectors have one row.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
Extent stored_extent(const CallShape& shape, int operand);

/// The properties of a call, beside its shape, that its plan depends on. The homes of vectors: A,
/// x, y in gemv; x, nothing, y in axpy; x, y and the result in dot.
struct Conditions {
  std::array<DeviceId, 3> homes{kHost, kHost, kHost};
  bool alpha_is_zero = false;  ///< no products
  bool beta_is_zero = false;   ///< C is not read; means nothing to trmm, trsm, axpy and dot
  bool share_a = false;        ///< one A for every item of the batch
  bool share_b = false;
};

/// Throws Error(bad_argument) on a negative size or home, where the bytes of an operand do not fit
/// 64 bits, and for a type or op that the routine does not exist in: half types but of gemm; hemm,
/// herk and her2k of real ones; op_a of symm and hemm, and of syrk and its kin other than none and
/// what the routine transposes with.
Problem make_problem(const CallShape& shape, const Conditions& conditions = {});

/// In a routine with vectors: is A stored k x n, with its columns along C?
bool is_stored_k_by_n(Routine routine, Op op_a);

/// Bytes that the kernel of a routine with vectors reads and writes for n elements of C, each a sum
/// over k. Its time follows these bytes, not the flops.
std::int64_t streamed_bytes(const Problem& problem, std::int64_t n, std::int64_t k);

/// Bytes of an operand that are read or written, over all items of a batch: of a triangle only its
/// own, and 0 for a B that is A.
double bytes_that_count(const Problem& problem, int operand);

/// Flops of a Problem or of a completed CallShape as benchmarks count them: 2mnk for real types,
/// 8mnk for complex ones. Routines that compute a triangle count n*n*k (syr2k and her2k twice
/// that), trmm and trsm m*n*k; complex ones 4 times as much.
template <typename Call>
double flops(const Call& call) {
  return (is_complex(call.type.storage) ? 8 : 2) * call.traits().part_of_products() *
         static_cast<double>(call.m) * static_cast<double>(call.n) * static_cast<double>(call.k) *
         static_cast<double>(call.batch);
}

/// "dgemm m=8192 n=8192 k=8192 a@0 b@h c@0" [transa=t] [transb=c] [beta=0] [batch=16]; the defaults
/// (n, n, beta != 0, batch 1) are left out. The routine is word_of(type) and traits().word. Others:
/// "dgemv m=8192 n=4096 a@h x@h y@h [transa=t] [beta=0]", "daxpy n=4096 x@0 y@0", "zdotc n=4096 x@h
/// y@h [r@0]", "dsyrk n=8192 k=4096 a@h c@h [uplo=u] [transa=t]", "zhemm m=8192 n=512 a@h b@h c@h
/// [side=r] [uplo=u]", "dsyr2k", "dgemmt" (with both transa and transb). parse_problem(to_text(p))
/// == p. `shared` operands are written "a@0*".
std::string to_text(const Problem& problem);
/// Throws Error(bad_argument) naming the word that it does not understand. `size=N` sets m, n, k.
Problem parse_problem(std::string_view text);

}  // namespace fleet

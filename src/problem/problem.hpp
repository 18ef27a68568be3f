// SPDX-License-Identifier: BSD-3-Clause
// problem.hpp: what to compute. Shapes, flags and placement; no pointer and no scalar value, so
// that two calls with equal Problems may share one Plan.
#pragma once
#include <array>
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

/// The word of `--place` for a location: "h", "p", or the user-facing device number.
std::string place_word(DeviceId location);
/// The inverse of place_word; throws Error(bad_argument) for anything else.
DeviceId parse_place(std::string_view word);

/// What the elements of A, B and C are, and what a product may do with them.
///   f32, f64, c32, c64   as BLAS has them: c32 is a pair of f32, c64 of f64
///   f16, bf16            IEEE binary16 and bfloat16; sums inside a tile product and the scalars in
///                        f32, and C rounded to the type after each step of k
///   tf32                 stored as f32; a product may round A and B to 11 significant bits first
enum class DataType { f32, f64, c32, c64, f16, bf16, tf32 };
inline constexpr int kDataTypes = 7;

const char* word_of(DataType type);    ///< "s", "d", "c", "z", "h", "bf16", "tf32"
std::int64_t bytes_of(DataType type);  ///< of one stored element: 4, 8, 8, 16, 2, 2, 4
bool is_complex(DataType type);
bool is_half(DataType type);  ///< f16 or bf16: stored in two bytes, summed in four

enum class Op { none, transpose, conjugate };  ///< op(X) = X, X^T, X^H

char letter_of(Op op);  ///< 'n', 't', 'c'

/// How a routine touches an operand. `write` means that the old contents are not read (beta == 0).
enum class Access { read, write, update };

enum class Routine { gemm };

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

/// C = alpha*op(A)*op(B) + beta*C with op(A) m x k, op(B) k x n, C m x n, `batch` times over.
/// k == 0 stands for C = beta*C whatever the caller's k was (alpha == 0 is turned into it).
struct Problem {
  Routine routine = Routine::gemm;
  DataType type = DataType::f64;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  std::array<Operand, 3> operands{};
  friend bool operator==(const Problem&, const Problem&) = default;
};

struct GemmShape {
  DataType type = DataType::f64;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::array<DeviceId, 3> homes{kHost, kHost, kHost};
  bool beta_is_zero = false;
  std::int64_t batch = 1;
  bool share_a = false;  ///< one A for every item of the batch
  bool share_b = false;
};

/// The Problem of a gemm: fills in operand shapes and accesses. Throws Error(bad_argument) on a
/// negative size, or when the bytes of an operand do not fit 64 bits.
Problem make_gemm(const GemmShape& shape);

/// Flops of one call as benchmarks count them: 2mnk for real types, 8mnk for complex ones.
double flops(const Problem& problem);

/// "dgemm m=8192 n=8192 k=8192 a@0 b@h c@0" [transa=t] [transb=c] [beta=0] [batch=16]; the defaults
/// (n, n, beta != 0, batch 1) are left out. The routine is word_of(type) and "gemm".
/// parse_problem(to_text(p)) == p. `shared` operands are written "a@0*".
std::string to_text(const Problem& problem);
/// Throws Error(bad_argument) naming the word that it does not understand. `size=N` sets m, n, k.
Problem parse_problem(std::string_view text);

}  // namespace fleet

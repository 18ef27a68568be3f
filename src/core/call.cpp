// SPDX-License-Identifier: BSD-3-Clause
// call.cpp: what makes a call legal, and which of its matrices overlap. It knows no context.
#include "core/call.hpp"

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace fleet {
namespace {

constexpr std::array<const char*, 3> kNames = {"a", "b", "c"};
constexpr std::array<const char*, 3> kLdNames = {"lda", "ldb", "ldc"};

/// The place of an operand in the names above: what takes the place of a factor is called B.
std::size_t name_of(const Call& call, int operand) {
  return static_cast<std::size_t>(operand == kC && call.traits().triangular ? kB : operand);
}
constexpr std::array<const char*, 3> kStrideNames = {"stride_a", "stride_b", "stride_c"};

[[noreturn]] void refuse(const RawCall& raw, int position, const char* name,
                         const std::string& why) {
  throw Error(Status::bad_argument, std::string(raw.signature.function) + ": argument " +
                                        std::to_string(position) + " (" + name + ") " + why);
}

Op parse_op(const RawCall& raw, int flag, int position, const char* name) {
  if (flag == 'n' || flag == 't' || flag == 'c') return op_of(flag);
  refuse(raw, position, name, "is " + std::to_string(flag) + ", expected 'n', 't' or 'c'");
}

void require_choice(const RawCall& raw, int flag, char first, char second, int position,
                    const char* name) {
  if (flag == first || flag == second) return;
  refuse(raw, position, name,
         "is " + std::to_string(flag) + ", expected '" + first + "' or '" + second + "'");
}

void require_at_least(const RawCall& raw, std::int64_t value, std::int64_t least, int position,
                      const char* name) {
  if (value < least)
    refuse(raw, position, name,
           "is " + std::to_string(value) + ", expected at least " + std::to_string(least));
}

/// (items - 1) * stride + (cols - 1) * |ld| + rows elements in bytes; nothing where that is beyond
/// any address space.
std::optional<std::int64_t> span_bytes(std::int64_t rows, std::int64_t cols, std::int64_t ld,
                                       std::int64_t items, std::int64_t stride,
                                       std::int64_t element) {
  if (rows == 0 || cols == 0 || items == 0) return 0;
  std::int64_t columns = 0, between = 0, elements = 0, bytes = 0;
  if (__builtin_mul_overflow(cols - 1, std::abs(ld), &columns) ||
      __builtin_mul_overflow(items - 1, stride, &between) ||
      __builtin_add_overflow(columns, between, &elements) ||
      __builtin_add_overflow(elements, rows, &elements) ||
      __builtin_mul_overflow(elements, element, &bytes))
    return std::nullopt;
  return bytes;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Two column-major blocks with the same leading dimension, the second `offset` elements after the
/// first: do they share an element? Exact where both fit between the rows of one larger matrix.
bool blocks_overlap(std::int64_t offset, std::int64_t ld, std::int64_t rows1, std::int64_t cols1,
                    std::int64_t rows2, std::int64_t cols2) {
  std::int64_t col = floor_div(offset, ld);
  std::int64_t row = offset - col * ld;
  // The second block may begin below the first one's top, or above it one column further on.
  for (int attempt = 0; attempt < 2; ++attempt, row -= ld, ++col) {
    const std::int64_t height = std::max(row + rows2, rows1) - std::min<std::int64_t>(row, 0);
    if (height > ld) continue;
    const bool rows_meet = row < rows1 && row + rows2 > 0;
    const bool cols_meet = col < cols1 && col + cols2 > 0;
    return rows_meet && cols_meet;
  }
  return true;
}

bool operand_meets_output(const Call& call, int operand) {
  const auto at = static_cast<std::size_t>(operand);
  const auto address = [&](int x) {
    return reinterpret_cast<std::uintptr_t>(call.arguments.data[static_cast<std::size_t>(x)]);
  };
  const std::uintptr_t x = address(operand), c = address(kC);
  const auto x_end = x + static_cast<std::uintptr_t>(call.all_bytes(operand));
  const auto c_end = c + static_cast<std::uintptr_t>(call.all_bytes(kC));
  if (x_end <= c || c_end <= x) return false;
  if (call.traits().vectors) return true;

  const auto element = static_cast<std::uintptr_t>(bytes_of(call.type.storage));
  const std::uintptr_t distance = c > x ? c - x : x - c;
  if (call.batch > 1 || call.arguments.ld[at] != call.arguments.ld[kC] || distance % element != 0)
    return true;
  const auto elements = static_cast<std::int64_t>(distance / element);
  return blocks_overlap(c > x ? elements : -elements, call.arguments.ld[at],
                        call.stored_rows(operand), call.stored_cols(operand), call.m, call.n);
}

/// Do items of C share elements?
bool items_overlap(const Call& call) {
  if (call.batch <= 1 || call.m == 0 || call.n == 0) return false;
  const std::int64_t stride = call.arguments.stride[kC];
  if (stride >= call.item_bytes(kC) / bytes_of(call.type.storage)) return false;
  if (stride <= 0) return true;
  const std::int64_t ld = call.arguments.ld[kC];
  const std::int64_t last_row = (call.n - 1) * ld + call.m;
  for (std::int64_t item = 1; item < call.batch && item * stride < last_row; ++item)
    if (blocks_overlap(item * stride, ld, call.m, call.n, call.m, call.n)) return true;
  return false;
}

void check_operand(const RawCall& raw, const Call& call, int operand, int pointer_position,
                   int ld_position, int stride_position) {
  const auto at = static_cast<std::size_t>(operand);
  const std::int64_t rows = call.stored_rows(operand), cols = call.stored_cols(operand);
  require_at_least(raw, call.arguments.ld[at], std::max<std::int64_t>(1, rows), ld_position,
                   kLdNames[name_of(call, operand)]);
  if (stride_position > 0)
    require_at_least(raw, call.arguments.stride[at], 0, stride_position, kStrideNames[at]);
  const std::int64_t stride = call.batch > 1 ? call.arguments.stride[at] : 0;
  if (!span_bytes(rows, cols, call.arguments.ld[at], call.batch, stride,
                  bytes_of(call.type.storage)))
    refuse(raw, ld_position, kLdNames[name_of(call, operand)],
           "puts the matrix beyond any address space");
  const bool needed =
      rows > 0 && cols > 0 && call.batch > 0 &&
      (operand == kC ? !call.changes_nothing() : !call.only_scales() && call.m > 0 && call.n > 0);
  if (needed && call.arguments.data[at] == nullptr)
    refuse(raw, pointer_position, kNames[name_of(call, operand)], "is NULL");
}

}  // namespace

std::complex<double> scalar_of(const void* data, DataType type) {
  switch (type.storage) {
    case Storage::f32:
    case Storage::f16:
    case Storage::bf16:
      return *static_cast<const float*>(data);
    case Storage::f64:
      return *static_cast<const double*>(data);
    case Storage::c32:
      return std::complex<double>(*static_cast<const std::complex<float>*>(data));
    case Storage::c64:
      break;
  }
  return *static_cast<const std::complex<double>*>(data);
}

bool Call::alpha_is_zero() const { return arguments.alpha == std::complex<double>(0); }
bool Call::beta_is_zero() const { return arguments.beta == std::complex<double>(0); }
bool Call::beta_is_one() const { return arguments.beta == std::complex<double>(1); }

bool Call::changes_nothing() const {
  return m == 0 || n == 0 || batch == 0 || (only_scales() && beta_is_one());
}

bool Call::repeats() const {
  const auto is_zero = [&](int x) { return arguments.ld[static_cast<std::size_t>(x)] == 0; };
  return traits().vectors && (is_zero(kA) || is_zero(kB) || is_zero(kC));
}

std::int64_t Call::stored_rows(int operand) const {
  if (operand == kC) return m;
  if (traits().vectors)
    return operand == kB && traits().has_b ? 1 : is_stored_k_by_n(routine, op_a) ? k : n;
  if (traits().symmetric && operand == kB) return m;
  if (traits().has_side()) return k;
  if (operand == kA || traits().by_itself) return op_a == Op::none ? m : k;
  return op_b == Op::none ? k : n;
}

std::int64_t Call::stored_cols(int operand) const {
  if (operand == kC) return n;
  if (traits().vectors)
    return operand == kA && is_stored_k_by_n(routine, op_a) ? n : !traits().has_b ? n : k;
  if (traits().symmetric && operand == kB) return n;
  if (traits().has_side()) return k;
  if (operand == kA || traits().by_itself) return op_a == Op::none ? k : m;
  return op_b == Op::none ? n : k;
}

std::int64_t Call::item_bytes(int operand) const {
  return *span_bytes(stored_rows(operand), stored_cols(operand),
                     arguments.ld[static_cast<std::size_t>(operand)], 1, 0, bytes_of(type.storage));
}

std::int64_t Call::all_bytes(int operand) const {
  const auto at = static_cast<std::size_t>(operand);
  return *span_bytes(stored_rows(operand), stored_cols(operand), arguments.ld[at], batch,
                     arguments.stride[at], bytes_of(type.storage));
}

Call describe(const RawCall& raw) {
  const RoutineTraits& traits = traits_of(raw.routine);
  const void* b = traits.has_b ? raw.b : raw.a;
  const DataType real = raw.type == DataType::c32 ? DataType::f32 : DataType::f64;
  const bool real_alpha = traits.hermitian && traits.by_itself && !traits.twice;
  const bool real_beta = traits.hermitian && traits.by_itself;
  return {shape_of(raw),
          {.data = {const_cast<void*>(raw.a), const_cast<void*>(b), raw.c},
           .ld = {raw.lda, traits.has_b ? raw.ldb : raw.lda, raw.ldc},
           .stride = {raw.stride_a, raw.stride_b, raw.stride_c},
           .alpha = scalar_of(raw.alpha, real_alpha ? real : raw.type),
           .beta = traits.triangular ? 0.0 : scalar_of(raw.beta, real_beta ? real : raw.type)}};
}

Call parse(const RawCall& raw) {
  const Signature& s = raw.signature;
  const RoutineTraits& traits = traits_of(raw.routine);
  if (traits.has_side()) require_choice(raw, raw.side, 'l', 'r', s.side, "side");
  if (raw.routine != Routine::gemm) require_choice(raw, raw.uplo, 'l', 'u', s.uplo, "uplo");
  if (!traits.symmetric) {
    const Op op = parse_op(raw, raw.transa, s.transa, "transa");
    const Op turned = traits.hermitian ? Op::conjugate : Op::transpose;
    // Real routines take 'c' for 't', as the reference does; complex ones do not.
    const bool legal = !traits.by_itself || op == Op::none || op == turned ||
                       (!is_complex(raw.type.storage) && op == Op::conjugate);
    if (!legal)
      refuse(raw, s.transa, "transa",
             "is '" + std::string(1, letter_of(op)) + "', expected 'n' or '" + letter_of(turned) +
                 "'");
    if (raw.routine == Routine::gemm || raw.routine == Routine::gemmt)
      parse_op(raw, raw.transb, s.transb, "transb");
  }
  if (traits.triangular) require_choice(raw, raw.diag, 'n', 'u', s.diag, "diag");
  if (!traits.triangle) require_at_least(raw, raw.m, 0, s.m, "m");
  require_at_least(raw, raw.n, 0, s.n, "n");
  if (!traits.has_side()) require_at_least(raw, raw.k, 0, s.k, "k");
  if (raw.alpha == nullptr) refuse(raw, s.alpha, "alpha", "is NULL");
  if (raw.beta == nullptr && !traits.triangular) refuse(raw, s.beta, "beta", "is NULL");
  require_at_least(raw, raw.batch, 0, s.batch, "batch");
  Call call = describe(raw);
  check_operand(raw, call, kA, s.a, s.lda, s.stride_a);
  if (traits.has_b) check_operand(raw, call, kB, s.b, s.ldb, s.stride_b);
  check_operand(raw, call, kC, s.c, s.ldc, s.stride_c);
  if (raw.batch <= 1) call.arguments.stride = {0, 0, 0};
  if (items_overlap(call)) refuse(raw, s.stride_c, "stride_c", "lets items of C overlap");
  return call;
}

bool output_overlaps(const Call& call) {
  if (call.only_scales() || call.changes_nothing()) return false;
  return operand_meets_output(call, kA) || operand_meets_output(call, kB);
}

Problem problem_of(const Call& call, const std::array<DeviceId, 3>& homes, std::int64_t items) {
  if (call.traits().vectors)
    return make_vectors({.routine = call.routine,
                         .type = call.type,
                         .op = call.op_a,
                         .m = call.stored_rows(kA),
                         .n = call.stored_cols(kA),
                         .homes = homes,
                         .alpha_is_zero = call.alpha_is_zero(),
                         .beta_is_zero = call.beta_is_zero()});
  if (call.routine != Routine::gemm)
    return make_level3({.routine = call.routine,
                        .type = call.type,
                        .side = call.side,
                        .uplo = call.uplo,
                        .diag = call.diag,
                        .op_a = call.op_a,
                        .op_b = call.op_b,
                        .m = call.m,
                        .n = call.n,
                        .k = call.k,
                        .homes = homes,
                        .alpha_is_zero = call.alpha_is_zero(),
                        .beta_is_zero = call.beta_is_zero()});
  Problem problem = make_gemm({.type = call.type,
                               .op_a = call.op_a,
                               .op_b = call.op_b,
                               .m = call.m,
                               .n = call.n,
                               .k = call.only_scales() ? 0 : call.k,
                               .homes = homes,
                               .beta_is_zero = call.beta_is_zero(),
                               .batch = items});
  for (const std::size_t operand : {kA, kB})
    problem.operands[operand].shared = items > 1 && call.arguments.stride[operand] == 0;
  return problem;
}

Arguments arguments_from(const Call& call, std::int64_t first) {
  Arguments arguments = call.arguments;
  for (std::size_t operand = 0; operand < 3; ++operand)
    arguments.data[operand] = static_cast<char*>(arguments.data[operand]) +
                              first * arguments.stride[operand] * bytes_of(call.type.storage);
  return arguments;
}

}  // namespace fleet

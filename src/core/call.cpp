// SPDX-License-Identifier: BSD-3-Clause
// call.cpp: what makes a call legal, and which of its matrices overlap. It knows no context.
#include "core/call.hpp"

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace fleet {
namespace {

/// The arguments of each operand, in the order kA, kB, kC.
constexpr std::array kData = {Arg::a, Arg::b, Arg::c};
constexpr std::array kLds = {Arg::lda, Arg::ldb, Arg::ldc};
constexpr std::array kStrides = {Arg::stride_a, Arg::stride_b, Arg::stride_c};

// Arguments that a routine does not have may be anything: only bad values are looked up.

void require_choice(const RawCall& raw, int flag, char first, char second, Arg arg) {
  if (flag == first || flag == second || !has(raw.signature, arg)) return;
  refuse(raw, arg, "is " + std::to_string(flag) + ", expected '" + first + "' or '" + second + "'");
}

void require_op(const RawCall& raw, int flag, Arg arg) {
  if (flag == 'n' || flag == 't' || flag == 'c' || !has(raw.signature, arg)) return;
  refuse(raw, arg, "is " + std::to_string(flag) + ", expected 'n', 't' or 'c'");
}

void require_at_least(const RawCall& raw, std::int64_t value, std::int64_t least, Arg arg) {
  if (value >= least || !has(raw.signature, arg)) return;
  refuse(raw, arg, "is " + std::to_string(value) + ", expected at least " + std::to_string(least));
}

void require_address(const RawCall& raw, const void* address, Arg arg) {
  if (address == nullptr && has(raw.signature, arg)) refuse(raw, arg, "is NULL");
}

/// (items - 1) * stride + (cols - 1) * |ld| + rows elements in bytes; empty beyond any address
/// space.
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

/// axpy and dot take any increment, and a negative number of elements for none.
bool takes_any(Routine routine) { return routine == Routine::axpy || routine == Routine::dot; }

void check_flags_and_sizes(const RawCall& raw) {
  const RoutineTraits& traits = traits_of(raw.routine);
  require_choice(raw, raw.side, 'l', 'r', Arg::side);
  require_choice(raw, raw.uplo, 'l', 'u', Arg::uplo);
  require_op(raw, raw.transa, Arg::transa);
  // Real routines take 'c' for 't', as the reference does; complex ones do not.
  const char turned = letter_of(traits.turned());
  const bool real_c = !is_complex(raw.type.storage) && raw.transa == 'c';
  if (traits.by_itself && raw.transa != 'n' && raw.transa != turned && !real_c)
    refuse(raw, Arg::transa,
           "is '" + std::string(1, static_cast<char>(raw.transa)) + "', expected 'n' or '" +
               turned + "'");
  require_op(raw, raw.transb, Arg::transb);
  require_choice(raw, raw.diag, 'n', 'u', Arg::diag);
  require_at_least(raw, raw.m, 0, Arg::m);
  if (!takes_any(raw.routine)) require_at_least(raw, raw.n, 0, Arg::n);
  require_at_least(raw, raw.k, 0, Arg::k);
}

void check_operand(const RawCall& raw, const Call& call, int operand) {
  const auto at = static_cast<std::size_t>(operand);
  const auto [rows, cols] = stored_extent(call, operand);
  const std::int64_t ld = call.arguments.ld[at], stride = call.arguments.stride[at];
  const bool is_vector = call.traits().vectors && !(call.routine == Routine::gemv && operand == kA);
  if (!is_vector) require_at_least(raw, ld, std::max<std::int64_t>(1, rows), kLds[at]);
  if (is_vector && ld == 0 && !takes_any(call.routine)) refuse(raw, kLds[at], "is 0");
  require_at_least(raw, stride, 0, kStrides[at]);
  if (ld == std::numeric_limits<std::int64_t>::min() ||
      !span_bytes(rows, cols, ld, call.batch, call.batch > 1 ? stride : 0,
                  bytes_of(call.type.storage)))
    refuse(raw, kLds[at],
           std::string("puts the ") + (is_vector ? "operand" : "matrix") +
               " beyond any address space");
  const bool needed =
      rows > 0 && cols > 0 && call.batch > 0 &&
      (operand == kC ? !call.changes_nothing() : !call.only_scales() && call.m > 0 && call.n > 0);
  if (needed) require_address(raw, call.arguments.data[at], kData[at]);
}

/// A scalar of a call of this type, which `data` points to.
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

}  // namespace

void refuse(const RawCall& raw, Arg arg, const std::string& why) {
  const auto at = std::ranges::find(raw.signature, arg, &NamedArg::arg);
  throw Error(Status::bad_argument, std::string(raw.symbol) + ": argument " +
                                        std::to_string(raw.first + (at - raw.signature.begin())) +
                                        " (" + at->name + ") " + why);
}

bool Call::alpha_is_zero() const { return arguments.alpha == std::complex<double>(0); }
bool Call::beta_is_zero() const { return arguments.beta == std::complex<double>(0); }
bool Call::beta_is_one() const { return arguments.beta == std::complex<double>(1); }

bool Call::only_scales() const {
  return k == 0 || alpha_is_zero() || (routine == Routine::dot && n == 0);
}

bool Call::changes_nothing() const {
  const bool is_empty = routine != Routine::dot && (m == 0 || n == 0);
  return is_empty || batch == 0 || (only_scales() && beta_is_one());
}

bool Call::repeats() const {
  const auto is_zero = [&](int x) { return arguments.ld[static_cast<std::size_t>(x)] == 0; };
  return traits().vectors && (is_zero(kA) || is_zero(kB) || is_zero(kC));
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
  const DataType real = raw.type == DataType::c32 ? DataType::f32 : DataType::f64;
  Call call{
      shape_of(raw),
      raw.symbol,
      {.data = {const_cast<void*>(raw.a), const_cast<void*>(traits.has_b ? raw.b : raw.a), raw.c},
       .ld = {raw.lda, traits.has_b ? raw.ldb : raw.lda, raw.ldc},
       .stride = {raw.stride_a, raw.stride_b, raw.stride_c}}};
  if (raw.routine != Routine::dot)
    call.arguments.alpha = scalar_of(raw.alpha, traits.has_real_alpha() ? real : raw.type);
  if (traits.triangular || raw.routine == Routine::dot)
    call.arguments.beta = 0;
  else if (raw.routine != Routine::axpy)
    call.arguments.beta = scalar_of(raw.beta, traits.has_real_beta() ? real : raw.type);
  return call;
}

Call parse(const RawCall& raw) {
  check_flags_and_sizes(raw);
  require_address(raw, raw.alpha, Arg::alpha);
  require_address(raw, raw.beta, Arg::beta);
  require_at_least(raw, raw.batch, 0, Arg::batch);
  Call call = describe(raw);
  if (takes_any(raw.routine)) call.n = std::max<std::int64_t>(call.n, 0);
  check_operand(raw, call, kA);
  if (call.traits().has_b) check_operand(raw, call, kB);
  check_operand(raw, call, kC);
  if (raw.batch <= 1) call.arguments.stride = {0, 0, 0};
  if (items_overlap(call)) refuse(raw, Arg::stride_c, "lets items of C overlap");
  return call;
}

Block block_of(const Call& call, int operand) {
  const auto at = static_cast<std::size_t>(operand);
  const bool is_vector = call.traits().vectors && !(call.routine == Routine::gemv && operand == kA);
  return {.begin = reinterpret_cast<std::uintptr_t>(call.arguments.data[at]),
          .bytes = call.all_bytes(operand),
          .ld = call.arguments.ld[at],
          .rows = call.stored_rows(operand),
          .cols = call.stored_cols(operand),
          .storage = call.type.storage,
          .is_plain = call.batch <= 1 && !is_vector};
}

Access access_of(const Call& call, int operand) {
  if (operand != kC) return Access::read;
  const bool overwrites =
      call.beta_is_zero() && !call.traits().triangular && !call.traits().triangle;
  return overwrites ? Access::write : Access::update;
}

bool overlap(const Block& a, const Block& b) {
  const auto end = [](const Block& block) {
    return block.begin + static_cast<std::uintptr_t>(block.bytes);
  };
  if (end(a) <= b.begin || end(b) <= a.begin) return false;
  const auto element = static_cast<std::uintptr_t>(bytes_of(a.storage));
  const std::uintptr_t distance = b.begin > a.begin ? b.begin - a.begin : a.begin - b.begin;
  if (!a.is_plain || !b.is_plain || a.storage != b.storage || a.ld != b.ld ||
      distance % element != 0)
    return true;
  const auto elements = static_cast<std::int64_t>(distance / element);
  return blocks_overlap(b.begin > a.begin ? elements : -elements, a.ld, a.rows, a.cols, b.rows,
                        b.cols);
}

namespace {

/// A rectangle of elements of a block's columns.
struct Part {
  std::int64_t row, col, rows, cols;
};

Block part_of(const Block& block, const Part& part) {
  const std::int64_t element = bytes_of(block.storage);
  Block made = block;
  made.begin += static_cast<std::uintptr_t>((part.row + part.col * block.ld) * element);
  made.rows = part.rows;
  made.cols = part.cols;
  made.bytes = ((part.cols - 1) * block.ld + part.rows) * element;
  return made;
}

/// Where `inner` begins in the columns of `outer`, as if these were as long as the leading
/// dimension; nothing where that cannot be told.
std::optional<Part> place_in(const Block& outer, const Block& inner) {
  const std::int64_t element = bytes_of(outer.storage);
  const auto distance = static_cast<std::int64_t>(inner.begin - outer.begin);
  if (!outer.is_plain || !inner.is_plain || outer.storage != inner.storage ||
      outer.ld != inner.ld || distance % element != 0)
    return std::nullopt;
  std::int64_t row = distance / element % outer.ld, col = distance / element / outer.ld;
  if (row < 0) row += outer.ld, --col;
  // Of the two ways to count, the one in which it begins left of the last column.
  if (row + inner.rows > outer.ld) row -= outer.ld, ++col;
  return Part{row, col, inner.rows, inner.cols};
}

}  // namespace

Block part_of(const Block& block, std::int64_t row, std::int64_t col, std::int64_t rows,
              std::int64_t cols) {
  return part_of(block, {row, col, rows, cols});
}

bool covers(const Block& outer, const Block& inner) {
  const auto at = place_in(outer, inner);
  return at && at->row >= 0 && at->col >= 0 && at->row + at->rows <= outer.rows &&
         at->col + at->cols <= outer.cols;
}

Block common(const Block& block, const Block& other) {
  const auto at = place_in(block, other);
  if (!at) return block;
  const std::int64_t row = std::max<std::int64_t>(0, at->row);
  const std::int64_t col = std::max<std::int64_t>(0, at->col);
  return part_of(block, row, col, std::min(block.rows, at->row + at->rows) - row,
                 std::min(block.cols, at->col + at->cols) - col);
}

std::vector<Block> without(const Block& block, const Block& other) {
  if (!overlap(block, other)) return {block};
  // The elements of a vector, or others of which no rectangle is known: all or none.
  Block alike = other;
  alike.is_plain = block.is_plain;
  const bool is_same = alike == block;
  const bool is_dense =
      other.is_plain ? other.ld == other.rows || other.cols == 1 : other.rows == 0;  // range_of
  const auto end = [](const Block& b) { return b.begin + static_cast<std::uintptr_t>(b.bytes); };
  if (is_same || (is_dense && other.begin <= block.begin && end(block) <= end(other))) return {};
  const auto at = place_in(block, other);
  if (!at) return {block};
  const std::int64_t top = std::max<std::int64_t>(0, at->row);
  const std::int64_t bottom = std::min(block.rows, at->row + at->rows);
  const std::int64_t left = std::max<std::int64_t>(0, at->col);
  const std::int64_t right = std::min(block.cols, at->col + at->cols);
  std::vector<Block> parts;
  const auto add = [&](const Part& part) {
    if (part.rows > 0 && part.cols > 0) parts.push_back(part_of(block, part));
  };
  add({0, 0, block.rows, left});
  add({0, right, block.rows, block.cols - right});
  add({0, left, top, right - left});
  add({bottom, left, block.rows - bottom, right - left});
  return parts;
}

bool output_overlaps(const Call& call) {
  if (call.only_scales() || call.changes_nothing()) return false;
  const Block c = block_of(call, kC);
  return overlap(block_of(call, kA), c) || overlap(block_of(call, kB), c);
}

Problem problem_of(const Call& call, const std::array<DeviceId, 3>& homes, std::int64_t items) {
  CallShape shape = call;
  shape.batch = items;
  return make_problem(shape, {.homes = homes,
                              .alpha_is_zero = call.alpha_is_zero(),
                              .beta_is_zero = call.beta_is_zero(),
                              .share_a = items > 1 && call.arguments.stride[kA] == 0,
                              .share_b = items > 1 && call.arguments.stride[kB] == 0});
}

Arguments arguments_from(const Call& call, std::int64_t first) {
  Arguments arguments = call.arguments;
  for (std::size_t operand = 0; operand < 3; ++operand)
    arguments.data[operand] = static_cast<char*>(arguments.data[operand]) +
                              first * arguments.stride[operand] * bytes_of(call.type.storage);
  return arguments;
}

}  // namespace fleet

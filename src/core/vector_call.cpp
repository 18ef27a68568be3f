// SPDX-License-Identifier: BSD-3-Clause
// vector_call.cpp: what makes a call of gemv, axpy or dot legal. It knows no context.
#include "core/vector_call.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse(const RawVectorCall& raw, int position, const char* name,
                         const std::string& why) {
  throw Error(Status::bad_argument, std::string(raw.function) + ": argument " +
                                        std::to_string(position) + " (" + name + ") " + why);
}

void require_at_least(const RawVectorCall& raw, std::int64_t value, std::int64_t least,
                      int position, const char* name) {
  if (value < least)
    refuse(raw, position, name,
           "is " + std::to_string(value) + ", expected at least " + std::to_string(least));
}

/// From the first element to the last in bytes: must be within an address space.
void require_reachable(const RawVectorCall& raw, std::int64_t rows, std::int64_t cols,
                       std::int64_t step, int position, const char* name) {
  std::int64_t elements = 0, bytes = 0;
  const bool beyond =
      step == std::numeric_limits<std::int64_t>::min() ||
      __builtin_mul_overflow(std::max<std::int64_t>(cols - 1, 0), std::abs(step), &elements) ||
      __builtin_add_overflow(elements, rows, &elements) ||
      __builtin_mul_overflow(elements, bytes_of(raw.type.storage), &bytes);
  if (beyond) refuse(raw, position, name, "puts the operand beyond any address space");
}

struct Vector {
  const void* data;
  std::int64_t length, increment;
  int position;  ///< of the pointer; the increment follows
  const char* name;
  const char* increment_name;
};

void check_vector(const RawVectorCall& raw, const Vector& v, bool needed) {
  require_reachable(raw, 1, v.length, v.increment, v.position + 1, v.increment_name);
  if (needed && v.length > 0 && v.data == nullptr) refuse(raw, v.position, v.name, "is NULL");
}

Call begin(const RawVectorCall& raw) {
  return {{.symbol = raw.function, .routine = raw.routine, .type = raw.type, .m = 1}, {}};
}

Op parse_op(const RawVectorCall& raw) {
  switch (raw.trans) {
    case 'n':
      return Op::none;
    case 't':
      return Op::transpose;
    case 'c':  // a real matrix is its own conjugate
      return is_complex(raw.type.storage) ? Op::conjugate : Op::transpose;
  }
  refuse(raw, 2, "trans", "is " + std::to_string(raw.trans) + ", expected 'n', 't' or 'c'");
}

Call parse_gemv(const RawVectorCall& raw) {
  Call call = begin(raw);
  call.op_a = parse_op(raw);
  require_at_least(raw, raw.m, 0, 3, "m");
  require_at_least(raw, raw.n, 0, 4, "n");
  if (raw.alpha == nullptr) refuse(raw, 5, "alpha", "is NULL");
  require_at_least(raw, raw.lda, std::max<std::int64_t>(1, raw.m), 7, "lda");
  if (raw.incx == 0) refuse(raw, 9, "incx", "is 0");
  if (raw.beta == nullptr) refuse(raw, 10, "beta", "is NULL");
  if (raw.incy == 0) refuse(raw, 12, "incy", "is 0");
  const bool is_empty = raw.m == 0 || raw.n == 0;
  if (!is_empty) {
    call.n = call.op_a == Op::none ? raw.m : raw.n;
    call.k = call.op_a == Op::none ? raw.n : raw.m;
  }
  call.arguments = {
      .data = {const_cast<void*>(raw.a), const_cast<void*>(raw.x), const_cast<void*>(raw.y)},
      .ld = {raw.lda, raw.incx, raw.incy},
      .alpha = scalar_of(raw.alpha, raw.type),
      .beta = scalar_of(raw.beta, raw.type)};
  require_reachable(raw, raw.m, raw.n, raw.lda, 7, "lda");
  const bool reads = !is_empty && !call.alpha_is_zero();
  if (reads && raw.a == nullptr) refuse(raw, 6, "a", "is NULL");
  check_vector(raw, {raw.x, call.k, raw.incx, 8, "x", "incx"}, reads);
  check_vector(raw, {raw.y, call.n, raw.incy, 11, "y", "incy"}, !call.changes_nothing());
  return call;
}

Call parse_axpy(const RawVectorCall& raw) {
  Call call = begin(raw);
  if (raw.alpha == nullptr) refuse(raw, 3, "alpha", "is NULL");
  call.n = std::max<std::int64_t>(raw.n, 0);
  call.k = 1;
  call.arguments = {
      .data = {const_cast<void*>(raw.x), const_cast<void*>(raw.x), const_cast<void*>(raw.y)},
      .ld = {raw.incx, raw.incx, raw.incy},
      .alpha = scalar_of(raw.alpha, raw.type)};
  check_vector(raw, {raw.x, call.n, raw.incx, 4, "x", "incx"}, !call.changes_nothing());
  check_vector(raw, {raw.y, call.n, raw.incy, 6, "y", "incy"}, !call.changes_nothing());
  return call;
}

Call parse_dot(const RawVectorCall& raw) {
  Call call = begin(raw);
  if (raw.trans == 'c' && is_complex(raw.type.storage)) call.op_a = Op::conjugate;
  call.n = 1;
  call.k = std::max<std::int64_t>(raw.n, 0);
  call.arguments = {.data = {const_cast<void*>(raw.x), const_cast<void*>(raw.y), raw.result},
                    .ld = {raw.incx, raw.incy, 1},
                    .beta = 0};
  check_vector(raw, {raw.x, call.k, raw.incx, 3, "x", "incx"}, true);
  check_vector(raw, {raw.y, call.k, raw.incy, 5, "y", "incy"}, true);
  if (raw.result == nullptr) refuse(raw, 7, "result", "is NULL");
  return call;
}

}  // namespace

Call parse(const RawVectorCall& raw) {
  switch (raw.routine) {
    case Routine::gemv:
      return parse_gemv(raw);
    case Routine::axpy:
      return parse_axpy(raw);
    default:
      return parse_dot(raw);
  }
}

}  // namespace fleet

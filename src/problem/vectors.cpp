// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: problems of levels 1 and 2, whose vectors are matrices of one row, so that an
// increment is a leading dimension. It must not know machines.
#include <limits>

#include "base/error.hpp"
#include "problem/problem.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::bad_argument, message); }

void require_size(const std::string& routine, std::int64_t size, const char* name) {
  if (size < 0) refuse(routine + ": " + name + " = " + std::to_string(size) + " is negative");
}

/// Offsets inside an operand are computed in int64, so its bytes must fit in one.
void require_addressable(const std::string& routine, Storage storage, const Operand& operand) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / bytes_of(storage);
  if (operand.rows > 0 && operand.cols > most / operand.rows)
    refuse(routine + ": an operand has more bytes than 64 bits can count");
}

Operand vector_of(std::int64_t length, DeviceId home, Access access = Access::read) {
  return {.rows = 1, .cols = length, .access = access, .home = home};
}

void fill_gemv(const VectorShape& shape, Problem& problem) {
  // A real matrix is its own conjugate.
  const bool real = !is_complex(shape.type.storage);
  problem.op_a = real && shape.op == Op::conjugate ? Op::transpose : shape.op;
  problem.n = shape.op == Op::none ? shape.m : shape.n;
  problem.k = shape.op == Op::none ? shape.n : shape.m;
  auto& [a, x, y] = problem.operands;
  a = {.rows = shape.m, .cols = shape.n, .home = shape.homes[kA]};
  x = vector_of(problem.k, shape.homes[kB]);
  y = vector_of(problem.n, shape.homes[kC], shape.beta_is_zero ? Access::write : Access::update);
}

void fill_axpy(const VectorShape& shape, Problem& problem) {
  problem.n = shape.n;
  problem.k = 1;
  auto& [x, none, y] = problem.operands;
  x = none = vector_of(shape.n, shape.homes[kA]);
  y = vector_of(shape.n, shape.homes[kC], Access::update);
}

void fill_dot(const VectorShape& shape, Problem& problem) {
  const bool conjugates = is_complex(shape.type.storage) && shape.op == Op::conjugate;
  problem.op_a = conjugates ? Op::conjugate : Op::none;
  problem.n = 1;
  problem.k = shape.n;
  auto& [x, y, result] = problem.operands;
  x = vector_of(shape.n, shape.homes[kA]);
  y = vector_of(shape.n, shape.homes[kB]);
  result = vector_of(1, shape.homes[kC], Access::write);
}

}  // namespace

Problem make_vectors(const VectorShape& shape) {
  const std::string name = word_of(shape.type) + std::string(traits_of(shape.routine).word);
  if (is_half(shape.type.storage) || shape.type == DataType::tf32 ||
      !traits_of(shape.routine).vectors)
    refuse("there is no routine with vectors " + name);
  if (shape.routine == Routine::gemv) require_size(name, shape.m, "m");
  require_size(name, shape.n, "n");
  for (const DeviceId home : shape.homes)
    if (home < 0) refuse(name + ": location " + std::to_string(home) + " is negative");

  Problem problem{.routine = shape.routine, .type = shape.type, .m = 1};
  if (shape.routine == Routine::gemv) fill_gemv(shape, problem);
  if (shape.routine == Routine::axpy) fill_axpy(shape, problem);
  if (shape.routine == Routine::dot) fill_dot(shape, problem);
  if (shape.alpha_is_zero) problem.k = 0;
  for (const Operand& operand : problem.operands)
    require_addressable(name, shape.type.storage, operand);
  return problem;
}

bool is_stored_k_by_n(Routine routine, Op op_a) {
  return routine == Routine::axpy || (routine == Routine::gemv && op_a != Op::none);
}

std::int64_t streamed_bytes(const Problem& problem, std::int64_t n, std::int64_t k) {
  const std::int64_t x = problem.traits().has_b ? k : 0;
  return (n * k + x + 2 * n) * bytes_of(problem.type.storage);
}

}  // namespace fleet

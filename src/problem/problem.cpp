// SPDX-License-Identifier: BSD-3-Clause
// problem.cpp: building problems, and what they count for. It must not know machines.
#include "problem/problem.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "problem/signature.hpp"

namespace fleet {
namespace {

std::int64_t size_of(const CallShape& shape, Arg size) {
  return size == Arg::m ? shape.m : size == Arg::n ? shape.n : shape.k;
}

void require_existing(const CallShape& shape) {
  const RoutineTraits& traits = shape.traits();
  const auto name = [&] { return word_of(shape.type) + std::string(traits.word); };
  const bool half = is_half(shape.type.storage) || shape.type == DataType::tf32;
  if ((half && shape.routine != Routine::gemm) ||
      (traits.hermitian && !is_complex(shape.type.storage)))
    refuse_argument("there is no routine " + name());
  const Op turned = traits.turned();
  if (traits.by_itself && shape.op_a != Op::none && shape.op_a != turned)
    refuse_argument(name() + ": transa is none of n, " + std::string(1, letter_of(turned)));
  if (traits.symmetric && shape.op_a != Op::none) refuse_argument(name() + " has no transa");
}

void require_size(const CallShape& shape, std::int64_t size, const char* name) {
  if (size < 0)
    refuse_argument(std::string(shape.traits().word) + ": " + name + " = " + std::to_string(size) +
                    " is negative");
}

/// Offsets inside an operand are computed in int64, so its bytes must fit in one.
void require_addressable(const Problem& problem, const Operand& operand, const char* name) {
  const std::array factors{operand.rows, operand.cols, operand.shared ? 1 : problem.batch};
  if (std::ranges::count(factors, 0) > 0) return;
  std::int64_t bytes = bytes_of(problem.type.storage);
  for (const std::int64_t factor : factors) {
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor)
      refuse_argument(std::string(problem.traits().word) + ": " + name +
                      " has more bytes than 64 bits can count");
    bytes *= factor;
  }
}

/// Are the old contents of C not read?
bool overwrites(const RoutineTraits& traits, Routine routine, const Conditions& conditions) {
  if (traits.triangular) return conditions.alpha_is_zero;
  if (traits.vectors && routine != Routine::gemv) return routine == Routine::dot;
  return conditions.beta_is_zero;
}

}  // namespace

const char* word_of(DataType type) {
  constexpr std::array<const char*, kStorages> kWords{"s", "d", "c", "z", "h", "bf16"};
  if (type.compute == Compute::tf32) return "tf32";
  return kWords[static_cast<std::size_t>(type.storage)];
}

char letter_of(Op op) { return "ntc"[static_cast<int>(op)]; }

Extent stored_extent(const CallShape& shape, int operand) {
  const RoutineTraits& traits = shape.traits();
  const bool turned = shape.op_a != Op::none;
  if (shape.routine == Routine::gemv && operand != kA)
    return {1, (operand == kB) == turned ? shape.m : shape.n};
  if (shape.routine == Routine::dot && operand == kC) return {1, 1};
  if (traits.vectors || operand == kC || (traits.symmetric && operand == kB))
    return {shape.m, shape.n};
  if (traits.has_side()) return {shape.k, shape.k};
  if (operand == kA || traits.by_itself)
    return turned ? Extent{shape.k, shape.m} : Extent{shape.m, shape.k};
  return shape.op_b == Op::none ? Extent{shape.k, shape.n} : Extent{shape.n, shape.k};
}

Problem make_problem(const CallShape& given, const Conditions& conditions) {
  const RoutineTraits& traits = given.traits();
  require_existing(given);
  for (const NamedArg& argument : signature_of(given.routine))
    if (is_size(argument.arg)) require_size(given, size_of(given, argument.arg), argument.name);
  require_size(given, given.batch, "batch");
  for (const DeviceId home : conditions.homes)
    if (home < 0)
      refuse_argument(std::string(traits.word) + ": location " + std::to_string(home) +
                      " is negative");

  CallShape shape = given;
  complete(shape);
  if (conditions.alpha_is_zero && !traits.has_side()) shape.k = 0;
  Problem problem{.routine = shape.routine,
                  .type = shape.type,
                  .op_a = shape.op_a,
                  .op_b = shape.op_b,
                  .batch = shape.batch,
                  .side = shape.side,
                  .uplo = shape.uplo,
                  .diag = shape.diag};
  for (const int x : {kA, kB, kC}) {
    const auto at = static_cast<std::size_t>(x);
    const Extent extent = stored_extent(shape, x);
    problem.operands[at] = {.rows = extent.rows, .cols = extent.cols, .home = conditions.homes[at]};
  }
  auto& [a, b, c] = problem.operands;
  a.shared = conditions.share_a;
  b.shared = conditions.share_b;
  if (!traits.has_b) b = a;  // the same matrix
  c.access = overwrites(traits, shape.routine, conditions) ? Access::write : Access::update;
  if (traits.by_itself) problem.op_b = shape.op_a == Op::none ? traits.turned() : Op::none;
  problem.m = c.rows;
  problem.n = c.cols;
  problem.k = shape.k;
  if (traits.has_b && traits.vectors) problem.k = b.cols;
  if (conditions.alpha_is_zero) problem.k = 0;
  require_addressable(problem, a, "A");
  require_addressable(problem, b, "B");
  require_addressable(problem, c, "C");
  return problem;
}

bool is_stored_k_by_n(Routine routine, Op op_a) {
  return routine == Routine::axpy || (routine == Routine::gemv && op_a != Op::none);
}

std::int64_t streamed_bytes(const Problem& problem, std::int64_t n, std::int64_t k) {
  const std::int64_t x = problem.traits().has_b ? k : 0;
  return (n * k + x + 2 * n) * bytes_of(problem.type.storage);
}

double bytes_that_count(const Problem& problem, int operand) {
  const RoutineTraits& traits = problem.traits();
  if (operand == kB && !traits.has_b) return 0;
  const Operand& o = problem.operands[static_cast<std::size_t>(operand)];
  const auto rows = static_cast<double>(o.rows), cols = static_cast<double>(o.cols);
  const bool triangle = operand == kC ? traits.triangle : operand == kA && traits.has_side();
  const double elements = triangle ? rows * (rows + 1) / 2 : rows * cols;
  return elements * static_cast<double>(o.shared ? 1 : problem.batch) *
         static_cast<double>(bytes_of(problem.type.storage));
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// problem.cpp: building problems, and what they count for. It must not know machines.
#include "problem/problem.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::bad_argument, message); }

void require_size(std::int64_t size, const char* name) {
  if (size < 0)
    refuse("gemm: " + std::string(name) + " = " + std::to_string(size) + " is negative");
}

/// Offsets inside an operand are computed in int64, so its bytes must fit in one.
void require_addressable(const Operand& operand, const GemmShape& shape, const char* name) {
  const std::array factors{operand.rows, operand.cols, operand.shared ? 1 : shape.batch};
  if (std::ranges::count(factors, 0) > 0) return;
  std::int64_t bytes = bytes_of(shape.type.storage);
  for (const std::int64_t factor : factors) {
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor)
      refuse("gemm: " + std::string(name) + " has more bytes than 64 bits can count");
    bytes *= factor;
  }
}

}  // namespace

const char* word_of(DataType type) {
  constexpr std::array<const char*, kStorages> kWords{"s", "d", "c", "z", "h", "bf16"};
  if (type.compute == Compute::tf32) return "tf32";
  return kWords[static_cast<std::size_t>(type.storage)];
}

char letter_of(Op op) { return "ntc"[static_cast<int>(op)]; }

Problem make_gemm(const GemmShape& shape) {
  require_size(shape.m, "m");
  require_size(shape.n, "n");
  require_size(shape.k, "k");
  require_size(shape.batch, "batch");
  for (const DeviceId home : shape.homes)
    if (home < 0) refuse("gemm: location " + std::to_string(home) + " is negative");

  Problem problem{.routine = Routine::gemm,
                  .type = shape.type,
                  .op_a = shape.op_a,
                  .op_b = shape.op_b,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k,
                  .batch = shape.batch};
  auto& [a, b, c] = problem.operands;
  a = {.rows = shape.m, .cols = shape.k, .home = shape.homes[kA], .shared = shape.share_a};
  b = {.rows = shape.k, .cols = shape.n, .home = shape.homes[kB], .shared = shape.share_b};
  c = {.rows = shape.m,
       .cols = shape.n,
       .access = shape.beta_is_zero ? Access::write : Access::update,
       .home = shape.homes[kC]};
  if (shape.op_a != Op::none) std::swap(a.rows, a.cols);
  if (shape.op_b != Op::none) std::swap(b.rows, b.cols);
  require_addressable(a, shape, "A");
  require_addressable(b, shape, "B");
  require_addressable(c, shape, "C");
  return problem;
}

Problem make_level3(const Level3Shape& shape) {
  const RoutineTraits& traits = traits_of(shape.routine);
  const std::string name = word_of(shape.type) + std::string(traits.word);
  if (shape.routine == Routine::gemm || traits.vectors)
    refuse("make_level3 makes neither gemm nor what has vectors");
  if (is_half(shape.type.storage) || shape.type == DataType::tf32 ||
      (traits.hermitian && !is_complex(shape.type.storage)))
    refuse("there is no routine " + name);
  const Op turned = traits.hermitian ? Op::conjugate : Op::transpose;
  if (traits.by_itself && shape.op_a != Op::none && shape.op_a != turned)
    refuse(name + ": transa is none of n, " + std::string(1, letter_of(turned)));
  if (traits.symmetric && shape.op_a != Op::none) refuse(name + " has no transa");

  const std::int64_t m = traits.triangle ? shape.n : shape.m;
  const std::int64_t k = !traits.has_side()         ? shape.k
                         : shape.side == Side::left ? shape.m
                                                    : shape.n;
  // As the product of its factors: B after A, or with the symmetric one on the right before it.
  const Op op_b = traits.by_itself    ? (shape.op_a == Op::none ? turned : Op::none)
                  : traits.has_side() ? Op::none
                                      : shape.op_b;
  Problem problem =
      make_gemm({.type = shape.type,
                 .op_a = shape.op_a,
                 .op_b = op_b,
                 .m = m,
                 .n = shape.n,
                 .k = k,
                 .homes = shape.homes,
                 .beta_is_zero = traits.triangular ? shape.alpha_is_zero : shape.beta_is_zero});
  if (shape.alpha_is_zero) problem.k = 0;
  problem.routine = shape.routine;
  if (traits.has_side()) problem.side = shape.side;
  if (traits.triangular) problem.diag = shape.diag;
  problem.uplo = shape.uplo;
  auto& [a, b, c] = problem.operands;
  if (traits.has_side()) {
    a.rows = a.cols = k;
    b.rows = m, b.cols = shape.n;
  }
  if (traits.twice) b.rows = a.rows, b.cols = a.cols;  // as A is stored
  if (!traits.has_b) b = a;                            // the same matrix
  return problem;
}

double flops(const Problem& problem) {
  const RoutineTraits& traits = problem.traits();
  const double products = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                          static_cast<double>(problem.k) * static_cast<double>(problem.batch);
  return (is_complex(problem.type.storage) ? 8 : 2) * traits.part_of_products() * products;
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

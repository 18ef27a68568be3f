// SPDX-License-Identifier: BSD-3-Clause
// program_maker.hpp: makes random programs whose numbers stay of the order of 1 and whose error
// bounds stay small, with what each look at memory has to see. It queues nothing.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "support/program_oracle.hpp"
#include "support/random_plans.hpp"
#include "support/random_programs.hpp"

namespace fleet::test {

struct ProgramWishes {
  /// Steps after which nobody can tell whether a fault has taken a result are left out.
  bool faults = false;
  bool shares_first = false;  ///< as in RandomProgram
  bool only_queued = false;   ///< no calls that their caller waits for
  std::int64_t most_calls = 40;
  int devices = 0;  ///< 0: two to four, as the seed has it
};

/// A program and, for each step that looks at memory, what is there.
template <typename T>
struct MadeProgram {
  RandomProgram program;
  std::vector<Bounded<T>> expected;
};

template <typename T>
class ProgramMaker {
 public:
  ProgramMaker(std::uint64_t seed, const ProgramWishes& wishes, fleet_context* cpu)
      : random_(seed), wishes_(wishes), oracle_(begin(seed), cpu) {}

  MadeProgram<T> make() {
    const std::int64_t calls = between(random_, 1, wishes_.most_calls);
    for (std::int64_t c = 0; c < calls; ++c) {
      add_call();
      if (chance(random_, 15)) add_look(random_part());
      if (chance(random_, 12)) add_write(random_part());
      if (!wishes_.faults && chance(random_, 6)) add_handles();
    }
    for (int m = 0; m < std::ssize(made_.program.matrices); ++m) add_look(made_.program.whole(m));
    return std::move(made_);
  }

 private:
  static constexpr std::int64_t kLeastEdge = 33, kMostEdge = 48;

  const RandomProgram& begin(std::uint64_t seed) {
    RandomProgram& p = made_.program;
    p.seed = seed;
    p.type = kTypeOf<T>;
    const std::int64_t devices = between(random_, 2, 4);
    p.devices = wishes_.devices > 0 ? wishes_.devices : static_cast<int>(devices);
    p.shares_first = wishes_.shares_first;
    edge_ = between(random_, kLeastEdge, kMostEdge);
    const bool alike = chance(random_, 60);
    const std::int64_t matrices = between(random_, 3, 8);
    if (p.shares_first)
      p.matrices.push_back(
          {.rows = kMostEdge, .cols = kMostEdge, .ld = kMostEdge + 3, .place = ""});
    while (std::ssize(p.matrices) < matrices) {
      const auto side = [&] { return alike ? edge_ : between(random_, edge_, kMostEdge + 8); };
      ProgramMatrix matrix{.rows = side(), .cols = side()};
      matrix.ld = matrix.rows;
      if (chance(random_, 60))
        matrix.ld += between(random_, 1, 5);
      else
        matrix.place = random_place(p.devices);
      p.matrices.push_back(matrix);
    }
    return p;
  }

  std::string random_place(int devices) {
    if (chance(random_, 50))
      return std::string(1, (devices > 1 ? "hp01" : "hp00")[between(random_, 0, 3)]);
    std::string place = "c";
    if (chance(random_, 80)) {
      const std::int64_t rows = between(random_, 1, devices);
      place += std::to_string(rows) + "x" + std::to_string(between(random_, 1, devices / rows));
    }
    // Blocks that all matrices have, mostly.
    if (chance(random_, 80)) place += chance(random_, 70) ? ":8" : ":13";
    return place;
  }

  std::int64_t size() {
    const std::int64_t sizes[] = {edge_, edge_, edge_, 16, 24, 7, between(random_, 1, kLeastEdge)};
    return sizes[between(random_, 0, 6)];
  }

  /// A part of this size anywhere that meets none of `others`; no matrix if there is hardly any.
  MatrixPart part(std::int64_t rows, std::int64_t cols, const std::vector<MatrixPart>& others,
                  int least_matrix = 0) {
    const int matrices = static_cast<int>(std::ssize(made_.program.matrices));
    // Blocks that come again are those that may stay on devices.
    for (int attempt = 0; attempt < 8 && !used_.empty() && chance(random_, 80); ++attempt) {
      const MatrixPart again =
          used_[static_cast<std::size_t>(between(random_, 0, std::ssize(used_) - 1))];
      if (again.rows == rows && again.cols == cols && again.matrix >= least_matrix &&
          std::ranges::none_of(others, [&](const MatrixPart& p) { return p.meets(again); }))
        return again;
    }
    for (int attempt = 0; attempt < 50; ++attempt) {
      MatrixPart found =
          made_.program.whole(static_cast<int>(between(random_, least_matrix, matrices - 1)));
      const std::int64_t below = found.rows - rows, beyond = found.cols - cols;
      if (below < 0 || beyond < 0) continue;
      found.row = between(random_, 0, 1) * between(random_, 0, below);
      found.col = between(random_, 0, 1) * between(random_, 0, beyond);
      // Most triangles have the matrix's diagonal, so that equations with them can be solved.
      if (rows == cols && chance(random_, 70)) found.row = found.col = std::min(found.row, beyond);
      found.rows = rows;
      found.cols = cols;
      if (std::ranges::none_of(others, [&](const MatrixPart& p) { return p.meets(found); }))
        return found;
    }
    return {};
  }
  MatrixPart vector(std::int64_t length, const std::vector<MatrixPart>& others,
                    int least_matrix = 0) {
    return chance(random_, 50) ? part(length, 1, others, least_matrix)
                               : part(1, length, others, least_matrix);
  }
  /// One of a few rows and columns, or all of a matrix. Not of the shared one.
  MatrixPart random_part() {
    const int least = wishes_.shares_first ? 1 : 0;
    if (chance(random_, 20))
      return made_.program.whole(
          static_cast<int>(between(random_, least, std::ssize(made_.program.matrices) - 1)));
    return part(between(random_, 1, 20), between(random_, 1, 20), {}, least);
  }

  std::complex<double> scalar() {
    const std::complex<double> some[] = {{1, 0}, {-0.75, 0}, {0.5, 0.5}, {0, 1}};
    return some[between(random_, 0, 3)] * std::complex<double>(0.75, 0);
  }

  RoutineCall random_call() {
    RoutineCall call;
    const auto half = [&] { return chance(random_, 50); };
    do call.routine = static_cast<Routine>(between(random_, 0, kRoutines - 1));
    while (call.traits().hermitian && !Scalar<T>::kComplex);
    const RoutineTraits& traits = call.traits();
    call.side = half() ? Side::left : Side::right;
    call.uplo = half() ? Uplo::lower : Uplo::upper;
    call.diag = half() ? Diag::unit : Diag::non_unit;
    call.op_a = static_cast<Op>(between(random_, 0, 2));
    call.op_b = static_cast<Op>(between(random_, 0, 2));
    if (traits.by_itself && call.op_a != Op::none) call.op_a = traits.turned();
    if (traits.symmetric || call.routine == Routine::axpy) call.op_a = Op::none;
    if (call.routine == Routine::dot && call.op_a == Op::transpose) call.op_a = Op::none;
    if (call.routine != Routine::gemm && call.routine != Routine::gemmt) call.op_b = Op::none;
    const std::complex<double> betas[] = {0, 0, 1, 0.5, {0.25, 0.5}};
    call.beta = betas[between(random_, 0, traits.has_real_beta() || !Scalar<T>::kComplex ? 3 : 4)];
    if (call.routine == Routine::axpy) call.beta = 1;
    if (call.routine == Routine::dot || traits.triangular) call.beta = 0;
    return call;
  }

  /// Operands for the call; false if they do not come together.
  bool find_operands(ProgramStep& step) {
    const RoutineCall& call = step.call;
    const RoutineTraits& traits = call.traits();
    const bool large = chance(random_, 40);
    const auto some = [&] { return large ? edge_ : size(); };
    const std::int64_t m = some(), n = some(), k = some();
    const int first = wishes_.shares_first ? 1 : 0;
    const bool turned = call.op_a != Op::none, left = call.side == Side::left;
    MatrixPart a, b, c;
    const auto given = [](std::int64_t rows, std::int64_t cols, bool flipped) {
      return flipped ? std::pair(cols, rows) : std::pair(rows, cols);
    };
    const auto any = [&](std::pair<std::int64_t, std::int64_t> shape) {
      return part(shape.first, shape.second, {c});
    };
    if (call.routine == Routine::gemv) {
      const std::int64_t sum = k;
      c = vector(m, {}, first);
      a = any(given(m, sum, turned));
      b = vector(sum, {c});
    } else if (traits.vectors) {
      const bool sums = call.routine == Routine::dot;
      const std::int64_t length = n;
      c = sums ? part(1, 1, {}, first) : vector(length, {}, first);
      a = vector(length, {c});
      if (traits.has_b) b = vector(length, {c});
    } else if (traits.has_side()) {
      c = part(m, n, {}, first);
      a = any({left ? m : n, left ? m : n});
      if (traits.has_b) b = any({m, n});
    } else {
      c = traits.triangle ? part(n, n, {}, first) : part(m, n, {}, first);
      a = any(given(c.rows, k, turned));
      if (traits.has_b && traits.by_itself) b = any(given(n, k, turned));
      if (traits.has_b && !traits.by_itself) b = any(given(k, n, call.op_b != Op::none));
    }
    if (a.matrix < 0 || c.matrix < 0 || (traits.has_b && b.matrix < 0)) return false;
    const auto ways = [&](const MatrixPart& p) {
      return CallOperand{
          p, chance(random_, 60) ? Way::view : static_cast<Way>(between(random_, 0, 3))};
    };
    step.operands = {ways(a), ways(b), ways(c)};
    return true;
  }

  double largest(const MatrixPart& part) const {
    double most = 0;
    for (const T& x : oracle_.read(part).is) most = std::max<double>(most, std::abs(x));
    return most;
  }

  /// Scales the product to the order of 1.
  void choose_alpha(ProgramStep& step) {
    const RoutineTraits& traits = step.call.traits();
    const MatrixPart &a = step.operands[kA].part, &b = step.operands[kB].part,
                     &c = step.operands[kC].part;
    if (chance(random_, 4)) {
      step.call.alpha = 0;
    } else {
      double size = largest(a);
      if (traits.has_b) size *= largest(b);
      if (traits.by_itself && !traits.has_b) size *= size;
      if (traits.triangular)
        size = traits.solves ? largest(c) / std::max(1.0, size) : size * largest(c);
      const double scale =
          size > 0 ? std::exp2(std::clamp(-std::round(std::log2(size)), -20.0, 20.0)) : 1;
      step.call.alpha = scale * scalar();
    }
    if (step.call.routine == Routine::dot) step.call.alpha = 1;
    if (!Scalar<T>::kComplex || traits.has_real_alpha())
      step.call.alpha =
          step.call.alpha.real() == 0 ? step.call.alpha.imag() : step.call.alpha.real();
  }

  /// Are the numbers such that a wrong one shows?
  bool is_telling(const MatrixPart& part) const {
    const Bounded<T> now = oracle_.read(part);
    double sizes = 0, offs = 0;
    for (std::size_t i = 0; i < now.is.size(); ++i) {
      const double size = std::abs(now.is[i]);
      if (!(size < 50)) return false;
      sizes += size;
      offs += now.off[i];
    }
    return offs <= (sizeof(typename Scalar<T>::Real) == 4 ? 1e-2 : 1e-7) * sizes;
  }

  void add_call() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const bool at_once = chance(random_, 12) && !wishes_.only_queued;
      ProgramStep step{.act = at_once ? Act::call : Act::queue, .call = random_call()};
      if (!find_operands(step)) continue;
      choose_alpha(step);
      const MatrixPart& c = step.operands[kC].part;
      Bounded<T> before = oracle_.held(c);
      oracle_.call(step);
      if (is_telling(c)) {
        for (const CallOperand& operand : step.operands)
          if (operand.part.matrix >= 0) used_.push_back(operand.part);
        return push(step);
      }
      oracle_.restore(c, std::move(before));
    }
    const int first = wishes_.shares_first ? 1 : 0;
    add_write(made_.program.whole(
        static_cast<int>(between(random_, first, std::ssize(made_.program.matrices) - 1))));
  }

  void add_look(const MatrixPart& part) {
    push({.act = Act::read, .part = part});
    made_.expected.back() = oracle_.read(part);
  }

  void add_write(const MatrixPart& part) {
    const ProgramStep step{.act = Act::write, .part = part, .numbers = random_()};
    oracle_.write(part, step.numbers);
    push(step);
  }

  /// Destroys handles of wrapped memory, which has to live on without them.
  void add_handles() {
    const MatrixPart whole = random_part();
    const auto m = static_cast<std::size_t>(whole.matrix);
    if (!made_.program.matrices[m].place.empty()) return;
    push({.act = chance(random_, 50) ? Act::rewrap : Act::forget,
          .part = made_.program.whole(whole.matrix)});
    if (made_.program.steps.back().act == Act::forget)
      made_.expected.back() = oracle_.read(made_.program.steps.back().part);
  }

  void push(const ProgramStep& step) {
    made_.program.steps.push_back(step);
    made_.expected.emplace_back();
  }

  Generator random_;
  ProgramWishes wishes_;
  MadeProgram<T> made_;
  std::vector<MatrixPart> used_;
  std::int64_t edge_ = 0;
  ProgramOracle<T> oracle_;
};

template <typename T>
MadeProgram<T> make_program(std::uint64_t seed, const ProgramWishes& wishes, fleet_context* cpu) {
  return ProgramMaker<T>(seed, wishes, cpu).make();
}

}  // namespace fleet::test

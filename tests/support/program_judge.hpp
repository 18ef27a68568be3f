// SPDX-License-Identifier: BSD-3-Clause
// program_judge.hpp: whether what a program saw is what it had to see, with and without faults, and
// whether two runs saw the same bits. It runs nothing.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/program_maker.hpp"
#include "support/program_runner.hpp"

namespace fleet::test {

/// "" or the first step of which two runs of a program saw different bits.
template <typename T>
std::string different_bits(const RandomProgram& program, const ProgramOutcome<T>& one,
                           const ProgramOutcome<T>& other) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const auto &a = one.steps[s].seen, &b = other.steps[s].seen;
    if (a.size() != b.size())
      return "step " + std::to_string(s) + " saw nothing in one of the runs";
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
        return "step " + std::to_string(s) + ": element " + std::to_string(i) +
               " has other bits in another run";
  }
  return "";
}

/// What a run may say of faults.
enum class FaultsSeen {
  none,  ///< nothing fails
  told   ///< calls and reads may say that a device failed; then nothing wrong is seen
};

template <typename T>
class ProgramJudge {
 public:
  ProgramJudge(const MadeProgram<T>& made, const ProgramOutcome<T>& outcome, FaultsSeen faults)
      : made_(made), program_(made.program), outcome_(outcome), faults_(faults) {
    for (const ProgramMatrix& matrix : program_.matrices)
      states_.emplace_back(static_cast<std::size_t>(matrix.rows * matrix.cols), State::right);
  }

  /// "" or what is wrong.
  std::string verdict() {
    if (!outcome_.broken.empty()) return outcome_.broken;
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      if (const std::string wrong = verdict_of(s); !wrong.empty())
        return "step " + std::to_string(s) + ", " + text_of(program_.steps[s]) + ": " + wrong;
    return "";
  }

 private:
  /// Of an element. It is `unknown` where a call that its caller waited for failed, or read what
  /// was undefined: only the caller knows of it.
  enum class State : char { right, undefined, unknown };

  State& state(const MatrixPart& part, std::int64_t row, std::int64_t col) {
    const auto m = static_cast<std::size_t>(part.matrix);
    return states_[m][static_cast<std::size_t>(part.row + row +
                                               (part.col + col) * program_.matrices[m].rows)];
  }

  std::string verdict_of(std::size_t s) {
    const ProgramStep& step = program_.steps[s];
    const StepOutcome<T>& outcome = outcome_.steps[s];
    if (outcome.status != FLEET_OK && faults_ == FaultsSeen::none)
      return "failed: " + outcome.message;
    if (outcome.status != FLEET_OK && outcome.status != FLEET_DEVICE_FAILED)
      return "failed otherwise than by a device: " + outcome.message;
    if (outcome.status != FLEET_OK && outcome.message.empty()) return "failed without a reason";
    if (step.is_call()) return verdict_of_call(step, outcome);
    if (step.act == Act::write) {
      for_all(step.part, [&](State& state, std::size_t) {
        state = outcome.status == FLEET_OK ? State::right : State::undefined;
      });
      return "";
    }
    if (outcome.status != FLEET_OK || outcome.seen.empty()) return "";
    return verdict_of_look(step, outcome.seen, made_.expected[s]);
  }

  template <typename Visit>
  void for_all(const MatrixPart& part, Visit visit) {
    std::size_t i = 0;
    for (std::int64_t col = 0; col < part.cols; ++col)
      for (std::int64_t row = 0; row < part.rows; ++row) visit(state(part, row, col), i++);
  }

  std::string verdict_of_call(const ProgramStep& step, const StepOutcome<T>& outcome) {
    const MatrixPart& c = step.operands[kC].part;
    if (!changes_output(step.call)) return "";
    const bool is_queued = step.act == Act::queue;
    if (is_queued && outcome.status != FLEET_OK &&
        outcome.message.find(std::string(step.call.traits().word)) == std::string::npos)
      return "its message does not name it: " + outcome.message;
    State worst = State::right;
    const auto look = [&](int x) {
      const MatrixPart& part = step.operands[static_cast<std::size_t>(x)].part;
      if (part.matrix < 0) return;
      for_each_used(step, x, [&](std::int64_t row, std::int64_t col) {
        const State is = state(part, row, col);
        if (is == State::undefined || worst == State::right) worst = is;
      });
    };
    if (reads_factors(step.call)) look(kA), look(kB);
    if (reads_output(step.call)) look(kC);
    if (outcome.status != FLEET_OK)
      worst = is_queued ? State::undefined : State::unknown;
    else if (worst == State::undefined)
      return "read what a failed call had left undefined, and said OK";
    else if (worst != State::right)
      worst = State::unknown;
    for_each_used(step, kC,
                  [&](std::int64_t row, std::int64_t col) { state(c, row, col) = worst; });
    return "";
  }

  std::string verdict_of_look(const ProgramStep& step, const std::vector<T>& seen,
                              const Bounded<T>& expected) {
    std::string wrong;
    for_all(step.part, [&](State state, std::size_t i) {
      if (!wrong.empty() || state == State::unknown) return;
      if (state == State::undefined)
        wrong = "element " + std::to_string(i) + " was left undefined, and reading it said OK";
      else if (!(std::abs(seen[i] - expected.is[i]) <= expected.off[i]))
        wrong = "element " + std::to_string(i) + " differs by " +
                std::to_string(std::abs(seen[i] - expected.is[i]) / expected.off[i]) +
                " times the bound " + std::to_string(expected.off[i]) + " from " +
                std::to_string(std::abs(expected.is[i]));
    });
    return wrong;
  }

  const MadeProgram<T>& made_;
  const RandomProgram& program_;
  const ProgramOutcome<T>& outcome_;
  const FaultsSeen faults_;
  std::vector<std::vector<State>> states_;
};

/// "" if a run of the program saw what it had to see.
template <typename T>
std::string verdict_on(const MadeProgram<T>& made, const ProgramOutcome<T>& outcome,
                       FaultsSeen faults) {
  return ProgramJudge<T>(made, outcome, faults).verdict();
}

}  // namespace fleet::test

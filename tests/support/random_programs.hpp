// SPDX-License-Identifier: BSD-3-Clause
// random_programs.hpp: programs that queue calls on tracked matrices, as values that can be printed
// and run again. It knows no context, and computes nothing.
#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "support/every_routine.hpp"

namespace fleet::test {

/// Elements of one of a program's matrices.
struct MatrixPart {
  int matrix = -1;  ///< -1: the call has no such operand
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;
  bool meets(const MatrixPart& other) const {
    return matrix == other.matrix && row < other.row + other.rows && other.row < row + rows &&
           col < other.col + other.cols && other.col < col + cols;
  }
  friend bool operator==(const MatrixPart&, const MatrixPart&) = default;
};

/// How the program comes to the handle that a call gets.
enum class Way {
  view,    ///< a view of the matrix, or the matrix if the part is all of it
  alias,   ///< the same of another handle of the same memory
  nested,  ///< a view of a view
  wrap     ///< a matrix of its own that begins at the part's address
};
inline constexpr std::array kWayWords{"view", "alias", "nested", "wrap"};

struct CallOperand {
  MatrixPart part;
  Way way = Way::view;
};

enum class Act {
  queue,   ///< a call, queued
  call,    ///< a call on the same memory that its caller waits for
  read,    ///< the program looks at a part, after fleet_matrix_read
  write,   ///< it gives a part new numbers, between fleet_matrix_read and fleet_matrix_wrote
  rewrap,  ///< it destroys all handles of a matrix, whatever is queued, and makes new ones
  forget   ///< it waits for all calls on a matrix, destroys all handles, looks, and makes new ones
};
inline constexpr std::array kActWords{"queue", "call", "read", "write", "rewrap", "forget"};

struct ProgramStep {
  Act act = Act::queue;
  RoutineCall call;                     // queue, call
  std::array<CallOperand, 3> operands;  // queue, call: A, B and C
  MatrixPart part;                      // others
  std::uint64_t numbers = 0;            // write: the seed of the numbers
  bool is_call() const { return act == Act::queue || act == Act::call; }
  bool uses(int matrix) const {
    for (const CallOperand& operand : operands)
      if (is_call() && operand.part.matrix == matrix) return true;
    return false;
  }
};

struct ProgramMatrix {
  std::int64_t rows = 0, cols = 0, ld = 1;
  std::string place;  ///< of memory of the context; empty: memory of the program, wrapped
  bool is_cyclic() const { return place.starts_with('c'); }
  bool on_device() const { return !place.empty() && place[0] >= '0' && place[0] <= '9'; }
};

struct RandomProgram {
  std::uint64_t seed = 0;
  DataType type = DataType::f64;
  int devices = 1;
  bool shares_first = false;  ///< the first matrix is read only, and the same in all programs
  std::vector<ProgramMatrix> matrices;
  std::vector<ProgramStep> steps;
  MatrixPart whole(int matrix) const {
    const ProgramMatrix& m = matrices[static_cast<std::size_t>(matrix)];
    return {.matrix = matrix, .rows = m.rows, .cols = m.cols};
  }
};

/// Does the call look at the elements of A and B, of C, and does it change C?
inline bool reads_factors(const RoutineCall& call) { return call.alpha != 0.0; }
inline bool reads_output(const RoutineCall& call) {
  return call.traits().triangular ? call.alpha != 0.0
                                  : call.beta != 0.0 && call.routine != Routine::dot;
}
inline bool changes_output(const RoutineCall& call) {
  return call.alpha != 0.0 || call.beta != 1.0 || call.traits().triangular;
}

/// Calls visit(row, col) for the elements of operand x, as rows and columns of its part, that the
/// call reads of A and B, and writes of C.
template <typename Visit>
void for_each_used(const ProgramStep& step, int x, Visit visit) {
  const RoutineTraits& traits = step.call.traits();
  const MatrixPart& part = step.operands[static_cast<std::size_t>(x)].part;
  const bool triangle = x == kC ? traits.triangle : x == kA && traits.has_side();
  const bool no_diagonal = x == kA && traits.triangular && step.call.diag == Diag::unit;
  for (std::int64_t col = 0; col < part.cols; ++col)
    for (std::int64_t row = 0; row < part.rows; ++row) {
      if (triangle && (step.call.uplo == Uplo::lower ? row < col : row > col)) continue;
      if (no_diagonal && row == col) continue;
      visit(row, col);
    }
}

inline std::string text_of(const MatrixPart& part) {
  std::ostringstream text;
  text << "M" << part.matrix << "(" << part.row << "," << part.col << " " << part.rows << "x"
       << part.cols << ")";
  return text.str();
}

inline std::string text_of(const ProgramStep& step) {
  std::ostringstream text;
  text << kActWords[static_cast<std::size_t>(step.act)] << " ";
  if (!step.is_call()) {
    text << text_of(step.part);
    if (step.act == Act::write) text << " numbers=" << step.numbers;
    return text.str();
  }
  const RoutineCall& call = step.call;
  const RoutineTraits& traits = call.traits();
  text << traits.word;
  if (traits.has_side()) text << " side=" << (call.side == Side::left ? "l" : "r");
  if (traits.has_side() || traits.triangle)
    text << " uplo=" << (call.uplo == Uplo::lower ? "l" : "u");
  if (call.op_a != Op::none) text << " transa=" << letter_of(call.op_a);
  if (call.op_b != Op::none) text << " transb=" << letter_of(call.op_b);
  if (traits.triangular && call.diag == Diag::unit) text << " diag=u";
  text << " alpha=" << call.alpha << " beta=" << call.beta;
  for (std::size_t x = 0; x < 3; ++x) {
    const CallOperand& operand = step.operands[x];
    if (operand.part.matrix < 0) continue;
    text << " "
         << "abc"[x] << "=" << text_of(operand.part);
    if (step.act == Act::queue && operand.way != Way::view)
      text << " " << kWayWords[static_cast<std::size_t>(operand.way)];
  }
  return text.str();
}

inline std::string text_of(const RandomProgram& program) {
  std::ostringstream text;
  text << "program " << program.seed << " (FLEETBLAS_TEST_SEED=" << program.seed
       << " runs it alone), type " << word_of(program.type) << ", " << program.devices
       << " devices\n";
  for (std::size_t m = 0; m < program.matrices.size(); ++m) {
    const ProgramMatrix& matrix = program.matrices[m];
    text << "  M" << m << " " << matrix.rows << "x" << matrix.cols << " ld=" << matrix.ld << " "
         << (matrix.place.empty() ? "wrapped" : "at " + matrix.place) << "\n";
  }
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    text << "  " << s << ": " << text_of(program.steps[s]) << "\n";
  return text.str();
}

/// The seeds of a test's programs: `count` from `first` on, or the one that FLEETBLAS_TEST_SEED
/// names.
inline std::vector<std::uint64_t> program_seeds(std::uint64_t first, std::int64_t count) {
  if (const char* text = std::getenv("FLEETBLAS_TEST_SEED"))
    return {std::strtoull(text, nullptr, 10)};
  std::vector<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < count; ++i) seeds.push_back(first + static_cast<std::uint64_t>(i));
  return seeds;
}

}  // namespace fleet::test

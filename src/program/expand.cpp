// SPDX-License-Identifier: BSD-3-Clause
// expand.cpp: one function for each family of routines: which stored tiles a product has.
#include "program/expand.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/decompose.hpp"

namespace fleet {
namespace {

/// Does the stored operand stand along the rows of C (m x k before op) or along its columns?
bool along_rows(const Problem& problem, int operand) {
  const RoutineTraits& traits = problem.traits();
  if (traits.vectors) return operand == kB;
  if (traits.by_itself) return true;  // its transpose is the other factor
  if (traits.has_side()) return (operand == kA) == (problem.side == Side::left);
  return operand == kA;
}

Op op_of(const Problem& problem, int operand) {
  const RoutineTraits& traits = problem.traits();
  if (traits.has_side()) return Op::none;  // square, so its cuts are the same either way
  if (traits.vectors)
    return operand == kA && !is_stored_k_by_n(problem.routine, problem.op_a) ? Op::transpose
                                                                             : Op::none;
  return along_rows(problem, operand) ? problem.op_a : problem.op_b;
}

/// Appends the matrices, chains and ops of one call to a program.
class Expansion {
 public:
  Expansion(TileProgram& program, const Problem& problem, const CallCuts& cuts)
      : program_(program),
        problem_(problem),
        traits_(problem.traits()),
        call_(static_cast<int>(program.calls.size())),
        rows_(tile_count(cuts.m)),
        cols_(tile_count(cuts.n)),
        steps_(tile_count(cuts.k)) {
    program.calls.push_back(
        {.problem = problem, .cuts = cuts, .first_chain = static_cast<int>(program.chains.size())});
  }

  void run(const std::array<MatrixId, 3>& matrices) {
    for (const int operand : {kA, kB, kC})
      id_[operand] = find_matrix(operand, matrices[index(operand)]);
    call().matrices = {id_[kA], id_[kB], id_[kC]};
    reserve();
    if (problem_.k == 0)
      scale();
    else if (traits_.triangular)
      multiply_by_triangle();
    else
      for_each_tile([&](int row, int col) { multiply(row, col); });
    call().chains = static_cast<int>(program_.chains.size()) - call().first_chain;
    note_use();
  }

 private:
  ProgramCall& call() { return program_.calls.back(); }

  // ---- matrices

  Matrix matrix_of(int operand) {
    const auto [along_rows, along_cols] = stored_dimensions(problem_, operand);
    const Operand& stored = problem_.operands[index(operand)];
    Matrix matrix{.storage = problem_.type.storage,
                  .row_cuts = call().cuts.*along_rows,
                  .col_cuts = call().cuts.*along_cols,
                  .items = stored.shared ? 1 : static_cast<int>(problem_.batch),
                  .home = stored.home};
    const Fill triangle = problem_.uplo == Uplo::lower ? Fill::lower : Fill::upper;
    if (operand == kC && traits_.triangle) {
      matrix.diagonal = triangle;
      if (traits_.hermitian) matrix.structure = Structure::hermitian;
    } else if (operand == kA && traits_.has_side()) {
      matrix.diagonal = triangle;
      matrix.structure = !traits_.triangular
                             ? (traits_.hermitian ? Structure::hermitian : Structure::symmetric)
                         : problem_.diag == Diag::unit ? Structure::unit_triangular
                                                       : Structure::triangular;
    }
    return matrix;
  }

  MatrixId find_matrix(int operand, MatrixId wanted) {
    Matrix matrix = matrix_of(operand);
    if (wanted == kNoMatrix) {
      program_.matrices.push_back(std::move(matrix));
      return static_cast<MatrixId>(program_.matrices.size()) - 1;
    }
    if (wanted < 0 || wanted >= std::ssize(program_.matrices))
      throw Error(Status::bad_argument, "a call names a matrix that the program does not have");
    const Matrix& known = program_.matrices[index(wanted)];
    matrix.is_read = known.is_read;
    matrix.is_written = known.is_written;
    if (!(known == matrix))
      throw Error(Status::bad_argument, "a call needs a matrix stored or cut in another way");
    return wanted;
  }

  /// Notes which matrices the ops read and write, and whether they read the call's own results.
  void note_use() {
    const MatrixId target = call().target();
    program_.matrices[index(target)].is_written = true;
    std::vector<char> done(index(rows_) * static_cast<std::size_t>(problem_.batch) * index(cols_),
                           0);
    const auto place = [this](const TileId& tile) {
      return index(tile.row) * index(cols_) + index(tile.col);
    };
    for (int c = call().first_chain; c < call().first_chain + call().chains; ++c) {
      const OpChain& chain = program_.chains[index(c)];
      call().longest_chain = std::max(call().longest_chain, chain.ops);
      for (OpId id = chain.first; id < chain.first + chain.ops; ++id)
        for (const Factor& input : program_.op(id).inputs) {
          if (!input.tile.exists()) continue;
          program_.matrices[index(input.tile.matrix)].is_read = true;
          if (input.tile.matrix != target) continue;
          call().reads_target = true;
          if (done[place(input.tile)]) call().reads_results = true;
        }
      done[place(chain.target)] = 1;
    }
  }

  // ---- chains and ops

  void reserve() {
    const std::size_t tiles =
        index(rows_) * index(cols_) * static_cast<std::size_t>(problem_.batch);
    program_.chains.reserve(program_.chains.size() + tiles);
    program_.ops.reserve(program_.ops.size() +
                         tiles * index(std::max(1, steps_ * (traits_.twice + 1))));
  }

  /// Is the tile computed? Symmetric results are, in one triangle.
  bool has_tile(int row, int col) const {
    if (!traits_.triangle) return true;
    return problem_.uplo == Uplo::lower ? row >= col : row <= col;
  }

  template <typename Act>
  void for_each_tile(Act act) {
    const int rows = rows_ * static_cast<int>(problem_.batch);
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < cols_; ++col)
        if (has_tile(row, col)) act(row, col);
  }

  void begin_chain(int row, int col) {
    first_ = true;
    program_.chains.push_back({{id_[kC], row, col}, static_cast<OpId>(program_.ops.size()), 0});
  }

  /// The first op of a chain meets the caller's C: `first` says what it does with it.
  void add(Kernel kernel, const Factor& left, const Factor& right, ScalarId alpha,
           Accumulate first) {
    program_.ops.push_back({.inputs = {left, right},
                            .kernel = kernel,
                            .accumulate = first_ ? first : Accumulate::sum,
                            .compute = problem_.type.compute,
                            .alpha = alpha,
                            .beta = traits_.solves ? alpha_of(call_) : beta_of(call_)});
    first_ = false;
    ++program_.chains.back().ops;
  }

  Accumulate first_of_sum() const {
    return problem_.operands[kC].access == Access::write ? Accumulate::overwrite : Accumulate::beta;
  }

  void scale() {
    for_each_tile([&](int row, int col) {
      begin_chain(row, col);
      add(Kernel::scale, {}, {}, kOne, Accumulate::beta);
      if (traits_.solves) program_.ops.back().beta = beta_of(call_);
    });
  }

  /// One tile of C of any routine whose A is not triangular.
  void multiply(int row, int col) {
    begin_chain(row, col);
    const Accumulate first = first_of_sum();
    for (int k = 0; k < steps_; ++k) {
      if (traits_.vectors) {
        add(product_of(problem_.routine), matrix_of_vectors(col, k), vector_of_vectors(k),
            alpha_of(call_), first);
      } else if (traits_.symmetric) {
        const bool left = problem_.side == Side::left;
        add(Kernel::multiply, left ? mirrored(row, k) : tile(kB, row, k),
            left ? tile(kB, k, col) : mirrored(k, col), alpha_of(call_), first);
      } else if (traits_.by_itself) {
        add(Kernel::multiply, along_row(kA, row, k), along_col(traits_.twice ? kB : kA, k, col),
            alpha_of(call_), first);
        if (traits_.twice)
          add(Kernel::multiply, along_row(kB, row, k), along_col(kA, k, col),
              traits_.hermitian ? conjugate_alpha_of(call_) : alpha_of(call_), first);
      } else {
        add(Kernel::multiply, of_item(kA, row / rows_, row % rows_, k, rows_, problem_.op_a),
            of_item(kB, row / rows_, k, col, steps_, problem_.op_b), alpha_of(call_), first);
      }
    }
  }

  Factor tile(int operand, int row, int col) const { return {{id_[operand], row, col}, Op::none}; }

  /// Tile (i, j) of op(X) of an item of a batch; op(X) has `down` rows of tiles.
  Factor of_item(int operand, int item, int i, int j, int down, Op op) const {
    if (problem_.operands[index(operand)].shared) item = 0;
    if (op == Op::none) return {{id_[operand], item * down + i, j}, op};
    const int across = operand == kA ? steps_ : cols_;
    return {{id_[operand], item * across + j, i}, op};
  }

  /// Tile (i, j) of a symmetric matrix that stores one triangle.
  Factor mirrored(int i, int j) const {
    const bool stored = problem_.uplo == Uplo::lower ? i >= j : i <= j;
    if (stored) return tile(kA, i, j);
    return {{id_[kA], j, i}, traits_.turned()};
  }

  /// Tiles of op(X) along the rows of C, and of its transpose along the columns.
  Factor along_row(int operand, int row, int k) const {
    if (problem_.op_a == Op::none) return tile(operand, row, k);
    return {{id_[operand], k, row}, problem_.op_a};
  }
  Factor along_col(int operand, int k, int col) const {
    if (problem_.op_a == Op::none) return {{id_[operand], col, k}, problem_.op_b};
    return tile(operand, k, col);
  }

  Factor matrix_of_vectors(int col, int k) const {
    const bool k_by_n = is_stored_k_by_n(problem_.routine, problem_.op_a);
    return {k_by_n ? TileId{id_[kA], k, col} : TileId{id_[kA], col, k}, problem_.op_a};
  }
  Factor vector_of_vectors(int k) const { return traits_.has_b ? tile(kB, 0, k) : Factor{}; }

  /// trmm and trsm: chains in the order of ranks along the side of A, and for each rank all tiles
  /// along the other side. A chain has the steps whose tiles of A are not zero.
  void multiply_by_triangle() {
    const bool left = problem_.side == Side::left;
    const int across = left ? cols_ : rows_;
    for (int rank = 0; rank < steps_; ++rank)
      for (int other = 0; other < across; ++other) {
        const int at = rank_of_tile(problem_, steps_, rank);
        begin_chain(left ? at : other, left ? other : at);
        const int begin = traits_.solves ? 0 : rank, end = traits_.solves ? rank + 1 : steps_;
        for (int step = begin; step < end; ++step)
          add_by_triangle(at, rank_of_tile(problem_, steps_, step), other);
      }
  }

  /// The op by which tile `at` along the side reads tile `k`, which may be itself.
  void add_by_triangle(int at, int k, int other) {
    const bool left = problem_.side == Side::left;
    const int i = left ? at : k, j = left ? k : at;
    const Factor triangle =
        problem_.op_a == Op::none ? tile(kA, i, j) : Factor{{id_[kA], j, i}, problem_.op_a};
    Factor taken = left ? tile(kC, k, other) : tile(kC, other, k);
    const bool solves = traits_.solves && at == k;
    if (solves) taken = {triangle.tile, triangle.op, Form::inverses};
    add(solves ? Kernel::solve : Kernel::multiply, left ? triangle : taken, left ? taken : triangle,
        traits_.solves ? kMinusOne : alpha_of(call_),
        traits_.solves ? Accumulate::beta : Accumulate::overwrite);
  }

  TileProgram& program_;
  const Problem& problem_;
  const RoutineTraits& traits_;
  const int call_;
  const int rows_, cols_, steps_;  ///< tiles, of one item
  MatrixId id_[3] = {};
  bool first_ = true;
};

}  // namespace

Kernel product_of(Routine routine) {
  switch (routine) {
    case Routine::gemv:
      return Kernel::gemv;
    case Routine::axpy:
      return Kernel::axpy;
    case Routine::dot:
      return Kernel::dot;
    default:
      return Kernel::multiply;
  }
}

std::pair<CutsOf, CutsOf> stored_dimensions(const Problem& problem, int operand) {
  if (operand == kC) return {&CallCuts::m, &CallCuts::n};
  // Without a B, A stands for both.
  if (operand == kB && !problem.traits().has_b) return stored_dimensions(problem, kA);
  std::pair<CutsOf, CutsOf> pair = along_rows(problem, operand)
                                       ? std::pair(&CallCuts::m, &CallCuts::k)
                                       : std::pair(&CallCuts::k, &CallCuts::n);
  if (op_of(problem, operand) != Op::none) std::swap(pair.first, pair.second);
  return pair;
}

TileProgram expand(const Problem& problem, const CallCuts& cuts) {
  TileProgram program;
  append(program, problem, cuts, {kNoMatrix, kNoMatrix, kNoMatrix});
  return program;
}

void append(TileProgram& program, const Problem& problem, const CallCuts& cuts,
            const std::array<MatrixId, 3>& matrices) {
  if (matrices[kC] != kNoMatrix && (matrices[kA] == matrices[kC] || matrices[kB] == matrices[kC]))
    throw Error(Status::bad_argument, "a call reads the matrix that it writes");
  const std::size_t known = program.matrices.size(), calls = program.calls.size();
  try {
    Expansion(program, problem, cuts).run(matrices);
  } catch (const Error&) {  // from find_matrix, before any chain was begun
    program.matrices.resize(known);
    program.calls.resize(calls);
    throw;
  }
}

std::shared_ptr<const TileProgram> Expansions::of(const Problem& problem, const CallCuts& cuts) {
  using Program = std::shared_ptr<const TileProgram>;
  const auto known = [&](const std::vector<Program>& programs) -> Program {
    for (const Program& program : programs)
      if (program->calls.front().cuts == cuts) return program;
    return nullptr;
  };
  if (Program program = known_.with(known)) return program;
  // Meanwhile others expand other cuts, or now and then the same.
  const auto program = std::make_shared<const TileProgram>(expand(problem, cuts));
  known_.with([&](std::vector<Program>& programs) { programs.push_back(program); });
  return program;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// tile_program.hpp: what has to be computed, in tiles: matrices, and kernels in an order that is
// right one after another. A value. It knows no device's memory, no link and no time.
#pragma once
#include <array>
#include <compare>
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "problem/problem.hpp"
#include "program/panel.hpp"
#include "program/tuning.hpp"

namespace fleet {

using MatrixId = std::int32_t;
using OpId = std::int32_t;
using ScalarId = std::uint16_t;
inline constexpr MatrixId kNoMatrix = -1;
inline constexpr OpId kNoOp = -1;

/// Tile (row, col) of a stored matrix, in its stored coordinates. Item b of a batch has the rows
/// from b * Matrix::tile_rows() on.
struct TileId {
  MatrixId matrix = 0;
  int row = 0;
  int col = 0;
  bool exists() const { return matrix >= 0; }
  friend auto operator<=>(const TileId&, const TileId&) = default;
};
inline constexpr TileId kNoTile{kNoMatrix, 0, 0};

/// Which elements of a tile count. Those outside a triangle (or, in a tile that is not square, a
/// trapezoid with the tile's first diagonal) are neither read nor written.
enum class Fill : std::uint8_t { full, lower, upper };

/// The structure of a matrix. A symmetric, Hermitian or triangular one stores one
/// triangle; the diagonal of a Hermitian result is real.
enum class Structure : std::uint8_t {
  general,
  symmetric,
  hermitian,
  triangular,
  unit_triangular  ///< ones on the diagonal, which are not stored
};

/// The contents of a place: the elements of a tile, or data prepared from them, once for each
/// device, for ops that ask for it.
enum class Form : std::uint8_t {
  stored,
  inverses  ///< of the blocks on the diagonal of a triangle, side by side; a solve may do without
};

/// Where the tiles of one dimension begin: 0 = cuts[0] < cuts[1] < ... < cuts[count] = size.
/// An empty dimension has the single cut 0 and no tiles.
using Cuts = std::vector<std::int64_t>;
inline int tile_count(const Cuts& cuts) { return static_cast<int>(cuts.size()) - 1; }
std::int64_t longest_piece(const Cuts& cuts);  ///< in elements; 0 where there is none

/// Where the tiles of a matrix belong, 2D block-cyclic: blocks of elements to the rows and columns
/// of a grid of devices in turn.
struct Distribution {
  Grid grid;
  std::int64_t block = 1;         ///< edge in elements
  std::vector<DeviceId> devices;  ///< of the grid, row by row
  std::int64_t row = 0, col = 0;  ///< where this begins in the matrix that was distributed

  int grid_row(std::int64_t at) const { return static_cast<int>((row + at) / block % grid.rows); }
  int grid_col(std::int64_t at) const { return static_cast<int>((col + at) / block % grid.cols); }
  DeviceId owner_of(std::int64_t row_at, std::int64_t col_at) const {
    return devices[static_cast<std::size_t>(grid_row(row_at) * grid.cols + grid_col(col_at))];
  }
  /// Where its blocks begin in `size` rows or columns, of which the first is that of `at`.
  Cuts cuts_of(std::int64_t size, std::int64_t at) const;
  friend bool operator==(const Distribution&, const Distribution&) = default;
};

/// A stored matrix (column-major) as a program sees it: shape, cuts and home; no pointer.
struct Matrix {
  Storage storage = Storage::f64;
  Cuts row_cuts, col_cuts;  ///< of one item
  int items = 1;            ///< of a batch, each a matrix of its own
  DeviceId home = kHost;
  Structure structure = Structure::general;
  Fill diagonal = Fill::full;  ///< of the tiles on the diagonal: the triangle that counts
  bool is_read = false;        ///< some op reads a tile of it
  bool is_written = false;     ///< some op writes a tile of it
  /// Its tiles stay on devices, in memory that outlives the plan, for later programs.
  bool stays = false;
  /// Whether it is complete at home after the program. One that stays need not be.
  bool returns = true;
  /// Where its tiles belong, if that was asked for: they are computed there if that is as fast.
  std::optional<Distribution> distribution = {};
  /// It is in slots only while the program runs, and has no home.
  bool is_scratch = false;
  std::optional<Panel> panel = {};  ///< a factored panel, or its outcome

  int tile_rows() const { return tile_count(row_cuts); }  ///< of one item
  int tile_cols() const { return tile_count(col_cuts); }
  /// Is the tile one that counts? Of a triangle, the others are not stored.
  bool has_tile(int row, int col) const {
    return diagonal == Fill::full || (diagonal == Fill::lower ? row >= col : row <= col);
  }
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

/// A tile kernel. C is the target of the op, A and B its inputs, alpha and beta its scalars.
enum class Kernel : std::uint8_t {
  multiply,  ///< C = alpha*op(A)*op(B) + (by Accumulate) C. With a triangular A or B the other one
             ///< may be C itself, whose place the product takes
  add,       ///< C += beta*A, the caller's tile, or += A, a sum over some ops of the same tile
  scale,     ///< C = beta*C; zero when beta == 0, whatever was there
  solve,     ///< C = op(A)^-1 * (by Accumulate) C, or C * op(B)^-1: the other input is the same
             ///< triangle as Form::inverses
  prepare,   ///< C = another form of A, for ops that read A in it
  gemv,      ///< C^T = alpha*op(A)*B^T + (by Accumulate) C^T, vectors being matrices of one row
  axpy,      ///< C = alpha*A + (by Accumulate) C
  dot,       ///< C = alpha*op(A)*B^T + (by Accumulate) C
  narrow,    ///< C = A in single precision, with what a norm needs of A's rows in B. In no program
  pack,      ///< columns of C = the rows of A that B names (RowNumber). In no program
  unpack,    ///< rows of C that B names = columns of A. In no program
  // Of factorizations, whose tiles are strips, panels (panel.hpp) and their outcomes:
  update,    ///< strip C = the factorization so far, of the panel A too
  factor,    ///< panel C = the strip A factored
  outcome,   ///< C = pivots or scalar factors, and info, of the panel A
  adopt,     ///< strip C gets its own factored panel A
  exchange,  ///< rows of the strip C are exchanged by the outcome A
  reload,    ///< panel C = what factor made of the strip A, which has adopted it; B: its outcome
};
inline constexpr int kKernels = 17;
const char* to_string(Kernel kernel);
/// Its time follows the bytes that it streams, not its multiply-adds.
constexpr bool has_vectors(Kernel kernel) {
  return kernel >= Kernel::gemv && kernel <= Kernel::dot;
}
constexpr bool factors(Kernel kernel) { return kernel >= Kernel::update; }
/// Of those the kernels that only copy.
constexpr bool copies_factors(Kernel kernel) { return kernel > Kernel::factor; }
/// Its time and its watts are those of the device's memory.
constexpr bool streams_memory(Kernel kernel) {
  return kernel == Kernel::add || kernel == Kernel::scale ||
         (kernel >= Kernel::narrow && kernel <= Kernel::unpack) || has_vectors(kernel) ||
         copies_factors(kernel);
}
/// It adds a product to its target; a tile is made of such products.
constexpr bool is_product(Kernel kernel) {
  return kernel == Kernel::multiply || has_vectors(kernel);
}

/// How a kernel treats the old contents of its target.
enum class Accumulate : std::uint8_t {
  overwrite,  ///< not read at all, so it may be uninitialised
  beta,       ///< times the op's beta
  sum,        ///< times one
};

/// One input of an op: a stored tile, and how and in what form it is read.
struct Factor {
  TileId tile = kNoTile;
  Op op = Op::none;
  Form form = Form::stored;
  bool is_stored_tile() const { return tile.exists() && form == Form::stored; }
  friend bool operator==(const Factor&, const Factor&) = default;
};

/// One tile kernel. Its target is that of its chain.
struct TileOp {
  std::array<Factor, 2> inputs{};  ///< along the rows of the target, along its columns
  Kernel kernel = Kernel::multiply;
  Accumulate accumulate = Accumulate::sum;
  Compute compute = Compute::native;
  ScalarId alpha = 0;
  ScalarId beta = 0;
  friend bool operator==(const TileOp&, const TileOp&) = default;
};

/// The ops of one call that write one tile, in their order: after n of them the tile has its n-th
/// version of this call.
struct OpChain {
  TileId target;
  OpId first = 0;
  std::int32_t ops = 0;
  friend bool operator==(const OpChain&, const OpChain&) = default;
};

/// Where the tiles of a call begin, along the rows and columns of C and along k.
struct CallCuts {
  Cuts m, n, k;
  friend bool operator==(const CallCuts&, const CallCuts&) = default;
};

/// The part of a program that one call became. `problem` is for texts and bounds; planning
/// knows only matrices, chains and ops.
struct ProgramCall {
  Problem problem;
  CallCuts cuts;
  std::array<MatrixId, 3> matrices{0, 1, 2};
  int first_chain = 0;
  int chains = 0;
  int longest_chain = 0;       ///< in ops
  bool reads_target = false;   ///< some op reads a tile of the matrix that the call writes
  bool reads_results = false;  ///< such an op reads what an earlier chain of the call made of it
  MatrixId target() const { return matrices[kC]; }
  friend bool operator==(const ProgramCall&, const ProgramCall&) = default;
};

/// The part of a factorization that one program does. In core it is all of it. Where the strips do
/// not fit into memory, some strips at a time are updated by all panels before them, which are at
/// home, and then factored; and the row exchanges of later panels follow at the end.
struct Stage {
  int begin = 0, end = 0;  ///< of the strips
  bool only_exchanges = false;
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// The matrices of the program of a factorization. A strip is a matrix of one tile, and so is a
/// factored panel, which is the copy of it that updates read, and its outcome (pivots, or scalar
/// factors of reflectors; info), which goes home.
struct Strips {
  Factorization what;
  Cuts cuts;       ///< of the columns (of the rows where potrf has the upper triangle)
  int panels = 0;  ///< the first strips are factored
  /// Updates take floats as pairs of halves, whose products are nearly as exact (of what is
  /// refined).
  bool in_halves = false;
  Stage stage;

  int count() const { return tile_count(cuts); }
  std::int64_t begin_of(int strip) const { return cuts[static_cast<std::size_t>(strip)]; }
  std::int64_t width_of(int strip) const {
    return cuts[static_cast<std::size_t>(strip) + 1] - begin_of(strip);
  }
  bool is_flat() const { return what.routine == Factoring::potrf && what.uplo == Uplo::upper; }
  /// Where on the matrix a strip begins along its own length: at the diagonal if only a triangle is
  /// stored.
  std::int64_t top_of(int strip) const {
    return what.routine == Factoring::potrf ? begin_of(strip) : 0;
  }
  /// Where a strip lies before and after.
  DeviceId home_of(int strip) const {
    if (what.dealt.empty()) return what.home;
    return what.dealt[static_cast<std::size_t>(strip) % what.dealt.size()];
  }
  Panel panel_of(int panel) const;
  /// Of the first panels, one after another, in elements.
  std::int64_t outcome_elements(int panels_before) const;
  TileId strip(int j) const { return {static_cast<MatrixId>(j), 0, 0}; }
  TileId panel(int k) const { return {static_cast<MatrixId>(count() + k), 0, 0}; }
  TileId outcome(int k) const { return {static_cast<MatrixId>(count() + panels + k), 0, 0}; }
  friend bool operator==(const Strips&, const Strips&) = default;
};

/// Scalars by id: two constants, then those of each call.
inline constexpr ScalarId kOne = 0, kMinusOne = 1;
/// Of a factorization, which has no calls: what the rows above a panel's others are divided by
/// before they become halves.
inline constexpr ScalarId kScaleOfHalves = 2;
inline constexpr int kScalarsOfCall = 3;
constexpr ScalarId alpha_of(int call) { return static_cast<ScalarId>(2 + kScalarsOfCall * call); }
constexpr ScalarId beta_of(int call) { return static_cast<ScalarId>(alpha_of(call) + 1); }
constexpr ScalarId conjugate_alpha_of(int call) {
  return static_cast<ScalarId>(alpha_of(call) + 2);
}

/// The products that an update of a factorization takes as long as: `times` of this shape.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  int times = 1;
};

/// Matrices, and chains of ops that are right one after another. Two programs over the same
/// matrices, one after the other, are a program.
struct TileProgram {
  std::vector<Matrix> matrices;
  std::vector<OpChain> chains;
  std::vector<TileOp> ops;
  std::vector<ProgramCall> calls;
  std::optional<Strips> strips = {};  ///< of a factorization, which has no calls

  /// Does a worker on `device` use the matrix where it is at home?
  bool in_place(MatrixId matrix, DeviceId device, const Tuning& tuning) const;
  const Matrix& matrix_of(const TileId& tile) const {
    return matrices[static_cast<std::size_t>(tile.matrix)];
  }
  const TileOp& op(OpId id) const { return ops[static_cast<std::size_t>(id)]; }
  /// In which an op on `target` is computed.
  DataType type_of(const TileOp& op, const TileId& target) const {
    return {op.compute, matrix_of(target).storage};
  }
  std::int64_t element_bytes_of(const TileId& tile) const {
    return fleet::bytes_of(matrix_of(tile).storage);
  }

  Fill fill_of(const TileId& tile) const;
  /// Shape of a tile in a form, in elements.
  std::int64_t rows_of(const TileId& tile, Form form = Form::stored) const;
  std::int64_t cols_of(const TileId& tile, Form form = Form::stored) const;
  /// Dense: rows * cols * element.
  std::int64_t bytes_of(const TileId& tile, Form form = Form::stored) const;
  std::int64_t moved_bytes_of(const TileId& tile) const;  ///< by a copy: elements that count
  double share_of(const TileId& tile) const;  ///< of its elements that count: 1 unless a triangle
  /// Can the form be prepared from the tile?
  bool has_form(const TileId& tile, Form form) const;
  /// Does the device prepare it, for the ops that ask for it?
  bool is_prepared(const TileId& tile, Form form, const Device& device) const;
  /// The most that tiles in prepared forms take on the device.
  std::int64_t prepared_bytes(const Device& device) const;
  /// The data that a copy of the tile moves. A tile of whole columns counts as contiguous at home:
  /// leading dimensions are the call's, not the program's.
  Cargo cargo_of(const TileId& tile) const;
  /// The length of a product's sums: the columns of its first factor as it is read.
  std::int64_t depth_of(const TileOp& op, const TileId& target) const;
  /// Multiply-adds of a product or solve as a share of those of whole tiles: less for triangles.
  double work_of(const TileOp& op, const TileId& target) const;
  /// Multiply-adds of a product or solve on `target`.
  double multiply_adds_of(const TileOp& op, const TileId& target) const;
  ProductShape product_of_update(const TileOp& op, const TileId& target) const;
  /// Where the panel of an op of a factorization begins along the strip `target` (or the strip that
  /// it reads); negative: the strip begins within the panel.
  std::int64_t offset_of(const TileOp& op, const TileId& target) const;
  /// Bytes that a kernel with vectors, or one that copies factors, reads and writes.
  std::int64_t streamed_bytes_of(const TileOp& op, const TileId& target) const;
  /// Bytes of rows that an exchange, or an update before its product, reads and writes.
  std::int64_t exchanged_bytes_of(const TileOp& op, const TileId& target) const;
  friend bool operator==(const TileProgram&, const TileProgram&) = default;
};

/// The order of the blocks of Form::inverses: as large as fit the memory of
/// a GPU's multiprocessor, so that few and large products remain.
constexpr std::int64_t inverse_block(Storage storage) { return storage == Storage::c64 ? 64 : 128; }

}  // namespace fleet

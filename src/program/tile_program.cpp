// SPDX-License-Identifier: BSD-3-Clause
// tile_program.cpp: the shapes of tiles in their forms, and the work of kernels on them.
#include "program/tile_program.hpp"

#include <algorithm>

#include "base/sizes.hpp"
#include "program/triangle_panels.hpp"

namespace fleet {

const char* to_string(Kernel kernel) {
  constexpr std::array<const char*, kKernels> kWords{
      "multiply", "add",    "scale",  "solve",  "prepare", "gemv",  "axpy",     "dot",   "narrow",
      "pack",     "unpack", "update", "factor", "outcome", "adopt", "exchange", "reload"};
  return kWords[static_cast<std::size_t>(kernel)];
}

std::int64_t longest_piece(const Cuts& cuts) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    longest = std::max(longest, cuts[i + 1] - cuts[i]);
  return longest;
}

Cuts Distribution::cuts_of(std::int64_t size, std::int64_t at) const {
  Cuts cuts{0};
  for (std::int64_t next = block - at % block; next < size; next += block) cuts.push_back(next);
  if (size > 0) cuts.push_back(size);
  return cuts;
}

namespace {

/// Multiply-adds of an op of a factorization, to the leading order.
double factor_work(const TileProgram& program, const TileOp& op, const TileId& target) {
  const TileId& holder = op.kernel == Kernel::factor ? target : op.inputs[0].tile;
  if (copies_factors(op.kernel)) return 0;
  const Panel& panel = *program.matrix_of(holder).panel;
  const auto length = static_cast<double>(panel.length), width = static_cast<double>(panel.width);
  if (op.kernel == Kernel::factor) {
    const double lu = width * width * (length / 2 - width / 6);
    return panel.routine == Factoring::potrf   ? width * width * (length - width * 2 / 3) / 2
           : panel.routine == Factoring::getrf ? lu
                                               : 2 * lu;
  }
  const std::int64_t rows = program.rows_of(target), cols = program.cols_of(target);
  switch (panel.routine) {
    case Factoring::potrf:
      return static_cast<double>(rows) * static_cast<double>(cols) * width;
    case Factoring::getrf:
      return (length - width / 2) * width * static_cast<double>(cols);
    default:
      return 2 * length * width * static_cast<double>(cols);
  }
}

}  // namespace

Fill TileProgram::fill_of(const TileId& tile) const {
  return tile.row == tile.col ? matrix_of(tile).diagonal : Fill::full;
}

std::int64_t TileProgram::rows_of(const TileId& tile, Form form) const {
  const Matrix& matrix = matrix_of(tile);
  if (form == Form::inverses) return inverse_block(matrix.storage);
  const auto row =
      static_cast<std::size_t>(matrix.items == 1 ? tile.row : tile.row % matrix.tile_rows());
  return matrix.row_cuts[row + 1] - matrix.row_cuts[row];
}

std::int64_t TileProgram::cols_of(const TileId& tile, Form form) const {
  const Cuts& cuts = matrix_of(tile).col_cuts;
  const auto col = static_cast<std::size_t>(tile.col);
  const std::int64_t cols = cuts[col + 1] - cuts[col];
  if (form == Form::stored) return cols;
  const std::int64_t block = rows_of(tile, form);
  return round_up(cols, block);
}

std::int64_t TileProgram::bytes_of(const TileId& tile, Form form) const {
  return rows_of(tile, form) * cols_of(tile, form) * element_bytes_of(tile);
}

bool TileProgram::has_form(const TileId& tile, Form form) const {
  return form == Form::stored ||
         (matrix_of(tile).structure >= Structure::triangular && fill_of(tile) != Fill::full);
}

bool TileProgram::is_prepared(const TileId& tile, Form form, const Device& device) const {
  return form == Form::inverses && device.inverse_order > 0 &&
         rows_of(tile) >= device.inverse_order;
}

std::int64_t TileProgram::prepared_bytes(const Device& device) const {
  std::int64_t bytes = 0;
  if (device.inverse_order <= 0) return bytes;
  for (MatrixId id = 0; id < std::ssize(matrices); ++id)
    for (int tile = 0; tile < matrices[static_cast<std::size_t>(id)].tile_rows(); ++tile)
      if (has_form({id, tile, tile}, Form::inverses))
        bytes += bytes_of({id, tile, tile}, Form::inverses);
  return bytes;
}

std::int64_t TileProgram::moved_bytes_of(const TileId& tile) const {
  if (fill_of(tile) == Fill::full) return bytes_of(tile);
  const std::int64_t rows = rows_of(tile), cols = cols_of(tile), edge = std::min(rows, cols);
  return (rows * cols - edge * (edge - 1) / 2) * element_bytes_of(tile);
}

double TileProgram::share_of(const TileId& tile) const {
  if (fill_of(tile) == Fill::full) return 1;
  return static_cast<double>(moved_bytes_of(tile)) / static_cast<double>(bytes_of(tile));
}

Cargo TileProgram::cargo_of(const TileId& tile) const {
  const Matrix& matrix = matrix_of(tile);
  const std::int64_t rows = rows_of(tile), element = element_bytes_of(tile);
  Cargo cargo{.bytes = bytes_of(tile),
              .columns = cols_of(tile),
              .column_bytes = rows == matrix.row_cuts.back() ? 0 : rows * element,
              .apart_bytes = (strips ? strips->what.m : matrix.row_cuts.back()) * element,
              .home = matrix.home};
  if (fill_of(tile) == Fill::full) return cargo;
  // Panels of the square, each as long as its longest column, with what is below it, and what is
  // beside it.
  const std::int64_t edge = std::min(rows, cargo.columns), width = panel_columns(edge);
  std::int64_t elements = rows * cargo.columns - edge * edge;
  cargo.copies = cargo.columns > edge ? 1 : 0;
  for (std::int64_t col = 0; col < edge; col += width, ++cargo.copies)
    elements += (edge - col) * std::min(width, edge - col);
  cargo.bytes = elements * element;
  cargo.column_bytes = ceil_div(cargo.bytes, cargo.columns);
  return cargo;
}

std::int64_t TileProgram::depth_of(const TileOp& op, const TileId& target) const {
  const Factor& left = op.inputs[0];
  const Factor& right = op.inputs[1];
  switch (op.kernel) {
    case Kernel::multiply:
      return left.op == Op::none ? cols_of(left.tile) : rows_of(left.tile);
    case Kernel::solve:
      return rows_of(left.tile);
    case Kernel::gemv:
    case Kernel::dot:
      return cols_of(right.tile);
    default:
      return std::min<std::int64_t>(1, cols_of(target));
  }
}

double TileProgram::work_of(const TileOp& op, const TileId& target) const {
  if (factors(op.kernel)) return 1;
  for (const Factor& input : op.inputs)
    if (input.tile.exists() && matrix_of(input.tile).structure >= Structure::triangular &&
        fill_of(input.tile) != Fill::full)
      return share_of(input.tile);
  return share_of(target);
}

double TileProgram::multiply_adds_of(const TileOp& op, const TileId& target) const {
  if (factors(op.kernel)) return factor_work(*this, op, target);
  return static_cast<double>(rows_of(target)) * static_cast<double>(cols_of(target)) *
         static_cast<double>(depth_of(op, target)) * work_of(op, target);
}

bool TileProgram::in_place(MatrixId matrix, DeviceId device, const Tuning& tuning) const {
  const DeviceId home = matrices[static_cast<std::size_t>(matrix)].home;
  if (on_host(device)) return on_host(home);
  if (tuning.own_copies) return false;
  if (home == device) return true;
  return on_host(home) && std::ranges::find(tuning.sharing, device) != tuning.sharing.end();
}

ProductShape TileProgram::product_of_update(const TileOp& op, const TileId& target) const {
  const Panel& panel = *matrix_of(op.inputs[0].tile).panel;
  const std::int64_t rows = rows_of(target), cols = cols_of(target);
  // As long as the panel, or as what is left of it along the strip.
  if (panel.routine == Factoring::potrf)
    return {.m = std::max(rows, cols), .n = std::min(rows, cols), .k = panel.width};
  return {.m = panel.length,
          .n = cols,
          .k = panel.width,
          .times = panel.routine == Factoring::geqrf ? 2 : 1};
}

std::int64_t TileProgram::offset_of(const TileOp& op, const TileId& target) const {
  const bool reads_strip = op.kernel == Kernel::factor || op.kernel == Kernel::reload;
  const TileId& strip = reads_strip ? op.inputs[0].tile : target;
  const TileId& other = reads_strip ? target : op.inputs[0].tile;
  return matrix_of(other).panel->begin - strips->top_of(strip.matrix);
}

// Two rows for each pivot are read and written. One is among the first rows; the other is anywhere,
// and memory gives no less than a sector of it.
std::int64_t TileProgram::exchanged_bytes_of(const TileOp& op, const TileId& target) const {
  constexpr std::int64_t kSector = 32;
  const Panel& panel = *matrix_of(op.inputs[0].tile).panel;
  if (panel.routine != Factoring::getrf) return 0;
  const std::int64_t bytes = element_bytes_of(target);
  return 2 * (bytes + std::max(bytes, kSector)) * panel.width * cols_of(target);
}

std::int64_t TileProgram::streamed_bytes_of(const TileOp& op, const TileId& target) const {
  if (op.kernel == Kernel::exchange) return exchanged_bytes_of(op, target);
  if (copies_factors(op.kernel)) return 2 * std::min(bytes_of(target), bytes_of(op.inputs[0].tile));
  const std::int64_t n = cols_of(target), k = depth_of(op, target);
  const std::int64_t second = op.inputs[1].tile.exists() ? k : 0;
  return (n * k + second + 2 * n) * element_bytes_of(target);
}

}  // namespace fleet

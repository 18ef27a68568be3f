// SPDX-License-Identifier: BSD-3-Clause
// described.cpp: the nine numbers of a descriptor, and what is refused.
#include "routines/described.hpp"

namespace fleet::lu {
namespace {

/// The places of a descriptor's numbers.
enum Word { kType, kContext, kRows, kCols, kBlockRows, kBlockCols, kFirstRow, kFirstCol, kLd };
constexpr int kDense = 1;

[[noreturn]] void refuse(const std::string& text) { throw Refusal(FLEET_BAD_ARGUMENT, text); }
[[noreturn]] void lack(const std::string& text) { throw Refusal(FLEET_UNSUPPORTED, text); }

void check_descriptor(const Operand& o, const Grid& grid) {
  const std::string desc = "desc" + o.name;
  const int* const d = o.descriptor;
  if (d == nullptr) refuse(desc + " is null");
  const auto at = [&](Word word) { return desc + "[" + std::to_string(word) + "]"; };
  const auto text = [&](Word word) { return at(word) + " = " + std::to_string(d[word]); };
  if (d[kType] != kDense) refuse(text(kType) + " is not that of a dense matrix, 1");
  for (const Word word : {kRows, kCols})
    if (d[word] < 0) refuse(text(word) + " is negative");
  for (const Word word : {kBlockRows, kBlockCols})
    if (d[word] < 1) refuse(text(word) + " is not positive");
  if (d[kFirstRow] < 0 || d[kFirstRow] >= grid.rows)
    refuse(text(kFirstRow) + " is no row of the grid");
  if (d[kFirstCol] < 0 || d[kFirstCol] >= grid.cols)
    refuse(text(kFirstCol) + " is no column of the grid");
}

/// From index `begin` on, which counts from 0, in blocks of nb.
Dimension part_of(const Dimension& whole, std::int64_t begin, std::int64_t size, std::int64_t nb) {
  const std::int64_t block = begin / whole.blocks.nb;
  const int first = static_cast<int>((whole.first + block) % whole.blocks.parts);
  return {{size, nb, whole.blocks.parts}, first};
}

bool is_in_one_block(const Dimension& whole, std::int64_t begin, std::int64_t size) {
  return begin % whole.blocks.nb + size <= whole.blocks.nb;
}

void check_part(const Operand& o, const char* index, std::int64_t begin, std::int64_t size,
                const Dimension& whole) {
  const std::string text = index + o.name + " = " + std::to_string(begin + 1);
  if (begin < 0) refuse(text + " is not positive");
  if (size > whole.size() - begin && size > 0)
    refuse(text + ": " + std::to_string(size) + " from there on are more than the matrix has");
}

/// Of the squares that a part is seen in. Where its rows, or its columns, are of one block, a
/// larger block would have them too, beginning where they do: as columns of right sides often are.
std::int64_t block_size(const Operand& o, const Dimension& rows, const Dimension& cols) {
  const bool rows_in_one = is_in_one_block(rows, o.i - 1, o.rows);
  const bool cols_in_one = is_in_one_block(cols, o.j - 1, o.cols);
  const std::int64_t by_rows = rows.blocks.nb, by_cols = cols.blocks.nb;
  if (o.rows == 0 || o.cols == 0) return by_rows;
  if ((!rows_in_one && (o.i - 1) % by_rows != 0) || (!cols_in_one && (o.j - 1) % by_cols != 0))
    lack("i" + o.name + " = " + std::to_string(o.i) + " and j" + o.name + " = " +
         std::to_string(o.j) + " are not where a block begins, and only that is supported");
  if (by_rows == by_cols) return by_rows;
  if (cols_in_one && o.cols <= by_rows) return by_rows;
  if (rows_in_one && o.rows <= by_cols) return by_cols;
  lack("blocks of " + o.name + " are " + std::to_string(by_rows) + " x " + std::to_string(by_cols) +
       ", and only squares are supported");
}

}  // namespace

ConstDealt described(const Grid& grid, const Operand& o) {
  check_descriptor(o, grid);
  const int* const d = o.descriptor;
  const Dimension rows{{d[kRows], d[kBlockRows], grid.rows}, d[kFirstRow]};
  const Dimension cols{{d[kCols], d[kBlockCols], grid.cols}, d[kFirstCol]};
  check_part(o, "i", o.i - 1, o.rows, rows);
  check_part(o, "j", o.j - 1, o.cols, cols);
  if (d[kLd] < std::max<std::int64_t>(1, rows.local_size(grid.row)))
    refuse("desc" + o.name + "[8] = " + std::to_string(d[kLd]) + " is less than the " +
           std::to_string(rows.local_size(grid.row)) + " rows that the rank has");
  const std::int64_t nb = block_size(o, rows, cols);
  ConstDealt part{part_of(rows, o.i - 1, o.rows, nb), part_of(cols, o.j - 1, o.cols, nb),
                  o.elements, d[kLd]};
  if (part.rows.local_size(grid.row) == 0 || part.cols.local_size(grid.col) == 0) return part;
  if (o.elements == nullptr) refuse(o.name + " is null");
  part.elements +=
      rows.local_begin(o.i - 1, grid.row) + cols.local_begin(o.j - 1, grid.col) * part.ld;
  return part;
}

Dealt described(const Grid& grid, const Operand& operand, double* elements) {
  Operand same = operand;
  same.elements = elements;
  const ConstDealt part = described(grid, same);
  return {part.rows, part.cols,
          elements == nullptr ? nullptr : elements + (part.elements - same.elements), part.ld};
}

void check_blocks(std::initializer_list<ConstDealt> operands) {
  std::int64_t nb = 0;
  for (const ConstDealt& operand : operands) {
    if (operand.rows.size() == 0 || operand.cols.size() == 0) continue;
    if (nb != 0 && operand.rows.blocks.nb != nb)
      lack("blocks of the matrices are " + std::to_string(nb) + " and " +
           std::to_string(operand.rows.blocks.nb) + " wide, and only one size is supported");
    nb = operand.rows.blocks.nb;
  }
}

}  // namespace fleet::lu

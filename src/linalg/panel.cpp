// SPDX-License-Identifier: BSD-3-Clause
// panel.cpp: the kernels of factorizations (program/panel.hpp) without a program.
#include "linalg/panel.hpp"

#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "linalg/host_matrix.hpp"
#include "program/panel.hpp"

namespace fleet::linalg {
namespace {

Panel layout_of(Storage storage, std::int64_t rows, std::int64_t width) {
  return {.routine = Factoring::getrf,
          .length = rows,
          .width = width,
          .element_bytes = bytes_of(storage)};
}

View view_of(const Panel& layout, void* data) {
  return {.data = data, .rows = layout.rows(), .cols = layout.cols(), .ld = layout.rows()};
}

}  // namespace

std::int64_t panel_bytes(Storage storage, std::int64_t rows, std::int64_t width) {
  if (width == 0) return 0;
  const Panel layout = layout_of(storage, rows, width);
  std::int64_t elements = 0, bytes = 0;
  if (__builtin_mul_overflow(layout.rows(), layout.cols(), &elements) ||
      __builtin_mul_overflow(elements, layout.element_bytes, &bytes))
    throw Error(Status::bad_argument, "a panel of so many rows and columns has no size");
  return bytes;
}

void factor_panel(const Level3& on, const View& a, const LuPanel& panel) {
  if (panel.width == 0) return;
  const Panel layout = layout_of(on.storage(), panel.rows, panel.width);
  const View tile = view_of(layout, panel.data);
  const DataType type{.storage = on.storage()};
  const Launch launches[] = {
      {.kernel = Kernel::factor, .type = type, .a = a, .c = tile, .panel = layout},
      {.kernel = Kernel::adopt, .type = type, .a = tile, .c = a, .panel = layout}};
  const Context::InPlace operands[] = {{a, on.storage(), Access::update},
                                       {tile, on.storage(), Access::write}};
  on.context().compute_in_place(launches, operands);
}

std::int64_t panel_pivots(const Level3& on, const LuPanel& panel, std::int64_t* pivots) {
  if (panel.width == 0) return 0;
  const Panel layout = layout_of(on.storage(), panel.rows, panel.width);
  const View tile = view_of(layout, panel.data);
  // As a column of the tile, with the notes that are of interest.
  std::vector<std::int32_t> notes(
      static_cast<std::size_t>(layout.note_elements() * layout.element_bytes) /
      sizeof(std::int32_t));
  const View column = part(tile, on.storage(), 0, layout.width, layout.note_elements(), 1);
  const View home{.data = notes.data(), .rows = column.rows, .cols = 1, .ld = column.rows};
  on.context().copy(home, column, on.storage());
  for (std::int64_t i = 0; i < layout.width; ++i)
    pivots[i] = notes[static_cast<std::size_t>(Panel::kPivots + i)] + 1;
  return notes[Panel::kInfo];
}

void apply_panel(const Level3& on, const LuPanel& panel, const View& c) {
  if (panel.width == 0 || is_empty(c)) return;
  const Panel layout = layout_of(on.storage(), panel.rows, panel.width);
  const View tile = view_of(layout, panel.data);
  const Launch launches[] = {{.kernel = Kernel::update,
                              .type = {.storage = on.storage()},
                              .a = tile,
                              .c = c,
                              .panel = layout}};
  const Context::InPlace operands[] = {{c, on.storage(), Access::update},
                                       {tile, on.storage(), Access::read}};
  on.context().compute_in_place(launches, operands);
}

void update_by_panel(const Level3& on, const View& l, const View& upper, const View& c) {
  if (is_empty(upper)) return;
  const DataType type{.storage = on.storage()};
  const std::int64_t width = l.cols;
  std::vector<Launch> launches{{.kernel = Kernel::solve,
                                .type = type,
                                .beta = 1.0,
                                .a = on.part_of(l, 0, 0, width, width, Fill::lower),
                                .c = upper,
                                .triangular = true,
                                .diag = Diag::unit}};
  std::vector<Context::InPlace> operands{{l, on.storage(), Access::read},
                                         {upper, on.storage(), Access::update}};
  if (!is_empty(c)) {
    launches.push_back({.type = type,
                        .alpha = -1.0,
                        .beta = 1.0,
                        .a = on.part_of(l, width, 0, c.rows, width),
                        .b = upper,
                        .c = c});
    operands.push_back({c, on.storage(), Access::update});
  }
  on.context().compute_in_place(launches, operands);
}

}  // namespace fleet::linalg

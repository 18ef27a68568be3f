// SPDX-License-Identifier: BSD-3-Clause
// panels.cpp: panels by the CPU's LAPACK, updates by products. It must not know plans.
#include "cpu/panels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "cpu/copies.hpp"
#include "cpu/element.hpp"
#include "cpu/halves.hpp"
#include "cpu/lapack.hpp"
#include "cpu/triangular.hpp"

namespace fleet {
namespace {

/// The notes of a panel, or of its outcome. Where panels are flat, there is one.
std::int32_t* notes_of(const Launch& launch, const View& tile) {
  const std::int64_t bytes = bytes_of(launch.type.storage);
  const bool is_flat = launch.panel.is_flat;
  const bool is_outcome = tile.cols == 1 && (!is_flat || tile.rows == 1);
  const std::int64_t at = is_outcome ? 0 : launch.panel.width * (is_flat ? 1 : tile.ld);
  return reinterpret_cast<std::int32_t*>(static_cast<char*>(tile.data) + at * bytes);
}

char* element(const View& view, Storage storage, std::int64_t row, std::int64_t col) {
  return static_cast<char*>(view.data) + (row + col * view.ld) * bytes_of(storage);
}

/// The part of a strip from where the panel begins.
View part_of_strip(const Launch& launch, const View& strip, std::int64_t along, std::int64_t size,
                   Fill fill = Fill::full) {
  const std::int64_t begin = launch.offset + along;
  return launch.panel.is_flat ? part(strip, launch.type.storage, 0, begin, strip.rows, size, fill)
                              : part(strip, launch.type.storage, begin, 0, size, strip.cols, fill);
}

Fill stored_triangle(const Launch& launch) {
  if (launch.panel.routine != Factoring::potrf) return Fill::full;
  return launch.panel.is_flat ? Fill::upper : Fill::lower;
}

void copy_part(const Launch& launch, const View& from, const View& to) {
  copy_columns(from, to, bytes_of(launch.type.storage), 0, from.cols);
}

/// Rows of `a` change places as the notes of a panel, or of its outcome, say.
void exchange_rows(const Launch& launch, const View& tile, const View& a) {
  const std::int32_t* const pivots = notes_of(launch, tile) + Panel::kPivots;
  with_wide_element(launch.type.storage, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t col = 0; col < a.cols; ++col) {
      T* const column = static_cast<T*>(a.data) + col * a.ld;
      for (std::int64_t i = 0; i < launch.panel.width; ++i)
        if (pivots[i] != i) std::swap(column[i], column[pivots[i]]);
    }
  });
}

void factor_potrf(const Launch& launch, CpuBlas& blas) {
  const std::int64_t width = launch.panel.width, rest = launch.panel.length - width;
  const Fill fill = stored_triangle(launch);
  const View square = part_of_panel(launch, launch.c, 0, width, fill);
  notes_of(launch, launch.c)[Panel::kInfo] =
      static_cast<std::int32_t>(lapack::potrf(blas, launch.type.storage, square));
  Launch solving{.kernel = Kernel::solve,
                 .type = launch.type,
                 .op_a = Op::conjugate,
                 .beta = 1.0,
                 .a = square,
                 .c = part_of_panel(launch, launch.c, width, rest),
                 .triangular = true,
                 .side = launch.panel.is_flat ? Side::left : Side::right};
  if (rest > 0) solve(solving, blas);
}

// Kernels take no memory where they can do without: what they have changed would be lost with it.
void factor_getrf(const Launch& launch, CpuBlas& blas) {
  const View panel = part_of_panel(launch, launch.c, 0, launch.panel.length);
  std::int32_t* const notes = notes_of(launch, launch.c);
  // 64-bit pivots have room where the moves of GPUs would be.
  constexpr std::uintptr_t kWide = alignof(std::int64_t);
  const auto after = reinterpret_cast<std::uintptr_t>(notes + launch.panel.moves_begin());
  auto* const pivots = reinterpret_cast<std::int64_t*>((after + kWide - 1) / kWide * kWide);
  const std::int64_t info = lapack::getrf(blas, launch.type.storage, panel, pivots);
  notes[Panel::kInfo] = static_cast<std::int32_t>(info);
  for (std::int64_t i = 0; i < launch.panel.width; ++i)
    notes[Panel::kPivots + i] = static_cast<std::int32_t>(pivots[i] - 1);
}

/// V with its ones and zeros, from what geqrf leaves.
void spread_reflectors(const Launch& launch, const View& panel) {
  with_wide_element(launch.type.storage, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t col = 0; col < panel.cols; ++col) {
      T* const column = static_cast<T*>(panel.data) + col * panel.ld;
      std::fill(column, column + col, T(0));
      column[col] = T(1);
    }
  });
}

/// T, and V as products take it.
void complete_reflectors(const Launch& launch, CpuBlas& blas, const void* tau) {
  const View panel = part_of_panel(launch, launch.c, 0, launch.panel.length);
  const View block =
      part_of_panel(launch, launch.c, launch.panel.block_begin(), launch.panel.width);
  const std::int64_t bytes = bytes_of(launch.type.storage);
  for (std::int64_t col = 0; col < block.cols; ++col)
    std::memset(element(block, launch.type.storage, 0, col), 0,
                static_cast<std::size_t>(block.rows * bytes));
  lapack::larft(blas, launch.type.storage, panel, tau, block);
  spread_reflectors(launch, panel);
}

void factor_geqrf(const Launch& launch, CpuBlas& blas) {
  const std::int64_t width = launch.panel.width;
  const View panel = part_of_panel(launch, launch.c, 0, launch.panel.length);
  void* const tau = notes_of(launch, launch.c);  // there are no notes
  lapack::geqrf(blas, launch.type.storage, panel, tau);
  copy_part(launch, part_of_panel(launch, launch.c, 0, width, Fill::upper),
            part_of_panel(launch, launch.c, launch.panel.upper_begin(), width));
  complete_reflectors(launch, blas, tau);
}

void factor(const Launch& launch, CpuBlas& blas) {
  const std::int64_t length = launch.panel.length;
  const Fill fill = stored_triangle(launch);
  copy_part(launch, part_of_strip(launch, launch.a, 0, length, fill),
            part_of_panel(launch, launch.c, 0, length, fill));
  switch (launch.panel.routine) {
    case Factoring::potrf:
      return factor_potrf(launch, blas);
    case Factoring::getrf:
      factor_getrf(launch, blas);
      if (launch.panel.in_halves) split_panel(launch);
      return;
    case Factoring::geqrf:
      return factor_geqrf(launch, blas);
  }
}

void take_outcome(const Launch& launch) {
  const Storage storage = launch.type.storage;
  const auto bytes = static_cast<std::size_t>(bytes_of(storage));
  if (launch.panel.routine != Factoring::geqrf) {
    std::memcpy(launch.c.data, notes_of(launch, launch.a),
                static_cast<std::size_t>(launch.panel.note_count()) * sizeof(std::int32_t));
    return;
  }
  for (std::int64_t i = 0; i < launch.panel.width; ++i)
    std::memcpy(element(launch.c, storage, i, 0),
                element(launch.a, storage, launch.panel.block_begin() + i, i), bytes);
}

void adopt(const Launch& launch) {
  const std::int64_t length = launch.panel.length, width = launch.panel.width;
  if (launch.panel.routine != Factoring::geqrf)
    return copy_part(launch, part_of_panel(launch, launch.a, 0, length, stored_triangle(launch)),
                     part_of_strip(launch, launch.c, 0, length));
  // Above the diagonal and on it R, below it V.
  copy_part(launch, part_of_panel(launch, launch.a, width, length - width),
            part_of_strip(launch, launch.c, width, length - width));
  const View square = part_of_panel(launch, launch.a, 0, width),
             upper = part_of_panel(launch, launch.a, launch.panel.upper_begin(), width),
             target = part_of_strip(launch, launch.c, 0, width);
  const Storage storage = launch.type.storage;
  const auto bytes = static_cast<std::size_t>(bytes_of(storage));
  for (std::int64_t col = 0; col < width; ++col) {
    std::memcpy(element(target, storage, 0, col), element(upper, storage, 0, col),
                static_cast<std::size_t>(col + 1) * bytes);
    if (col + 1 < width)
      std::memcpy(element(target, storage, col + 1, col), element(square, storage, col + 1, col),
                  static_cast<std::size_t>(width - col - 1) * bytes);
  }
}

void exchange(const Launch& launch) {
  exchange_rows(launch, launch.a, part_of_strip(launch, launch.c, 0, launch.panel.length));
}

void reload(const Launch& launch, CpuBlas& blas) {
  const std::int64_t length = launch.panel.length;
  copy_part(launch, part_of_strip(launch, launch.a, 0, length, stored_triangle(launch)),
            part_of_panel(launch, launch.c, 0, length));
  if (launch.panel.routine == Factoring::geqrf)
    return complete_reflectors(launch, blas, launch.b.data);
  std::memcpy(notes_of(launch, launch.c), launch.b.data,
              static_cast<std::size_t>(launch.panel.note_count()) * sizeof(std::int32_t));
  if (launch.panel.in_halves) split_panel(launch);
}

/// The steps of an update, and memory for them: of its own, or little on the stack.
class CpuUpdate {
 public:
  CpuUpdate(const Launch& launch, CpuBlas& blas) : launch_(launch), blas_(blas) {}

  void run() {
    const std::int64_t width = launch_.panel.width, bytes = bytes_of(launch_.type.storage);
    if (launch_.panel.routine != Factoring::geqrf) return update(launch_, steps());
    try {
      memory_.resize(static_cast<std::size_t>(2 * width * launch_.c.cols * bytes));
      scratch_ = memory_.data();
      return update(launch_, steps());
    } catch (const std::bad_alloc&) {
      // A few columns at a time then.
    }
    alignas(64) std::array<char, kStackBytes> stack;
    scratch_ = stack.data();
    const std::int64_t each = std::max<std::int64_t>(1, kStackBytes / (2 * width * bytes));
    for (std::int64_t col = 0; col < launch_.c.cols; col += each) {
      Launch some = launch_;
      some.c = part(launch_.c, launch_.type.storage, 0, col, launch_.c.rows,
                    std::min(each, launch_.c.cols - col));
      update(some, steps());
    }
  }

 private:
  /// Two columns of the widest panel.
  static constexpr std::int64_t kStackBytes = std::int64_t{1} << 15;

  /// One pointer each, which needs no memory.
  UpdateSteps steps() {
    return {
        .multiply =
            [this](const Launch& product) {
              launch_.panel.in_halves ? multiply_halves(launch_, product, blas_)
                                      : multiply(product, blas_);
            },
        .solve = [this](const View& panel, const View& c) { solve_unit(panel, c); },
        .exchange = [this](const View& panel, const View& c) { exchange_rows(launch_, panel, c); },
        .scratch =
            [this](int which, std::int64_t rows, std::int64_t cols) {
              const std::int64_t bytes = rows * cols * bytes_of(launch_.type.storage);
              return View{.data = scratch_ + which * bytes, .rows = rows, .cols = cols, .ld = rows};
            }};
  }

  void solve_unit(const View& panel, const View& c) {
    const std::int64_t width = launch_.panel.width;
    solve({.kernel = Kernel::solve,
           .type = launch_.type,
           .beta = 1.0,
           .a = part(panel, launch_.type.storage, 0, 0, width, width, Fill::lower),
           .c = c,
           .triangular = true,
           .diag = Diag::unit},
          blas_);
  }

  const Launch& launch_;
  CpuBlas& blas_;
  std::vector<char> memory_;
  char* scratch_ = nullptr;
};

void update_potrf(const Launch& launch, const UpdateSteps& steps) {
  // The strip begins within the panel, on its own diagonal.
  const std::int64_t begin = -launch.offset, length = launch.panel.length - begin;
  const bool flat = launch.panel.is_flat;
  const std::int64_t across = flat ? launch.c.rows : launch.c.cols;
  const View head = part_of_panel(launch, launch.a, begin, across);
  // Its square is a triangle, of which nothing else may be written.
  const auto product = [&](const View& left, const View& right, const View& c, bool on_diagonal) {
    steps.multiply({.type = launch.type,
                    .op_a = flat ? Op::conjugate : Op::none,
                    .op_b = flat ? Op::none : Op::conjugate,
                    .alpha = -1.0,
                    .beta = 1.0,
                    .a = left,
                    .b = right,
                    .c = c,
                    .hermitian = on_diagonal && is_complex(launch.type.storage)});
  };
  const Storage storage = launch.type.storage;
  const Fill fill = flat ? Fill::upper : Fill::lower;
  product(head, head, part(launch.c, storage, 0, 0, across, across, fill), true);
  const std::int64_t rest = length - across;
  if (rest == 0) return;
  const View others = part_of_panel(launch, launch.a, begin + across, rest);
  if (flat)
    product(head, others, part(launch.c, storage, 0, across, across, rest), false);
  else
    product(others, head, part(launch.c, storage, across, 0, rest, across), false);
}

void update_getrf(const Launch& launch, const UpdateSteps& steps) {
  const std::int64_t width = launch.panel.width, rest = launch.panel.length - width;
  steps.exchange(launch.a, part_of_strip(launch, launch.c, 0, launch.panel.length));
  const View head = part_of_strip(launch, launch.c, 0, width);
  steps.solve(launch.a, head);
  if (rest > 0)
    steps.multiply({.type = launch.type,
                    .alpha = -1.0,
                    .beta = 1.0,
                    .a = part_of_panel(launch, launch.a, width, rest),
                    .b = head,
                    .c = part_of_strip(launch, launch.c, width, rest)});
}

void update_geqrf(const Launch& launch, const UpdateSteps& steps) {
  const std::int64_t width = launch.panel.width, cols = launch.c.cols;
  const View v = part_of_panel(launch, launch.a, 0, launch.panel.length);
  const View t = part_of_panel(launch, launch.a, launch.panel.block_begin(), width);
  const View c = part_of_strip(launch, launch.c, 0, launch.panel.length);
  const View first = steps.scratch(0, width, cols), second = steps.scratch(1, width, cols);
  steps.multiply(
      {.type = launch.type, .op_a = Op::conjugate, .alpha = 1.0, .a = v, .b = c, .c = first});
  steps.multiply(
      {.type = launch.type, .op_a = Op::conjugate, .alpha = 1.0, .a = t, .b = first, .c = second});
  steps.multiply({.type = launch.type, .alpha = -1.0, .beta = 1.0, .a = v, .b = second, .c = c});
}

}  // namespace

View part_of_panel(const Launch& launch, const View& tile, std::int64_t along, std::int64_t size,
                   Fill fill) {
  const std::int64_t width = launch.panel.width;
  return launch.panel.is_flat ? part(tile, launch.type.storage, 0, along, width, size, fill)
                              : part(tile, launch.type.storage, along, 0, size, width, fill);
}

void update(const Launch& launch, const UpdateSteps& steps) {
  switch (launch.panel.routine) {
    case Factoring::potrf:
      return update_potrf(launch, steps);
    case Factoring::getrf:
      return update_getrf(launch, steps);
    case Factoring::geqrf:
      return update_geqrf(launch, steps);
  }
}

void run_factoring(const Launch& launch, CpuBlas& blas) {
  switch (launch.kernel) {
    case Kernel::factor:
      return factor(launch, blas);
    case Kernel::outcome:
      return take_outcome(launch);
    case Kernel::adopt:
      return adopt(launch);
    case Kernel::exchange:
      return exchange(launch);
    case Kernel::reload:
      return reload(launch, blas);
    default:
      return CpuUpdate(launch, blas).run();
  }
}

}  // namespace fleet

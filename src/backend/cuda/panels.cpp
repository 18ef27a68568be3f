// SPDX-License-Identifier: BSD-3-Clause
// panels.cpp: panels by halves, down to columns that one grid factors: the halves meet in products.
// It knows no plan.
#include "backend/cuda/panels.hpp"

#include <algorithm>
#include <string>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "base/error.hpp"
#include "base/sizes.hpp"

namespace fleet::cuda {
namespace {

std::size_t aligned(std::size_t bytes) {
  return round_up(bytes, static_cast<std::size_t>(kAlignmentBytes));
}

char* after(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + aligned(bytes); }

/// Two halves that are whole pieces, but for the last piece of all.
std::int64_t first_half(std::int64_t width, std::int64_t piece) {
  return ceil_div(ceil_div(width, piece), 2) * piece;
}

void require_rows(BaseShape shape, std::int64_t rows) {
  if (shape.width == 0)
    throw Error(Status::unsupported, "a panel of " + std::to_string(rows) +
                                         " rows is more than this GPU keeps at a time");
}

constexpr std::size_t kMoveBytes = 2 * 32 * sizeof(std::int32_t);

}  // namespace

/// A panel whose v is explicit while it is factored: its r has another place until the end.
struct Panels::QrPanel {
  Storage storage;
  View a, r, t;
  BaseShape shape;
  char* tau;
  void *mail, *products[2];
};

struct Panels::TrianglePanel {
  Storage storage;
  View a, inverses;
  std::int32_t* info;
};

struct Panels::LuPanel {
  Storage storage;
  View a;
  BaseShape shape;
  std::int32_t *pivots, *info, *moves;
  void* mail;
};

std::int64_t Panels::most_rows(Storage storage) {
  std::int64_t rows = lu_shape(storage, 0, 1).most_rows;
  return std::min(rows, qr_shape(storage, 0, 1).most_rows);
}

void Panels::multiply(Storage storage, const View& a, Op op_a, const View& b, Op op_b,
                      const View& c, double alpha, double beta) const {
  if (c.rows == 0 || c.cols == 0) return;
  blas_.multiply({.kernel = Kernel::multiply,
                  .type = {.storage = storage},
                  .op_a = op_a,
                  .op_b = op_b,
                  .alpha = alpha,
                  .beta = beta,
                  .a = a,
                  .b = b,
                  .c = c});
}

std::size_t Panels::getrf_bytes(Storage storage, std::int64_t rows, std::int64_t) const {
  const BaseShape shape = lu_shape(storage, rows, widest_);
  return aligned(kMoveBytes) + aligned(mail_bytes(storage, shape, rows));
}

void Panels::getrf(Storage storage, const View& a, std::int32_t* pivots, std::int32_t* info,
                   void* workspace) const {
  check(cudaMemsetAsync(info, 0, sizeof *info, stream_), "info");
  const std::int64_t order = std::min(a.rows, a.cols);
  if (order == 0) return;
  const BaseShape shape = lu_shape(storage, a.rows, widest_);
  require_rows(shape, a.rows);
  const LuPanel panel{.storage = storage,
                      .a = a,
                      .shape = shape,
                      .pivots = pivots,
                      .info = info,
                      .moves = static_cast<std::int32_t*>(workspace),
                      .mail = after(workspace, kMoveBytes)};
  check(cudaMemsetAsync(panel.mail, 0, mail_bytes(storage, shape, a.rows), stream_), "mail");
  factor_lu(panel, 0, order);
  solve_lower(storage, part(a, storage, 0, 0, order, order),
              part(a, storage, 0, order, order, a.cols - order));
}

void Panels::factor_lu(const LuPanel& panel, std::int64_t first, std::int64_t width) const {
  if (width <= panel.shape.width) return factor_lu_narrow(panel, first, width);
  const std::int64_t half = first_half(width, panel.shape.width), rest = width - half;
  const std::int64_t middle = first + half, below = panel.a.rows - middle;
  factor_lu(panel, first, half);
  const auto at = [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    return part(panel.a, panel.storage, row, col, rows, cols);
  };
  const View above = at(first, middle, half, rest);
  solve_lower(panel.storage, at(first, first, half, half), above);
  multiply(panel.storage, at(middle, first, below, half), Op::none, above, Op::none,
           at(middle, middle, below, rest), -1, 1);
  factor_lu(panel, middle, rest);
}

/// Rows are exchanged in all columns at once: what is still to be subtracted from those on the
/// right is exchanged with them.
void Panels::factor_lu_narrow(const LuPanel& panel, std::int64_t first, std::int64_t width) const {
  const std::int64_t rows = panel.a.rows - first;
  factor_lu_columns(panel.storage, panel.shape,
                    {.a = part(panel.a, panel.storage, first, first, rows, width),
                     .row = static_cast<std::int32_t>(first),
                     .pivots = panel.pivots + first,
                     .info = panel.info,
                     .moves = panel.moves,
                     .mail = panel.mail,
                     .tag = static_cast<std::uint32_t>(first + 1)},
                    stream_);
  exchange_few_rows(panel.storage, part(panel.a, panel.storage, first, 0, rows, panel.a.cols),
                    first, first + width, panel.moves, static_cast<int>(width), panel.shape.width,
                    stream_);
}

void Panels::solve_lower(Storage storage, const View& l, const View& b) const {
  if (l.rows <= kMostSolved) return solve_unit_lower(storage, l, b, stream_);
  const std::int64_t half = first_half(l.rows, kMostSolved), rest = l.rows - half;
  const View above = part(b, storage, 0, 0, half, b.cols);
  const View below = part(b, storage, half, 0, rest, b.cols);
  solve_lower(storage, part(l, storage, 0, 0, half, half), above);
  multiply(storage, part(l, storage, half, 0, rest, half), Op::none, above, Op::none, below, -1, 1);
  solve_lower(storage, part(l, storage, half, half, rest, rest), below);
}

std::size_t Panels::exchange_bytes(std::int64_t count) {
  const std::int64_t most = std::min(count, kMostExchanges);
  return aligned(static_cast<std::size_t>(4 * most + 1) * sizeof(std::int32_t));
}

void Panels::exchange_rows(Storage storage, const View& a, const std::int32_t* pivots,
                           std::int64_t count, ExchangeOrder order, void* workspace) const {
  auto* composed = static_cast<std::int32_t*>(workspace);
  const bool backward = order == ExchangeOrder::backward;
  const std::int64_t pieces = ceil_div(count, kMostExchanges);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = (backward ? pieces - 1 - i : i) * kMostExchanges;
    const std::int64_t size = std::min(kMostExchanges, count - first);
    compose_exchanges(pivots + first, static_cast<std::int32_t>(first), size, backward, composed,
                      stream_);
    exchange_composed(storage, part(a, storage, first, 0, a.rows - first, a.cols), composed, size,
                      stream_);
  }
}

std::size_t Panels::potrf_bytes(Storage storage, std::int64_t order) {
  const std::int64_t edge = inverse_block(storage);
  return aligned(static_cast<std::size_t>(round_up(order, edge) * edge * bytes_of(storage)));
}

void Panels::potrf(Storage storage, const View& a, std::int32_t* info, void* workspace) const {
  check(cudaMemsetAsync(info, 0, sizeof *info, stream_), "info");
  if (a.rows == 0) return;
  const std::int64_t edge = inverse_block(storage);
  const View inverses{.data = workspace, .rows = edge, .cols = round_up(a.rows, edge), .ld = edge};
  factor_triangle({storage, a, inverses, info}, 0, a.rows);
}

void Panels::factor_triangle(const TrianglePanel& panel, std::int64_t first,
                             std::int64_t order) const {
  const std::int64_t edge = panel.inverses.rows;
  const bool lower = panel.a.fill == Fill::lower;
  const auto at = [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols,
                      Fill fill) {
    return part(panel.a, panel.storage, row, col, rows, cols, fill);
  };
  const auto inverses = [&](std::int64_t cols) {
    return part(panel.inverses, panel.storage, 0, first, edge, cols);
  };
  const View square = at(first, first, order, order, panel.a.fill);
  if (order <= edge) {
    factor_block(panel.storage, square, static_cast<std::int32_t>(first), panel.info, stream_);
    // The last block of all is followed by nothing.
    if (first + order < panel.a.rows)
      invert_diagonal({.type = {.storage = panel.storage}, .a = square}, inverses(edge).data,
                      stream_);
    return;
  }
  const std::int64_t half = first_half(order, edge), rest = order - half, middle = first + half;
  factor_triangle(panel, first, half);
  const View beside = lower ? at(middle, first, rest, half, Fill::full)
                            : at(first, middle, half, rest, Fill::full);
  const Op turned = is_complex(panel.storage) ? Op::conjugate : Op::transpose;
  blas_.solve({.kernel = Kernel::solve,
               .type = {.storage = panel.storage},
               .op_a = turned,
               .beta = 1,
               .a = at(first, first, half, half, panel.a.fill),
               .b = inverses(half),
               .c = beside,
               .side = lower ? Side::right : Side::left});
  blas_.multiply({.kernel = Kernel::multiply,
                  .type = {.storage = panel.storage},
                  .op_a = lower ? Op::none : turned,
                  .op_b = lower ? turned : Op::none,
                  .alpha = -1,
                  .beta = 1,
                  .a = beside,
                  .b = beside,
                  .c = at(middle, middle, rest, rest, panel.a.fill),
                  .hermitian = is_complex(panel.storage)});
  factor_triangle(panel, middle, rest);
}

std::size_t Panels::geqrf_bytes(Storage storage, std::int64_t rows, std::int64_t cols) const {
  const std::int64_t order = std::min(rows, cols), others = std::max(order, cols - order);
  const std::size_t mail = mail_bytes(storage, qr_shape(storage, rows, widest_), rows);
  const auto bytes = static_cast<std::size_t>(bytes_of(storage) * order);
  return aligned(mail) + aligned(bytes * static_cast<std::size_t>(order)) +
         2 * aligned(bytes * static_cast<std::size_t>(others));
}

void Panels::geqrf(Storage storage, const View& a, void* tau, const View& t,
                   void* workspace) const {
  const std::int64_t order = std::min(a.rows, a.cols), others = std::max(order, a.cols - order);
  if (order == 0) return;
  const BaseShape shape = qr_shape(storage, a.rows, widest_);
  require_rows(shape, a.rows);
  const auto bytes = static_cast<std::size_t>(bytes_of(storage) * order);
  const std::size_t mail = mail_bytes(storage, shape, a.rows);
  char* const r = after(workspace, mail);
  char* const first_product = after(r, bytes * static_cast<std::size_t>(order));
  char* const second_product = after(first_product, bytes * static_cast<std::size_t>(others));
  const QrPanel panel{.storage = storage,
                      .a = a,
                      .r = {.data = r, .rows = order, .cols = order, .ld = order},
                      .t = t,
                      .shape = shape,
                      .tau = static_cast<char*>(tau),
                      .mail = workspace,
                      .products = {first_product, second_product}};
  check(cudaMemsetAsync(workspace, 0, mail, stream_), "mail");
  check(cudaMemset2DAsync(t.data, static_cast<std::size_t>(t.ld * bytes_of(storage)), 0, bytes,
                          static_cast<std::size_t>(order), stream_),
        "the factor of a panel");
  factor_qr(panel, 0, order);
  reflect(panel, 0, order, a.cols - order);
  put_upper(storage, panel.r, part(a, storage, 0, 0, order, order), stream_);
}

void Panels::factor_qr(const QrPanel& panel, std::int64_t first, std::int64_t width) const {
  const Storage storage = panel.storage;
  const std::int64_t below = panel.a.rows - first;
  if (width <= panel.shape.width)
    return factor_qr_columns(storage, panel.shape,
                             {.a = part(panel.a, storage, first, first, below, width),
                              .r = part(panel.r, storage, first, first, width, width),
                              .t = part(panel.t, storage, first, first, width, width),
                              .tau = panel.tau + first * bytes_of(storage),
                              .mail = panel.mail,
                              .tag = static_cast<std::uint32_t>(2 * first + 1)},
                             stream_);
  const std::int64_t half = first_half(width, panel.shape.width), rest = width - half;
  const std::int64_t middle = first + half;
  factor_qr(panel, first, half);
  reflect(panel, first, half, rest);
  take(storage, part(panel.a, storage, first, middle, half, rest),
       part(panel.r, storage, first, middle, half, rest), stream_);
  factor_qr(panel, middle, rest);
  join_factors(panel, first, half, width);
}

/// The `others` columns right of these, times the conjugate of these columns' reflectors.
void Panels::reflect(const QrPanel& panel, std::int64_t first, std::int64_t width,
                     std::int64_t others) const {
  if (others == 0) return;
  const Storage storage = panel.storage;
  const Op turned = is_complex(storage) ? Op::conjugate : Op::transpose;
  const std::int64_t below = panel.a.rows - first;
  const View v = part(panel.a, storage, first, first, below, width);
  const View right = part(panel.a, storage, first, first + width, below, others);
  const View along{.data = panel.products[0], .rows = width, .cols = others, .ld = width};
  const View weights{.data = panel.products[1], .rows = width, .cols = others, .ld = width};
  multiply(storage, v, turned, right, Op::none, along, 1, 0);
  multiply(storage, part(panel.t, storage, first, first, width, width), turned, along, Op::none,
           weights, 1, 0);
  multiply(storage, v, Op::none, weights, Op::none, right, -1, 1);
}

/// What is between the factors of both halves: -t1 * (v1^H * v2) * t2.
void Panels::join_factors(const QrPanel& panel, std::int64_t first, std::int64_t half,
                          std::int64_t width) const {
  const Storage storage = panel.storage;
  const Op turned = is_complex(storage) ? Op::conjugate : Op::transpose;
  const std::int64_t rest = width - half, middle = first + half, below = panel.a.rows - middle;
  const View overlaps{.data = panel.products[0], .rows = half, .cols = rest, .ld = half};
  const View product{.data = panel.products[1], .rows = half, .cols = rest, .ld = half};
  multiply(storage, part(panel.a, storage, middle, first, below, half), turned,
           part(panel.a, storage, middle, middle, below, rest), Op::none, overlaps, 1, 0);
  multiply(storage, part(panel.t, storage, first, first, half, half), Op::none, overlaps, Op::none,
           product, 1, 0);
  multiply(storage, product, Op::none, part(panel.t, storage, middle, middle, rest, rest), Op::none,
           part(panel.t, storage, first, middle, half, rest), -1, 0);
}

}  // namespace fleet::cuda

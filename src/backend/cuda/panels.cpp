// SPDX-License-Identifier: BSD-3-Clause
// panels.cpp: panels by halves, down to columns that one grid factors: the halves meet in products.
// It knows no plan.
#include "backend/cuda/panels.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "backend/cuda/check.hpp"
#include "backend/cuda/factoring_kernels.hpp"
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

/// What x^H is in products.
Op turning(Storage storage) { return is_complex(storage) ? Op::conjugate : Op::transpose; }

void require_rows(BaseShape shape, std::int64_t rows) {
  if (shape.width == 0)
    throw Error(Status::unsupported, "a panel of " + std::to_string(rows) +
                                         " rows is more than this GPU keeps at a time");
}

/// Reflectors whose factor one thread block makes.
constexpr std::int64_t kSmallFactor = 32;

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
  solve(storage, part(a, storage, 0, 0, order, order), Diag::unit,
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
  solve(panel.storage, at(first, first, half, half), Diag::unit, above);
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
  View triangle = l;
  triangle.fill = Fill::lower;
  solve(storage, triangle, Diag::unit, b);
}

/// As solve_triangle, for every order: by halves of the triangle.
void Panels::solve(Storage storage, const View& triangle, Diag diag, const View& b) const {
  if (triangle.rows <= kMostSolved) return solve_triangle(storage, triangle, diag, b, stream_);
  const bool lower = triangle.fill != Fill::upper, on_left = diag == Diag::unit || !lower;
  const std::int64_t half = first_half(triangle.rows, kMostSolved), rest = triangle.rows - half;
  const auto side = [&](std::int64_t begin, std::int64_t size) {
    return on_left ? part(b, storage, begin, 0, size, b.cols)
                   : part(b, storage, 0, begin, b.rows, size);
  };
  const auto on_diagonal = [&](std::int64_t begin, std::int64_t size) {
    return part(triangle, storage, begin, begin, size, size, triangle.fill);
  };
  const View known = side(0, half), unknown = side(half, rest);
  const View between = lower ? part(triangle, storage, half, 0, rest, half)
                             : part(triangle, storage, 0, half, half, rest);
  const Op op = diag == Diag::unit ? Op::none : turning(storage);
  solve(storage, on_diagonal(0, half), diag, known);
  if (on_left)
    multiply(storage, between, op, known, Op::none, unknown, -1, 1);
  else
    multiply(storage, known, Op::none, between, op, unknown, -1, 1);
  solve(storage, on_diagonal(half, rest), diag, unknown);
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

/// Its sizes are 32-bit integers, and so may be its indices.
bool Panels::asks_solver(const View& a) const {
  return solver_ != nullptr && a.rows > 0 &&
         a.ld <= std::numeric_limits<std::int32_t>::max() / a.rows;
}

std::size_t Panels::potrf_bytes(Storage storage, const View& a) const {
  return asks_solver(a) ? aligned(solver_->potrf_bytes(storage, a)) : 0;
}

void Panels::potrf(Storage storage, const View& a, std::int32_t* info, void* workspace) const {
  check(cudaMemsetAsync(info, 0, sizeof *info, stream_), "info");
  if (a.rows == 0) return;
  if (!asks_solver(a)) return factor_triangle(storage, a, 0, info);
  solver_->potrf(storage, a, info, workspace);
  find_failed_root(storage, a, info, stream_);
}

void Panels::factor_triangle(Storage storage, const View& a, std::int64_t first,
                             std::int32_t* info) const {
  const std::int64_t block = cholesky_block(storage);
  if (a.rows <= block)
    return factor_block(storage, a, static_cast<std::int32_t>(first), info, stream_);
  const bool lower = a.fill == Fill::lower;
  const std::int64_t half = first_half(a.rows, block), rest = a.rows - half;
  const View done = part(a, storage, 0, 0, half, half, a.fill);
  const View beside =
      lower ? part(a, storage, half, 0, rest, half) : part(a, storage, 0, half, half, rest);
  const View next = part(a, storage, half, half, rest, rest, a.fill);
  factor_triangle(storage, done, first, info);
  solve(storage, done, Diag::non_unit, beside);
  blas_.multiply({.kernel = Kernel::multiply,
                  .type = {.storage = storage},
                  .op_a = lower ? Op::none : turning(storage),
                  .op_b = lower ? turning(storage) : Op::none,
                  .alpha = -1,
                  .beta = 1,
                  .a = beside,
                  .b = beside,
                  .c = next,
                  .hermitian = is_complex(storage)});
  factor_triangle(storage, next, first + half, info);
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
  const Op turned = turning(storage);
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

std::size_t Panels::larft_bytes(Storage storage, std::int64_t order) {
  return 3 * aligned(static_cast<std::size_t>(order * order * bytes_of(storage)));
}

void Panels::larft(Storage storage, const View& v, const void* tau, const View& t,
                   void* workspace) const {
  const std::int64_t order = v.cols;
  const auto bytes = static_cast<std::size_t>(order * order * bytes_of(storage));
  const View products{.data = workspace, .rows = order, .cols = order, .ld = order};
  char* const first = after(workspace, bytes);
  const QrPanel panel{.storage = storage, .a = v, .t = t, .products = {first, after(first, bytes)}};
  check(cudaMemset2DAsync(t.data, static_cast<std::size_t>(t.ld * bytes_of(storage)), 0,
                          static_cast<std::size_t>(order * bytes_of(storage)),
                          static_cast<std::size_t>(order), stream_),
        "the factor of a panel");
  const Op turned = is_complex(storage) ? Op::conjugate : Op::transpose;
  multiply(storage, v, turned, v, Op::none, products, 1, 0);
  make_small_factors(storage, products, tau, kSmallFactor, t, stream_);
  join_all(panel, 0, order);
}

void Panels::join_all(const QrPanel& panel, std::int64_t first, std::int64_t width) const {
  if (width <= kSmallFactor) return;
  const std::int64_t half = first_half(width, kSmallFactor);
  join_all(panel, first, half);
  join_all(panel, first + half, width - half);
  join_factors(panel, first, half, width);
}

/// What is between the factors of both halves: -t1 * (v1^H * v2) * t2.
void Panels::join_factors(const QrPanel& panel, std::int64_t first, std::int64_t half,
                          std::int64_t width) const {
  const Storage storage = panel.storage;
  const Op turned = turning(storage);
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

// SPDX-License-Identifier: BSD-3-Clause
// lapack.cpp: LAPACK's factorizations in pieces that take a library half a second at most, and
// plain loops where it has none. It must not know plans or devices.
#include "cpu/lapack.hpp"

#include <algorithm>
#include <utility>

#include "cpu/element.hpp"
#include "cpu/lapack_calls.hpp"
#include "cpu/plain_lapack.hpp"
#include "cpu/triangles.hpp"
#include "cpu/triangular.hpp"

namespace fleet::lapack {
namespace {

/// The longest call of a library: about half a second on a core of 2026.
constexpr double kPieceFlops = 3e10;
/// Narrower pieces would cost a library its speed; without LAPACK all above is made of products.
constexpr std::int64_t kNarrowestPiece = 256;
constexpr std::int64_t kNarrowestPlainPiece = 64;

/// Whether a factorization that takes n columns one after another is cut into two.
bool is_cut(CpuBlas& blas, LapackRoutine routine, Storage storage, std::int64_t n, double flops) {
  if (!has(blas, routine, storage)) return n > kNarrowestPlainPiece;
  return n > kNarrowestPiece && (is_complex(storage) ? 4 : 1) * flops > kPieceFlops;
}

double count(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// Columns of the left part, in whole multiples of a library's blocks.
std::int64_t left_part(std::int64_t n) {
  constexpr std::int64_t kBlock = 32;
  return half_of(n, kBlock);
}

/// c -= op(a)*op(b).
void subtract(CpuBlas& blas, Storage storage, Op op_a, const View& a, Op op_b, const View& b,
              const View& c) {
  multiply({.type = {.storage = storage},
            .op_a = op_a,
            .op_b = op_b,
            .alpha = -1.0,
            .beta = 1.0,
            .a = a,
            .b = b,
            .c = c,
            .hermitian = is_complex(storage) && c.fill != Fill::full},
           blas);
}

/// op(a)*x = c or x*op(a) = c, x in the place of c.
void solve_for(CpuBlas& blas, Storage storage, Side side, Op op, const View& a, Diag diag,
               const View& c) {
  solve({.kernel = Kernel::solve,
         .type = {.storage = storage},
         .op_a = op,
         .alpha = 1.0,
         .beta = 1.0,
         .a = a,
         .c = c,
         .triangular = true,
         .diag = diag,
         .side = side},
        blas);
}

void* element(void* array, Storage storage, std::int64_t index) {
  return static_cast<char*>(array) + index * bytes_of(storage);
}

}  // namespace

std::int64_t potrf(CpuBlas& blas, Storage storage, const View& a) {
  const std::int64_t n = a.rows;
  if (n == 0) return 0;
  if (!is_cut(blas, LapackRoutine::potrf, storage, n, count(n, n, n) / 3)) {
    std::int64_t info = 0;
    if (!call_potrf(blas, storage, a, info)) info = plain_lapack::potrf(storage, a);
    return info;
  }
  const std::int64_t half = left_part(n);
  const std::int64_t rest = n - half;
  const bool lower = a.fill == Fill::lower;
  const View first = part(a, storage, 0, 0, half, half, a.fill);
  const View last = part(a, storage, half, half, rest, rest, a.fill);
  if (const std::int64_t info = potrf(blas, storage, first)) return info;
  const View panel =
      lower ? part(a, storage, half, 0, rest, half) : part(a, storage, 0, half, half, rest);
  solve_for(blas, storage, lower ? Side::right : Side::left, Op::conjugate, first, Diag::non_unit,
            panel);
  lower ? subtract(blas, storage, Op::none, panel, Op::conjugate, panel, last)
        : subtract(blas, storage, Op::conjugate, panel, Op::none, panel, last);
  const std::int64_t info = potrf(blas, storage, last);
  return info == 0 ? 0 : half + info;
}

std::int64_t getrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t* pivots) {
  const std::int64_t m = a.rows, n = a.cols;
  const std::int64_t least = std::min(m, n);
  if (least == 0) return 0;
  if (!is_cut(blas, LapackRoutine::getrf, storage, n, count(m, n, least))) {
    std::int64_t info = 0;
    if (!call_getrf(blas, storage, a, pivots, info)) info = plain_lapack::getrf(storage, a, pivots);
    return info;
  }
  const std::int64_t half = std::min(left_part(n), m);
  const std::int64_t rest = n - half;
  const View left = part(a, storage, 0, 0, m, half);
  const View right = part(a, storage, 0, half, m, rest);
  std::int64_t info = getrf(blas, storage, left, pivots);
  laswp(storage, right, pivots, half, Order::forward);
  const View top = part(right, storage, 0, 0, half, rest);
  const View below = part(right, storage, half, 0, m - half, rest);
  solve_for(blas, storage, Side::left, Op::none, part(left, storage, 0, 0, half, half, Fill::lower),
            Diag::unit, top);
  if (half == m) return info;
  subtract(blas, storage, Op::none, part(left, storage, half, 0, m - half, half), Op::none, top,
           below);
  std::int64_t* later = pivots + half;
  const std::int64_t info_later = getrf(blas, storage, below, later);
  if (info == 0 && info_later > 0) info = half + info_later;
  const std::int64_t more = std::min(m - half, rest);
  laswp(storage, part(left, storage, half, 0, m - half, half), later, more, Order::forward);
  for (std::int64_t i = 0; i < more; ++i) later[i] += half;
  return info;
}

void geqrf(CpuBlas& blas, Storage storage, const View& a, void* tau) {
  const std::int64_t m = a.rows, n = a.cols;
  const std::int64_t least = std::min(m, n);
  if (least == 0) return;
  // Without LAPACK nothing is gained by pieces: reflectors are applied one by one either way.
  if (!has(blas, LapackRoutine::geqrf, storage) ||
      !is_cut(blas, LapackRoutine::geqrf, storage, n, 2 * count(m, n, least))) {
    if (!call_geqrf(blas, storage, a, tau)) plain_lapack::geqrf(storage, a, tau);
    return;
  }
  const std::int64_t half = std::min(left_part(n), m);
  const std::int64_t rest = n - half;
  const View left = part(a, storage, 0, 0, m, half);
  geqrf(blas, storage, left, tau);
  ormqr(blas, storage, Side::left, Op::conjugate, left, tau, part(a, storage, 0, half, m, rest));
  geqrf(blas, storage, part(a, storage, half, half, m - half, rest), element(tau, storage, half));
}

void larft(CpuBlas& blas, Storage storage, const View& v, const void* tau, const View& t) {
  if (v.rows == 0 || v.cols == 0) return;
  if (!call_larft(blas, storage, v, tau, t)) plain_lapack::larft(storage, v, tau, t);
}

std::int64_t trtri(CpuBlas& blas, Storage storage, const View& a, Diag diag) {
  if (a.rows == 0) return 0;
  std::int64_t info = 0;
  if (!call_trtri(blas, storage, a, diag, info)) info = plain_lapack::trtri(storage, a, diag);
  return info;
}

void lauum(CpuBlas& blas, Storage storage, const View& a) {
  if (a.rows == 0) return;
  if (!call_lauum(blas, storage, a)) plain_lapack::lauum(storage, a);
}

void ormqr(CpuBlas& blas, Storage storage, Side side, Op op, const View& v, const void* tau,
           const View& c) {
  if (c.rows == 0 || c.cols == 0 || v.cols == 0) return;
  const bool on_left = side == Side::left;
  const std::int64_t length = on_left ? c.cols : c.rows;
  const double flops = (is_complex(storage) ? 16 : 4) * count(1, v.rows, v.cols);
  const std::int64_t step =
      std::max(kNarrowestPiece, static_cast<std::int64_t>(kPieceFlops / std::max(1.0, flops)));
  for (std::int64_t at = 0; at < length; at += step) {
    const std::int64_t some = std::min(step, length - at);
    const View piece =
        on_left ? part(c, storage, 0, at, c.rows, some) : part(c, storage, at, 0, some, c.cols);
    if (!call_ormqr(blas, storage, side, op, v, tau, piece))
      plain_lapack::ormqr(storage, side, op, v, tau, piece);
  }
}

void laswp(Storage storage, const View& a, const std::int64_t* pivots, std::int64_t count,
           Order order) {
  // So many columns stay in the cache while all their rows are exchanged.
  constexpr std::int64_t kColumns = 32;
  with_wide_element(storage, [&]<typename T>(T) {
    for (std::int64_t first = 0; first < a.cols; first += kColumns) {
      const std::int64_t end = std::min(first + kColumns, a.cols);
      for (std::int64_t turn = 0; turn < count; ++turn) {
        const std::int64_t row = order == Order::forward ? turn : count - 1 - turn;
        const std::int64_t other = pivots[row] - 1;
        if (other == row) continue;
        T* data = static_cast<T*>(a.data);
        for (std::int64_t col = first; col < end; ++col)
          std::swap(data[row + col * a.ld], data[other + col * a.ld]);
      }
    }
  });
}

}  // namespace fleet::lapack

// SPDX-License-Identifier: BSD-3-Clause
// inverse.cpp: triangles by halves, down to what the CPU does at once; inverses of factors made of
// that. It knows no C types.
#include "linalg/inverse.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "cpu/element.hpp"
#include "cpu/lapack.hpp"
#include "linalg/host_matrix.hpp"

namespace fleet::linalg {
namespace {

/// Smaller triangles are the CPU's: as wide as a panel of a factorization.
constexpr std::int64_t kLeafEdge = 512;

/// A triangle cut into two, and the rectangle that connects them.
struct Halves {
  View first, last, between;
  Halves(const Level3& on, const View& a) {
    const std::int64_t half = round_up(a.rows / 2, kLeafEdge);
    const std::int64_t rest = a.rows - half;
    first = on.part_of(a, 0, 0, half, half, a.fill);
    last = on.part_of(a, half, half, rest, rest, a.fill);
    between = a.fill == Fill::lower ? on.part_of(a, half, 0, rest, half)
                                    : on.part_of(a, 0, half, half, rest);
  }
};

/// The diagonal has no zero.
void invert(const Level3& on, const View& a, Diag diag) {
  if (a.rows <= kLeafEdge) {
    HostMatrix on_host(on, a, Access::update);
    on.context().with_cpu(
        [&](CpuBlas& blas) { lapack::trtri(blas, on.storage(), on_host.view(), diag); });
    return on_host.write_back();
  }
  const Halves halves(on, a);
  const bool upper = a.fill == Fill::upper;
  // With F first, B between and L last, the inverse has -F^-1*B*L^-1 between (lower: -L^-1*B*F^-1):
  // multiplied by the inverse on the left, solved for on the right.
  const View& multiplied = upper ? halves.first : halves.last;
  const View& solved = upper ? halves.last : halves.first;
  invert(on, multiplied, diag);
  on.trmm({.side = Side::left, .diag = diag}, 1, multiplied, halves.between);
  on.trsm({.side = Side::right, .diag = diag}, -1, solved, halves.between);
  invert(on, solved, diag);
}

void square(const Level3& on, const View& a) {
  if (a.rows <= kLeafEdge) {
    HostMatrix on_host(on, a, Access::update);
    on.context().with_cpu(
        [&](CpuBlas& blas) { lapack::lauum(blas, on.storage(), on_host.view()); });
    return on_host.write_back();
  }
  const Halves halves(on, a);
  const bool upper = a.fill == Fill::upper;
  square(on, halves.first);
  on.add_square(upper ? Op::none : on.turned(), halves.between, halves.first);
  on.trmm({.side = upper ? Side::right : Side::left, .op = on.turned()}, 1, halves.last,
          halves.between);
  square(on, halves.last);
}

/// Copies what is below the diagonal of a block of columns of `a`, from row `first` of `a` on, and
/// leaves zeros there.
void take_lower(const Level3& on, const View& a, std::int64_t first, const View& to) {
  HostMatrix columns(on, on.part_of(a, first, first, a.rows - first, to.cols), Access::update);
  const View& from = columns.view();
  const auto element = static_cast<std::size_t>(bytes_of(on.storage()));
  in_parallel(on, to.cols, to.rows * to.cols * bytes_of(on.storage()),
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t col = begin; col < end; ++col) {
                  char* source = static_cast<char*>(on.part_of(from, col + 1, col, 0, 0).data);
                  const auto bytes = static_cast<std::size_t>(from.rows - col - 1) * element;
                  std::memcpy(on.part_of(to, col + 1, col, 0, 0).data, source, bytes);
                  std::memset(source, 0, bytes);
                }
              });
  columns.write_back();
}

/// Room for the part of L that is multiplied at once: all of it, or fewer columns where the host
/// has no memory for that. Throws Error(no_memory).
std::pair<std::unique_ptr<Workspace>, std::int64_t> room_for_columns(const Level3& on,
                                                                     std::int64_t n) {
  constexpr std::int64_t kFewest = 64;
  for (std::int64_t cols = n;; cols = (cols + 1) / 2) try {
      return {std::make_unique<Workspace>(on.storage(), n, cols), cols};
    } catch (const Error&) {
      if (cols <= kFewest) throw;
    }
}

/// Columns change places as the rows of the factored matrix did, the last exchange first.
void exchange_columns(const Level3& on, const View& a, const std::int64_t* pivots) {
  HostMatrix on_host(on, a, Access::update);
  const View& all = on_host.view();
  with_wide_element(on.storage(), [&]<typename T>(T) {
    in_parallel(on, a.rows, a.rows * a.cols * bytes_of(on.storage()),
                [&](std::int64_t first, std::int64_t end) {
                  T* data = static_cast<T*>(all.data);
                  for (std::int64_t col = a.cols - 2; col >= 0; --col) {
                    const std::int64_t other = pivots[col] - 1;
                    if (other != col)
                      std::swap_ranges(data + first + col * all.ld, data + end + col * all.ld,
                                       data + first + other * all.ld);
                  }
                });
  });
  on_host.write_back();
}

}  // namespace

std::int64_t trtri(const Level3& on, const View& a, Diag diag) {
  if (a.rows == 0) return 0;
  const std::int64_t zero = diag == Diag::unit ? 0 : first_zero(on, a);
  if (zero == 0) past_first_write([&] { invert(on, a, diag); });
  return zero;
}

void lauum(const Level3& on, const View& a) {
  if (a.rows > 0) past_first_write([&] { square(on, a); });
}

std::int64_t potri(const Level3& on, const View& a) {
  const std::int64_t info = trtri(on, a, Diag::non_unit);
  if (info == 0) past_first_write([&] { lauum(on, a); });
  return info;
}

std::int64_t getri(const Level3& on, const View& a, const std::int64_t* pivots) {
  const std::int64_t n = a.rows;
  if (n == 0) return 0;
  const auto [room, width] = room_for_columns(on, n);
  View upper = a;
  upper.fill = Fill::upper;
  if (const std::int64_t info = trtri(on, upper, Diag::non_unit)) return info;
  past_first_write([&, &room = room, &width = width] {
    // inv(A)*L = inv(U) for inv(A), from the last columns on.
    for (std::int64_t first = (n - 1) / width * width; first >= 0; first -= width) {
      const std::int64_t cols = std::min(width, n - first), end = first + cols;
      const View lower = room->view(n - first, cols);
      take_lower(on, a, first, lower);
      const View target = on.part_of(a, 0, first, n, cols);
      if (end < n)
        on.gemm(-1, Op::none, on.part_of(a, 0, end, n, n - end), Op::none,
                on.part_of(lower, cols, 0, n - end, cols), 1, target);
      on.trsm({.side = Side::right, .diag = Diag::unit}, 1,
              on.part_of(lower, 0, 0, cols, cols, Fill::lower), target);
    }
    exchange_columns(on, a, pivots);
  });
  return 0;
}

}  // namespace fleet::linalg

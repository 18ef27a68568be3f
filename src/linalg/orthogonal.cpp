// SPDX-License-Identifier: BSD-3-Clause
// orthogonal.cpp: reflectors in blocks, each applied by three calls: those are large, and take
// operands wherever they lie. It knows no C types.
#include "linalg/orthogonal.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "cpu/element.hpp"
#include "linalg/host_matrix.hpp"

namespace fleet::linalg {
namespace {

/// Reflectors that are applied at once to `others` rows or columns. More need fewer passes over
/// these, which may be far from the devices, but their triangle T takes work that grows with them.
std::int64_t block_for(std::int64_t others) {
  constexpr std::int64_t kLeast = 256, kMost = 1024;
  return std::clamp(round_up(others / 4, kLeast), kLeast, kMost);
}

/// Where the ones of V are not stored they are written, and zeros beyond them: V itself is then an
/// operand of plain products.
void complete_columns(const Level3& on, const View& v, bool backward) {
  // The row of the one in column c; the rest of the column is above it, or below.
  const std::int64_t offset = backward ? v.rows - v.cols : 0;
  with_wide_element(on.storage(), [&]<typename T>(T) {
    for (std::int64_t col = 0; col < v.cols; ++col) {
      T* column = static_cast<T*>(v.data) + col * v.ld;
      const std::int64_t one = col + offset;
      backward ? std::fill(column + one, column + v.rows, T(0))
               : std::fill(column, column + one, T(0));
      column[one] = T(1);
    }
  });
}

void complete_rows(const Level3& on, const View& v, bool backward) {
  const std::int64_t offset = backward ? v.cols - v.rows : 0;
  with_wide_element(on.storage(), [&]<typename T>(T) {
    T* data = static_cast<T*>(v.data);
    for (std::int64_t row = 0; row < v.rows; ++row) {
      const std::int64_t one = row + offset;
      const auto [begin, end] = backward ? std::pair(one, v.cols) : std::pair(std::int64_t{0}, one);
      for (std::int64_t col = begin; col < end; ++col) data[row + col * v.ld] = T(0);
      data[row + one * v.ld] = T(1);
    }
  });
}

/// H with all elements of V stored.
struct Complete {
  View v;
  View t;  ///< with its fill
  bool by_rows = false;
};

/// Room for the product of C with the vectors of `k` reflectors.
Workspace room_for(const Level3& on, Side side, std::int64_t k, const View& c) {
  return side == Side::left ? Workspace(on.storage(), k, c.cols)
                            : Workspace(on.storage(), c.rows, k);
}

/// c -= V*op(T)*(V^H*c), or c -= (c*V)*op(T)*V^H.
void apply(const Level3& on, Side side, Op op, const Complete& h, const Workspace& room,
           const View& c) {
  const std::int64_t k = h.t.rows;
  const Op column = h.by_rows ? on.turned() : Op::none;
  const Op row = h.by_rows ? Op::none : on.turned();
  if (side == Side::left) {
    const View w = room.view(k, c.cols);
    on.gemm(1, row, h.v, Op::none, c, 0, w);
    on.trmm({.side = Side::left, .op = op}, 1, h.t, w);
    on.gemm(-1, column, h.v, Op::none, w, 1, c);
  } else {
    const View w = room.view(c.rows, k);
    on.gemm(1, Op::none, c, column, h.v, 0, w);
    on.trmm({.side = Side::right, .op = op}, 1, h.t, w);
    on.gemm(-1, Op::none, w, row, h.v, 1, c);
  }
}

const void* element(const void* array, Storage storage, std::int64_t index) {
  return static_cast<const char*>(array) + index * bytes_of(storage);
}

/// The strict upper triangle of t, of products of reflectors' vectors, becomes that of the factor
/// of their block, column by column: t_i := -tau_i * T_(i-1) * t_i, as larft does.
template <typename T>
void make_columns(const View& t, const T* tau) {
  const auto at = [&](std::int64_t row, std::int64_t col) -> T& {
    return static_cast<T*>(t.data)[row + col * t.ld];
  };
  for (std::int64_t col = 0; col < t.cols; ++col) {
    for (std::int64_t row = 0; row < col; ++row) {
      T sum(0);
      for (std::int64_t k = row; k < col; ++k) sum += at(row, k) * at(k, col);
      at(row, col) = -tau[col] * sum;
    }
    at(col, col) = tau[col];
  }
}

/// The same by halves, which meet in T12 := -T1 * (V1^H * V2) * T2: nearly all of it are products.
void make_triangle(const Level3& on, const View& t, const void* tau) {
  constexpr std::int64_t kSmall = 32;
  if (t.cols <= kSmall)
    return with_wide_element(on.storage(),
                             [&]<typename T>(T) { make_columns(t, static_cast<const T*>(tau)); });
  const std::int64_t half = t.cols / 2, rest = t.cols - half;
  const View first = on.part_of(t, 0, 0, half, half, Fill::upper);
  const View second = on.part_of(t, half, half, rest, rest, Fill::upper);
  const View between = on.part_of(t, 0, half, half, rest);
  make_triangle(on, first, tau);
  make_triangle(on, second, element(tau, on.storage(), half));
  on.trmm({.side = Side::left}, -1, first, between);
  on.trmm({.side = Side::right}, 1, second, between);
}

/// What geqrf left in the columns of a matrix, block by block.
class Blocks {
 public:
  /// The first k reflectors, which are applied to `others` rows or columns.
  Blocks(const Level3& on, const View& v, std::int64_t k, std::int64_t others, const void* tau)
      : on_(on),
        v_(v),
        k_(k),
        size_(std::min(k, block_for(others))),
        tau_(tau),
        copy_(on.storage(), v.rows, size_),
        triangle_(on.storage(), size_, size_) {}

  /// Of all blocks but the last.
  std::int64_t size() const { return size_; }

  /// The block that begins with reflector `first`.
  Complete block(std::int64_t first) const {
    const std::int64_t count = std::min(size_, k_ - first);
    const View v = copy_.view(v_.rows - first, count);
    on_.context().copy(v, on_.part_of(v_, first, first, v.rows, count), on_.storage());
    complete_columns(on_, v, false);
    const View t = triangle_.view(count, count);
    on_.gemm(1, on_.turned(), v, Op::none, v, 0, t);
    make_triangle(on_, t, element(tau_, on_.storage(), first));
    return {.v = v, .t = triangle_.view(count, count, Fill::upper)};
  }

  /// Calls `each(first)` for all blocks.
  template <typename Each>
  void in_order(Order order, Each each) const {
    const std::int64_t last = (k_ - 1) / size_ * size_;
    for (std::int64_t at = 0; at <= last; at += size_)
      each(order == Order::forward ? at : last - at);
  }

 private:
  const Level3& on_;
  View v_;
  std::int64_t k_, size_;
  const void* tau_;
  Workspace copy_, triangle_;
};

/// Zeros, with ones on the diagonal that begins at row `one` of the first column.
void write_unit(const Level3& on, const View& a, std::int64_t one) {
  if (a.rows == 0 || a.cols == 0) return;
  HostMatrix on_host(on, a, Access::write);
  const View& to = on_host.view();
  with_wide_element(on.storage(), [&]<typename T>(T) {
    for (std::int64_t col = 0; col < to.cols; ++col) {
      T* column = static_cast<T*>(to.data) + col * to.ld;
      std::fill(column, column + to.rows, T(0));
      if (one + col < to.rows) column[one + col] = T(1);
    }
  });
  on_host.write_back();
}

}  // namespace

void ormqr(const Level3& on, Side side, Op op, const View& v, const void* tau, const View& c) {
  if (c.rows == 0 || c.cols == 0 || v.cols == 0) return;
  const Blocks blocks(on, v, v.cols, side == Side::left ? c.cols : c.rows, tau);
  const Workspace room = room_for(on, side, blocks.size(), c);
  // Q is H(0)*H(1)*...: the factor next to c is applied first.
  const bool first_is_last = (side == Side::left) == (op == Op::none);
  past_first_write([&] {
    blocks.in_order(first_is_last ? Order::backward : Order::forward, [&](std::int64_t first) {
      const View part = side == Side::left ? on.part_of(c, first, 0, c.rows - first, c.cols)
                                           : on.part_of(c, 0, first, c.rows, c.cols - first);
      apply(on, side, op, blocks.block(first), room, part);
    });
  });
}

void orgqr(const Level3& on, const View& a, std::int64_t k, const void* tau) {
  const std::int64_t m = a.rows, n = a.cols;
  if (m == 0 || n == 0) return;
  if (k == 0) return past_first_write([&] { write_unit(on, a, 0); });
  const Blocks blocks(on, a, k, n, tau);
  const Workspace room(on.storage(), blocks.size(), n);
  past_first_write([&] {
    write_unit(on, on.part_of(a, 0, k, m, n - k), k);
    // From right to left: the columns of a block are unit columns until it is applied to them.
    blocks.in_order(Order::backward, [&](std::int64_t first) {
      const Complete block = blocks.block(first);
      write_unit(on, on.part_of(a, 0, first, m, block.t.cols), first);
      apply(on, Side::left, Op::none, block, room,
            on.part_of(a, first, first, m - first, n - first));
    });
  });
}

void larfb(const Level3& on, Side side, Op op, const BlockReflector& h, const View& c) {
  const std::int64_t k = h.t.rows;
  if (c.rows == 0 || c.cols == 0 || k == 0) return;
  const Workspace copy(on.storage(), h.v.rows, h.v.cols);
  const Workspace room = room_for(on, side, k, c);
  const View v = copy.view(h.v.rows, h.v.cols);
  on.context().copy(v, h.v, on.storage());
  h.by_rows ? complete_rows(on, v, h.backward) : complete_columns(on, v, h.backward);
  View t = h.t;
  t.fill = h.backward ? Fill::lower : Fill::upper;
  past_first_write([&] { apply(on, side, op, {.v = v, .t = t, .by_rows = h.by_rows}, room, c); });
}

}  // namespace fleet::linalg

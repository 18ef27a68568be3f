// SPDX-License-Identifier: BSD-3-Clause
// plain_gemm.cpp: the blocked loop behind plain_gemm.hpp. It must not know libraries or threads.
#include "exec/plain_gemm.hpp"

#include <algorithm>
#include <array>

#include "exec/element.hpp"

namespace fleet {
namespace {

// A block of op(A) stays in the first-level cache, and on a small stack: 16 KiB of doubles.
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockDepth = 32;

/// Element (row, col) of op(X).
template <typename T>
T element(const View& x, Op op, std::int64_t row, std::int64_t col) {
  const T* data = static_cast<const T*>(x.data);
  if (op == Op::none) return data[row + col * x.ld];
  const T value = data[col + row * x.ld];
  return op == Op::conjugate ? conjugate(value) : value;
}

template <typename T>
class PlainProduct {
 public:
  explicit PlainProduct(const Launch& launch)
      : launch_(launch),
        alpha_(scalar<T>(launch.alpha)),
        depth_(launch.op_a == Op::none ? launch.a.cols : launch.a.rows) {}

  void run() {
    for (std::int64_t row = 0; row < launch_.c.rows; row += kBlockRows)
      for (std::int64_t step = 0; step < depth_; step += kBlockDepth) {
        const std::int64_t rows = std::min(kBlockRows, launch_.c.rows - row);
        const std::int64_t steps = std::min(kBlockDepth, depth_ - step);
        pack(row, rows, step, steps);
        for (std::int64_t col = 0; col < launch_.c.cols; ++col)
          add_to_column(row, rows, step, steps, col);
      }
  }

 private:
  void pack(std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t steps) {
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t r = 0; r < rows; ++r)
        block_[static_cast<std::size_t>(r + s * kBlockRows)] =
            element<T>(launch_.a, launch_.op_a, row + r, step + s);
  }

  void add_to_column(std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t steps,
                     std::int64_t col) {
    T* c = static_cast<T*>(launch_.c.data) + row + col * launch_.c.ld;
    for (std::int64_t s = 0; s < steps; ++s) {
      const T factor = product(alpha_, element<T>(launch_.b, launch_.op_b, step + s, col));
      const T* a = block_.data() + s * kBlockRows;
      for (std::int64_t r = 0; r < rows; ++r) c[r] += product(a[r], factor);
    }
  }

  const Launch& launch_;
  T alpha_;
  std::int64_t depth_;
  std::array<T, kBlockRows * kBlockDepth> block_;
};

}  // namespace

void add_plain_product(const Launch& launch) {
  with_element(launch.type, [&](auto zero) { PlainProduct<decltype(zero)>(launch).run(); });
}

}  // namespace fleet

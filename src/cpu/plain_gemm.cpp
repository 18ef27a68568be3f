// SPDX-License-Identifier: BSD-3-Clause
// plain_gemm.cpp: the blocked loop behind plain_gemm.hpp. It must not know libraries or threads.
#include "cpu/plain_gemm.hpp"

#include <algorithm>
#include <array>

#include "cpu/blas.hpp"
#include "cpu/element.hpp"
#include "cpu/gemm_pieces.hpp"

namespace fleet {
namespace {

// A block of op(A) stays in the first-level cache, and on a small stack: 16 KiB of doubles.
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockDepth = 32;

/// Element (row, col) of op(X).
template <typename T>
Wide<T> element(const View& x, Op op, std::int64_t row, std::int64_t col) {
  const T* data = static_cast<const T*>(x.data);
  if (op == Op::none) return load(data[row + col * x.ld]);
  const Wide<T> value = load(data[col + row * x.ld]);
  return op == Op::conjugate ? conjugate(value) : value;
}

/// Columns of C at a time: as many sums as a block of op(A) has rows, for each of them.
constexpr std::int64_t kBlockCols = 16;

template <typename T>
class PlainProduct {
 public:
  explicit PlainProduct(const Launch& launch)
      : launch_(launch),
        alpha_(scalar<Wide<T>>(launch.alpha)),
        beta_(scalar<Wide<T>>(launch.beta)),
        depth_(depth_of(launch)) {}

  // Each element of C is rounded to its type once, when its sum is complete.
  void run() {
    for (std::int64_t row = 0; row < launch_.c.rows; row += kBlockRows)
      for (std::int64_t col = 0; col < launch_.c.cols; col += kBlockCols) {
        rows_ = std::min(kBlockRows, launch_.c.rows - row);
        const std::int64_t cols = std::min(kBlockCols, launch_.c.cols - col);
        sums_.fill({});
        for (std::int64_t step = 0; step < depth_; step += kBlockDepth) {
          const std::int64_t steps = std::min(kBlockDepth, depth_ - step);
          pack(row, step, steps);
          for (std::int64_t c = 0; c < cols; ++c) add_to_sums(step, steps, col + c, sums(c));
        }
        for (std::int64_t c = 0; c < cols; ++c) finish(row, col + c, sums(c));
      }
  }

 private:
  Wide<T>* sums(std::int64_t col) { return sums_.data() + col * kBlockRows; }

  void pack(std::int64_t row, std::int64_t step, std::int64_t steps) {
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t r = 0; r < rows_; ++r)
        block_[static_cast<std::size_t>(r + s * kBlockRows)] =
            element<T>(launch_.a, launch_.op_a, row + r, step + s);
  }

  void add_to_sums(std::int64_t step, std::int64_t steps, std::int64_t col, Wide<T>* sums) {
    for (std::int64_t s = 0; s < steps; ++s) {
      const Wide<T> factor = element<T>(launch_.b, launch_.op_b, step + s, col);
      const Wide<T>* a = block_.data() + s * kBlockRows;
      for (std::int64_t r = 0; r < rows_; ++r) sums[r] += product(a[r], factor);
    }
  }

  void finish(std::int64_t row, std::int64_t col, const Wide<T>* sums) {
    T* c = static_cast<T*>(launch_.c.data) + row + col * launch_.c.ld;
    const bool fresh = beta_ == Wide<T>(0);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const Wide<T> sum = product(alpha_, sums[r]);
      c[r] = store<T>(fresh ? sum : sum + product(beta_, load(c[r])));
    }
  }

  const Launch& launch_;
  Wide<T> alpha_, beta_;
  std::int64_t depth_;
  std::int64_t rows_ = 0;
  std::array<Wide<T>, kBlockRows * kBlockDepth> block_;
  std::array<Wide<T>, kBlockRows * kBlockCols> sums_;
};

}  // namespace

void plain_gemm(const Launch& launch) {
  // A and B are not read where they do not count.
  if (depth_of(launch) <= 0 || is_zero(launch.alpha, launch.type.storage)) return scale(launch);
  with_element(launch.type.storage, [&](auto zero) { PlainProduct<decltype(zero)>(launch).run(); });
}

}  // namespace fleet

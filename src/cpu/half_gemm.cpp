// SPDX-License-Identifier: BSD-3-Clause
// half_gemm.cpp: pieces of matrices to floats and back. It must not know libraries or threads.
#include "cpu/half_gemm.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "cpu/element.hpp"
#include "cpu/gemm_pieces.hpp"

namespace fleet {
namespace {

/// Large enough that converting is little beside the product, on one core or many; the three pieces
/// take 12 MiB.
constexpr std::int64_t kPieceEdge = 1024;
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max() / 2;

/// Memory for one piece, reused for each of them. No exception: a product that has begun must end.
struct Floats {
  explicit Floats(const View& whole)
      : data(new (std::nothrow) float[static_cast<std::size_t>(
            std::min(whole.rows, kPieceEdge) * std::min(whole.cols, kPieceEdge))]) {}
  View like(const View& piece) const {
    return {.data = data.get(), .rows = piece.rows, .cols = piece.cols, .ld = piece.rows};
  }
  std::unique_ptr<float[]> data;
};

template <typename T>
class Product {
 public:
  Product(const Launch& launch, const std::function<void(const Launch&)>& multiply)
      : launch_(launch), multiply_(multiply), a_(launch.a), b_(launch.b), c_(launch.c) {}

  bool has_memory() const { return a_.data && b_.data && c_.data; }

  // Lambdas with nothing but `this` fit into a std::function without memory of their own.
  void run() {
    for_each_piece(launch_, kPieceEdge, kWhole, [this](const Launch& block) { compute(block); });
  }

 private:
  void compute(const Launch& block) {
    if (block.beta != 0.0) to_floats(block.c, c_.like(block.c));
    for_each_piece(block, kPieceEdge, kPieceEdge, [this](const Launch& piece) { add(piece); });
    to_halves(c_.like(block.c), block.c);
  }

  void add(const Launch& piece) {
    Launch floats = piece;
    floats.type = DataType::f32;
    floats.a = a_.like(piece.a);
    floats.b = b_.like(piece.b);
    floats.c = c_.like(piece.c);
    to_floats(piece.a, floats.a);
    to_floats(piece.b, floats.b);
    multiply_(floats);
  }

  static void to_floats(const View& from, const View& to) {
    for (std::int64_t col = 0; col < from.cols; ++col) {
      const T* in = static_cast<const T*>(from.data) + col * from.ld;
      std::transform(in, in + from.rows, static_cast<float*>(to.data) + col * to.ld,
                     [](T value) { return widen(value); });
    }
  }

  static void to_halves(const View& from, const View& to) {
    for (std::int64_t col = 0; col < from.cols; ++col) {
      const float* in = static_cast<const float*>(from.data) + col * from.ld;
      std::transform(in, in + from.rows, static_cast<T*>(to.data) + col * to.ld,
                     [](float value) { return narrow<T>(value); });
    }
  }

  const Launch& launch_;
  const std::function<void(const Launch&)>& multiply_;
  Floats a_, b_, c_;
};

template <typename T>
bool run(const Launch& launch, const std::function<void(const Launch&)>& multiply) {
  Product<T> product(launch, multiply);
  if (!product.has_memory()) return false;
  product.run();
  return true;
}

}  // namespace

bool gemm_by_floats(const Launch& launch, const std::function<void(const Launch&)>& multiply) {
  return launch.type.storage == Storage::f16 ? run<Half>(launch, multiply)
                                             : run<BFloat16>(launch, multiply);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// halves.cpp: products of halves as GPUs do them: exact, and summed in single precision.
#include "cpu/halves.hpp"

#include <vector>

#include "base/sizes.hpp"
#include "cpu/half.hpp"
#include "cpu/triangles.hpp"

namespace fleet {
namespace {

struct Pair {
  Half first, second;
};

Pair split(float value) {
  const Half first = narrow<Half>(value);
  return {first, narrow<Half>((value - widen(first)) * Panel::kSecond)};
}

Half& half_at(const View& view, std::int64_t row, std::int64_t col) {
  return static_cast<Half*>(view.data)[row + col * view.ld];
}

float float_at(const View& view, std::int64_t row, std::int64_t col) {
  return static_cast<const float*>(view.data)[row + col * view.ld];
}

/// Halves as floats, which the CPU BLAS multiplies.
struct FloatMatrix {
  FloatMatrix(std::int64_t rows, std::int64_t cols)
      : elements(static_cast<std::size_t>(rows * cols)),
        view{.data = elements.data(), .rows = rows, .cols = cols, .ld = rows} {}
  float& at(std::int64_t row, std::int64_t col) {
    return elements[static_cast<std::size_t>(row + col * view.ld)];
  }
  std::vector<float> elements;
  View view;
};

FloatMatrix floats_of(const View& halves) {
  FloatMatrix floats(halves.rows, halves.cols);
  for (std::int64_t col = 0; col < halves.cols; ++col)
    for (std::int64_t row = 0; row < halves.rows; ++row)
      floats.at(row, col) = widen(half_at(halves, row, col));
  return floats;
}

}  // namespace

HalvesOfPanel halves_of(const Panel& panel, const View& tile) {
  constexpr std::uintptr_t kAligned = 16;
  const auto begin =
      reinterpret_cast<std::uintptr_t>(tile.data) +
      static_cast<std::uintptr_t>(panel.halves_begin() * tile.ld * bytes_of(Storage::f32));
  auto* const first = reinterpret_cast<Half*>((begin + kAligned - 1) / kAligned * kAligned);
  const View halves{.data = first,
                    .rows = panel.length - panel.width,
                    .cols = panel.width,
                    .ld = panel.halves_ld()};
  View second = halves;
  second.data = first + halves.ld * panel.width;
  return {halves, second};
}

void split_panel(const Launch& launch) {
  const Panel& panel = launch.panel;
  const auto [first, second] = halves_of(panel, launch.c);
  for (std::int64_t col = 0; col < first.cols; ++col)
    for (std::int64_t row = 0; row < first.rows; ++row) {
      const Pair pair = split(float_at(launch.c, panel.width + row, col));
      half_at(first, row, col) = pair.first;
      half_at(second, row, col) = pair.second;
    }
}

void multiply_halves(const Launch& launch, const Launch& product, CpuBlas& blas) {
  const auto [first, second] = halves_of(launch.panel, launch.a);
  const auto scale = static_cast<float>(launch.alpha.real());
  const FloatMatrix a_first = floats_of(first), a_second = floats_of(second);
  const View& b = product.b;
  FloatMatrix b_first(b.rows, b.cols), b_second(b.rows, b.cols);
  for (std::int64_t col = 0; col < b.cols; ++col)
    for (std::int64_t row = 0; row < b.rows; ++row) {
      const Pair pair = split(float_at(b, row, col) * (1 / scale));
      b_first.at(row, col) = widen(pair.first);
      b_second.at(row, col) = widen(pair.second);
    }
  const auto add = [&](float alpha, const FloatMatrix& left, const FloatMatrix& right) {
    Launch one = product;
    one.alpha = alpha;
    one.a = left.view;
    one.b = right.view;
    multiply(one, blas);
  };
  add(-scale, a_first, b_first);
  add(-scale / Panel::kSecond, a_first, b_second);
  add(-scale / Panel::kSecond, a_second, b_first);
}

}  // namespace fleet

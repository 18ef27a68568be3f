// SPDX-License-Identifier: BSD-3-Clause
// sizes.hpp: sizes cut into equal pieces and rounded up, indices, no end of time. It must not know
// what they are sizes of.
#pragma once
#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace fleet {

template <std::integral T>
constexpr T ceil_div(T size, std::type_identity_t<T> piece) {
  return (size + piece - 1) / piece;
}

template <std::integral T>
constexpr T round_up(T size, std::type_identity_t<T> piece) {
  return ceil_div(size, piece) * piece;
}

/// An id that counts from 0, as an index.
constexpr std::size_t index(int id) { return static_cast<std::size_t>(id); }

/// The time, or the size, that is not reached.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Alignment of memory for callers, and of slots in arenas: the same as CUDA gives.
inline constexpr int kAlignmentBytes = 256;

}  // namespace fleet

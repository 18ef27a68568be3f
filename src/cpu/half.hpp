// SPDX-License-Identifier: BSD-3-Clause
// half.hpp: the two-byte floating-point types as stored, and the way to float and back. It must not
// know matrices.
#pragma once
#include <bit>
#include <cstdint>

namespace fleet {

/// IEEE binary16: 1 sign, 5 exponent and 10 fraction bits. No arithmetic: see widen and narrow.
struct Half {
  std::uint16_t bits = 0;
  friend bool operator==(const Half&, const Half&) = default;  ///< of the bits
};

/// The upper half of a float: 1 sign, 8 exponent and 7 fraction bits.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(const BFloat16&, const BFloat16&) = default;
};

// Both ways are written without branches, so that loops over columns are vectorised.
namespace half_bits {
inline constexpr std::uint32_t kSign = 0x80000000u;
inline constexpr std::uint32_t kInfinity = 0x7f800000u;
inline constexpr int kDropped = 13;  ///< fraction bits that only a float has
/// Float exponents, in place: of 2^-14 (the least normal Half), 2^16 (beyond all of them), and the
/// distance between the biases of both types.
inline constexpr std::uint32_t kLeastNormal = (127u - 14u) << 23;
inline constexpr std::uint32_t kBeyond = (127u + 16u) << 23;
inline constexpr std::uint32_t kRebias = (127u - 15u) << 23;
}  // namespace half_bits

/// Exact; a NaN stays one with its sign and payload.
inline float widen(Half value) {
  using namespace half_bits;
  constexpr std::uint32_t kAllExponentBits = 0x7c00u << kDropped;
  const std::uint32_t magnitude = (value.bits & 0x7fffu) << kDropped;
  const std::uint32_t exponent = magnitude & kAllExponentBits;
  // Infinity and NaN: up to the float's own largest exponent.
  const std::uint32_t special = magnitude | kInfinity;
  // Fraction bits under the exponent of 2^-14, less 2^-14: no float subnormal is involved, which
  // the caller's mode may flush to zero.
  const float subnormal =
      std::bit_cast<float>(magnitude + kLeastNormal) - std::bit_cast<float>(kLeastNormal);
  const std::uint32_t bits = exponent == kAllExponentBits ? special
                             : exponent == 0              ? std::bit_cast<std::uint32_t>(subnormal)
                                                          : magnitude + kRebias;
  return std::bit_cast<float>(bits | (std::uint32_t{value.bits} & 0x8000u) << 16);
}

/// Exact.
inline float widen(BFloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

/// To the nearest T, ties to even, beyond the largest to infinity; a NaN becomes a quiet NaN with
/// its sign.
template <typename T>
T narrow(float value);

template <>
inline Half narrow<Half>(float value) {
  using namespace half_bits;
  constexpr std::uint32_t kQuietNan = 0x7e00u, kHalfInfinity = 0x7c00u, kPayload = 0x3ffu;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSign;
  const std::uint32_t nan = kQuietNan | ((magnitude >> kDropped) & kPayload);
  const std::uint32_t special = magnitude > kInfinity ? nan : kHalfInfinity;
  // 0.5 has its last bit where the least subnormal Half has its only one, so adding it rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t odd = (magnitude >> kDropped) & 1u;
  const std::uint32_t normal = (magnitude - kRebias + 0xfffu + odd) >> kDropped;
  const std::uint32_t rounded = magnitude >= kBeyond       ? special
                                : magnitude < kLeastNormal ? subnormal
                                                           : normal;
  return {static_cast<std::uint16_t>(rounded | (bits & kSign) >> 16)};
}

template <>
inline BFloat16 narrow<BFloat16>(float value) {
  constexpr std::uint32_t kQuiet = 0x40u;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nan = bits >> 16 | kQuiet;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & ~half_bits::kSign) > half_bits::kInfinity;
  return {static_cast<std::uint16_t>(is_nan ? nan : rounded)};
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// narrow.hpp: numbers in double precision become numbers in single precision. It must not know
// plans.
#pragma once
#include <cmath>
#include <complex>
#include <limits>

#include "run/launch.hpp"

namespace fleet {

template <typename T>
struct NarrowOf {
  using Type = float;
};
template <>
struct NarrowOf<std::complex<double>> {
  using Type = std::complex<float>;
};

/// Has single precision such a number? It has a NaN, and here no more than its largest number.
inline bool fits_single(double value) {
  return !(std::abs(value) > double{std::numeric_limits<float>::max()});
}
inline bool fits_single(std::complex<double> value) {
  return fits_single(value.real()) && fits_single(value.imag());
}

inline float narrowed(double value) { return static_cast<float>(value); }
inline std::complex<float> narrowed(std::complex<double> value) {
  return {static_cast<float>(value.real()), static_cast<float>(value.imag())};
}
inline double widened(float value) { return value; }
inline std::complex<double> widened(std::complex<float> value) { return value; }

/// Kernel::narrow: c = a in single precision, and the sizes of a's rows in b (RowSizes).
void narrow(const Launch& launch);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// narrow.cpp: a matrix in single precision, and the sizes of its rows. It must not know plans.
#include "cpu/narrow.hpp"

#include <algorithm>

namespace fleet {
namespace {

double largest_part(double value) { return std::abs(value); }
double largest_part(std::complex<double> value) {
  // A NaN is no part of the larger one.
  return std::fmax(std::abs(value.real()), std::abs(value.imag()));
}

template <typename T>
void narrow_columns(const Launch& launch) {
  const View &a = launch.a, &c = launch.c;
  auto* const sums = static_cast<double*>(launch.b.data) + RowSizes::kSum * launch.b.ld;
  auto* const largest = static_cast<double*>(launch.b.data) + RowSizes::kLargest * launch.b.ld;
  if (launch.beta == 0.0) {
    std::fill_n(sums, a.rows, 0.0);
    std::fill_n(largest, a.rows, 0.0);
  }
  for (std::int64_t col = 0; col < a.cols; ++col) {
    const T* const from = static_cast<const T*>(a.data) + col * a.ld;
    auto* const to = static_cast<typename NarrowOf<T>::Type*>(c.data) + col * c.ld;
    for (std::int64_t row = 0; row < a.rows; ++row) {
      to[row] = fits_single(from[row]) ? narrowed(from[row]) : typename NarrowOf<T>::Type(0);
      sums[row] += std::abs(from[row]);
      largest[row] = std::fmax(largest[row], largest_part(from[row]));
    }
  }
}

}  // namespace

void narrow(const Launch& launch) {
  if (launch.type.storage == Storage::c64)
    narrow_columns<std::complex<double>>(launch);
  else
    narrow_columns<double>(launch);
}

}  // namespace fleet

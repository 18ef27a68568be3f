// SPDX-License-Identifier: BSD-3-Clause
// dense.hpp: matrices in the widest type, and their products, for what factors multiply to. It
// knows no factorization.
#pragma once
#include <complex>
#include <cstdint>
#include <vector>

namespace fleet::test {

/// A dense matrix in the widest type, to multiply factors with.
using Wide = std::complex<long double>;
struct Dense {
  Dense(std::int64_t m, std::int64_t n)
      : rows(m), cols(n), values(static_cast<std::size_t>(m * n)) {}
  Wide& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i + j * rows)];
  }
  std::int64_t rows, cols;
  std::vector<Wide> values;
};

// In oracle.cpp.
Dense product(Dense& a, Dense& b);
/// The largest distance of two elements.
long double distance(const Dense& a, const Dense& b);

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// oracle.cpp: the parts of the oracles that tests spend their time in, compiled once and optimised,
// whatever the flags of the tests.
#include <algorithm>
#include <cmath>

#include "support/dense.hpp"
#include "support/interpreter.hpp"
#include "support/lapack_matrix.hpp"
#include "support/reference.hpp"
#include "support/reference_level3.hpp"

namespace fleet::test {

template class Guarded<float>;
template class Guarded<double>;
template class Guarded<std::complex<float>>;
template class Guarded<std::complex<double>>;
template class Guarded<F16>;
template class Guarded<BF16>;

template struct Matrix<float>;
template struct Matrix<double>;
template struct Matrix<std::complex<float>>;
template struct Matrix<std::complex<double>>;
template Matrix<float> difference(const Matrix<float>&, const Matrix<float>&);
template Matrix<double> difference(const Matrix<double>&, const Matrix<double>&);
template Matrix<std::complex<float>> difference(const Matrix<std::complex<float>>&,
                                                const Matrix<std::complex<float>>&);
template Matrix<std::complex<double>> difference(const Matrix<std::complex<double>>&,
                                                 const Matrix<std::complex<double>>&);

template Expected expect_gemm(const GemmCall<float>&);
template Expected expect_gemm(const GemmCall<double>&);
template Expected expect_gemm(const GemmCall<std::complex<float>>&);
template Expected expect_gemm(const GemmCall<std::complex<double>>&);
template Expected expect_gemm(const GemmCall<F16>&);
template Expected expect_gemm(const GemmCall<BF16>&);
template std::string first_difference(const Expected&, const float*, std::int64_t);
template std::string first_difference(const Expected&, const double*, std::int64_t);
template std::string first_difference(const Expected&, const std::complex<float>*, std::int64_t);
template std::string first_difference(const Expected&, const std::complex<double>*, std::int64_t);
template std::string first_difference(const Expected&, const F16*, std::int64_t);
template std::string first_difference(const Expected&, const BF16*, std::int64_t);

template ExpectedLevel3<float> expect_level3(const Level3Call<float>&);
template ExpectedLevel3<double> expect_level3(const Level3Call<double>&);
template ExpectedLevel3<std::complex<float>> expect_level3(const Level3Call<std::complex<float>>&);
template ExpectedLevel3<std::complex<double>> expect_level3(
    const Level3Call<std::complex<double>>&);
template std::string first_difference(const ExpectedLevel3<float>&, const float*, std::int64_t);
template std::string first_difference(const ExpectedLevel3<double>&, const double*, std::int64_t);
template std::string first_difference(const ExpectedLevel3<std::complex<float>>&,
                                      const std::complex<float>*, std::int64_t);
template std::string first_difference(const ExpectedLevel3<std::complex<double>>&,
                                      const std::complex<double>*, std::int64_t);

Dense product(Dense& a, Dense& b) {
  Dense c(a.rows, b.cols);
  for (std::int64_t j = 0; j < b.cols; ++j)
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const Wide y = b.at(k, j);
      for (std::int64_t i = 0; i < a.rows; ++i) {
        // Not by complex's operator, which looks at each product for infinities.
        const Wide x = a.at(i, k);
        c.at(i, j) += Wide(x.real() * y.real() - x.imag() * y.imag(),
                           x.real() * y.imag() + x.imag() * y.real());
      }
    }
  return c;
}

long double distance(const Dense& a, const Dense& b) {
  long double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const long double apart = std::abs(a.values[i] - b.values[i]);
    if (std::isnan(apart)) return apart;
    most = std::max(most, apart);
  }
  return most;
}

template class Interpreter<float>;
template class Interpreter<double>;
template class Interpreter<std::complex<float>>;
template class Interpreter<std::complex<double>>;

}  // namespace fleet::test

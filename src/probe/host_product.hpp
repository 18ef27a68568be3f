// SPDX-License-Identifier: BSD-3-Clause
// host_product.hpp: a product of the CPU BLAS to be timed. It does not know whether the probe is
// quick or careful.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/clock.hpp"
#include "cpu/blas.hpp"

namespace fleet {

/// C = A * B + beta * C on matrices of ones, C of `edge` x `edge` and sums of `steps`. The
/// constructor computes it once, so that the operands are in the caches, as far as they fit, and
/// the library has started its threads before it is timed.
class HostProduct {
 public:
  HostProduct(CpuBlas& blas, DataType type, std::int64_t edge)
      : HostProduct(blas, type, edge, edge, 0) {}
  HostProduct(CpuBlas& blas, DataType type, std::int64_t edge, std::int64_t steps, double beta)
      : blas_(blas) {
    launch_ = {.kernel = Kernel::multiply,
               .type = type,
               .op_a = Op::none,
               .op_b = Op::none,
               .alpha = 1,
               .beta = beta,
               .a = ones(0, type, edge, steps),
               .b = ones(1, type, steps, edge),
               .c = ones(2, type, edge, edge)};
    run_s();
  }
  double run_s() {
    return seconds_of([&] { blas_.gemm(launch_); });
  }

 private:
  View ones(std::size_t tile, DataType type, std::int64_t rows, std::int64_t cols) {
    const std::int64_t bytes = rows * cols * bytes_of(type.storage);
    tiles_[tile].assign(static_cast<std::size_t>(bytes) / sizeof(float) + 1, 1.0F);
    return {tiles_[tile].data(), rows, cols, rows};
  }

  CpuBlas& blas_;
  std::array<std::vector<float>, 3> tiles_;
  Launch launch_;
};

/// A product whose time is that of reading and writing C: 8 MiB for each core, at most 128 MiB.
/// (Most processors have 2 to 4 MiB of cache for each core; one that holds all of C gives a rate
/// that is too high.)
class HostStream {
 public:
  HostStream(CpuBlas& blas, int cores)
      : edge_(static_cast<std::int64_t>(1024 * std::sqrt(std::min(cores, 16)))),
        product_(blas, DataType::f64, edge_, kSteps, 1) {}
  double run_s() { return product_.run_s(); }
  double bytes() const {
    return static_cast<double>((2 * edge_ * kSteps + 2 * edge_ * edge_) * bytes_of(Storage::f64));
  }

 private:
  static constexpr std::int64_t kSteps = 8;
  std::int64_t edge_;
  HostProduct product_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// host_product.hpp: a square product of the CPU BLAS to be timed. It does not know whether the
// probe is quick or careful.
#pragma once
#include <array>
#include <vector>

#include "base/clock.hpp"
#include "cpu/blas.hpp"

namespace fleet {

/// C = A * B on matrices of `edge` x `edge` ones. The constructor computes it once, so that the
/// operands are in the caches and the library has started its threads before it is timed.
class HostProduct {
 public:
  HostProduct(CpuBlas& blas, DataType type, std::int64_t edge) : blas_(blas) {
    const auto words =
        static_cast<std::size_t>(edge * edge * bytes_of(type.storage)) / sizeof(float) + 1;
    for (std::vector<float>& tile : tiles_) tile.assign(words, 1.0F);
    const auto view = [&](std::size_t tile) { return View{tiles_[tile].data(), edge, edge, edge}; };
    launch_ = {.kernel = Kernel::multiply,
               .type = type,
               .op_a = Op::none,
               .op_b = Op::none,
               .alpha = 1,
               .beta = 0,
               .a = view(0),
               .b = view(1),
               .c = view(2)};
    run_s();
  }
  double run_s() {
    return seconds_of([&] { blas_.gemm(launch_); });
  }

 private:
  CpuBlas& blas_;
  std::array<std::vector<float>, 3> tiles_;
  Launch launch_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// update.cpp: the parts of an update of LU on one GPU, each by itself: the exchange of rows, the
// rows of U, and the product in several ways. It prints a table. It runs no calls.
//
// usage: measure_update [N [WIDTH]]   the order of the matrix (default 65536: 34 GB), of its panels
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/factoring_kernels.hpp"
#include "backend/cuda/panels.hpp"
#include "gpu/panels/panel_trial.hpp"

namespace fleet::test {
namespace {

using cuda::check;
using Array = DeviceArray<double>;

constexpr int kRepeats = 3;

/// Random, as a factorization has them: a GPU draws less power on few different numbers.
class Filled {
 public:
  explicit Filled(std::int64_t count) : array_(count) {
    static const std::vector<double> some =
        HostMatrix<double>::random(1 << 24, 1, 1 << 24, 45).values;
    const auto all = static_cast<std::size_t>(count);
    for (std::size_t at = 0; at < all; at += some.size())
      check(cudaMemcpy(array_.data() + at, some.data(),
                       std::min(all - at, some.size()) * sizeof(double), cudaMemcpyHostToDevice),
            "random numbers");
  }
  View view(std::int64_t rows, std::int64_t cols, std::int64_t ld) const {
    return {.data = array_.data(), .rows = rows, .cols = cols, .ld = ld};
  }

 private:
  Array array_;
};

class Update {
 public:
  Update(std::int64_t n, std::int64_t width)
      : n_(n),
        width_(width),
        matrix_(n * n),
        panel_(n * width),
        upper_(width * n),
        square_(width * width) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    blas_ = std::make_unique<cuda::CublasHandle>(cuda::CublasLibrary::load(), stream_);
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "an event");
  }

  /// Of the last `size` rows and columns.
  void measure(std::int64_t size) {
    const std::int64_t rest = size - width_;
    const View all = corner(size, 0, size), top = corner(size, 0, width_),
               below = corner(size, width_, rest);
    const View p = panel_.view(rest, width_, size), u = upper_.view(width_, size, width_);
    const double per_row = 2.0 * static_cast<double>(width_) * static_cast<double>(size);
    const DeviceArray<std::int32_t> moves(4 * width_ + 1);
    find_moves(size, moves);
    time(size, "exchange", 0,
         [&] { cuda::exchange_composed(Storage::f64, all, moves.data(), width_, stream_); });
    time(size, "rows of U", per_row * static_cast<double>(width_),
         [&] { multiply(square_.view(width_, width_, width_), top, u, 1, 0); });
    time(size, "their copy", 0, [&] { cuda::copy_filled(Storage::f64, u, top, stream_); });
    for (const std::int64_t columns : {size, std::int64_t{16384}, std::int64_t{8192}}) {
      if (columns > size) continue;
      time(size, "product by " + std::to_string(columns), per_row * static_cast<double>(rest), [&] {
        for (std::int64_t col = 0; col < size; col += columns) {
          const std::int64_t count = std::min(columns, size - col);
          multiply(p, part(top, Storage::f64, 0, col, width_, count),
                   part(below, Storage::f64, 0, col, rest, count), -1e-9, 1);
        }
      });
    }
  }

 private:
  View corner(std::int64_t size, std::int64_t above, std::int64_t rows) const {
    return part(matrix_.view(n_, n_, n_), Storage::f64, n_ - size + above, n_ - size, rows, size);
  }

  void multiply(const View& a, const View& b, const View& c, double alpha, double beta) {
    blas_->multiply({.kernel = Kernel::multiply,
                     .type = {.storage = Storage::f64},
                     .alpha = alpha,
                     .beta = beta,
                     .a = a,
                     .b = b,
                     .c = c});
  }

  /// As pivots of a random matrix have them.
  void find_moves(std::int64_t size, const DeviceArray<std::int32_t>& moves) {
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(width_));
    PanelRandom numbers(44);
    for (std::int32_t i = 0; i < width_; ++i)
      pivots[static_cast<std::size_t>(i)] =
          i + static_cast<std::int32_t>(static_cast<double>(size - i) * (numbers.next() + 1) / 2);
    const DeviceArray<std::int32_t> list(pivots);
    cuda::compose_exchanges(list.data(), 0, width_, false, moves.data(), stream_);
    check(cudaStreamSynchronize(stream_), "the order of exchanges");
  }

  void time(std::int64_t size, const std::string& what, double flops,
            const std::function<void()>& work) {
    std::vector<double> seconds;
    for (int i = 0; i <= kRepeats; ++i) {
      check(cudaEventRecord(events_[0], stream_), "an event");
      work();
      check(cudaEventRecord(events_[1], stream_), "an event");
      check(cudaEventSynchronize(events_[1]), "what is measured");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "a time");
      if (i > 0) seconds.push_back(ms * 1e-3);
    }
    std::ranges::sort(seconds);
    std::printf("%7ld %5ld  %-18s %9.1f us (%9.1f to %9.1f)", static_cast<long>(size),
                static_cast<long>(width_), what.c_str(), seconds[kRepeats / 2] * 1e6,
                seconds.front() * 1e6, seconds.back() * 1e6);
    if (flops > 0) std::printf("  %6.2f TFLOPS", flops / seconds[kRepeats / 2] * 1e-12);
    std::printf("\n");
    std::fflush(stdout);
  }

  const std::int64_t n_, width_;
  const Filled matrix_, panel_, upper_, square_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<cuda::CublasHandle> blas_;
  cudaEvent_t events_[2]{};
};

}  // namespace
}  // namespace fleet::test

int main(int count, char** arguments) {
  const std::int64_t n = count > 1 ? std::atoll(arguments[1]) : 65536;
  const std::int64_t width = count > 2 ? std::atoll(arguments[2]) : 512;
  if (width < 1 || width > fleet::cuda::kMostExchanges || n < 2 * width) {
    std::fprintf(stderr, "usage: measure_update [N [WIDTH]]\n");
    return 2;
  }
  try {
    fleet::test::Update update(n, width);
    for (std::int64_t size = n - width; size > width; size = size * 3 / 4 / width * width)
      update.measure(size);
  } catch (const fleet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

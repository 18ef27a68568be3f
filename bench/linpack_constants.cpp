// SPDX-License-Identifier: BSD-3-Clause
// linpack_constants.cpp: what Linpack's simulator has to know of a cluster, measured on it: rates
// of products of ranks that share cores, memory, latency and bandwidth, and the CPU's work for
// messages. It prints JSON for tools/make_clusters.py. It factors nothing.
//
// usage: mpirun -n 4 linpack_constants   (as bench/cluster.sh runs it; ranks are a square grid)
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "comm_mpi/mpi.hpp"
#include "dist/buffer.hpp"
#include "dist/grid.hpp"
#include "factor/rows.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double cpu_s(clockid_t of) {
  timespec time{};
  clock_gettime(of, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of the CPU that this thread takes: ranks share cores, and all do the same at once.
template <typename Work>
double thread_s(const Grid& grid, int times, Work&& work) {
  work();
  grid.all.barrier();
  std::vector<double> found;
  for (int i = 0; i < times; ++i) {
    const double begin = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    work();
    found.push_back(cpu_s(CLOCK_THREAD_CPUTIME_ID) - begin);
  }
  std::ranges::sort(found);
  double middle[1] = {found[found.size() / 2]};
  grid.all.reduce(middle, Reduction::sum);
  return middle[0] / grid.all.size();
}

/// In the memory that a rank has its matrix in: on large pages.
class Numbers {
 public:
  explicit Numbers(std::int64_t count) { buffer_.touch(count); }
  double* data() const { return buffer_.data(); }

 private:
  Buffer buffer_;
};

/// FLOPS of one core at C (m x n) -= A (m x k) * B.
double product_rate(const Grid& grid, const Blas& blas, std::int64_t m, std::int64_t n,
                    std::int64_t k) {
  const Numbers a(m * k), b(n * k), c(m * n);
  const auto flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int times = static_cast<int>(std::clamp(2e10 / flops, 5.0, 200.0));
  return flops / thread_s(grid, times, [&] {
           blas.subtract_product(m, n, k, a.data(), m, FLEET_TRANS, b.data(), n, c.data(), m);
         });
}

/// Bytes read and written per second where a matrix is copied.
double memory_rate(const Grid& grid) {
  constexpr std::int64_t kCount = 8 << 20;
  const Numbers from(kCount), to(kCount);
  const double seconds = thread_s(grid, 7, [&] { std::copy_n(from.data(), kCount, to.data()); });
  return 2.0 * sizeof(double) * kCount / seconds;
}

/// FLOPS of one core that solves for U with the square of a panel.
double solve_rate(const Grid& grid, const Blas& blas) {
  constexpr std::int64_t kWidth = 192, kColumns = 2000;
  const Numbers square(kWidth * kWidth), upper(kWidth * kColumns);
  const double seconds = thread_s(grid, 15, [&] {
    blas.solve({FLEET_RIGHT, FLEET_LOWER, FLEET_TRANS, FLEET_UNIT, square.data(), kWidth}, kColumns,
               kWidth, upper.data(), kColumns);
  });
  return kWidth * kWidth * kColumns / seconds;
}

/// Bytes per second of rows of a matrix that are packed or unpacked, each read and written once.
double rows_rate(const Grid& grid) {
  constexpr std::int64_t kRows = 4000, kColumns = 2000, kMoved = 96;
  const Numbers matrix(kRows * kColumns), packed(kMoved * kColumns);
  std::vector<RowPlace> places;
  for (std::int64_t i = 0; i < kMoved; ++i) places.push_back({(i * 1237) % kRows, i});
  const double seconds = thread_s(grid, 15, [&] {
    pack_rows(places, matrix.data(), kRows, packed.data(), kColumns, 0, kColumns);
    unpack_rows(places, matrix.data(), kRows, packed.data(), kColumns, 0, kColumns);
  });
  return 2 * 2 * sizeof(double) * kMoved * kColumns / seconds;
}

/// Seconds in which the ranks of the first column tell each other as much as of a pivot (two rows
/// of 192 columns): a tenth of the batches take less, so that what else the machine does counts
/// little.
double latency_s(const Grid& grid) {
  constexpr int kBatches = 100, kTimes = 20, kNumbers = 2 * 192 + 3;
  std::vector<double> mine(kNumbers), all(mine.size() * static_cast<std::size_t>(grid.rows));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(grid.rows), kNumbers);
  std::vector<double> found;
  double latency[1] = {0};
  grid.all.barrier();
  if (grid.col == 0) {
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto begin = Clock::now();
      for (int i = 0; i < kTimes; ++i) grid.pivot_ranks->gather(mine, counts, all)->wait();
      found.push_back(since(begin) / kTimes);
    }
    std::ranges::sort(found);
    latency[0] = found[found.size() / 10];
  }
  std::vector<double> done(1);
  const auto end = grid.row_ranks->broadcast(done, 0);
  end->wait();
  grid.all.reduce(latency, Reduction::largest);
  return latency[0];
}

/// Jiffies that cores spend on the network outside of all processes.
double interrupts_s() {
  std::ifstream stat("/proc/stat");
  std::string word;
  double field[8] = {};
  stat >> word;
  for (double& one : field) stat >> one;
  return (field[5] + field[6]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Messages {
  double bytes_per_s, cores;
};

/// Broadcasts in all rows at once, driven as `full` does it, while nobody computes.
Messages messages(const Grid& grid, int times) {
  constexpr std::size_t kCount = 1 << 20;
  std::vector<double> data(kCount, 1.0);
  Recorder recorder;
  Engine engine({.has_thread = true}, recorder);
  grid.all.barrier();
  const double in_interrupts = interrupts_s(), in_process = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
  const auto begin = Clock::now();
  std::vector<double> found;
  for (int i = 0; i < times; ++i) {
    const auto begun = Clock::now();
    const auto request =
        engine.drive(grid.row_ranks->broadcast(data, i % grid.cols), {What::panel_way, 0});
    // A wait of ours would make the thread look without rests.
    while (!request->test()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    grid.all.barrier();
    found.push_back(since(begun));
  }
  const double seconds = since(begin);
  double cpu[1] = {cpu_s(CLOCK_PROCESS_CPUTIME_ID) - in_process};
  grid.all.reduce(cpu, Reduction::sum);
  const double network = interrupts_s() - in_interrupts;
  std::ranges::sort(found);
  return {static_cast<double>(kCount * sizeof(double)) / found[found.size() / 10],
          (cpu[0] + network) / seconds / grid.all.size()};
}

/// Bytes per second of rows that are exchanged in all columns at once, as a section does it: half
/// of them leave the square, and all ranks get all that come into it.
double exchange_rate(const Grid& grid, int times) {
  constexpr std::int64_t kCount = 192 * 2000;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(grid.rows), kCount / grid.rows);
  std::vector<double> rows(kCount, 1.0), mine(kCount / grid.rows), below(mine), square(rows);
  std::vector<double> found;
  for (int i = 0; i < times; ++i) {
    grid.all.barrier();
    const auto begin = Clock::now();
    const auto scattered = grid.col_ranks->scatter(rows, counts, below, i % grid.rows);
    const auto gathered = grid.col_ranks->gather(mine, counts, square);
    scattered->wait();
    gathered->wait();
    double seconds[1] = {since(begin)};
    grid.all.reduce(seconds, Reduction::largest);
    found.push_back(seconds[0]);
  }
  std::ranges::sort(found);
  const double bytes = sizeof(double) * static_cast<double>(kCount);
  return 2 * bytes * (grid.rows - 1) / grid.rows / found[found.size() / 10];
}

void measure(const Grid& grid) {
  const CpuContext context(1);
  const Blas blas(context.get());
  const bool speaks = grid.all.rank() == 0;
  std::string rates;
  struct Size {
    std::int64_t m, n, k;
  };
  // A panel's halves, and what is left to update: as N = 8000, NB = 192 has them on four ranks.
  for (const auto& [m, n, k] : {Size{2000, 12, 12},
                                {2000, 24, 24},
                                {2000, 48, 48},
                                {2000, 96, 96},
                                {500, 250, 192},
                                {1000, 500, 192},
                                {2000, 1000, 192},
                                {4000, 2000, 192},
                                {4000, 4000, 192}}) {
    const double edge = std::cbrt(static_cast<double>(m * n * k));
    char text[80];
    std::snprintf(text, sizeof text, "%s[%.0f, %.3g]", rates.empty() ? "" : ", ", edge,
                  product_rate(grid, blas, m, n, k));
    rates += text;
  }
  const double memory = memory_rate(grid), rows = rows_rate(grid), solve = solve_rate(grid, blas);
  const double latency = latency_s(grid);
  const Messages found = messages(grid, 100);
  const double exchange = exchange_rate(grid, 30);
  if (!speaks) return;
  std::printf("{\"blas\": \"%s\",\n \"core_rates\": [%s],\n \"memory_bytes_per_s\": %.3g,\n",
              context.blas().c_str(), rates.c_str(), memory);
  std::printf(" \"rows_bytes_per_s\": %.3g,\n \"solve_rate\": %.3g,\n", rows, solve);
  std::printf(" \"latency_s\": %.3g,\n", latency);
  std::printf(" \"bytes_per_s\": %.4g,\n \"exchange_bytes_per_s\": %.4g,\n", found.bytes_per_s,
              exchange);
  std::printf(" \"message_cores\": %.2f}\n", found.cores);
}

int run(int* argc, char*** argv) {
  const Mpi mpi(argc, argv);
  const int edge = static_cast<int>(std::lround(std::sqrt(mpi.size())));
  const std::unique_ptr<Comm> world = mpi.world();
  measure(Grid(*world, edge, edge));
  return 0;
}

}  // namespace
}  // namespace fleet::lu

int main(int argc, char** argv) {
  try {
    return fleet::lu::run(&argc, &argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "linpack_constants: %s\n", failure.what());
    return 1;
  }
}

// SPDX-License-Identifier: BSD-3-Clause
// costs.cpp: rates of products, bytes over bandwidths, alpha and beta.
#include "sim/costs.hpp"

#include <algorithm>
#include <cmath>

namespace fleet::lu {
namespace {

constexpr double kBytes = 8;  ///< of a double
/// Columns of a panel that are eliminated one by one, as in lu/factor.
constexpr double kOneByOne = 8;
/// As good as endless.
constexpr double kLarge = 1e6;

/// What a GPU's part takes, with `in` and `out` elements moved for it.
void fill_gpu(SharedWork& work, const RankMeans& rank, double flops, double rate, double in,
              double out) {
  work.gpu_s = flops / rate / rank.gpus;
  if (rank.resident) return;
  const auto transfer_s = [&](double elements) {
    return rank.transfer_latency_s + elements * kBytes / rank.gpus / rank.transfer_bytes_per_s;
  };
  work.in_s = transfer_s(in);
  work.out_s = transfer_s(out);
}

}  // namespace

double RateTable::at(double m, double n, double k) const {
  if (points.empty()) return 0;
  const double edge = std::cbrt(m * n * k);
  if (edge <= points.front().edge) return points.front().flops_per_s;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point &low = points[i - 1], &high = points[i];
    if (edge > high.edge) continue;
    const double share = std::log(edge / low.edge) / std::log(high.edge / low.edge);
    return low.flops_per_s + share * (high.flops_per_s - low.flops_per_s);
  }
  return points.back().flops_per_s;
}

SharedWork product_work(const RankMeans& rank, double m, double n, double k, double cpu_share) {
  SharedWork work;
  if (m <= 0 || n <= 0 || k <= 0) return work;
  work.flops = 2 * m * n * k;
  const double cpu_rows = rank.gpus == 0 ? m : m * cpu_share, gpu_rows = m - cpu_rows;
  if (cpu_rows > 0) work.core_s = 2 * cpu_rows * n * k / rank.core.at(cpu_rows, n, k);
  if (gpu_rows > 0)
    fill_gpu(work, rank, 2 * gpu_rows * n * k, rank.gpu.at(gpu_rows / rank.gpus, n, k),
             gpu_rows * k + k * n + gpu_rows * n, gpu_rows * n);
  return work;
}

SharedWork solve_work(const RankMeans& rank, double k, double count, double cpu_share) {
  SharedWork work;
  if (k <= 0 || count <= 0) return work;
  work.flops = k * k * count;
  const double of_cpu = rank.gpus == 0 ? count : count * cpu_share, of_gpu = count - of_cpu;
  if (of_cpu > 0) work.core_s = k * k * of_cpu / (rank.solve_share * rank.core.at(k, of_cpu, k));
  if (of_gpu > 0)
    fill_gpu(work, rank, k * k * of_gpu, rank.gpu.at(k, of_gpu / rank.gpus, k),
             k * k / 2 + k * of_gpu, k * of_gpu);
  return work;
}

double balanced_share(const RankMeans& rank, double cores) {
  if (rank.gpus == 0) return 1;
  if (rank.resident) return 0;
  const double cpu = rank.core.at(kLarge, kLarge, kLarge) * cores;
  const double gpu = rank.gpu.at(kLarge, kLarge, kLarge) * rank.gpus;
  return cpu / (cpu + gpu);
}

double panel_flops(double rows, double width) {
  return std::max(0.0, rows * width * width - width * width * width / 3);
}

double panel_s(const RankMeans& rank, double rows, double width, double cores) {
  if (rows <= 0 || width <= 0) return 0;
  if (rank.resident)
    return width * rank.gpu_panel.column_s + rows * width * rank.gpu_panel.element_s;
  double seconds = 0, left = width;
  // Products of each level of halves, bound by the cores or by memory.
  for (; left > kOneByOne; left /= 2) {
    const double half = left / 2, products = width / left;
    const double flops = 2 * rows * half * half, bytes = 3 * kBytes * rows * half;
    const double rate = rank.core.at(rows, half, half) * cores;
    seconds += products * std::max(flops / rate, bytes / rank.memory_bytes_per_s);
  }
  // Then each element is read and written once for each column before it, up to `left`.
  return seconds + rows * width * left / 2 * 2 * kBytes / rank.memory_bytes_per_s;
}

double square_s(const RankMeans& rank, double width, double cores) {
  const double flops = 2 * width * width * width / 3;
  return flops / (rank.core.at(width, width, width) * cores);
}

double copy_s(const RankMeans& rank, double bytes) {
  const double rate =
      rank.resident ? rank.gpu_memory_bytes_per_s * rank.gpus : rank.memory_bytes_per_s;
  return 2 * bytes / rate;
}

double rows_s(const RankMeans& rank, double bytes) {
  const double of_host =
      rank.rows_bytes_per_s > 0 ? rank.rows_bytes_per_s : rank.memory_bytes_per_s;
  const double rate = rank.resident ? rank.gpu_memory_bytes_per_s * rank.gpus : of_host;
  return 2 * bytes / rate;
}

double broadcast_s(const Link& link, int members, double bytes, const Chain& chain) {
  if (members < 2 || bytes <= 0) return 0;
  const double segments = std::max(1.0, std::ceil(bytes / chain.segment_bytes));
  const double segment_s =
      chain.trips * link.latency_s + bytes / segments / (link.bytes_per_s * chain.link_share);
  return (segments + members - 2) * segment_s;
}

double gather_s(const Link& link, int members, double bytes) {
  if (members < 2) return 0;
  return std::ceil(std::log2(members)) * link.latency_s + (members - 1) * bytes / link.bytes_per_s;
}

double exchange_s(const Link& link, int members, double bytes, const Chain& chain) {
  if (members < 2 || bytes <= 0) return 0;
  const double others = members - 1, part = bytes / members;
  return 2 * others * (link.latency_s + part / (link.bytes_per_s * chain.exchange_share));
}

}  // namespace fleet::lu

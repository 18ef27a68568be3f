// SPDX-License-Identifier: BSD-3-Clause
// host_kernels.cpp: times products of growing edges while the budget lasts.
#include "probe/host_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "probe/host_product.hpp"

namespace fleet {
namespace {

/// Times products on all cores, which is how calls that are not offloaded are computed.
class HostKernels {
 public:
  HostKernels(CpuBlas& blas, double budget_s) : blas_(blas), deadline_s_(now_s() + budget_s) {}

  void measure(Device& host) {
    const CpuBlas::Lease all_cores(blas_, core_count());
    time_s(DataType::f64, 64);  // starts the threads of the library
    host.launch_s = time_s(DataType::f64, 1);
    HostStream stream(blas_, core_count());
    host.memory_bytes_per_s = stream.bytes() / least_s([&] { return stream.run_s(); });
    std::vector<KernelRate> rates;
    for (const DataType type : {DataType::f64, DataType::f32, DataType::c64, DataType::c32}) {
      const double start_s = now_s();
      const double share_s = (deadline_s_ - start_s) / (is_complex(type.storage) ? 2 : 3);
      double last_s = 0;
      for (const std::int64_t edge : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
        // One run fetches the operands into the caches, three more are timed.
        if (8 * 4 * last_s > start_s + share_s - now_s()) break;
        const auto size = static_cast<double>(edge);
        const double work = (is_complex(type.storage) ? 8 : 2) * size * size * size;
        const double rate_before = last_s > 0 ? rates.back().flops_per_s : 0;
        last_s = time_s(type, edge);
        // Parallel products suffer most from a busy machine, so a slow result is measured again.
        for (int again = 0; again < 5 && work / last_s < rate_before / 2; ++again)
          last_s = std::min(last_s, time_s(type, edge));
        rates.push_back({type, edge, work / std::max(last_s - host.launch_s, last_s / 2)});
      }
    }
    std::ranges::sort(rates, {}, type_and_edge);
    drop_slow_end(rates);
    if (!rates.empty()) host.kernels = std::move(rates);
  }

 private:
  double time_s(DataType type, std::int64_t edge) {
    HostProduct product(blas_, type, edge);
    return least_s([&] { return product.run_s(); });
  }

  /// The least of three runs, or of more while they are short: other load only makes them slower.
  template <typename Run>
  static double least_s(Run run) {
    double least_s = std::numeric_limits<double>::infinity(), all_s = 0;
    for (int repeat = 0; repeat < 3 || (repeat < 20 && all_s < 1e-3); ++repeat) {
      const double run_s = run();
      least_s = std::min(least_s, run_s);
      all_s += run_s;
    }
    return least_s;
  }

  CpuBlas& blas_;
  double deadline_s_;
};

}  // namespace

void measure_host_kernels(CpuBlas& blas, double budget_s, Device& host) {
  HostKernels(blas, budget_s).measure(host);
}

void drop_slow_end(std::vector<KernelRate>& rates) {
  for (std::size_t i = rates.size(); i-- > 1;) {
    const bool is_last = i + 1 == rates.size() || rates[i + 1].type != rates[i].type;
    const bool is_alone = rates[i - 1].type != rates[i].type;
    if (is_last && !is_alone && rates[i].flops_per_s < rates[i - 1].flops_per_s / 2)
      rates.erase(rates.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void take_faster(std::vector<KernelRate>& rates, const std::vector<KernelRate>& others) {
  for (const KernelRate& other : others) {
    const auto at = std::ranges::lower_bound(rates, type_and_edge(other), {}, type_and_edge);
    if (at != rates.end() && type_and_edge(*at) == type_and_edge(other))
      at->flops_per_s = std::max(at->flops_per_s, other.flops_per_s);
    else
      rates.insert(at, other);
  }
}

}  // namespace fleet

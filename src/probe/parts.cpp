// SPDX-License-Identifier: BSD-3-Clause
// parts.cpp: times the host's own products, and pinning, call by call. It must not know plans.
#include "probe/parts.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "probe/confidence.hpp"
#include "probe/host_product.hpp"

namespace fleet {
namespace {

constexpr DataType kHostTypes[] = {DataType::f64, DataType::f32, DataType::c64, DataType::c32};
constexpr std::int64_t kHostEdges[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr std::int64_t kPinnedBytes[] = {1 << 20, 16 << 20, 256 << 20};
constexpr std::int64_t kPage = 4096;
/// Pinning that takes less than this did nothing.
constexpr double kNothingS = 1e-6;

bool asked_for(const ProbeRequest& request, DataType type) {
  return request.types.empty() || std::ranges::find(request.types, type) != request.types.end();
}

}  // namespace

std::size_t host_values() { return 2 + std::size(kHostTypes) * std::size(kHostEdges); }
std::size_t pinning_values() { return std::size(kPinnedBytes); }

void measure_host(Device& host, CpuBlas& blas, ProbeSession& session) {
  const CpuBlas::Lease all_cores(blas, core_count());
  HostProduct least(blas, DataType::f64, 1);
  const std::vector<double> launch =
      session.repeated("CPU launch", "s", [&] { return std::vector<double>{least.run_s()}; });
  if (!launch.empty()) host.launch_s = launch.front();
  HostStream stream(blas, core_count());
  const std::vector<double> streaming =
      session.repeated("CPU memory", "s", [&] { return std::vector<double>{stream.run_s()}; });
  if (!streaming.empty()) host.memory_bytes_per_s = stream.bytes() / streaming.front();
  for (const DataType type : kHostTypes) {
    if (!asked_for(session.request(), type)) continue;
    std::vector<KernelRate> rates;
    double last_s = 0;
    for (const std::int64_t edge : kHostEdges) {
      const std::string name =
          std::string("CPU ") + word_of(type) + " multiply tile " + std::to_string(edge);
      if (2 * 8 * last_s > kMostShares * session.share_s()) {
        session.note({.name = name, .unit = "s"});
        continue;
      }
      HostProduct product(blas, type, edge);
      const double seconds =
          session.repeated(name, "s", [&] { return std::vector<double>{product.run_s()}; }).front();
      const auto size = static_cast<double>(edge);
      const double work = (is_complex(type.storage) ? 8 : 2) * size * size * size;
      rates.push_back({type, edge, work / std::max(seconds - host.launch_s, seconds / 2)});
      last_s = seconds;
    }
    if (rates.empty()) continue;
    std::erase_if(host.kernels, [&](const KernelRate& rate) { return rate.type == type; });
    host.kernels.insert(host.kernels.end(), rates.begin(), rates.end());
  }
  std::ranges::sort(host.kernels, {}, type_and_edge);
}

void measure_pinning(Backend& backend, ProbeSession& session) {
  for (const std::int64_t bytes : kPinnedBytes) {
    std::vector<char> memory(static_cast<std::size_t>(bytes + kPage), 1);
    // Whole pages, as in large allocations.
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    void* data = memory.data() + (kPage - address % kPage) % kPage;
    bool done = true;
    double pinning_s = 0;
    Confidence letting_go;
    const auto once = [&]() -> std::vector<double> {
      pinning_s = seconds_of([&] { done = backend.pin(data, bytes); });
      if (!done) return {};
      letting_go.add(seconds_of([&] { backend.unpin(data); }));
      return {pinning_s};
    };
    // Three attempts, so that an interruption does not pass for the time of pinning.
    for (int attempt = 0; attempt < 3; ++attempt)
      if (once().empty() || pinning_s < kNothingS) return;
    const std::string size = std::to_string(bytes >> 20) + " MiB";
    letting_go = {};
    if (session.repeated("pin " + size, "s", once).empty()) return;
    session.note("unpin " + size, "s", letting_go);
  }
}

}  // namespace fleet

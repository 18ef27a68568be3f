// SPDX-License-Identifier: BSD-3-Clause
// graphs.cpp: graphs by key. It must not know tasks.
#include "backend/cuda/graphs.hpp"

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/driver.hpp"

namespace fleet::cuda {
namespace {

constexpr std::size_t kMostEntries = 32;
/// Runs in each way before they are compared; the first in either is not counted.
constexpr int kTrials = 3;

}  // namespace

std::vector<std::uint64_t> memories_of(const Binding& binding, std::int64_t releases) {
  using Function = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto ask = driver_function<Function>("cuPointerGetAttribute");
  std::vector<std::uint64_t> memories;
  for (const Binding::Matrix& matrix : binding.matrices) {
    unsigned long long number = 0;
    if (ask == nullptr || !works(ask(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                     reinterpret_cast<CUdeviceptr>(matrix.data))))
      number = 0;
    memories.push_back(number);
  }
  if (!binding.slots.empty()) memories.push_back(static_cast<std::uint64_t>(releases));
  return memories;
}

/// With the lock.
Graphs::Entry* Graphs::find(const GraphKey& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front();
}

Graphs::Way Graphs::next(const GraphKey& key) {
  const std::lock_guard lock(mutex_);
  const Entry* known = find(key);
  if (known == nullptr) {
    entries_.push_front({.key = key});
    while (entries_.size() > kMostEntries) entries_.pop_back();
    return Way::streams;
  }
  if (known->streams_runs < kTrials) return Way::streams;
  if (known->graph == nullptr) return known->graph_runs == 0 ? Way::capture : Way::streams;
  if (known->graph_runs < kTrials) return Way::graph;
  return known->prefers_graph() ? Way::graph : Way::streams;
}

KeptGraph Graphs::graph(const GraphKey& key) {
  const std::lock_guard lock(mutex_);
  const Entry* known = find(key);
  return known != nullptr ? known->graph : nullptr;
}

KeptGraph Graphs::keep(const GraphKey& key, cudaGraph_t graph) {
  cudaGraphExec_t instance = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&instance, graph, 0);
  works(cudaGraphDestroy(graph));
  check(code, "cudaGraphInstantiate");
  int ordinal = 0;
  works(cudaGetDevice(&ordinal));
  const KeptGraph kept(instance, [ordinal](cudaGraphExec_t last) {
    DeviceScope device;
    device.try_use(ordinal);
    works(cudaGraphExecDestroy(last));
  });
  const std::lock_guard lock(mutex_);
  if (Entry* known = find(key))
    known->graph = kept;
  else
    entries_.push_front({.key = key, .graph = kept});
  return kept;
}

void Graphs::note(const GraphKey& key, Way way, double seconds) {
  const std::lock_guard lock(mutex_);
  Entry* known = find(key);
  if (known == nullptr) return;
  const bool streams = way == Way::streams;
  int& runs = streams ? known->streams_runs : known->graph_runs;
  double& least_s = streams ? known->streams_s : known->graph_s;
  if (runs++ > 0) least_s = std::min(least_s, seconds);
  // Streams have won: the graph only takes memory.
  if (known->graph_runs == kTrials && !known->prefers_graph()) known->graph.reset();
}

void Graphs::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace fleet::cuda

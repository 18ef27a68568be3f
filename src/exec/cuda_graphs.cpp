// SPDX-License-Identifier: BSD-3-Clause
// cuda_graphs.cpp: graphs by key. It must not know tasks.
#include "exec/cuda_graphs.hpp"

#include <algorithm>

#include "exec/cuda_check.hpp"

namespace fleet::cuda {
namespace {

constexpr std::size_t kMostEntries = 32;

}  // namespace

cudaGraphExec_t Graphs::find(const GraphKey& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->graph;
}

bool Graphs::comes_again(const GraphKey& key) {
  if (std::ranges::find(entries_, key, &Entry::key) != entries_.end()) return true;
  entries_.push_front({key, nullptr});
  drop_old();
  return false;
}

cudaGraphExec_t Graphs::keep(const GraphKey& key, cudaGraph_t graph) {
  cudaGraphExec_t instance = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&instance, graph, 0);
  works(cudaGraphDestroy(graph));
  check(code, "cudaGraphInstantiate");
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end())
    entries_.push_front({key, instance});
  else
    found->graph = instance;
  drop_old();
  return instance;
}

void Graphs::drop_old() {
  while (entries_.size() > kMostEntries) {
    if (entries_.back().graph != nullptr) works(cudaGraphExecDestroy(entries_.back().graph));
    entries_.pop_back();
  }
}

void Graphs::clear() {
  for (Entry& entry : entries_)
    if (entry.graph != nullptr) works(cudaGraphExecDestroy(entry.graph));
  entries_.clear();
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// cuda_graphs.hpp: runs kept as graphs, by plan and arguments. It must not know tasks.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <list>
#include <optional>

#include "exec/backend.hpp"

namespace fleet::cuda {

/// What is fixed in a captured run.
struct GraphKey {
  std::uint64_t serial = 0;     ///< of the plan
  std::int64_t generation = 0;  ///< of the arenas
  Arguments arguments;
  friend bool operator==(const GraphKey& a, const GraphKey& b) {
    return a.serial == b.serial && a.generation == b.generation &&
           a.arguments.data == b.arguments.data && a.arguments.ld == b.arguments.ld &&
           a.arguments.stride == b.arguments.stride && a.arguments.alpha == b.arguments.alpha &&
           a.arguments.beta == b.arguments.beta;
  }
};

/// The least recently used ones are dropped: each node of a graph takes about a kilobyte.
class Graphs {
 public:
  ~Graphs() { clear(); }

  /// The graph of this run, or null.
  cudaGraphExec_t find(const GraphKey& key);
  /// Notes the run. True if it has come before, so that it is worth a graph.
  bool comes_again(const GraphKey& key);
  /// Instantiates and keeps. Throws Error(device_failed, no_memory); `graph` is destroyed.
  cudaGraphExec_t keep(const GraphKey& key, cudaGraph_t graph);
  void clear();

 private:
  struct Entry {
    GraphKey key;
    cudaGraphExec_t graph = nullptr;  ///< none: seen once
  };
  void drop_old();
  std::list<Entry> entries_;
};

}  // namespace fleet::cuda

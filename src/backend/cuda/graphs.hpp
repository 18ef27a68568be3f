// SPDX-License-Identifier: BSD-3-Clause
// graphs.hpp: runs kept as graphs, by plan and arguments. It must not know tasks.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "run/binding.hpp"

namespace fleet::cuda {

/// Everything that a captured run fixes.
struct GraphKey {
  std::uint64_t serial = 0;     ///< of the plan
  std::int64_t generation = 0;  ///< of the arenas
  Binding binding;
  /// The driver's numbers of the memory that the matrices lie in. An address may come again with
  /// other memory, and a graph keeps what the driver knew of the old one.
  std::vector<std::uint64_t> memories = {};
  friend bool operator==(const GraphKey&, const GraphKey&) = default;
};

/// Of a run's matrices; 0: the driver does not know it. Of slots, which this library frees, nothing
/// but how often it has freed any.
std::vector<std::uint64_t> memories_of(const Binding& binding, std::int64_t releases);

/// A graph that can be launched, destroyed with its last owner.
using KeptGraph = std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>>;

/// Thread-safe. Decides by measurement how a run that comes again is best done: a few times in
/// streams, a few times as a graph, then as a graph unless streams took clearly less. The least
/// recently used ones are dropped: each node of a graph takes about a kilobyte.
class Graphs {
 public:
  enum class Way { streams, capture, graph };
  /// How this run is to be done now.
  Way next(const GraphKey& key);
  /// The kept graph of a run for which next() returned Way::graph.
  KeptGraph graph(const GraphKey& key);
  /// Instantiates and keeps what next() asked to capture. Throws Error(device_failed, no_memory);
  /// `graph` is destroyed.
  KeptGraph keep(const GraphKey& key, cudaGraph_t graph);
  /// Notes how long a run took that was done in this way.
  void note(const GraphKey& key, Way way, double seconds);
  /// Graphs that are under way are kept until they end.
  void clear();

 private:
  static constexpr double kClearlyLess = 0.95;
  struct Entry {
    GraphKey key;
    KeptGraph graph = {};
    int streams_runs = 0;
    int graph_runs = 0;
    double streams_s = 1e300;  ///< the least, without the first, which warms up
    double graph_s = 1e300;
    /// The least time of a few runs in streams flatters them: others wait whenever the system takes
    /// the core of the thread that issues their tasks. So streams must be clearly faster.
    bool prefers_graph() const { return kClearlyLess * graph_s < streams_s; }
  };
  Entry* find(const GraphKey& key);
  std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// cluster.hpp: nodes and links as the simulator sees them. It knows no file and no algorithm.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace fleet::lu {

/// Rates of products by their edge, the cube root of m*n*k. Between two edges the rate is linear in
/// the logarithm of the edge; beyond the ends it stays.
struct RateTable {
  struct Point {
    double edge, flops_per_s;
  };
  std::vector<Point> points;  ///< by rising edge; empty: nothing computes
  double at(double m, double n, double k) const;
};

/// Seconds of a panel on a device: for each of its columns, and for each of its elements.
struct PanelTimes {
  double column_s = 0, element_s = 0;
};

/// What a rank computes with.
struct RankMeans {
  int cores = 1;
  RateTable core;  ///< of one core
  double memory_bytes_per_s = 0;
  /// As many as the fastest one: two, of which one has half of the other's speed, are 1.5.
  double gpus = 0;
  RateTable gpu;  ///< of the fastest GPU
  double gpu_memory_bytes_per_s = 0;
  /// Between the memory of the host and one GPU, in each direction.
  double transfer_latency_s = 0, transfer_bytes_per_s = 0;
  /// The matrix stays in the memory of the GPUs, which do all the work; panels too.
  bool resident = false;
  PanelTimes gpu_panel;
};

/// A message takes alpha + bytes/beta from a rank to another.
struct Link {
  double latency_s = 0, bytes_per_s = 0;
};

/// Long broadcasts go along a chain of ranks, in segments that are each sent on before the next
/// one.
struct Chain {
  double segment_bytes = 131072;
  /// Of the bandwidth of a rank: a segment may be too short for all links.
  double link_share = 1;
  /// Latencies of a segment: more than one where the receiver must agree first.
  double trips = 1;
};

struct Cluster {
  RankMeans rank;
  /// Ranks of one node are a block of the grid of so many rows and columns.
  int node_rows = 1, node_cols = 1;
  /// Of a rank: its part of all links of its node, since all its ranks send at the same time.
  Link network;
  /// Between ranks of one node.
  Link local;
  Chain chain;
};

}  // namespace fleet::lu

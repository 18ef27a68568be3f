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
  /// Of rows of a matrix that are packed and unpacked: they lie in as many pages as there are
  /// columns. 0: as fast as all memory.
  double rows_bytes_per_s = 0;
  /// Of the rate of products of the same size, what solving with triangles reaches.
  double solve_share = 1;
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
  /// Of the bandwidth of a rank, what exchanges of rows reach.
  double exchange_share = 1;
};

/// All ranks are on one machine, as nodes that it emulates.
struct OneMachine {
  double cores = 0;  ///< of all ranks together; 0: each rank has its own
  /// Cores that a rank's message takes while it is under way: the network is the CPU's work there.
  double message_cores = 0;
};

struct Cluster {
  RankMeans rank;
  OneMachine machine;
  /// Ranks of one node are a block of the grid of so many rows and columns.
  int node_rows = 1, node_cols = 1;
  /// Of a rank: its part of all links of its node, since all its ranks send at the same time.
  Link network;
  /// Between ranks of one node.
  Link local;
  Chain chain;
};

}  // namespace fleet::lu

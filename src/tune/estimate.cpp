// SPDX-License-Identifier: BSD-3-Clause
// estimate.cpp: estimates the time of a tuning from volumes, in closed form. It makes no plan.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "plan/queues.hpp"
#include "program/decompose.hpp"
#include "tune/limits.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

// Sizes of the blocks and tiles that a tuning gives a problem, in elements.
struct Sizes {
  double block_m, block_n, tile_m, tile_n, tile_k, products;
};

/// The largest share of C that a row (or column) of the grid has.
double largest_part(const std::vector<double>& shares, int count) {
  if (shares.empty()) return 1.0 / count;
  return std::ranges::max(shares) / std::accumulate(shares.begin(), shares.end(), 0.0);
}

double pieces(double size, double edge) { return std::max(1.0, std::ceil(size / edge)); }

// The number of tile products relative to a gemm of the same sizes.
double products_share(const Problem& p) {
  return (p.traits().triangle || p.traits().triangular ? 0.5 : 1) * (p.traits().twice ? 2 : 1);
}

Sizes sizes_of(const Problem& p, const Tuning& t) {
  Sizes s{};
  const double batch = static_cast<double>(p.batch);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n),
               k = static_cast<double>(p.k);
  s.block_m = std::ceil(m * batch * (t.split_k ? 1 : largest_part(t.row_shares, t.grid.rows)));
  s.block_n = std::ceil(n * largest_part(t.col_shares, t.grid.cols));
  const double item_m = std::min(s.block_m, m);
  s.tile_m = item_m / pieces(item_m, static_cast<double>(t.edge_m()));
  s.tile_n = s.block_n / pieces(s.block_n, static_cast<double>(t.tile));
  double steps = pieces(k, static_cast<double>(longest_step(p.type.storage, t.edge_k())));
  if (p.traits().has_side())  // A has the same cuts along both edges
    steps = pieces(k, p.side == Side::left ? s.tile_m : s.tile_n);
  if (t.split_k) steps = std::ceil(std::max(1.0, steps * largest_part(t.row_shares, t.grid.rows)));
  s.tile_k = t.split_k ? k * largest_part(t.row_shares, t.grid.rows) / steps : k / steps;
  s.products = std::ceil(s.block_m / std::max(1.0, s.tile_m) - 1e-9) *
               std::ceil(s.block_n / std::max(1.0, s.tile_n) - 1e-9) * steps * products_share(p);
  return s;
}

double tasks_of(const Problem& p, const Tuning& t, const Sizes& s) {
  const double rows = pieces(static_cast<double>(p.m * p.batch), s.tile_m);
  const double cols = pieces(static_cast<double>(p.n), s.tile_n);
  const double steps = pieces(static_cast<double>(p.k), s.tile_k);
  return rows * cols * (steps + 3) * products_share(p) + rows * steps * t.grid.cols +
         cols * steps * t.grid.rows;
}

// The total bytes and copies of each link; traffic of one kind is spread over its links by rate.
class Traffic {
 public:
  Traffic(const Problem& problem, const Machine& machine, const Tuning& tuning,
          const Estimator::Ways& ways)
      : problem_(problem),
        machine_(machine),
        tuning_(tuning),
        ways_(ways),
        bytes_(machine.links.size(), 0.0),
        wire_s_(machine.links.size(), 0.0),
        copies_(machine.links.size(), 0.0) {}

  /// Adds the traffic of operand `x` in tiles of `rows` x `columns`.
  void operand(int x, double rows, double columns) {
    const Operand& op = problem_.operands[static_cast<std::size_t>(x)];
    const Estimator::Ways::Operand& ways = ways_.operand[x];
    const double element = static_cast<double>(bytes_of(problem_.type.storage));
    const double whole = bytes_that_count(problem_, x);
    const double tile = std::max(1.0, rows * columns) * element;
    Cargo apart{.home = op.home};
    if (rows < static_cast<double>(op.rows)) {
      apart.column_bytes = static_cast<std::int64_t>(rows * element);
      apart.apart_bytes = static_cast<std::int64_t>(static_cast<double>(op.rows) * element);
    }
    const auto& grid = tuning_.grid;
    const double users = x == kA ? grid.cols : x == kB && !tuning_.split_k ? grid.rows : 1;
    // A worker that is the home of the operand uses its share in place.
    const double workers = static_cast<double>(tuning_.workers.size());
    const double away = ways.home_works ? (workers - 1) / workers : 1.0;
    const bool chained = tuning_.rules.has(Rule::batching) || tuning_.rules.has(Rule::bandwidth) ||
                         tuning_.rules.has(Rule::eta);
    const double from_home = x == kC || !chained ? users : 1.0;
    if (x != kC || op.access == Access::update) {
      const double bytes = whole * from_home * away;
      if (ways.ring_out >= 0) add({&ways.ring_out, 1}, bytes, tile, apart);
      add(ways.out, bytes, tile, apart);
      if (users > from_home) add(ways_.between, whole * (users - from_home) * away, tile, {});
    }
    if (x == kC && tuning_.split_k) add(ways_.between, whole * (grid.rows - 1), tile, {});
    if (x == kC) {
      if (ways.ring_back >= 0) add({&ways.ring_back, 1}, whole * away, tile, apart);
      add(ways.back, whole * away, tile, apart);
    }
  }

  /// Seconds of the busiest link or port.
  double seconds() const {
    double worst_s = 0;
    std::vector<double> port_s(machine_.ports.size(), 0.0), sender_s(machine_.devices.size(), 0.0);
    for (std::size_t l = 0; l < machine_.links.size(); ++l) {
      if (bytes_[l] == 0) continue;
      const Link& link = machine_.links[l];
      const auto source = static_cast<std::size_t>(link.source);
      const bool in_turn = ways_.in_turn[source] != 0 && !on_host(link.target) &&
                           !tuning_.split_k && tuning_.rules.has(Rule::overlap);
      if (in_turn)  // one after another
        sender_s[source] += bytes_[l] / link.bytes_per_s + copies_[l] * link.latency(true);
      worst_s =
          std::max({worst_s, wire_s_[l] + copies_[l] * link.latency(in_turn), sender_s[source]});
      for (const PortShare& share : link.ports)
        port_s[static_cast<std::size_t>(share.port)] +=
            bytes_[l] * share.weight /
            machine_.ports[static_cast<std::size_t>(share.port)].capacity;
    }
    for (double s : port_s) worst_s = std::max(worst_s, s);
    return worst_s;
  }

 private:
  void add(std::span<const LinkId> links, double bytes, double tile, const Cargo& cargo) {
    double rate = 0;
    for (LinkId l : links) rate += machine_.links[static_cast<std::size_t>(l)].rate(cargo);
    for (LinkId l : links) {
      const auto link = static_cast<std::size_t>(l);
      const double part = bytes * machine_.links[link].rate(cargo) / rate;
      bytes_[link] += part;
      wire_s_[link] += bytes / rate;
      copies_[link] += part / tile;
    }
  }

  const Problem& problem_;
  const Machine& machine_;
  const Tuning& tuning_;
  const Estimator::Ways& ways_;
  std::vector<double> bytes_, wire_s_, copies_;
};

}  // namespace

double tile_cost(const Problem& problem, int workers, std::int64_t tile) {
  const double edge = static_cast<double>(tile);
  double padding = 0, volume = 1;
  for (std::int64_t size : {problem.m, problem.n, problem.k}) {
    if (size == 0) continue;
    const double s = static_cast<double>(size);
    padding += (std::ceil(s / edge) * edge - s) / s;
    volume *= s;
  }
  const double overlap = workers * edge * edge * edge / volume;
  const double latency = limits::kLatencyWeight * limits::kLatencyTile / edge;
  return padding + overlap + latency;
}

Estimator::Estimator(const Problem& problem, const Machine& machine,
                     const std::vector<DeviceId>& workers)
    : problem_(problem), machine_(machine) {
  const auto works = [&](DeviceId d) { return std::ranges::find(workers, d) != workers.end(); };
  for (const int x : {kA, kB, kC}) {
    Ways::Operand& ways = ways_.operand[x];
    DeviceId home = problem.operands[static_cast<std::size_t>(x)].home;
    ways.home_works = works(home);
    if (home == kPageable) {
      ways.ring_out = machine.find_link(kPageable, kHost);
      ways.ring_back = machine.find_link(kHost, kPageable);
      home = kHost;
    }
    for (LinkId l = 0; l < std::ssize(machine.links); ++l) {
      const Link& link = machine.links[static_cast<std::size_t>(l)];
      if (link.source == home && works(link.target)) ways.out.push_back(l);
      if (link.target == home && works(link.source)) ways.back.push_back(l);
    }
  }
  for (LinkId l = 0; l < std::ssize(machine.links); ++l) {
    const Link& link = machine.links[static_cast<std::size_t>(l)];
    if (works(link.source) && works(link.target)) ways_.between.push_back(l);
  }
  const DeviceId home = problem.operands[kC].home;
  const bool alone = std::ranges::all_of(problem.operands, [&](const Operand& operand) {
    return operand.home == home || operand.rows * operand.cols == 0;
  });
  ways_.in_turn = sending_in_turn(machine, alone ? home : kHost, workers);
}

double Estimator::seconds(const Tuning& tuning) const {
  const Sizes s = sizes_of(problem_, tuning);
  const auto round = [](double x) { return static_cast<std::int64_t>(std::ceil(x)); };
  double product_s = 0;
  for (DeviceId worker : tuning.workers)
    product_s = std::max(product_s, machine_.multiply_s(worker, problem_.type, round(s.tile_m),
                                                        round(s.tile_n), round(s.tile_k)));
  double work_s = s.products * product_s;
  // Kernels also load the ports (cores) that the workers share.
  std::vector<double> port_s(machine_.ports.size(), 0.0);
  for (DeviceId worker : tuning.workers)
    for (const PortShare& share : machine_.devices[static_cast<std::size_t>(worker)].ports)
      port_s[static_cast<std::size_t>(share.port)] +=
          s.products * product_s * share.weight /
          machine_.ports[static_cast<std::size_t>(share.port)].capacity;
  for (double seconds : port_s) work_s = std::max(work_s, seconds);

  Traffic traffic(problem_, machine_, tuning, ways_);
  const bool a_as_is = problem_.op_a == Op::none, b_as_is = problem_.op_b == Op::none;
  if (problem_.traits().has_side() && problem_.side == Side::right) {
    traffic.operand(kA, s.tile_n, s.tile_n);
    traffic.operand(kB, s.tile_m, s.tile_n);
  } else {
    traffic.operand(kA, a_as_is ? s.tile_m : s.tile_k, a_as_is ? s.tile_k : s.tile_m);
    traffic.operand(kB, b_as_is ? s.tile_k : s.tile_n, b_as_is ? s.tile_n : s.tile_k);
  }
  traffic.operand(kC, s.tile_m, s.tile_n);
  const double traffic_s =
      std::max(traffic.seconds(), machine_.issue_s * tasks_of(problem_, tuning, s));
  // Nothing overlaps before the first product and after the last one: about one step of each.
  const double steps = std::max(1.0, s.products);
  return std::max(work_s, traffic_s) + std::min(work_s, traffic_s) / steps + product_s;
}

double host_s(const Problem& problem, const Machine& machine) {
  if (problem.k == 0)
    return machine.stream_s(
        kHost, 2 * problem.m * problem.n * problem.batch * bytes_of(problem.type.storage));
  if (problem.traits().vectors && machine.devices[kHost].memory_bytes_per_s <= 0)
    return std::numeric_limits<double>::infinity();  // unknown rate
  if (problem.traits().vectors)
    return machine.stream_s(kHost, streamed_bytes(problem, problem.n, problem.k));
  if (!machine.can_compute(kHost, problem.type)) return std::numeric_limits<double>::infinity();
  return static_cast<double>(problem.batch) * products_share(problem) *
         machine.multiply_s(kHost, problem.type, problem.m, problem.n, problem.k);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// run.hpp: what both kinds of tasks need to be simulated: groups, prices, lanes. It knows no tasks.
#pragma once
#include <array>

#include "sim/simulate.hpp"

namespace fleet::lu {

constexpr double kBytesOfDouble = 8;

/// Prices of work by its size, each found once.
class Prices {
 public:
  explicit Prices(Pricing pricing) : pricing_(pricing) {}
  void clear() { known_.clear(); }
  /// `price(m, n)` -> SharedWork.
  template <typename Price>
  const SharedWork& of(std::int64_t m, std::int64_t n, Price&& price) {
    if (pricing_ == Pricing::each) known_.clear();
    for (const Known& one : known_)
      if (one.m == m && one.n == n) return one.work;
    return known_.emplace_back(Known{m, n, price(static_cast<double>(m), static_cast<double>(n))})
        .work;
  }

 private:
  struct Known {
    std::int64_t m, n;
    SharedWork work;
  };
  const Pricing pricing_;
  std::vector<Known> known_;
};

struct Run {
  Run(const Cluster& of, const Simulation& what)
      : cluster(of),
        wanted(what),
        shape(what.shape),
        lanes(shape.rows * shape.cols, of.rank.cores,
              {what.overlap, what.transfers, what.keeps_spans, of.machine}),
        row_link(shape.cols <= of.node_cols ? of.local : of.network),
        col_link(shape.rows <= of.node_rows ? of.local : of.network),
        solve_share(share(what.shares.solve)),
        ahead_share(share(what.shares.ahead)),
        product_share(share(what.shares.product)) {
    if (what.sharing == Sharing::measured && of.rank.gpus > 0 && !of.rank.resident)
      balances.resize(static_cast<std::size_t>(shape.rows * shape.cols), Balance(of.rank.cores));
  }

  double share(const std::optional<double>& given) const {
    return given.value_or(balanced_share(cluster.rank, lanes.cores()));
  }
  bool measures_shares() const { return !balances.empty(); }
  /// `count` columns, or rows, as the rank shares them. `take(columns, share)` -> Sides.
  template <typename Take>
  void share_by_balance(int rank, Work work, std::int64_t count, Take&& take) {
    Balance& balance = balances[static_cast<std::size_t>(rank)];
    while (count > 0) {
      const Split split = balance.split(work, count);
      const auto columns = static_cast<double>(split.columns);
      const auto on_cpu = static_cast<double>(split.on_cpu);
      const Lanes::Sides sides = take(columns, on_cpu / columns);
      balance.learn(work, {on_cpu, sides.cpu_s, columns - on_cpu, sides.gpu_s});
      count -= split.columns;
    }
  }
  Work product_kind(int rank) const {
    return lanes.has_messages(rank) ? Work::overlapped : Work::alone;
  }
  int rank(int row, int col) const { return row * shape.cols + col; }
  std::int64_t width(std::int64_t step) const {
    return std::min(shape.nb, shape.n - step * shape.nb);
  }
  /// Local rows of a row of the grid, and columns, from block `step` on. Beside A there is b.
  std::int64_t rows_from(std::int64_t step, int row) const {
    const Blocks rows = shape.row_blocks();
    return rows.local_size(row) - rows.local_begin(std::min(step * shape.nb, shape.n), row);
  }
  std::int64_t cols_from(std::int64_t step, int col) const {
    const Blocks cols{shape.n, shape.nb, shape.cols};
    return cols.local_size(col) - cols.local_begin(std::min(step * shape.nb, shape.n), col);
  }
  /// All ranks of a row of the grid, or of a column.
  Group row_group(int row, double cost_s) const { return {rank(row, 0), 1, shape.cols, cost_s}; }
  Group col_group(int col, double cost_s) const {
    return {rank(0, col), shape.cols, shape.rows, cost_s};
  }
  double row_broadcast_s(double bytes) const {
    return broadcast_s(row_link, shape.cols, bytes, cluster.chain);
  }
  double col_broadcast_s(double bytes) const {
    return broadcast_s(col_link, shape.rows, bytes, cluster.chain);
  }

  const Cluster& cluster;
  const Simulation& wanted;
  const Shape shape;
  Lanes lanes;
  const Link row_link, col_link;
  const double solve_share, ahead_share, product_share;
  std::vector<Balance> balances;  ///< by rank, where shares are measured
};

/// All tasks, one after another, each by all ranks.
void run_pivoted(Run& run);
void run_skeleton(Run& run);

}  // namespace fleet::lu

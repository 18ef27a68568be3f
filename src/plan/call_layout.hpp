// SPDX-License-Identifier: BSD-3-Clause
// call_layout.hpp: where the chains of one call are in the grid of workers. It knows no link and no
// time.
#pragma once
#include <algorithm>
#include <vector>

#include "program/decompose.hpp"
#include "program/tile_program.hpp"

namespace fleet {

/// The chains of a call by the row and column of their targets, and the workers that they are dealt
/// to.
class CallLayout {
 public:
  /// All must outlive it.
  CallLayout(const TileProgram& program, int call, const Dealing& deal)
      : program_(program),
        call_(program.calls[static_cast<std::size_t>(call)]),
        deal_(deal),
        rows_per_item_(std::max(1, tile_count(call_.cuts.m))),
        cols_(static_cast<std::size_t>(tile_count(call_.cuts.n))),
        cpu_has_rows_(std::ranges::count(deal.row_owner, Dealing::kCpu) > 0),
        cpu_has_cols_(std::ranges::count(deal.col_owner, Dealing::kCpu) > 0),
        chain_at_(deal.row_owner.size() * cols_, -1) {
    for (int c = call_.first_chain; c < call_.first_chain + call_.chains; ++c)
      chain_at_[place_of(chain(c).target)] = c;
  }

  const TileProgram& program() const { return program_; }
  const ProgramCall& call() const { return call_; }
  const Dealing& deal() const { return deal_; }

  /// The chain of a target, or -1 where it is not computed.
  int chain_at(int row, int col) const {
    return chain_at_[static_cast<std::size_t>(row) * cols_ + static_cast<std::size_t>(col)];
  }
  const OpChain& chain(int id) const { return program_.chains[static_cast<std::size_t>(id)]; }
  const TileOp& op(int chain_id, int at) const { return program_.op(chain(chain_id).first + at); }

  std::size_t place_of(const TileId& target) const {
    return static_cast<std::size_t>(target.row) * cols_ + static_cast<std::size_t>(target.col);
  }
  std::size_t places() const { return chain_at_.size(); }
  int item_of(int row) const { return row / rows_per_item_; }
  int first_row_of(int item) const { return item * rows_per_item_; }
  /// The CPU beside the grid, if the call is dealt to it too.
  bool is_cpu(int worker) const { return worker == deal_.grid.rows * deal_.grid.cols; }
  /// Does the worker compute (a part of) some targets in this row, in this column?
  bool has_row(int worker, int row) const {
    const int owner = deal_.row_owner[static_cast<std::size_t>(row)];
    if (is_cpu(worker)) return cpu_has_cols_ || owner == Dealing::kCpu;
    return is_split() || !is_grid() || owner == worker / deal_.grid.cols;
  }
  bool has_col(int worker, int col) const {
    const int owner = deal_.col_owner[static_cast<std::size_t>(col)];
    if (is_cpu(worker)) return cpu_has_rows_ || owner == Dealing::kCpu;
    return !is_grid() || owner == worker % deal_.grid.cols;
  }
  /// The chain of a target in one of the worker's rows and columns, or -1 where it is not its own.
  int chain_of(int worker, int row, int col) const {
    if (is_cpu(worker)) return is_cpus(row, col) ? chain_at(row, col) : -1;
    return is_grid() || deal_.owner_of(row, col) == worker ? chain_at(row, col) : -1;
  }
  /// Rows and columns of the grid tell who computes a target.
  bool is_grid() const { return deal_.tile_owner.empty(); }
  /// Several workers compute each chain, and their sums meet.
  bool is_split() const { return !deal_.step_owner.empty(); }
  /// The worker that a target belongs to.
  int owner_of(const TileId& target) const {
    if (is_cpus(target.row, target.col)) return deal_.grid.rows * deal_.grid.cols;
    return deal_.owner_of(target.row, target.col);
  }
  int group_of(const TileId& target) const {
    return deal_.position(deal_.row_group[static_cast<std::size_t>(target.row)],
                          deal_.col_group[static_cast<std::size_t>(target.col)]);
  }

 private:
  bool is_cpus(int row, int col) const {
    return deal_.row_owner[static_cast<std::size_t>(row)] == Dealing::kCpu ||
           deal_.col_owner[static_cast<std::size_t>(col)] == Dealing::kCpu;
  }

  const TileProgram& program_;
  const ProgramCall& call_;
  const Dealing& deal_;
  int rows_per_item_;
  std::size_t cols_;
  bool cpu_has_rows_, cpu_has_cols_;
  std::vector<int> chain_at_;
};

}  // namespace fleet

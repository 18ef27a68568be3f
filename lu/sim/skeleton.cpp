// SPDX-License-Identifier: BSD-3-Clause
// skeleton.cpp: the tasks of paper 3 on lanes.
#include "schedule/skeleton.hpp"

#include "sim/run.hpp"

namespace fleet::lu {
namespace {

class SkeletonRun {
 public:
  explicit SkeletonRun(Run& run) : run_(run), prices_(run.wanted.pricing) {}

  void take(const SkeletonTask& task) {
    const std::int64_t k = task.step;
    const Share ahead{Spent::ahead, run_.ahead_share}, rest{Spent::product, run_.product_share};
    const Rows all{k + 1, -1, -1};
    switch (task.duty) {
      case Duty::send_square:
        return send_square(k);
      case Duty::factor_square:
        return factor_square(k);
      case Duty::solve_left:
        return solve(k, Side::left);
      case Duty::solve_upper:
        return solve(k, Side::upper);
      case Duty::send_left:
        return send(k, Side::left);
      case Duty::send_upper:
        return send(k, Side::upper);
      case Duty::arrive:
        return arrive(k);
      case Duty::product:
        return product(k, {Spent::product, ahead.cpu}, all, all);
      case Duty::product_square:
        return product(k, ahead, next(k), next(k));
      case Duty::product_left:
        return product(k, ahead, after_next(k), next(k));
      case Duty::product_upper:
        return product(k, ahead, next(k), after_next(k));
      case Duty::product_rest:
        return product(k, rest, after_next(k), after_next(k));
    }
  }

 private:
  enum class Side { left, upper };
  struct Share {
    Spent spent;
    double cpu;
  };
  /// Rows, or columns, from a block on: of all ranks and as many as there are, or one block, of
  /// the ranks that have it.
  struct Rows {
    std::int64_t from, only, width;
  };
  Rows next(std::int64_t k) const { return {k + 1, k + 1, run_.width(k + 1)}; }
  static Rows after_next(std::int64_t k) { return {k + 2, -1, -1}; }

  int owner_row(std::int64_t k) const { return static_cast<int>(k % run_.shape.rows); }
  int owner_col(std::int64_t k) const { return static_cast<int>(k % run_.shape.cols); }

  void send_now(Group group, std::int64_t k) {
    run_.lanes.post(group, Spent::wait, k);
    run_.lanes.wait(group, Spent::wait, k);
  }

  void send_square(std::int64_t k) {
    const auto width = static_cast<double>(run_.width(k));
    const double bytes = kBytesOfDouble * width * width;
    send_now(run_.col_group(owner_col(k), run_.col_broadcast_s(bytes)), k);
    send_now(run_.row_group(owner_row(k), run_.row_broadcast_s(bytes)), k);
  }

  void factor_square(std::int64_t k) {
    const auto width = static_cast<double>(run_.width(k));
    const double seconds = square_s(run_.cluster.rank, width, run_.lanes.cores());
    run_.lanes.count(panel_flops(width, width));  // of one rank: the others repeat it
    for (int row = 0; row < run_.shape.rows; ++row)
      for (int col = 0; col < run_.shape.cols; ++col)
        if (row == owner_row(k) || col == owner_col(k))
          run_.lanes.compute(run_.rank(row, col), Spent::panel, k, seconds);
  }

  void solve(std::int64_t k, Side side) {
    prices_.clear();
    const bool is_left = side == Side::left;
    const auto price = [&](double count, double width) {
      return solve_work(run_.cluster.rank, width, count, run_.solve_share);
    };
    for (int i = 0; i < (is_left ? run_.shape.rows : run_.shape.cols); ++i) {
      const std::int64_t count = is_left ? run_.rows_from(k + 1, i) : run_.cols_from(k + 1, i);
      const int rank = is_left ? run_.rank(i, owner_col(k)) : run_.rank(owner_row(k), i);
      if (!run_.measures_shares()) {
        run_.lanes.work(rank, Spent::solve, k, prices_.of(count, run_.width(k), price));
        continue;
      }
      const auto width = static_cast<double>(run_.width(k));
      run_.share_by_balance(rank, Work::solve, count, [&](double columns, double cpu_share) {
        return run_.lanes.work(rank, Spent::solve, k,
                               solve_work(run_.cluster.rank, width, columns, cpu_share));
      });
    }
  }

  void send(std::int64_t k, Side side) {
    const auto bytes = [&](std::int64_t count) {
      return kBytesOfDouble * static_cast<double>(count * run_.width(k));
    };
    if (side == Side::left) {
      left_.clear();
      for (int row = 0; row < run_.shape.rows; ++row)
        left_.push_back(
            run_.row_group(row, run_.row_broadcast_s(bytes(run_.rows_from(k + 1, row)))));
      for (Group& group : left_) run_.lanes.post(group, Spent::wait, k);
      return;
    }
    upper_.clear();
    for (int col = 0; col < run_.shape.cols; ++col)
      upper_.push_back(
          run_.col_group(col, run_.col_broadcast_s(bytes(run_.cols_from(k + 1, col)))));
    for (Group& group : upper_) run_.lanes.post(group, Spent::wait, k);
  }

  void arrive(std::int64_t k) {
    for (Group& group : left_) run_.lanes.wait(group, Spent::wait, k);
    for (Group& group : upper_) run_.lanes.wait(group, Spent::wait, k);
  }

  void product(std::int64_t k, const Share& share, const Rows& rows, const Rows& cols) {
    prices_.clear();
    const auto width = static_cast<double>(run_.width(k));
    const auto price = [&](double m, double n) {
      return product_work(run_.cluster.rank, m, n, width, share.cpu);
    };
    for (int row = 0; row < run_.shape.rows; ++row) {
      if (rows.only >= 0 && row != owner_row(rows.only)) continue;
      const std::int64_t m = rows.only >= 0 ? rows.width : run_.rows_from(rows.from, row);
      for (int col = 0; col < run_.shape.cols; ++col) {
        if (cols.only >= 0 && col != owner_col(cols.only)) continue;
        const std::int64_t n = cols.only >= 0 ? cols.width : run_.cols_from(cols.from, col);
        const int rank = run_.rank(row, col);
        if (!run_.measures_shares()) {
          run_.lanes.work(rank, share.spent, k, prices_.of(m, n, price));
          continue;
        }
        const bool is_ahead = share.spent == Spent::ahead;
        const Work kind = is_ahead ? Work::ahead : run_.product_kind(rank);
        run_.share_by_balance(rank, kind, m, [&](double part, double cpu_share) {
          return run_.lanes.work(
              rank, share.spent, k,
              product_work(run_.cluster.rank, part, static_cast<double>(n), width, cpu_share));
        });
      }
    }
  }

  Run& run_;
  Prices prices_;
  std::vector<Group> left_, upper_;  ///< under way
};

}  // namespace

void run_skeleton(Run& run) {
  SkeletonRun skeleton(run);
  const Overlap overlap = run.wanted.overlap;
  for (const SkeletonTask& task : first_skeleton_tasks(overlap)) skeleton.take(task);
  for (std::int64_t k = 0; k < run.shape.steps(); ++k)
    for (const SkeletonTask& task : skeleton_tasks(run.shape, overlap, k)) skeleton.take(task);
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// pivoted.cpp: the tasks of lu/factor, and those of HPL, on lanes.
#include "schedule/hpl_tasks.hpp"
#include "sim/run.hpp"

namespace fleet::lu {
namespace {

/// What a rank says of a column beside two rows, as in lu/factor/panel.cpp.
constexpr double kPivotWords = 3;

class PivotedRun {
 public:
  explicit PivotedRun(Run& run)
      : run_(run),
        rank_(run.cluster.rank),
        moves_rows_(run.wanted.algorithm != Algorithm::unpivoted),
        is_hpl_(run.wanted.algorithm == Algorithm::hpl),
        prices_(run.wanted.pricing) {}

  /// The same task of all columns of the grid.
  void take(const std::vector<std::vector<Task>>& of_cols, std::size_t at) {
    const Task& task = of_cols.front()[at];
    const std::int64_t k = task.step;
    prices_.clear();
    switch (task.act) {
      case Act::factor:
        return factor(k);
      case Act::send:
        return send(k);
      case Act::arrive:
        return arrive(k);
      case Act::exchange:
        exchanges_of(task).assign(of_cols.size(), {});
        for (std::size_t col = 0; col < of_cols.size(); ++col)
          exchange(of_cols[col][at], static_cast<int>(col));
        if (is_hpl_) return exchange_now(task);
        if (run_.wanted.overlap == Overlap::none) rows_arrive(task);
        return;
      case Act::update:
        if (run_.wanted.overlap != Overlap::none && !is_hpl_) rows_arrive(task);
        for (std::size_t col = 0; col < of_cols.size(); ++col)
          update(of_cols[col][at], static_cast<int>(col));
        for (int rank = 0; rank < run_.shape.rows * run_.shape.cols; ++rank)
          run_.lanes.reach(rank, Spent::wait, k);
        return;
    }
  }

 private:
  std::vector<Group>& exchanges_of(const Task& task) {
    return exchanges_[static_cast<std::size_t>(task.part)];
  }

  void factor(std::int64_t k) {
    const int col = static_cast<int>(k % run_.shape.cols);
    const auto width = static_cast<double>(run_.width(k));
    const Lanes& lanes = run_.lanes;
    for (int row = 0; row < run_.shape.rows; ++row) {
      const auto rows = static_cast<double>(run_.rows_from(k, row));
      run_.lanes.compute(run_.rank(row, col), Spent::panel, k,
                         panel_s(rank_, rows, width, lanes.cores()));
    }
    run_.lanes.count(panel_flops(static_cast<double>(run_.shape.n - k * run_.shape.nb), width));
    const double bytes = kBytesOfDouble * (kPivotWords + 2 * width);
    const double messages_s = moves_rows_
                                  ? width * gather_s(run_.col_link, run_.shape.rows, bytes)
                                  : run_.col_broadcast_s(kBytesOfDouble * width * (width + 1));
    run_.lanes.meet(run_.col_group(col, messages_s), Spent::pivots, k);
  }

  void send(std::int64_t k) {
    panels_.clear();
    for (int row = 0; row < run_.shape.rows; ++row) {
      const std::int64_t width = run_.width(k), rows = width + run_.rows_from(k + 1, row);
      const double bytes = kBytesOfDouble * static_cast<double>(rows * width);
      panels_.push_back(run_.row_group(row, run_.row_broadcast_s(bytes)));
    }
    for (Group& group : panels_) run_.lanes.post(group, Spent::wait, k);
  }

  /// A panel that is late is waited for during the next update, as lu/factor does it.
  void arrive(std::int64_t k) {
    const bool may_be_late = run_.wanted.overlap != Overlap::none && k > 0 && !is_hpl_;
    for (Group& group : panels_) {
      if (may_be_late) run_.lanes.begin(group, Spent::wait, k);
      if (!may_be_late) run_.lanes.wait(group, Spent::wait, k);
      for (int i = 0; may_be_late && i < group.count; ++i)
        run_.lanes.expect(group.first + i * group.stride, group.end_s);
    }
  }

  double section_bytes(const Task& task) const {
    const std::int64_t cols = std::max<std::int64_t>(0, task.end - task.begin);
    return kBytesOfDouble * static_cast<double>(cols * run_.width(task.step));
  }

  void exchange(const Task& task, int col) {
    const double bytes = section_bytes(task);
    const double packed = moves_rows_ ? 2 * bytes / run_.shape.rows : 0;  // by their ranks
    const double seconds =
        moves_rows_ ? exchange_s(run_.col_link, run_.shape.rows, bytes, run_.cluster.chain)
                    : run_.col_broadcast_s(bytes);
    for (int row = 0; row < run_.shape.rows; ++row)
      run_.lanes.prepare(run_.rank(row, col), Spent::copy, task.step, rows_s(rank_, packed));
    Group& group = exchanges_of(task)[static_cast<std::size_t>(col)];
    group = run_.col_group(col, seconds);
    if (!is_hpl_) run_.lanes.post(group, Spent::wait_rows, task.step);
  }

  /// HPL waits for rows at once. A panel that is under way gives them its links meanwhile.
  void exchange_now(const Task& task) {
    double longest_s = 0;
    for (const Group& group : exchanges_of(task)) {
      run_.lanes.meet(group, Spent::wait_rows, task.step);
      longest_s = std::max(longest_s, group.cost_s);
    }
    if (task.part != Part::right) return;
    for (Group& group : panels_) run_.lanes.delay(group, longest_s);
  }

  void rows_arrive(const Task& task) {
    for (Group& group : exchanges_of(task)) run_.lanes.wait(group, Spent::wait_rows, task.step);
  }

  /// As lu/factor/section.cpp: rows that come into the square and those that leave it are unpacked
  /// by their ranks, and those of the square put in order by all. Where one rank has all rows,
  /// those that leave were not packed.
  double unpacking_s(double bytes) const {
    const int ranks = run_.shape.rows;
    if (ranks == 1) return rows_s(rank_, bytes);
    return rows_s(rank_, 2 * bytes / ranks) + copy_s(rank_, bytes);
  }

  void update(const Task& task, int col) {
    const std::int64_t cols = task.end - task.begin, width = run_.width(task.step);
    if (cols <= 0) return;
    const bool is_ahead = task.part == Part::ahead;
    const Spent spent = is_ahead ? Spent::ahead : Spent::product;
    const double share = is_ahead ? run_.ahead_share : run_.product_share;
    const auto k = static_cast<double>(width);
    // All ranks of a column solve for U; one of them counts.
    SharedWork solved = solve_work(rank_, k, static_cast<double>(cols), run_.solve_share);
    solved.flops /= run_.shape.rows;
    const double copied_s = moves_rows_ ? unpacking_s(section_bytes(task)) : 0;
    for (int row = 0; row < run_.shape.rows; ++row) {
      const int rank = run_.rank(row, col);
      run_.lanes.compute(rank, Spent::copy, task.step, copied_s);
      if (run_.measures_shares()) {
        update_by_balance(task, rank, run_.rows_from(task.step + 1, row), cols);
        continue;
      }
      run_.lanes.work(rank, Spent::solve, task.step, solved);
      const SharedWork& product =
          prices_.of(run_.rows_from(task.step + 1, row), cols,
                     [&](double m, double n) { return product_work(rank_, m, n, k, share); });
      run_.lanes.work(rank, spent, task.step, product);
    }
  }

  /// U and the product with one share, as lu/factor does it.
  void update_by_balance(const Task& task, int rank, std::int64_t rows, std::int64_t cols) {
    const bool is_ahead = task.part == Part::ahead;
    const auto k = static_cast<double>(run_.width(task.step)), m = static_cast<double>(rows);
    const Work kind = is_ahead ? Work::ahead : run_.product_kind(rank);
    run_.share_by_balance(rank, kind, cols, [&](double columns, double share) {
      SharedWork solved = solve_work(rank_, k, columns, share);
      solved.flops /= run_.shape.rows;
      const auto first = run_.lanes.work(rank, Spent::solve, task.step, solved);
      const auto second = run_.lanes.work(rank, is_ahead ? Spent::ahead : Spent::product, task.step,
                                          product_work(rank_, m, columns, k, share));
      return Lanes::Sides{first.cpu_s + second.cpu_s, first.gpu_s + second.gpu_s};
    });
  }

  Run& run_;
  const RankMeans& rank_;
  const bool moves_rows_, is_hpl_;
  Prices prices_;
  std::vector<Group> panels_;                    ///< by row of the grid
  std::array<std::vector<Group>, 3> exchanges_;  ///< by Part, then by column of the grid
};

}  // namespace

void run_pivoted(Run& run) {
  PivotedRun pivoted(run);
  const auto take_all = [&](auto&& tasks_of) {
    std::vector<std::vector<Task>> of_cols;
    for (int col = 0; col < run.shape.cols; ++col) of_cols.push_back(tasks_of(col));
    for (std::size_t at = 0; at < of_cols.front().size(); ++at) pivoted.take(of_cols, at);
  };
  const Overlap overlap = run.wanted.overlap;
  const bool is_hpl = run.wanted.algorithm == Algorithm::hpl;
  const auto first = is_hpl ? first_hpl_tasks : first_tasks;
  const auto of_step = is_hpl ? hpl_tasks : step_tasks;
  take_all([&](int col) { return first(run.shape, col, overlap); });
  for (std::int64_t k = 0; k < run.shape.steps(); ++k)
    take_all([&](int col) { return of_step(run.shape, col, overlap, k); });
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// factor.cpp: the steps of the factorization, in the order that hides most.
#include "factor/factor.hpp"

#include <memory>
#include <optional>

#include "factor/section.hpp"

namespace fleet::lu {
namespace {

/// The columns of a rank that are updated last in each step, while the next step's rows of the
/// others are under way: half of all.
constexpr double kRightShare = 0.5;

/// A panel that all ranks know or will know.
struct Step {
  std::unique_ptr<Panel> panel;
  std::unique_ptr<Request> sent;
  std::unique_ptr<RowMoves> moves;
};

class Factoring {
 public:
  Factoring(const Grid& grid, System& system, const Blas& blas)
      : grid_(grid), system_(system), blas_(blas), steps_(system.rows.count()) {}

  Factored run(Overlap overlap) {
    overlap == Overlap::none ? step_by_step() : with_lookahead();
    return std::move(result_);
  }

 private:
  /// The first local column from global column `col` on.
  std::int64_t columns_before(std::int64_t col) const {
    return system_.cols.local_begin(col, grid_.col);
  }
  std::int64_t columns_done(const Panel& panel) const {
    return columns_before(panel.begin + panel.width);
  }
  /// Columns of the panel of step k that this rank has.
  std::int64_t columns_of(std::int64_t k) const {
    if (k >= steps_) return 0;
    const std::int64_t begin = k * system_.rows.nb;
    const std::int64_t end = std::min(begin + system_.rows.nb, system_.rows.n);
    return columns_before(end) - columns_before(begin);
  }

  Step start(std::int64_t k) {
    Step step{.panel = std::make_unique<Panel>(grid_, system_, k), .sent = {}, .moves = {}};
    step.panel->factor(grid_, system_, blas_);
    step.sent = step.panel->broadcast(grid_);
    return step;
  }
  void arrive(Step& step) {
    step.sent->wait();
    const Panel& panel = *step.panel;
    step.moves = std::make_unique<RowMoves>(panel);
    for (std::int64_t c = 0; c < panel.width; ++c) result_.pivots.push_back(panel.pivot(c) + 1);
    if (result_.info == 0) result_.info = panel.info();
  }
  Section section(const Step& step, std::int64_t begin, std::int64_t end) {
    return {grid_, system_, *step.panel, *step.moves, begin, end};
  }

  void step_by_step() {
    for (std::int64_t k = 0; k < steps_; ++k) {
      Step step = start(k);
      arrive(step);
      section(step, columns_done(*step.panel), system_.local_cols).update(blas_);
    }
  }

  /// Columns in three sections: those of the next panel, the left ones, and the right ones. Rows of
  /// the right section are exchanged while the left one is updated, and those of the left section
  /// while the next panel is factored; that panel travels while the right section is updated.
  void with_lookahead() {
    const std::int64_t right_begin =
        system_.local_cols -
        static_cast<std::int64_t>(static_cast<double>(system_.local_cols) * kRightShare);
    Step step = start(0);
    arrive(step);
    const auto right_from = [&](const Step& of, std::int64_t k) {
      return std::max(columns_done(*of.panel) + columns_of(k + 1), right_begin);
    };
    std::optional<Section> right(section(step, right_from(step, 0), system_.local_cols));
    for (std::int64_t k = 0; k < steps_; ++k) {
      const std::int64_t done = columns_done(*step.panel), next_end = done + columns_of(k + 1);
      Section ahead = section(step, done, next_end);
      Section left = section(step, next_end, right->begin());
      Step next;
      if (k + 1 < steps_) {
        ahead.update(blas_);
        next = start(k + 1);
      }
      right->update(blas_);
      std::optional<Section> next_right;
      if (k + 1 < steps_) {
        arrive(next);
        // Of the columns that the left section of this step still changes, none.
        next_right.emplace(
            section(next, std::max(right_from(next, k + 1), right->begin()), system_.local_cols));
      }
      left.update(blas_);
      if (k + 1 == steps_) break;
      right.reset();
      right.emplace(std::move(*next_right));
      step = std::move(next);
    }
  }

  const Grid& grid_;
  System& system_;
  const Blas& blas_;
  const std::int64_t steps_;
  Factored result_;
};

}  // namespace

Factored factor(const Grid& grid, System& system, const Blas& blas, Overlap overlap) {
  return Factoring(grid, system, blas).run(overlap);
}

}  // namespace fleet::lu

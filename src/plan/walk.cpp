// SPDX-License-Identifier: BSD-3-Clause
// walk.cpp: the order of tile products.
#include "plan/walk.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace fleet {
namespace {

// Arrivals that differ by less than this share count as equal, so that rows and columns are asked
// for in turn and the products that they allow grow as a square.
constexpr double kTie = 1e-3;

// How many missing tiles of a row or column are compared: they share home and links, so only
// copies on other devices tell them apart, and looking at all would make the order quadratic.
constexpr int kCompared = 8;

// Of a column without any tile of C here. Arrivals are seconds, or below zero where nobody asked.
constexpr double kNotNeeded = std::numeric_limits<double>::infinity();

}  // namespace

Walk::Walk(const Plan& plan, const Decomposition& decomposition, Mover& mover, int worker)
    : plan_(plan),
      cut_(decomposition),
      mover_(mover),
      worker_(worker),
      by_arrival_(plan.tuning.rules.has(Rule::order)),
      grid_row_(worker / plan.tuning.grid.cols),
      grid_col_(worker % plan.tuning.grid.cols),
      rows_per_item_(tile_count(decomposition.m)),
      steps_(plan.steps()),
      items_(static_cast<int>(plan.problem.batch)) {
  groups_ = steps_ == 0 || rows_per_item_ == 0 || tile_count(cut_.n) == 0
                ? 0
                : cut_.row_groups * cut_.col_groups * cut_.k_groups;
}

// Cubes of k within a group.
void Walk::enter_group() {
  const int cube = group_ % cut_.k_groups, group = group_ / cut_.k_groups;
  std::tie(step_.row_group, step_.col_group) = cut_.group_at(group);
  k_begin_ = static_cast<int>(std::lower_bound(cut_.k_group.begin(), cut_.k_group.end(), cube) -
                              cut_.k_group.begin());
  k_end_ = static_cast<int>(std::upper_bound(cut_.k_group.begin(), cut_.k_group.end(), cube) -
                            cut_.k_group.begin());
  cols_.clear();
  item_list_.clear();
  for (int j = 0; j < static_cast<int>(cut_.col_owner.size()); ++j)
    if (cut_.col_owner[static_cast<std::size_t>(j)] == grid_col_ &&
        cut_.col_group[static_cast<std::size_t>(j)] == step_.col_group)
      cols_.push_back(j);
  for (int i = 0; i < static_cast<int>(cut_.row_owner.size()); ++i) {
    const int item = i / rows_per_item_;
    if (cut_.row_owner[static_cast<std::size_t>(i)] == grid_row_ &&
        cut_.row_group[static_cast<std::size_t>(i)] == step_.row_group &&
        (item_list_.empty() || item_list_.back() != item))
      item_list_.push_back(item);
  }
  item_at_ = 0;
  if (!plan_.problem.traits().triangular) return;
  // All tiles of the group are of one rank.
  const int rank = plan_.problem.side == Side::left ? step_.row_group : step_.col_group;
  plan_.problem.traits().solves ? k_end_ = rank + 1 : k_begin_ = rank;
}

// Sets up rows_ for the current item and k. False: this worker has nothing in this group.
bool Walk::enter_step() {
  if (cols_.empty() || item_at_ >= item_list_.size()) return false;
  step_.item = item_list_[item_at_];
  rows_.clear();
  for (int i = step_.item * rows_per_item_; i < (step_.item + 1) * rows_per_item_; ++i)
    if (cut_.row_owner[static_cast<std::size_t>(i)] == grid_row_ &&
        cut_.row_group[static_cast<std::size_t>(i)] == step_.row_group &&
        std::ranges::any_of(cols_, [&](int col) { return plan_.has_tile(i, col); }))
      rows_.push_back(i);
  row_keys_.clear();
  col_keys_.clear();
  for (int row : rows_) row_keys_.push_back(mover_.key_a(row, step_.k));
  for (int col : cols_) col_keys_.push_back(mover_.key_b(step_.item, step_.k, col));
  row_s_.assign(rows_.size(), -1.0);
  col_s_.assign(cols_.size(), -1.0);
  rows_asked_ = cols_asked_ = emitted_ = 0;
  row_at_ = col_at_ = 0;
  k_at_ = k_begin_;
  ready_.clear();
  mover_.set_position(worker_, step_);
  const bool solves = plan_.problem.traits().solves && !rows_.empty() &&
                      plan_.is_diagonal(rows_[0], cols_[0], step_.k);
  // What is solved for is no factor: it is where its worker has it.
  if (solves) {
    const bool left = plan_.problem.side == Side::left;
    (left ? col_s_ : row_s_).assign(left ? cols_.size() : rows_.size(), 0.0);
    (left ? cols_asked_ : rows_asked_) = left ? cols_.size() : rows_.size();
  }
  products_ = 0;
  for (std::size_t c = 0; c < cols_.size(); ++c) {
    const std::size_t before = products_;
    for (std::size_t r = 0; r < rows_.size(); ++r) products_ += has(r, c);
    if (products_ == before) col_s_[c] = kNotNeeded;
  }
  return !rows_.empty();
}

// To the next k, item, cube or group. False at the end.
bool Walk::advance_step() {
  if (started_) {
    if (by_arrival_ && ++step_.k < k_end_) return enter_step();
    ++item_at_;
  }
  for (;;) {
    if (started_ && item_at_ < item_list_.size() && !cols_.empty()) {
      step_.k = k_begin_;
      if (enter_step()) return true;
    }
    group_ += started_;
    started_ = true;
    if (group_ >= groups_) return false;
    enter_group();
    new_cube_ = group_ > 0;
  }
}

// At a product, in a step that it sets up if need be. False: all are done.
bool Walk::settle() {
  if (group_ >= groups_) return false;
  const std::size_t per_step =
      products_ * static_cast<std::size_t>(by_arrival_ ? 1 : k_end_ - k_begin_);
  if (started_ && emitted_ < per_step) return true;
  new_cube_ = false;
  return advance_step();
}

int Walk::next_group() { return settle() ? group_ / cut_.k_groups : groups_; }

std::optional<Product> Walk::next() {
  if (!settle()) return std::nullopt;
  ++emitted_;
  return by_arrival_ ? next_by_arrival() : next_by_row();
}

std::optional<Product> Walk::next_by_row() {
  while (!has(row_at_, col_at_)) next_pair();
  const Product product{rows_[row_at_], cols_[col_at_], k_at_};
  step_.k = k_at_;
  mover_.set_position(worker_, step_);
  if (++k_at_ == k_end_) {
    k_at_ = k_begin_;
    next_pair();
  }
  return product;
}

void Walk::next_pair() {
  if (++col_at_ < cols_.size()) return;
  col_at_ = 0;
  ++row_at_;
}

std::optional<Product> Walk::next_by_arrival() {
  const auto later = [](const Ready& a, const Ready& b) {
    if (a.arrival_s != b.arrival_s) return a.arrival_s > b.arrival_s;
    return a.row != b.row ? a.row > b.row : a.col > b.col;
  };
  if (ready_.empty()) absorb_held();
  while (ready_.empty()) ask_for_one();
  std::pop_heap(ready_.begin(), ready_.end(), later);
  const Ready best = ready_.back();
  ready_.pop_back();
  return Product{rows_[static_cast<std::size_t>(best.row)],
                 cols_[static_cast<std::size_t>(best.col)], step_.k};
}

// Tiles that are here already, or on their way for another worker's sake, cost nothing to use.
void Walk::absorb_held() {
  for (std::size_t r = 0; r < rows_.size(); ++r)
    if (row_s_[r] < 0)
      if (const double s = mover_.held_s(row_keys_[r], worker_); s >= 0) schedule_row(r, s);
  for (std::size_t c = 0; c < cols_.size(); ++c)
    if (col_s_[c] < 0)
      if (const double s = mover_.held_s(col_keys_[c], worker_); s >= 0) schedule_col(c, s);
}

void Walk::ask_for_one() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double row_s = kNever, col_s = kNever;
  std::size_t row = 0, col = 0;
  int compared = 0;
  for (std::size_t r = 0; r < rows_.size() && compared < kCompared; ++r) {
    if (row_s_[r] >= 0) continue;
    ++compared;
    if (const double s = mover_.estimate_s(row_keys_[r], worker_); s < row_s) row_s = s, row = r;
  }
  compared = 0;
  for (std::size_t c = 0; c < cols_.size() && compared < kCompared; ++c) {
    if (col_s_[c] >= 0) continue;
    ++compared;
    if (const double s = mover_.estimate_s(col_keys_[c], worker_); s < col_s) col_s = s, col = c;
  }
  bool take_row = row_s <= col_s;
  if (row_s < kNever && col_s < kNever && std::abs(row_s - col_s) <= kTie * std::max(row_s, col_s))
    take_row = rows_asked_ <= cols_asked_;
  // A row without any column (or the reverse) allows no product yet.
  if (rows_asked_ == 0 && cols_asked_ > 0) take_row = true;
  if (cols_asked_ == 0 && rows_asked_ > 0) take_row = false;
  if (take_row) {
    mover_.acquire(row_keys_[row], worker_, -1, Side::left);
    schedule_row(row, mover_.held_s(row_keys_[row], worker_));
  } else {
    mover_.acquire(col_keys_[col], worker_, -1, Side::right);
    schedule_col(col, mover_.held_s(col_keys_[col], worker_));
  }
}

void Walk::schedule_row(std::size_t r, double arrival_s) {
  row_s_[r] = arrival_s;
  ++rows_asked_;
  for (std::size_t c = 0; c < cols_.size(); ++c)
    if (col_s_[c] >= 0 && has(r, c)) push(std::max(arrival_s, col_s_[c]), r, c);
}

void Walk::schedule_col(std::size_t c, double arrival_s) {
  col_s_[c] = arrival_s;
  ++cols_asked_;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    if (row_s_[r] >= 0 && has(r, c)) push(std::max(arrival_s, row_s_[r]), r, c);
}

void Walk::push(double arrival_s, std::size_t row, std::size_t col) {
  ready_.push_back({arrival_s, static_cast<int>(row), static_cast<int>(col)});
  std::push_heap(ready_.begin(), ready_.end(), [](const Ready& a, const Ready& b) {
    if (a.arrival_s != b.arrival_s) return a.arrival_s > b.arrival_s;
    return a.row != b.row ? a.row > b.row : a.col > b.col;
  });
}

}  // namespace fleet

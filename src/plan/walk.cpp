// SPDX-License-Identifier: BSD-3-Clause
// walk.cpp: the order of a worker's ops.
#include "plan/walk.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/sizes.hpp"

namespace fleet {
namespace {

// Arrivals that differ by less than this share count as equal, so that rows and columns are asked
// for in turn and the products that they allow grow as a square.
constexpr double kTie = 1e-3;

// How many missing tiles of a row or column are compared: they share home and links, so only
// copies on other devices tell them apart, and looking at all would make the order quadratic.
constexpr int kCompared = 8;

// The arrival of a column that has no tile of C here. Others are seconds, or negative while nobody
// has asked.
constexpr double kNotNeeded = kNever;

}  // namespace

Walk::Walk(const CallLayout& layout, Mover& mover, bool by_arrival, int worker)
    : layout_(layout),
      deal_(layout.deal()),
      mover_(mover),
      worker_(worker),
      by_arrival_(by_arrival && !deal_.streams),
      groups_(layout.call().chains == 0 ? 0 : deal_.groups() * deal_.cubes) {}

// Enters a cube of k in a group.
void Walk::enter_group() {
  const int cube = group_ % deal_.cubes, group = group_ / deal_.cubes;
  std::tie(step_.row_group, step_.col_group) = deal_.group_at(group);
  cols_.clear();
  item_list_.clear();
  for (int j = 0; j < static_cast<int>(deal_.col_owner.size()); ++j)
    if (layout_.has_col(worker_, j) &&
        deal_.col_group[static_cast<std::size_t>(j)] == step_.col_group)
      cols_.push_back(j);
  for (int i = 0; i < static_cast<int>(deal_.row_owner.size()); ++i)
    if (layout_.has_row(worker_, i) &&
        deal_.row_group[static_cast<std::size_t>(i)] == step_.row_group &&
        (item_list_.empty() || item_list_.back() != layout_.item_of(i)))
      item_list_.push_back(layout_.item_of(i));
  item_at_ = 0;
  take_cube(cube);
}

void Walk::take_cube(int cube) {
  const auto range_in = [](const std::vector<int>& of, int wanted) {
    return std::pair(std::lower_bound(of.begin(), of.end(), wanted) - of.begin(),
                     std::upper_bound(of.begin(), of.end(), wanted) - of.begin());
  };
  const auto [begin, end] = deal_.step_owner.empty()
                                ? range_in(deal_.step_cube, cube)
                                : range_in(deal_.step_owner, worker_ / deal_.grid.cols);
  begin_ = static_cast<int>(begin);
  end_ = static_cast<int>(end);
}

// Sets up rows_ for the current item and step. False: this worker has nothing in this group.
bool Walk::enter_step() {
  if (cols_.empty() || item_at_ >= item_list_.size()) return false;
  step_.item = item_list_[item_at_];
  mover_.set_position(worker_, step_);  // even if it finds nothing: it is past the last group
  rows_.clear();
  int longest = 0;
  const auto has_chain = [&](int row) {
    bool has = false;
    for (const int col : cols_) {
      const int chain = layout_.chain_of(worker_, row, col);
      if (chain < 0) continue;
      longest = std::max(longest, layout_.chain(chain).ops);
      has = true;
    }
    return has;
  };
  for (int i = layout_.first_row_of(step_.item); i < layout_.first_row_of(step_.item + 1); ++i)
    if (layout_.has_row(worker_, i) &&
        deal_.row_group[static_cast<std::size_t>(i)] == step_.row_group && has_chain(i))
      rows_.push_back(i);
  // With triangles, all chains of a group have one length, which may be less than all steps.
  end_ = std::min(end_, longest);
  if (rows_.empty() || begin_ >= end_) return false;
  rows_asked_ = cols_asked_ = emitted_ = 0;
  row_at_ = col_at_ = 0;
  at_ = begin_;
  ready_.clear();
  row_s_.assign(rows_.size(), -1.0);
  col_s_.assign(cols_.size(), -1.0);
  ops_ = 0;
  for (std::size_t c = 0; c < cols_.size(); ++c) {
    const std::size_t before = ops_;
    for (std::size_t r = 0; r < rows_.size(); ++r) ops_ += has(r, c);
    if (ops_ == before) col_s_[c] = kNotNeeded;
  }
  if (by_arrival_) find_keys();
  return true;
}

// The stored inputs along the rows and columns. Other forms are prepared on the device.
void Walk::find_keys() {
  row_keys_.assign(rows_.size(), kNoKey);
  col_keys_.assign(cols_.size(), kNoKey);
  const auto key_of = [&](std::size_t r, std::size_t c, std::size_t input) {
    const Factor& factor = layout_.op(chain_of(r, c), step_.at).inputs[input];
    return factor.is_stored_tile() ? mover_.key_of(factor.tile) : kNoKey;
  };
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::size_t c = 0;
    while (!has(r, c)) ++c;
    row_keys_[r] = key_of(r, c, 0);
    if (row_keys_[r] == kNoKey) row_s_[r] = 0, ++rows_asked_;
  }
  for (std::size_t c = 0; c < cols_.size(); ++c) {
    if (col_s_[c] == kNotNeeded) continue;
    std::size_t r = 0;
    while (!has(r, c)) ++r;
    col_keys_[c] = key_of(r, c, 1);
    if (col_keys_[c] == kNoKey) col_s_[c] = 0, ++cols_asked_;
  }
}

// Goes to the next step, item, cube or group. False at the end.
bool Walk::advance_step() {
  if (started_) {
    if (by_arrival_ && ++step_.at < end_) return enter_step();
    ++item_at_;
  }
  for (;;) {
    if (started_ && item_at_ < item_list_.size() && !cols_.empty()) {
      step_.at = begin_;
      if (enter_step()) return true;
    }
    group_ += started_;
    started_ = true;
    if (group_ >= groups_) return false;
    enter_group();
    new_cube_ = group_ > 0;
  }
}

// Goes to an op, in a step that it sets up if need be. False: all are done.
bool Walk::settle() {
  if (group_ >= groups_) return false;
  const std::size_t per_step = ops_ * static_cast<std::size_t>(by_arrival_ ? 1 : end_ - begin_);
  if (started_ && emitted_ < per_step) return true;
  new_cube_ = false;
  ops_ = 0;
  return advance_step();
}

int Walk::next_group() { return settle() ? group_ / deal_.cubes : groups_; }

std::optional<Next> Walk::next() {
  if (!settle()) return std::nullopt;
  ++emitted_;
  return by_arrival_ ? next_by_arrival() : next_by_chain();
}

Next Walk::next_by_chain() {
  while (!has(row_at_, col_at_)) next_pair();
  const Next next{chain_of(row_at_, col_at_), at_};
  step_.at = at_;
  mover_.set_position(worker_, step_);
  if (++at_ == end_) {
    at_ = begin_;
    next_pair();
  }
  return next;
}

void Walk::next_pair() {
  if (++col_at_ < cols_.size()) return;
  col_at_ = 0;
  ++row_at_;
}

Next Walk::next_by_arrival() {
  const auto later = [](const Ready& a, const Ready& b) {
    if (a.arrival_s != b.arrival_s) return a.arrival_s > b.arrival_s;
    return a.row != b.row ? a.row > b.row : a.col > b.col;
  };
  if (ready_.empty()) absorb_held();
  while (ready_.empty()) ask_for_one();
  std::pop_heap(ready_.begin(), ready_.end(), later);
  const Ready best = ready_.back();
  ready_.pop_back();
  return {chain_of(static_cast<std::size_t>(best.row), static_cast<std::size_t>(best.col)),
          step_.at};
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
    mover_.acquire(row_keys_[row], worker_, kNoKey, {Side::left, rows_[row]});
    schedule_row(row, mover_.held_s(row_keys_[row], worker_));
  } else {
    mover_.acquire(col_keys_[col], worker_, kNoKey, {Side::right, cols_[col]});
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

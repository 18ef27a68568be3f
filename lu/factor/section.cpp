// SPDX-License-Identifier: BSD-3-Clause
// section.cpp: rows packed by rank, one message for those that come into the square and one for
// those that leave it.
#include "factor/section.hpp"

#include <numeric>

namespace fleet::lu {

Section::Section(const Grid& grid, System& system, const Panel& panel, const RowMoves& moves,
                 std::int64_t begin, std::int64_t end)
    : grid_(grid),
      system_(system),
      panel_(panel),
      moves_(moves),
      begin_(begin),
      end_(std::max(begin, end)),
      square_counts_(static_cast<std::size_t>(grid.rows), 0),
      below_counts_(static_cast<std::size_t>(grid.rows), 0) {
  if (columns() == 0) return;
  pack();
  square_rows_.resize(static_cast<std::size_t>(panel.width * columns()));
  below_rows_.resize(static_cast<std::size_t>(below_counts_[static_cast<std::size_t>(grid.row)]));
  scattered_ = grid.col_ranks->scatter(to_below_, below_counts_, below_rows_, panel.owner_row);
  gathered_ = grid.col_ranks->gather(to_square_, square_counts_, square_rows_);
}

void Section::pack() {
  const Blocks& rows = system_.rows;
  std::vector<std::int64_t> taken;
  for (const std::int64_t source : moves_.sources) {
    square_counts_[static_cast<std::size_t>(rows.owner(source))] += columns();
    if (rows.owner(source) == grid_.row) taken.push_back(rows.local(source));
  }
  to_square_.resize(taken.size() * static_cast<std::size_t>(columns()));
  for (std::int64_t c = 0; c < columns(); ++c) {
    const double* const column = system_.at(0, begin_ + c);
    for (std::size_t i = 0; i < taken.size(); ++i)
      to_square_[i * static_cast<std::size_t>(columns()) + static_cast<std::size_t>(c)] =
          column[taken[i]];
  }
  for (const auto& [to, top] : moves_.displaced)
    below_counts_[static_cast<std::size_t>(rows.owner(to))] += columns();
  if (grid_.row != panel_.owner_row) return;
  to_below_.resize(moves_.displaced.size() * static_cast<std::size_t>(columns()));
  std::vector<std::int64_t> next(below_counts_.size(), 0);
  std::exclusive_scan(below_counts_.begin(), below_counts_.end(), next.begin(), std::int64_t{0});
  for (const auto& [to, top] : moves_.displaced) {
    std::int64_t& at = next[static_cast<std::size_t>(rows.owner(to))];
    for (std::int64_t c = 0; c < columns(); ++c)
      to_below_[static_cast<std::size_t>(at + c)] =
          *system_.at(panel_.local_begin + top, begin_ + c);
    at += columns();
  }
}

void Section::unpack() {
  const Blocks& rows = system_.rows;
  upper_.resize(square_rows_.size());
  std::vector<std::int64_t> next(square_counts_.size(), 0);
  std::exclusive_scan(square_counts_.begin(), square_counts_.end(), next.begin(), std::int64_t{0});
  for (std::int64_t c = 0; c < panel_.width; ++c) {
    std::int64_t& at =
        next[static_cast<std::size_t>(rows.owner(moves_.sources[static_cast<std::size_t>(c)]))];
    std::copy_n(square_rows_.begin() + at, columns(), upper_.begin() + c * columns());
    at += columns();
  }
  const double* row = below_rows_.data();
  for (const auto& [to, top] : moves_.displaced) {
    if (rows.owner(to) != grid_.row) continue;
    for (std::int64_t c = 0; c < columns(); ++c) *system_.at(rows.local(to), begin_ + c) = row[c];
    row += columns();
  }
}

void Section::update(const Blas& blas) {
  if (columns() == 0) return;
  scattered_->wait();
  gathered_->wait();
  unpack();
  blas.solve({FLEET_RIGHT, FLEET_LOWER, FLEET_TRANS, FLEET_UNIT, panel_.square(), panel_.width},
             columns(), panel_.width, upper_.data(), columns());
  blas.subtract_product(panel_.rows_below, columns(), panel_.width, panel_.below(),
                        panel_.rows_below, FLEET_TRANS, upper_.data(), columns(),
                        system_.at(panel_.local_below, begin_), system_.ld);
  if (grid_.row != panel_.owner_row) return;
  for (std::int64_t c = 0; c < columns(); ++c) {
    double* const column = system_.at(panel_.local_begin, begin_ + c);
    for (std::int64_t row = 0; row < panel_.width; ++row)
      column[row] = upper_[static_cast<std::size_t>(row * columns() + c)];
  }
}

}  // namespace fleet::lu

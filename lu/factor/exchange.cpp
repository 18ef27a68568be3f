// SPDX-License-Identifier: BSD-3-Clause
// exchange.cpp: rows in the order of the ranks that they come from or go to. Those of the square
// come first among what leaves, and last among what arrives.
#include "factor/exchange.hpp"

#include <numeric>

namespace fleet::lu {
namespace {

/// Where the rows of each rank begin.
std::vector<std::int64_t> begins(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> found(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), found.begin(), std::int64_t{0});
  return found;
}

}  // namespace

void ExchangeBuffers::touch(std::int64_t width, std::int64_t columns) {
  leaving.touch(2 * width * columns);
  arriving.touch(2 * width * columns);
}

RowExchange::RowExchange(const Grid& grid, const Rank& rank, const Panel& panel,
                         const RowMoves& moves, std::int64_t columns, ExchangeBuffers& buffers)
    : grid_(grid),
      rank_(rank),
      panel_(panel),
      columns_(columns),
      square_counts_(static_cast<std::size_t>(grid.rows), 0),
      below_counts_(static_cast<std::size_t>(grid.rows), 0) {
  find_places(moves);
  for (auto* const counts : {&square_counts_, &below_counts_})
    for (std::int64_t& count : *counts) count *= columns;
  if (grid.rows == 1) return;
  leaving_ =
      buffers.leaving.take((std::ssize(into_square_) + std::ssize(out_of_square_)) * columns);
  arriving_ = buffers.arriving.take((std::ssize(below_) + panel.width) * columns);
}

void RowExchange::find_places(const RowMoves& moves) {
  const Blocks& rows = panel_.rows;
  for (const std::int64_t source : moves.sources) {
    ++square_counts_[static_cast<std::size_t>(rows.owner(source))];
    if (rows.owner(source) == grid_.row)
      into_square_.push_back({rows.local(source), std::ssize(into_square_)});
  }
  for (const auto& [to, top] : moves.displaced) {
    ++below_counts_[static_cast<std::size_t>(rows.owner(to))];
    if (rows.owner(to) == grid_.row) below_.push_back({rows.local(to), std::ssize(below_)});
  }
  std::vector<std::int64_t> next = begins(square_counts_);
  for (std::int64_t c = 0; c < panel_.width; ++c) {
    const int owner = rows.owner(moves.sources[static_cast<std::size_t>(c)]);
    square_.push_back({c, std::ssize(below_) + next[static_cast<std::size_t>(owner)]++});
  }
  if (grid_.row != panel_.owner_row) return;
  next = begins(below_counts_);
  for (const auto& [to, top] : moves.displaced)
    out_of_square_.push_back(
        {panel_.local_begin + top,
         std::ssize(into_square_) + next[static_cast<std::size_t>(rows.owner(to))]++});
}

void RowExchange::send() {
  const Engine::Label label{What::rows_way, panel_.step};
  const auto into = static_cast<std::size_t>(std::ssize(into_square_) * columns_);
  const auto below = static_cast<std::size_t>(std::ssize(below_) * columns_);
  scattered_ =
      rank_.engine.drive(grid_.col_ranks->scatter(leaving_.subspan(into), below_counts_,
                                                  arriving_.first(below), panel_.owner_row),
                         label);
  gathered_ = rank_.engine.drive(
      grid_.col_ranks->gather(leaving_.first(into), square_counts_, arriving_.subspan(below)),
      label);
}

void RowExchange::arrive() {
  if (gathered_ == nullptr) return;
  rank_.recorder.time(What::wait, panel_.step, [this] {
    scattered_->wait();
    gathered_->wait();
  });
}

}  // namespace fleet::lu

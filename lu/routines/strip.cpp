// SPDX-License-Identifier: BSD-3-Clause
// strip.cpp: blocks packed by the rank that needs them, in an order that both sides find by
// themselves.
#include "routines/strip.hpp"

#include <algorithm>

namespace fleet::lu {
namespace {

/// Calls `visit(begin, end)` for the blocks in `range` that are of `part`, and of `other_part` of
/// `other`, which has as many indices.
template <typename Visit>
void for_blocks(const Dimension& dimension, int part, const Dimension& other, int other_part,
                Range range, Visit&& visit) {
  const std::int64_t nb = dimension.blocks.nb;
  for (std::int64_t begin = range.begin; begin < range.end;) {
    const std::int64_t end = std::min(range.end, (begin / nb + 1) * nb);
    if (dimension.owner(begin) == part && other.owner(begin) == other_part) visit(begin, end);
    begin = end;
  }
}

}  // namespace

std::int64_t Strip::Piece::count() const {
  const auto of = [](const Runs& runs) {
    std::int64_t all = 0;
    for (const Run& run : runs) all += run.count;
    return all;
  };
  return of(sum) * of(of_c);
}

bool Strip::is_beside() const {
  return source_.along() == (source_.role == Role::left) && source_.of_c() == source_.target;
}

Strip::Piece Strip::piece(int from_row, int from_col, int to_row, int to_col) const {
  const Dimension &of_sum = source_.of_sum(), &of_c = source_.of_c();
  const int sum_part = source_.along() ? from_col : from_row;
  const int c_part = source_.along() ? from_row : from_col;
  const int target = target_part(to_row, to_col);
  Piece found;
  for_blocks(of_sum, sum_part, of_sum, sum_part, sum_, [&](std::int64_t begin, std::int64_t end) {
    found.sum.push_back({of_sum.local(begin), begin - sum_.begin, end - begin});
  });
  if (found.sum.empty()) return found;
  const std::int64_t first = source_.target.local_begin(of_c_.begin, target);
  for_blocks(
      of_c, c_part, source_.target, target, of_c_, [&](std::int64_t begin, std::int64_t end) {
        found.of_c.push_back({of_c.local(begin), source_.target.local(begin) - first, end - begin});
      });
  return found;
}

Strip::Piece Strip::piece_from(int rank) const {
  return piece(rank / grid_.cols, rank % grid_.cols, grid_.row, grid_.col);
}

Strip::Piece Strip::piece_to(int rank) const {
  return piece(grid_.row, grid_.col, rank / grid_.cols, rank % grid_.cols);
}

double* Strip::pack(const Piece& piece, double* to) const {
  const Runs& along = source_.along() ? piece.of_c : piece.sum;
  for (const Run& across : source_.along() ? piece.sum : piece.of_c)
    for (std::int64_t c = 0; c < across.count; ++c) {
      const double* const column = source_.matrix.at(0, across.matrix + c);
      for (const Run& run : along) to = std::copy_n(column + run.matrix, run.count, to);
    }
  return to;
}

const double* Strip::unpack(const Piece& piece, const double* from) {
  const Runs& along = source_.along() ? piece.of_c : piece.sum;
  for (const Run& across : source_.along() ? piece.sum : piece.of_c)
    for (std::int64_t c = 0; c < across.count; ++c) {
      double* const column = strip_.data() + (across.strip + c) * view_.ld;
      for (const Run& run : along) {
        std::copy_n(from, run.count, column + run.strip);
        from += run.count;
      }
    }
  return from;
}

std::int64_t Strip::most_numbers(std::int64_t sum) const {
  const std::int64_t coming = source_.target.local_size(target_part(grid_.row, grid_.col));
  if (is_beside()) return sum * coming;
  // What others need of its own goes to all that share a part of C's indices.
  const std::int64_t own = source_.of_c().local_size(source_.along() ? grid_.row : grid_.col);
  return sum * std::max(coming, own * (source_.role == Role::left ? grid_.cols : grid_.rows));
}

void Strip::send(Range sum, Range of_c, const Rank& rank, std::int64_t step) {
  sum_ = sum;
  of_c_ = of_c;
  step_ = step;
  const Dimension& target = source_.target;
  const int mine = target_part(grid_.row, grid_.col);
  const std::int64_t first = target.local_begin(of_c.begin, mine);
  const std::int64_t count = target.local_begin(of_c.end, mine) - first;
  const bool along = source_.along();
  view_ = {nullptr, first, along ? count : sum.size(), along};
  coming_.clear();
  const bool is_beside = this->is_beside(), is_left = source_.role == Role::left;
  Comm& ranks = !is_beside ? grid_.all : is_left ? *grid_.row_ranks : *grid_.col_ranks;
  const int size = ranks.size();
  rank.recorder.time(What::pack, step, [&] {
    std::vector<std::int64_t> from_counts, to_counts;
    std::int64_t coming = 0, going = 0;
    for (int other = 0; other < size; ++other) {
      coming_.push_back(!is_beside ? piece_from(other)
                        : is_left  ? piece(grid_.row, other, grid_.row, grid_.col)
                                   : piece(other, grid_.col, grid_.row, grid_.col));
      to_counts.push_back(coming_.back().count());
      coming += to_counts.back();
    }
    const std::span<double> from_others = from_others_.take(coming);
    strip_ = elements_.take(count * sum.size());
    view_.data = strip_.data();
    if (is_beside) {
      const Piece& own = coming_[static_cast<std::size_t>(ranks.rank())];
      const std::span<double> out = to_others_.take(own.count());
      pack(own, out.data());
      request_ = ranks.gather(out, to_counts, from_others);
      return;
    }
    std::vector<Piece> pieces;
    for (int other = 0; other < size; ++other) {
      pieces.push_back(piece_to(other));
      from_counts.push_back(pieces.back().count());
      going += from_counts.back();
    }
    const std::span<double> out = to_others_.take(going);
    double* to = out.data();
    for (const Piece& piece : pieces) to = pack(piece, to);
    request_ = ranks.exchange(out, from_counts, from_others, to_counts);
  });
  request_ = rank.engine.drive(std::move(request_), {What::rows_way, step});
}

void Strip::arrive(const Rank& rank) {
  rank.recorder.time(What::wait, step_, [&] { request_->wait(); });
  rank.recorder.time(What::pack, step_, [&] {
    const double* from = from_others_.data();
    for (const Piece& piece : coming_) from = unpack(piece, from);
  });
  request_.reset();
}

}  // namespace fleet::lu

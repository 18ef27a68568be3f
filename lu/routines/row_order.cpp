// SPDX-License-Identifier: BSD-3-Clause
// row_order.cpp: one message to each rank of the column, rows in the order in which they arrive.
#include "routines/row_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "routines/message_memory.hpp"

namespace fleet::lu {
namespace {

/// That travel at once: their rows are in memory twice more.
constexpr std::int64_t kMostColumns = 128;

}  // namespace

std::vector<std::int64_t> sources_of(std::span<const std::int64_t> partners, Range these,
                                     std::int64_t n) {
  std::vector<std::int64_t> sources(static_cast<std::size_t>(n));
  std::iota(sources.begin(), sources.end(), std::int64_t{0});
  for (std::int64_t i = these.begin; i < these.end; ++i) {
    const std::int64_t other = partners[static_cast<std::size_t>(i)] - 1;
    std::swap(sources[static_cast<std::size_t>(i)], sources[static_cast<std::size_t>(other)]);
  }
  return sources;
}

void take_rows(const Grid& grid, const Rank& rank, const Dimension& rows, Range these,
               std::span<const std::int64_t> sources, LocalColumns<const double> from,
               LocalColumns<double> to, std::int64_t step) {
  Comm& ranks = *grid.col_ranks;
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<std::vector<std::int64_t>> going(size), coming(size);  // local rows, by rank
  for (std::int64_t i = these.begin; i < these.end; ++i) {
    const std::int64_t source = sources[static_cast<std::size_t>(i)];
    const int new_owner = rows.owner(i), old_owner = rows.owner(source);
    if (old_owner == grid.row)
      going[static_cast<std::size_t>(new_owner)].push_back(rows.local(source));
    if (new_owner == grid.row) coming[static_cast<std::size_t>(old_owner)].push_back(rows.local(i));
  }
  const auto sum = [](const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  const auto counts_of = [](const std::vector<std::vector<std::int64_t>>& by_rank,
                            std::int64_t columns) {
    std::vector<std::int64_t> counts;
    for (const auto& some : by_rank) counts.push_back(std::ssize(some) * columns);
    return counts;
  };
  MessageMemory out, in;
  for (std::int64_t first = 0; first < from.count; first += kMostColumns) {
    const std::int64_t end = std::min(from.count, first + kMostColumns);
    const std::vector<std::int64_t> from_counts = counts_of(going, end - first);
    const std::vector<std::int64_t> to_counts = counts_of(coming, end - first);
    const std::span<double> sent = out.take(sum(from_counts)), got = in.take(sum(to_counts));
    rank.recorder.time(What::pack, step, [&] {
      double* at = sent.data();
      for (const auto& some : going)
        for (std::int64_t c = first; c < end; ++c)
          for (const std::int64_t row : some) *at++ = from.elements[row + c * from.ld];
    });
    rank.recorder.time(What::wait, step, [&] {
      rank.engine.drive(ranks.exchange(sent, from_counts, got, to_counts), {What::rows_way, step})
          ->wait();
    });
    rank.recorder.time(What::pack, step, [&] {
      const double* at = got.data();
      for (const auto& some : coming)
        for (std::int64_t c = first; c < end; ++c)
          for (const std::int64_t row : some) to.elements[row + c * to.ld] = *at++;
    });
  }
}

}  // namespace fleet::lu

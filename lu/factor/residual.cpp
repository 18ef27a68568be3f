// SPDX-License-Identifier: BSD-3-Clause
// residual.cpp: a row's sums have one order, whichever core and however many columns at a time.
#include "factor/residual.hpp"

#include <algorithm>
#include <cmath>

namespace fleet::lu {

double residual(const Grid& grid, const Share& share, const std::vector<double>& x,
                std::int64_t at_a_time, const SourceOfA& source, const Rank& rank) {
  const std::int64_t n = share.rows.n, local_rows = share.rows.local_size(share.row);
  const bool has_b = share.col == share.cols.owner(n);
  const std::int64_t local_cols = share.cols.local_size(share.col), cols = local_cols - has_b;
  std::vector<double> rows(2 * static_cast<std::size_t>(local_rows));
  const std::span<double> left(rows.data(), static_cast<std::size_t>(local_rows));
  const std::span<double> sums = std::span(rows).subspan(left.size());
  double of_b = 0, of_x = 0, of_a = 0, of_rest = 0;
  if (has_b) {
    std::copy_n(source(cols, local_cols).data, left.size(), left.begin());
    for (const double element : left) of_b = std::fmax(of_b, std::abs(element));
  }
  for (std::int64_t first = 0; first < cols; first += at_a_time) {
    const std::int64_t last = std::min(first + at_a_time, cols);
    const ColumnsOfA a = source(first, last);
    rank.crew.share(local_rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = first; c < last; ++c) {
        const double* const column = a.data + (c - first) * a.ld;
        const double factor = x[static_cast<std::size_t>(c)];
        for (std::int64_t r = begin; r < end; ++r) {
          left[static_cast<std::size_t>(r)] -= column[r] * factor;
          sums[static_cast<std::size_t>(r)] += std::abs(column[r]);
        }
      }
    });
  }
  for (std::int64_t c = 0; c < cols; ++c)
    of_x = std::fmax(of_x, std::abs(x[static_cast<std::size_t>(c)]));
  grid.row_ranks->reduce(rows, Reduction::sum);
  for (std::size_t r = 0; r < left.size(); ++r) {
    // A NaN is the largest, and stays.
    if (!std::isnan(of_rest) && !(std::abs(left[r]) <= of_rest)) of_rest = std::abs(left[r]);
    of_a = std::fmax(of_a, sums[r]);
  }
  double norms[4] = {of_rest, of_a, of_x, of_b};
  grid.all.reduce(norms, Reduction::largest);
  const double epsilon = std::ldexp(1.0, -53);
  return norms[0] / (epsilon * (norms[1] * norms[2] + norms[3]) * static_cast<double>(n));
}

double residual(const Grid& grid, System& system, const std::vector<double>& x, const Rank& rank) {
  return residual(
      grid, {system.rows, grid.row, system.cols, grid.col}, x,
      std::max<std::int64_t>(1, system.local_cols),
      [&](std::int64_t begin, std::int64_t) {
        return ColumnsOfA{system.at(0, begin), system.ld};
      },
      rank);
}

}  // namespace fleet::lu

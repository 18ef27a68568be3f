// SPDX-License-Identifier: BSD-3-Clause
// shares.cpp: shares of the rows and columns of the grid from parts of workers, and back.
#include "tune/shares.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "tune/limits.hpp"

namespace fleet {

Tuning favour(Tuning tuning, int worker, double share) {
  const auto shares = [](int count, int favoured, double part) {
    std::vector<double> parts(static_cast<std::size_t>(count), (1 - part) / std::max(1, count - 1));
    parts[static_cast<std::size_t>(favoured)] = count == 1 ? 1 : part;
    return parts;
  };
  const auto [rows, cols] = tuning.grid;
  const double more = rows == 1 || cols == 1 ? share * rows * cols : std::sqrt(share * rows * cols);
  tuning.row_shares = shares(rows, worker / cols, std::min(limits::kMostOwned, more / rows));
  tuning.col_shares = shares(cols, worker % cols, std::min(limits::kMostOwned, more / cols));
  return tuning;
}

Tuning in_proportion(Tuning tuning, const std::vector<double>& parts) {
  const auto [rows, cols] = tuning.grid;
  tuning.row_shares.assign(static_cast<std::size_t>(rows), 0.0);
  tuning.col_shares.assign(static_cast<std::size_t>(cols), 0.0);
  const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  for (std::size_t worker = 0; worker < parts.size(); ++worker) {
    tuning.row_shares[worker / static_cast<std::size_t>(cols)] += parts[worker] / whole;
    tuning.col_shares[worker % static_cast<std::size_t>(cols)] += parts[worker] / whole;
  }
  return tuning;
}

std::vector<double> parts_of(const Tuning& tuning) {
  const auto [rows, cols] = tuning.grid;
  std::vector<double> parts(tuning.workers.size(), 1.0);
  if (tuning.row_shares.empty()) return parts;
  for (std::size_t worker = 0; worker < parts.size(); ++worker)
    parts[worker] = rows * tuning.row_shares[worker / static_cast<std::size_t>(cols)] * cols *
                    tuning.col_shares[worker % static_cast<std::size_t>(cols)];
  return parts;
}

}  // namespace fleet

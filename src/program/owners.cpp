// SPDX-License-Identifier: BSD-3-Clause
// owners.cpp: the pattern of each distribution, then the share of each worker.
#include "program/owners.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace fleet {
namespace {

// Whole tiles for each worker: the shares rounded down, and the rest to those that lost most.
std::vector<std::int64_t> quotas_of(const std::vector<double>& shares, std::size_t workers,
                                    std::int64_t tiles) {
  const auto is_share = [](double share) { return share > 0 && share < 1e6; };
  if (shares.size() != workers || !std::ranges::all_of(shares, is_share))
    throw Error(Status::bad_argument, "the shares are not those of the workers");
  const double whole = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> quotas;
  std::vector<std::pair<double, std::size_t>> lost;
  for (std::size_t w = 0; w < workers; ++w) {
    const double ideal = static_cast<double>(tiles) * shares[w] / whole;
    quotas.push_back(static_cast<std::int64_t>(ideal));
    lost.emplace_back(static_cast<double>(quotas[w]) - ideal, w);
  }
  std::ranges::sort(lost);
  std::int64_t left = tiles - std::accumulate(quotas.begin(), quotas.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % workers, --left) ++quotas[lost[i].second];
  return quotas;
}

int wanted_owner(const Tuning& tuning, int row, int col, int tile, int tiles) {
  const auto workers = static_cast<int>(tuning.workers.size());
  switch (tuning.owners) {
    case Owners::sequential:
      return static_cast<int>(static_cast<std::int64_t>(tile) * workers / tiles);
    case Owners::round_robin:
      return tile % workers;
    case Owners::cyclic_1d:
      return col % workers;
    case Owners::blocks:
    case Owners::cyclic_2d:
      break;
  }
  return row % tuning.grid.rows * tuning.grid.cols + col % tuning.grid.cols;
}

}  // namespace

bool deals_single_tiles(const Tuning& tuning) {
  if (tuning.owners == Owners::blocks) return false;
  return tuning.owners != Owners::cyclic_2d || !tuning.worker_shares.empty();
}

std::vector<int> owner_map(const Tuning& tuning, int rows, int cols) {
  const auto workers = static_cast<int>(tuning.workers.size());
  std::vector<std::int64_t> left;
  if (!tuning.worker_shares.empty())
    left = quotas_of(tuning.worker_shares, tuning.workers.size(),
                     static_cast<std::int64_t>(rows) * cols);
  std::vector<int> owners;
  int filling = 0;  // of consecutive runs with shares: the worker whose run it is
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) {
      int owner = wanted_owner(tuning, row, col, row * cols + col, rows * cols);
      if (!left.empty()) {
        if (tuning.owners == Owners::sequential) owner = filling;
        while (left[static_cast<std::size_t>(owner)] == 0) owner = (owner + 1) % workers;
        --left[static_cast<std::size_t>(owner)];
        filling = owner;
      }
      owners.push_back(owner);
    }
  return owners;
}

}  // namespace fleet

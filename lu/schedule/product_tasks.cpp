// SPDX-License-Identifier: BSD-3-Clause
// product_tasks.cpp: SUMMA (van de Geijn and Watts), with the next strips under way.
#include "schedule/product_tasks.hpp"

#include <algorithm>
#include <numeric>

namespace fleet::lu {
namespace {

/// A product that sums over fewer has not its full rate; over more, the first strips, which nothing
/// hides, take longer.
constexpr std::int64_t kStripWidth = 256, kWidestStrip = 768;

}  // namespace

std::vector<ProductTask> product_tasks(std::int64_t steps, Overlap overlap) {
  std::vector<ProductTask> tasks;
  for (std::int64_t k = 0; k < steps; ++k) {
    if (overlap == Overlap::none || k == 0) tasks.push_back({ProductAct::send, k});
    tasks.push_back({ProductAct::arrive, k});
    if (overlap != Overlap::none && k + 1 < steps) tasks.push_back({ProductAct::send, k + 1});
    tasks.push_back({ProductAct::multiply, k});
  }
  return tasks;
}

std::int64_t strip_width(std::int64_t nb, int rows, int cols) {
  const std::int64_t round = std::lcm(rows, cols) * nb;
  if (round > kWidestStrip)
    return std::min(kWidestStrip, std::max<std::int64_t>(1, kStripWidth / nb) * nb);
  return (kStripWidth + round - 1) / round * round;
}

}  // namespace fleet::lu

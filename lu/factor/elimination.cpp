// SPDX-License-Identifier: BSD-3-Clause
// elimination.cpp: a few rows at a time, so that all that is done to them finds them in a core's
// first cache.
#include "factor/elimination.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fleet::lu {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;

void subtract_multiples(const double* pivot_row, std::int64_t count, double* columns,
                        std::int64_t ld, std::int64_t rows) {
  const double pivot = pivot_row[0];
  if (pivot == 0) return;
  // As LAPACK does it: where the reciprocal would overflow, each element is divided.
  const bool divides = std::abs(pivot) < std::numeric_limits<double>::min();
  const double inverse = 1 / pivot;
  for (std::int64_t i = 0; i < rows; ++i)
    columns[i] = divides ? columns[i] / pivot : columns[i] * inverse;
  for (std::int64_t other = 1; other < count; ++other) {
    const double factor = pivot_row[other];
    double* const target = columns + other * ld;
    for (std::int64_t i = 0; i < rows; ++i) target[i] -= columns[i] * factor;
  }
}

}  // namespace

void Largest::look_at(const double* column, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  // Several at a time, so that no comparison waits for the one before. NaN is never larger.
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes];
  std::ranges::fill(lanes, -1.0);
  const auto compare = [&](std::int64_t lane, std::int64_t at) {
    const double here = std::abs(column[at]);
    lanes[lane] = lanes[lane] < here ? here : lanes[lane];
  };
  std::int64_t at = begin;
  for (; at + kLanes <= end; at += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) compare(lane, at + lane);
  for (; at < end; ++at) compare(0, at);
  const double most = *std::ranges::max_element(lanes);
  if (row < 0) row = begin;
  if (most <= size) return;
  size = most;
  for (row = begin; std::abs(column[row]) != most;) ++row;
}

void Largest::or_later(const Largest& later) {
  if (row < 0 || later.size > size) *this = later;
}

Largest eliminate(const double* pivot_row, std::int64_t count, double* columns, std::int64_t ld,
                  std::int64_t begin, std::int64_t end) {
  Largest next;
  for (std::int64_t first = begin; first < end; first += kRowsAtOnce) {
    const std::int64_t last = std::min(end, first + kRowsAtOnce);
    subtract_multiples(pivot_row, count, columns + first, ld, last - first);
    if (count > 1) next.look_at(columns + ld, first, last);
  }
  return next;
}

}  // namespace fleet::lu

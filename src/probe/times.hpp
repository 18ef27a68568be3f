// SPDX-License-Identifier: BSD-3-Clause
// times.hpp: statistics that a probe takes of the spans of a run. It knows no backend.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/trace.hpp"

namespace fleet {

/// The lower quartile: other load only makes runs slower, but the fastest of many is luck.
inline double usual(std::vector<double> values) {
  const auto quartile = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, quartile);
  return *quartile;
}

/// How much longer than the least the median is, as a share: other load makes some samples longer,
/// and one that is long by chance does not count.
inline double spread_of(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const double least = std::ranges::min(samples);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return least > 0 ? *middle / least - 1 : 0;
}

/// The mean of the later half, at which a busy device has settled.
inline double later_half_mean(const std::vector<double>& values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return std::accumulate(half, values.end(), 0.0) / static_cast<double>(values.end() - half);
}

inline double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The time between completions: for each task the seconds since the stop of the previous one (for
/// the first, since its own start).
inline std::vector<double> periods_s(const Trace& trace, const std::vector<TaskId>& tasks) {
  std::vector<double> periods;
  double before_s = -1;
  for (const TaskId id : tasks) {
    const Span& span = trace.spans[static_cast<std::size_t>(id)];
    periods.push_back(span.stop_s - (before_s < 0 ? span.start_s : before_s));
    before_s = span.stop_s;
  }
  return periods;
}

/// The duration of each of these tasks, without the gaps between them.
inline std::vector<double> spans_s(const Trace& trace, const std::vector<TaskId>& tasks) {
  std::vector<double> spans;
  for (const TaskId id : tasks) {
    const Span& span = trace.spans[static_cast<std::size_t>(id)];
    spans.push_back(span.stop_s - span.start_s);
  }
  return spans;
}

}  // namespace fleet

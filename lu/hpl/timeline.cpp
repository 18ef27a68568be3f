// SPDX-License-Identifier: BSD-3-Clause
// timeline.cpp: a process per rank, with a lane for what it computes and one for its messages.
#include "hpl/timeline.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

namespace fleet::lu {
namespace {

constexpr std::size_t kWords = 4;  ///< of a span in a message
constexpr double kGapS = 0.01;     ///< between trials

}  // namespace

void Timeline::add(Comm& all, const std::vector<Span>& spans) {
  const auto ranks = static_cast<std::size_t>(all.size());
  std::vector<double> sizes(ranks);
  const double mine[1] = {static_cast<double>(spans.size() * kWords)};
  all.gather(mine, std::vector<std::int64_t>(ranks, 1), sizes)->wait();
  std::vector<std::int64_t> counts(sizes.begin(), sizes.end());
  std::vector<double> words;
  for (const Span& span : spans)
    words.insert(words.end(), {static_cast<double>(span.what), static_cast<double>(span.step),
                               span.begin_s, span.end_s});
  std::vector<double> found(
      static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  all.gather(words, counts, found)->wait();
  if (all.rank() != 0) return;
  const double zero = end_s_;
  const double* at = found.data();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (const double* const end = at + counts[rank]; at != end; at += kWords) {
      const Span span{static_cast<What>(static_cast<int>(at[0])), static_cast<std::int64_t>(at[1]),
                      zero + at[2], zero + at[3]};
      events_.push_back({static_cast<int>(rank), span});
      end_s_ = std::max(end_s_, span.end_s + kGapS);
    }
}

void Timeline::write(const std::string& file) const {
  std::ofstream out(file);
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const char* separator = "";
  for (const auto& [rank, span] : events_) {
    out << separator << R"({"ph": "X", "pid": )" << rank << R"(, "tid": )"
        << (is_message(span.what) ? 1 : 0) << R"(, "name": ")" << to_string(span.what)
        << R"(", "ts": )" << span.begin_s * 1e6 << R"(, "dur": )"
        << (span.end_s - span.begin_s) * 1e6 << R"(, "args": {"step": )" << span.step << "}}";
    separator = ",\n";
  }
  out << "\n]}\n";
  if (!out.flush()) throw Failure(file + ": " + std::strerror(errno));
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// timeline.cpp: a process per rank, with a lane for what it computes and its messages beside it.
#include "hpl/timeline.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <numeric>

namespace fleet::lu {
namespace {

constexpr std::size_t kWords = 4;  ///< of a span in a message
constexpr double kGapS = 0.01;     ///< between trials

}  // namespace

void Timeline::add(Comm& all, const std::vector<Span>& spans) {
  const auto ranks = static_cast<std::size_t>(all.size());
  const double mine[1] = {static_cast<double>(spans.size() * kWords)};
  const std::vector<double> sizes = all.gathered(mine);
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
  out << std::fixed << std::setprecision(3);
  const char* separator = "";
  const auto begin = [&](const char* phase, int rank, const Span& span, double at_s) {
    out << separator << R"({"ph": ")" << phase << R"(", "pid": )" << rank << R"(, "name": ")"
        << to_string(span.what) << R"(", "ts": )" << at_s * 1e6;
    separator = ",\n";
  };
  // Messages and devices overlap each other, which only asynchronous events may.
  std::size_t beside = 0;
  for (const auto& [rank, span] : events_)
    if (is_beside(span.what)) {
      const std::string end = R"(, "cat": "beside", "id": )" + std::to_string(++beside) + "}";
      begin("b", rank, span, span.begin_s);
      out << R"(, "args": {"step": )" << span.step << "}" << end;
      begin("e", rank, span, span.end_s);
      out << end;
    } else {
      begin("X", rank, span, span.begin_s);
      out << R"(, "tid": 0, "dur": )" << (span.end_s - span.begin_s) * 1e6
          << R"(, "args": {"step": )" << span.step << "}}";
    }
  out << "\n]}\n";
  if (!out.flush()) throw Failure(file + ": " + std::strerror(errno));
}

}  // namespace fleet::lu

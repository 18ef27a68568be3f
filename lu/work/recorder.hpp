// SPDX-License-Identifier: BSD-3-Clause
// recorder.hpp: what a rank has done when. It knows no matrices.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fleet::lu {

/// What time goes to. The first ones are of the thread that factors, the last ones of what goes on
/// beside it.
enum class What {
  panel,      ///< the panel, with its pivots
  pivots,     ///< within it: waiting for what other ranks say of them
  pack,       ///< rows into messages and out of them
  product,    ///< U, and the product
  wait,       ///< for messages
  panel_way,  ///< a panel under way
  rows_way,   ///< rows under way
  devices     ///< products on devices, with their transfers
};
constexpr std::size_t kWhats = 8;
const char* to_string(What what);
constexpr bool is_beside(What what) { return what >= What::panel_way; }

struct Span {
  What what;
  std::int64_t step;
  double begin_s, end_s;  ///< from the recorder's zero
};

/// Of one rank. Its threads may note at the same time.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Recorder(bool keeps_spans = false) : keeps_spans_(keeps_spans) {}

  /// Now is zero.
  void start() { zero_ = Clock::now(); }
  void note(What what, std::int64_t step, Clock::time_point begin, Clock::time_point end);
  /// Runs `work`, notes how long it took and returns these seconds.
  template <typename Work>
  double time(What what, std::int64_t step, Work&& work) {
    const Clock::time_point begin = Clock::now();
    work();
    const Clock::time_point end = Clock::now();
    note(what, step, begin, end);
    return std::chrono::duration<double>(end - begin).count();
  }

  double seconds(What what) const;
  /// Empty unless they are kept. Asked for when nothing is noted any more.
  const std::vector<Span>& spans() const { return spans_; }

 private:
  const bool keeps_spans_;
  Clock::time_point zero_ = Clock::now();
  mutable std::mutex mutex_;
  std::array<double, kWhats> sums_{};  // guarded by mutex_
  std::vector<Span> spans_;            // guarded by mutex_
};

}  // namespace fleet::lu

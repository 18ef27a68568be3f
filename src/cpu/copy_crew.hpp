// SPDX-License-Identifier: BSD-3-Clause
// copy_crew.hpp: threads that copy within host memory, for two callers at once. It must not know
// what is copied, nor what callers wait for.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/worker_crew.hpp"
#include "run/launch.hpp"

namespace fleet {

/// Two lines of copies side by side, each copy done by the caller and several threads. A thread
/// belongs to one line, and helps the other while its own has nothing to copy: a run brings its
/// operands first and takes its results home last.
class CopyCrew {
 public:
  static constexpr int kLines = 2;
  struct Copy {
    View from, to;
    std::int64_t element_bytes;
  };

  /// `first` of the `threads`, at least one in all, belong to line 0.
  CopyCrew(int threads, int first);
  /// Starts those threads that do not exist yet. False if the system refuses one.
  bool hire();
  /// Returns when all is copied. For one thread per line at a time, after hire().
  void copy(int line, const Copy& copy);
  /// Shares of the other line that threads have copied.
  std::int64_t helped() const { return helped_.load(std::memory_order_relaxed); }

 private:
  struct Line {
    Copy copy{};
    std::int64_t share_columns = 1;
    int shares = 0;
    alignas(64) std::atomic<int> open{0};  ///< shares that nobody has taken
    alignas(64) std::atomic<int> left{0};  ///< shares that are not copied
    std::vector<int> helpers;              ///< all threads, those of this line first
  };
  void help(int worker);
  bool help_other(std::size_t own);
  static bool take_share(Line& line);

  std::array<Line, kLines> lines_;
  const int first_;
  std::atomic<std::int64_t> helped_{0};
  WorkerCrew crew_;
};

}  // namespace fleet

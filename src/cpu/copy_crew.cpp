// SPDX-License-Identifier: BSD-3-Clause
// copy_crew.cpp: shares of copies, dealt to whichever thread comes.
#include "cpu/copy_crew.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "base/sizes.hpp"
#include "cpu/copies.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace fleet {
namespace {

/// Bytes that a thread takes at once: so large that taking them costs nothing, and so small that
/// threads end together.
constexpr std::int64_t kShareBytes = std::int64_t{128} << 10;
/// A thread that finds nothing looks again for so long, since the next tile often follows at once:
/// waking 20 threads one after another takes a part of the time in which they copy it.
constexpr auto kLinger = std::chrono::microseconds(100);
constexpr int kLooksBetween = 64;  ///< between two looks at the clock

void pause() {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Looks until `is_over` for as long as it pays; says whether it is.
template <typename IsOver>
bool lingers_until(IsOver is_over) {
  const auto end = std::chrono::steady_clock::now() + kLinger;
  do {
    for (int look = 0; look < kLooksBetween; ++look) {
      if (is_over()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

CopyCrew::CopyCrew(int threads, int first)
    : first_(first), crew_(threads, [this](int worker) { help(worker); }) {
  for (Line& line : lines_) {
    line.helpers.resize(static_cast<std::size_t>(threads));
    std::iota(line.helpers.begin(), line.helpers.end(), 0);
  }
  std::ranges::reverse(lines_[1].helpers);
}

bool CopyCrew::hire() { return crew_.hire(lines_[0].helpers); }

void CopyCrew::copy(int number, const Copy& copy) {
  Line& line = lines_[static_cast<std::size_t>(number)];
  const std::int64_t column_bytes = std::max<std::int64_t>(1, copy.from.rows * copy.element_bytes);
  line.copy = copy;
  line.share_columns = std::max({std::int64_t{1}, kShareBytes / column_bytes,
                                 copy.from.cols / std::numeric_limits<int>::max() + 1});
  line.shares = static_cast<int>(ceil_div(copy.from.cols, line.share_columns));
  line.left.store(line.shares, std::memory_order_relaxed);
  line.open.store(line.shares, std::memory_order_release);
  crew_.invite(line.helpers, static_cast<std::size_t>(line.shares));
  while (take_share(line)) {
  }
  if (lingers_until([&] { return line.left.load(std::memory_order_acquire) == 0; })) return;
  for (int left; (left = line.left.load(std::memory_order_acquire)) > 0;)
    line.left.wait(left, std::memory_order_acquire);
}

void CopyCrew::help(int worker) {
  const auto own = static_cast<std::size_t>(worker < first_ ? 0 : 1);
  while (lingers_until([&] { return take_share(lines_[own]) || help_other(own); })) {
  }
}

bool CopyCrew::help_other(std::size_t own) {
  if (!take_share(lines_[1 - own])) return false;
  helped_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/// The line's copy may be read by those only who hold a share of it.
bool CopyCrew::take_share(Line& line) {
  int open = line.open.load(std::memory_order_relaxed);
  do {
    if (open == 0) return false;
  } while (!line.open.compare_exchange_weak(open, open - 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  const Copy& copy = line.copy;
  const std::int64_t first = std::int64_t{line.shares - open} * line.share_columns;
  copy_columns_past_caches(copy.from, copy.to, copy.element_bytes, first,
                           std::min(first + line.share_columns, copy.from.cols));
  if (line.left.fetch_sub(1, std::memory_order_acq_rel) == 1) line.left.notify_all();
  return true;
}

}  // namespace fleet

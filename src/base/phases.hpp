// SPDX-License-Identifier: BSD-3-Clause
// phases.hpp: where the time of a start goes. It does not know what is started.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace fleet {

struct Phase {
  std::string name;  ///< "contexts"
  double seconds = 0;
};

/// Seconds by phase. Thread-safe.
class Phases {
 public:
  /// Less than a millisecond is no phase: what every run does again is not named.
  void add(std::string_view name, double seconds) {
    constexpr double kLeastS = 1e-3;
    if (seconds < kLeastS) return;
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(phases_, name, &Phase::name);
    if (known != phases_.end())
      known->seconds += seconds;
    else
      phases_.push_back({std::string(name), seconds});
    has_some_.store(true, std::memory_order_relaxed);
  }

  /// What `work` returns, whose time is added.
  template <typename Work>
  decltype(auto) time(std::string_view name, Work&& work) {
    const Timed timed(*this, name);
    return std::forward<Work>(work)();
  }

  /// Those since the last time, which costs nothing where there are none.
  std::vector<Phase> take() {
    if (!has_some_.load(std::memory_order_relaxed)) return {};
    const std::lock_guard lock(mutex_);
    has_some_.store(false, std::memory_order_relaxed);
    return std::exchange(phases_, {});
  }

 private:
  class Timed {
   public:
    Timed(Phases& phases, std::string_view name) : phases_(phases), name_(name) {}
    ~Timed() {
      try {
        phases_.add(name_, now_s() - begin_s_);
      } catch (const std::exception&) {
        // Without memory for it the phase is missing.
      }
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    Phases& phases_;
    std::string_view name_;
    double begin_s_ = now_s();
  };

  std::atomic<bool> has_some_{false};
  std::mutex mutex_;
  std::vector<Phase> phases_;  // guarded by mutex_
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// locked.hpp: a value that several threads use in turn.
#pragma once
#include <mutex>
#include <utility>

namespace fleet {

template <typename Value>
class Locked {
 public:
  /// Calls use(value) while nobody else does.
  template <typename Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(value_);
  }

 private:
  std::mutex mutex_;
  Value value_;  // guarded by mutex_
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// registry.hpp: which addresses lie where: what fleet_alloc gave and fleet_host_register named. It
// knows no backend; the owner sees to locks.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "problem/problem.hpp"

namespace fleet {

/// A range of addresses that the library knows.
struct Range {
  enum class Origin { backend, heap, registered };  ///< who has to free it
  void* data = nullptr;
  std::int64_t bytes = 0;
  DeviceId location = kHost;
  Origin origin = Origin::heap;
};

class Registry {
 public:
  /// Throws Error(bad_argument) where it overlaps a known range.
  void add(const Range& range);
  /// The range that begins at `data`, no longer known from now on. Nothing if there is none, or
  /// if it is of the other kind.
  enum class Kind { allocated, registered };
  std::optional<Range> remove(const void* data, Kind kind);
  /// Takes every range out.
  std::vector<Range> remove_all();

  /// The one question that may be asked while another thread changes the registry.
  bool empty() const { return known_.load(std::memory_order_relaxed) == 0; }

  /// Where `bytes` from `data` on lie: kPageable unless one known range holds them all. Throws
  /// Error(bad_argument) for a piece that begins in a device's memory and ends beyond it.
  DeviceId locate(const void* data, std::int64_t bytes) const;

 private:
  const Range* find(std::uintptr_t address) const;

  std::map<std::uintptr_t, Range> ranges_;
  std::atomic<std::size_t> known_{0};  ///< ranges_.size()
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// registry.hpp: the locations of memory from fleet_alloc and fleet_host_register. It knows no
// backend; its owner locks.
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
  /// Removes and returns the range that begins at `data`; empty if there is none or it is of the
  /// other kind.
  enum class Kind { allocated, registered };
  std::optional<Range> remove(const void* data, Kind kind);
  bool has(const void* data, Kind kind) const;
  /// Takes every range out.
  std::vector<Range> remove_all();

  /// The bytes of the range that begins at `data`; 0 if there is none.
  std::int64_t bytes_at(const void* data) const;

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

// SPDX-License-Identifier: BSD-3-Clause
// arena.hpp: memory of a device that grows where it is, by the driver's virtual memory. It must not
// know locations, limits nor plans.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace fleet::cuda {

struct VirtualMemory;

/// Addresses for all memory of a device, of which a part is mapped. Not thread-safe.
class Arena {
 public:
  /// `readers`: the devices that reach it, as far as they can. Null where the driver or the device
  /// has no virtual memory.
  static std::shared_ptr<Arena> reserve(int ordinal, const std::vector<int>& readers);
  /// Waits for all that the device does, as cudaFree would, and gives everything back.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Maps at least the first `bytes`: what is there stays where it is, with its contents. Throws
  /// Error(no_memory, device_failed), and then has as many as before.
  void grow(std::int64_t bytes);

  char* data() const { return reinterpret_cast<char*>(address_); }

 private:
  Arena(const VirtualMemory& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  void map_next(std::size_t bytes);

  const VirtualMemory& driver_;
  int ordinal_;
  std::vector<int> users_;  ///< those that reach it
  unsigned long long address_ = 0;
  std::size_t granule_ = 0, reserved_ = 0, mapped_ = 0;
};

}  // namespace fleet::cuda

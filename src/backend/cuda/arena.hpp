// SPDX-License-Identifier: BSD-3-Clause
// arena.hpp: memory of a device that grows where it is, by the driver's virtual memory. It must not
// know locations, limits nor plans.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fleet::cuda {

/// Addresses for all memory of a device, of which the first part is mapped. Not thread-safe. The
/// driver may wait for devices as it grows and ends, so it does neither while a run uses it or a
/// stream of the program is held.
class Arena {
 public:
  /// Nothing is mapped yet. `others`: the devices beside `ordinal` that are to reach the memory; a
  /// device that cannot is left out. Null where the driver or the device has no virtual memory, or
  /// refuses the addresses.
  static std::shared_ptr<Arena> reserve(int ordinal, const std::vector<int>& others);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Maps at least the first `bytes`: the part that is mapped already stays where it is, with its
  /// contents. Throws Error(no_memory, device_failed), and is then as before.
  void grow(std::int64_t bytes);

  char* data() const { return reinterpret_cast<char*>(address_); }

 private:
  /// The driver's functions.
  struct Driver {
    CUresult (*attribute)(int*, CUdevice_attribute, CUdevice);
    CUresult (*granularity)(std::size_t*, const CUmemAllocationProp*,
                            CUmemAllocationGranularity_flags);
    CUresult (*reserve)(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
    CUresult (*free)(CUdeviceptr, std::size_t);
    CUresult (*create)(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                       unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                    unsigned long long);
    CUresult (*unmap)(CUdeviceptr, std::size_t);
    CUresult (*allow)(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);

    /// False: the driver lacks some.
    bool find();
  };

  struct Piece {
    CUmemGenericAllocationHandle handle{};
    std::size_t bytes = 0;
  };

  Arena() = default;
  std::size_t mapped() const { return ends_.empty() ? 0 : ends_.back(); }
  std::vector<Piece> create(std::size_t bytes);
  void release(const std::vector<Piece>& pieces);
  CUresult map(const Piece& piece);
  void unmap_to(std::size_t pieces);

  Driver driver_{};
  CUmemAllocationProp memory_{};
  std::vector<CUmemAccessDesc> access_;  ///< by the device itself and the others
  CUdeviceptr address_ = 0;
  std::size_t granule_ = 0, reserved_ = 0;
  std::vector<std::size_t> ends_;  ///< of the pieces, from the first address on
};

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// arena.cpp: pieces of memory, one behind the other at addresses that were reserved for all of
// them. It must not know locations, limits nor plans.
#include "backend/cuda/arena.hpp"

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"
#include "base/sizes.hpp"

namespace fleet::cuda {

struct VirtualMemory {
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

  bool is_whole() const {
    return attribute && granularity && reserve && free && create && release && map && unmap &&
           allow;
  }
};

namespace {

/// The driver takes pages of 512 MiB for allocations of that size and more, and 9 to 10 ms to show
/// one to peers, where four pieces of 256 MiB take 2 (docs/performance/lessons.md).
constexpr std::size_t kPieceBytes = std::size_t{256} << 20;

template <class Function>
void find(Function& function, const char* name) {
  function = driver_function<Function>(name);
}

VirtualMemory of_driver() {
  VirtualMemory driver{};
  find(driver.attribute, "cuDeviceGetAttribute");
  find(driver.granularity, "cuMemGetAllocationGranularity");
  find(driver.reserve, "cuMemAddressReserve");
  find(driver.free, "cuMemAddressFree");
  find(driver.create, "cuMemCreate");
  find(driver.release, "cuMemRelease");
  find(driver.map, "cuMemMap");
  find(driver.unmap, "cuMemUnmap");
  find(driver.allow, "cuMemSetAccess");
  return driver;
}

CUmemAllocationProp memory_of(int ordinal) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  return wanted;
}

}  // namespace

std::shared_ptr<Arena> Arena::reserve(int ordinal, const std::vector<int>& readers) {
  static const VirtualMemory driver = of_driver();
  const DeviceScope device(ordinal);
  int has_it = 0;
  std::size_t free_bytes = 0, all_bytes = 0;
  if (!driver.is_whole() ||
      !works(driver.attribute(&has_it, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                              ordinal)) ||
      has_it == 0 || !works(cudaMemGetInfo(&free_bytes, &all_bytes)))
    return nullptr;
  std::shared_ptr<Arena> arena(new Arena(driver, ordinal));
  arena->users_.push_back(ordinal);
  for (const int reader : readers) {
    int can = 0;
    if (reader != ordinal && works(cudaDeviceCanAccessPeer(&can, reader, ordinal)) && can != 0)
      arena->users_.push_back(reader);
  }
  const CUmemAllocationProp memory = memory_of(ordinal);
  std::size_t& granule = arena->granule_;
  if (!works(driver.granularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
    return nullptr;
  const std::size_t bytes = round_up(all_bytes, std::max(granule, kPieceBytes));
  if (!works(driver.reserve(&arena->address_, bytes, 0, 0, 0))) return nullptr;
  arena->reserved_ = bytes;
  return arena;
}

Arena::~Arena() {
  if (reserved_ == 0) return;
  DeviceScope device;
  if (device.try_use(ordinal_)) works(cudaDeviceSynchronize());
  if (mapped_ > 0) driver_.unmap(address_, mapped_);
  driver_.free(address_, reserved_);
}

void Arena::grow(std::int64_t bytes) {
  const std::size_t wanted = round_up(static_cast<std::size_t>(bytes), granule_);
  if (wanted > reserved_)
    throw Error(Status::no_memory, "no device has " + std::to_string(bytes) + " bytes");
  const std::size_t before = mapped_;
  try {
    while (mapped_ < wanted) map_next(std::min(kPieceBytes, wanted - mapped_));
  } catch (...) {
    if (mapped_ > before) driver_.unmap(address_ + before, mapped_ - before);
    mapped_ = before;
    throw;
  }
}

void Arena::map_next(std::size_t bytes) {
  const CUmemAllocationProp memory = memory_of(ordinal_);
  CUmemGenericAllocationHandle piece{};
  check(driver_.create(&piece, bytes, &memory, 0), "cuMemCreate");
  const CUdeviceptr at = address_ + mapped_;
  const CUresult mapped = driver_.map(at, bytes, 0, piece, 0);
  driver_.release(piece);  // it lasts as long as it is mapped
  check(mapped, "cuMemMap");
  std::vector<CUmemAccessDesc> access;
  for (const int user : users_)
    access.push_back({.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = user},
                      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  const CUresult allowed = driver_.allow(at, bytes, access.data(), access.size());
  if (!works(allowed)) driver_.unmap(at, bytes);
  check(allowed, "cuMemSetAccess");
  mapped_ += bytes;
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// arena.cpp: pieces of memory, one behind the other at addresses that were reserved for all of
// them. It must not know locations, limits nor plans.
#include "backend/cuda/arena.hpp"

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/driver.hpp"
#include "base/sizes.hpp"

namespace fleet::cuda {
namespace {

/// To show an allocation of 512 MiB or more to other devices takes the driver 9 to 10 ms, and one
/// of 256 MiB 0.4 ms (docs/performance/lessons.md).
constexpr std::size_t kPieceBytes = std::size_t{256} << 20;

template <class Function>
bool find_function(Function& function, const char* name) {
  function = driver_function<Function>(name);
  return function != nullptr;
}

}  // namespace

bool Arena::Driver::find() {
  return find_function(attribute, "cuDeviceGetAttribute") &&
         find_function(granularity, "cuMemGetAllocationGranularity") &&
         find_function(reserve, "cuMemAddressReserve") && find_function(free, "cuMemAddressFree") &&
         find_function(create, "cuMemCreate") && find_function(release, "cuMemRelease") &&
         find_function(map, "cuMemMap") && find_function(unmap, "cuMemUnmap") &&
         find_function(allow, "cuMemSetAccess");
}

std::shared_ptr<Arena> Arena::reserve(int ordinal, const std::vector<int>& others) {
  const DeviceScope device(ordinal);
  std::shared_ptr<Arena> arena(new Arena);
  Driver& driver = arena->driver_;
  int is_virtual = 0;
  std::size_t free_bytes = 0, all_bytes = 0;
  if (!driver.find() ||
      !works(driver.attribute(&is_virtual, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                              ordinal)) ||
      is_virtual == 0 || !works(cudaMemGetInfo(&free_bytes, &all_bytes)))
    return nullptr;
  arena->memory_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  arena->memory_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  arena->access_.push_back(
      {.location = arena->memory_.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  for (const int other : others) {
    int can = 0;
    if (other == ordinal || !works(cudaDeviceCanAccessPeer(&can, other, ordinal)) || can == 0)
      continue;
    arena->access_.push_back(arena->access_.front());
    arena->access_.back().location.id = other;
  }
  if (!works(driver.granularity(&arena->granule_, &arena->memory_,
                                CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
    return nullptr;
  const std::size_t bytes = round_up(all_bytes, arena->granule_);
  if (!works(driver.reserve(&arena->address_, bytes, 0, 0, 0))) return nullptr;
  arena->reserved_ = bytes;
  return arena;
}

Arena::~Arena() {
  if (reserved_ == 0) return;
  DeviceScope device;
  device.try_use(memory_.location.id);
  unmap_to(0);
  driver_.free(address_, reserved_);
}

void Arena::grow(std::int64_t bytes) {
  const std::size_t wanted = round_up(static_cast<std::size_t>(bytes), granule_);
  if (wanted <= mapped()) return;
  if (wanted > reserved_)
    throw Error(Status::no_memory, "the device never has " + std::to_string(bytes) + " bytes");
  // All are there before the first is mapped: where memory is short, nothing has to be unmapped.
  const std::vector<Piece> pieces = create(wanted - mapped());
  const std::size_t before = ends_.size();
  ends_.reserve(before + pieces.size());
  CUresult code = CUDA_SUCCESS;
  for (auto piece = pieces.begin(); piece != pieces.end() && works(code); ++piece)
    code = map(*piece);
  release(pieces);  // what is mapped lasts until it is unmapped
  if (!works(code)) unmap_to(before);
  check(code, "mapping memory of a device");
}

std::vector<Arena::Piece> Arena::create(std::size_t bytes) {
  const bool is_shared = access_.size() > 1;
  const std::size_t most = is_shared ? round_up(kPieceBytes, granule_) : bytes;
  std::vector<Piece> pieces(ceil_div(bytes, most));
  for (Piece& piece : pieces) {
    piece.bytes = std::min(most, bytes);
    bytes -= piece.bytes;
    const CUresult code = driver_.create(&piece.handle, piece.bytes, &memory_, 0);
    if (works(code)) continue;
    piece.bytes = 0;
    release(pieces);
    check(code, "cuMemCreate");
  }
  return pieces;
}

/// Those that were created.
void Arena::release(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) return;
    driver_.release(piece.handle);
  }
}

/// Behind those that are mapped.
CUresult Arena::map(const Piece& piece) {
  const CUdeviceptr at = address_ + mapped();
  const CUresult code = driver_.map(at, piece.bytes, 0, piece.handle, 0);
  if (!works(code)) return code;
  ends_.push_back(mapped() + piece.bytes);
  return driver_.allow(at, piece.bytes, access_.data(), access_.size());
}

/// All but the first `pieces`, each as it was mapped.
void Arena::unmap_to(std::size_t pieces) {
  while (ends_.size() > pieces) {
    const std::size_t begin = ends_.size() > 1 ? ends_[ends_.size() - 2] : 0;
    if (!works(driver_.unmap(address_ + begin, ends_.back() - begin))) return;
    ends_.pop_back();
  }
}

}  // namespace fleet::cuda

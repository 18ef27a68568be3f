// SPDX-License-Identifier: BSD-3-Clause
// memory.cpp: device memory by arenas and cudaMalloc; pinned memory by pages that many threads
// touch and CUDA then locks, which is several times faster than cudaHostAlloc. It must not know
// plans.
#include "backend/cuda/memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "base/error.hpp"
#include "base/sizes.hpp"
#include "cpu/blas.hpp"

namespace fleet::cuda {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
/// Smaller blocks are pinned by CUDA itself: there is nothing to gain.
constexpr std::int64_t kMappedBytes = std::int64_t{64} << 20;
constexpr int kMostTouchers = 16;
constexpr int kInterleave = 3;       // MPOL_INTERLEAVE of the kernel's mempolicy.h
constexpr std::int64_t kNaN = 0xff;  // every byte of it: a NaN in every type

/// All GPUs read it: on several NUMA nodes, each gets its share of the pages.
void spread_over_nodes(void* data, std::size_t bytes) {
  const unsigned long all_nodes = ~0UL;
  // A wish: without NUMA, or where this is not allowed, pages stay where they are.
  syscall(SYS_mbind, data, bytes, kInterleave, &all_nodes, 8 * sizeof all_nodes, 0U);
}

void touch(char* data, std::size_t bytes) {
  const int threads = std::clamp(core_count() / 2, 1, kMostTouchers);
  const std::size_t share = (bytes / static_cast<std::size_t>(threads) + kHugePageBytes) /
                            kHugePageBytes * kHugePageBytes;
  std::vector<std::thread> crew;
  const auto work = [=](std::size_t first) {
    for (std::size_t at = first; at < std::min(first + share, bytes); at += kPageBytes)
      *const_cast<volatile char*>(data + at) = 0;
  };
  std::size_t first = 0;
  try {
    for (; first + share < bytes; first += share) crew.emplace_back(work, first);
  } catch (const std::exception&) {
    // No more threads: this one does the rest.
  }
  for (; first < bytes; first += share) work(first);
  for (std::thread& thread : crew) thread.join();
}

/// Locked pages that every device can reach, or nullptr.
char* mapped_pinned(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  spread_over_nodes(data, bytes);
  touch(static_cast<char*>(data), bytes);
  if (works(cudaHostRegister(data, bytes, cudaHostRegisterPortable)))
    return static_cast<char*>(data);
  munmap(data, bytes);
  return nullptr;
}

std::size_t rounded(std::int64_t bytes) {
  return round_up(static_cast<std::size_t>(bytes), kHugePageBytes);
}

std::int64_t free_host_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Memory::Memory(Settings settings)
    : settings_(std::move(settings)),
      arenas_(settings_.ordinals.size() + kFirstDevice),
      blocks_(arenas_.size()),
      lacks_virtual_memory_(arenas_.size(), 0),
      held_bytes_(arenas_.size(), 0) {}

Memory::~Memory() {
  trim();
  for (DeviceId location = 0; location < static_cast<DeviceId>(blocks_.size()); ++location)
    for (auto& [data, block] : blocks_[static_cast<std::size_t>(location)])
      give_back(location, block);
  // No call of this context is left that a held stream could wait for.
  for (const auto& [location, block] : kept_) free(location, block);
}

/// Throws Error(no_memory) where so many more bytes are too many.
void Memory::require(DeviceId location, std::int64_t bytes) {
  give_back_kept();
  const bool over_limit =
      !on_host(location) && settings_.limit_bytes > 0 &&
      held_bytes_[static_cast<std::size_t>(location)] + bytes > settings_.limit_bytes;
  if (++allocations_ == settings_.failing_allocation || over_limit)
    throw Error(Status::no_memory,
                "no " + std::to_string(bytes) + " bytes at location " + place_word(location));
}

Memory::Block Memory::get(DeviceId location, std::int64_t bytes) {
  require(location, bytes);
  Block block{.bytes = bytes};
  void* data = nullptr;
  const DeviceScope device(ordinal(location));
  if (!on_host(location)) {
    check(cudaMalloc(&data, static_cast<std::size_t>(bytes)), "cudaMalloc");
  } else {
    if (bytes >= kMappedBytes) data = mapped_pinned(rounded(bytes));
    block.mapped = data != nullptr;
    if (data == nullptr)
      check(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocPortable),
            "cudaHostAlloc");
  }
  block.data = static_cast<char*>(data);
  held_bytes_[static_cast<std::size_t>(location)] += bytes;
  return block;
}

/// Puts an empty Arena in the place of a block that is none. False: the location has no virtual
/// memory.
bool Memory::begin_arena(DeviceId location, Block& block) {
  char& lacks_it = lacks_virtual_memory_[static_cast<std::size_t>(location)];
  if (on_host(location) || lacks_it != 0) return false;
  std::shared_ptr<Arena> arena = Arena::reserve(ordinal(location), settings_.ordinals);
  lacks_it = arena == nullptr;
  if (arena == nullptr) return false;
  if (block.data != nullptr) ++generation_;
  give_back(location, block);
  block = {.data = arena->data(), .arena = std::move(arena)};
  return true;
}

/// Makes an arena larger where it is. False: it cannot, or must not now.
bool Memory::grow(DeviceId location, Block& block, std::int64_t bytes) {
  if (settings_.are_streams_held()) return false;
  if (block.arena == nullptr && !begin_arena(location, block)) return false;
  require(location, bytes - block.bytes);
  try {
    block.arena->grow(bytes);
  } catch (const Error& error) {
    if (error.status() == Status::no_memory || block.bytes > 0) throw;
    lacks_virtual_memory_[static_cast<std::size_t>(location)] = 1;
    return false;
  }
  held_bytes_[static_cast<std::size_t>(location)] += bytes - block.bytes;
  block.bytes = bytes;
  return true;
}

void Memory::give_back(DeviceId location, Block& block) {
  if (block.data == nullptr) return;
  if (settings_.are_streams_held())
    kept_.emplace_back(location, block);
  else
    free(location, block);
  block = Block{};
}

/// Unless a stream is held now as well.
void Memory::give_back_kept() {
  if (settings_.are_streams_held()) return;
  for (const auto& [location, block] : kept_) free(location, block);
  kept_.clear();
}

void Memory::free(DeviceId location, const Block& block) {
  held_bytes_[static_cast<std::size_t>(location)] -= block.bytes;
  if (block.arena != nullptr) return;  // it gives its memory back with its last owner
  DeviceScope device;
  if (!device.try_use(ordinal(location))) return;  // lost with the context
  if (block.mapped) {
    works(cudaHostUnregister(block.data));
    munmap(block.data, rounded(block.bytes));
  } else if (on_host(location)) {
    works(cudaFreeHost(block.data));
  } else {
    works(cudaFree(block.data));
  }
}

void Memory::reserve(const std::vector<std::int64_t>& arena_bytes) {
  const NoNewHold as_it_is;
  const std::lock_guard lock(mutex_);
  for (std::size_t location = 0; location < arena_bytes.size(); ++location) {
    Block& arena = arenas_[location];
    const std::int64_t wanted = arena_bytes[location];
    const auto where = static_cast<DeviceId>(location);
    if (arena.bytes >= wanted || grow(where, arena, wanted)) continue;
    ++generation_;
    give_back(where, arena);
    arena = get(where, wanted);
  }
}

void Memory::poison_arenas(const std::vector<std::int64_t>& bytes) {
  for (std::size_t location = 0; location < bytes.size(); ++location) {
    if (bytes[location] == 0) continue;
    if (on_host(static_cast<DeviceId>(location))) {
      std::fill_n(arenas_[location].data, bytes[location], static_cast<char>(kNaN));
      continue;
    }
    const DeviceScope device(ordinal(static_cast<DeviceId>(location)));
    check(cudaMemset(arenas_[location].data, kNaN, static_cast<std::size_t>(bytes[location])),
          "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
  }
}

/// No run uses what is given back: the caller sees to that.
void Memory::trim() {
  const NoNewHold as_it_is;
  const std::lock_guard lock(mutex_);
  ++generation_;
  give_back_kept();
  for (std::size_t location = 0; location < arenas_.size(); ++location)
    give_back(static_cast<DeviceId>(location), arenas_[location]);
}

void* Memory::allocate(DeviceId location, std::int64_t bytes) {
  const NoNewHold as_it_is;
  const std::lock_guard lock(mutex_);
  const Block block = get(location, bytes);
  blocks_[static_cast<std::size_t>(location)].emplace(block.data, block);
  return block.data;
}

void Memory::release(DeviceId location, void* data) {
  const NoNewHold as_it_is;
  const std::lock_guard lock(mutex_);
  auto& blocks = blocks_[static_cast<std::size_t>(location)];
  const auto found = blocks.find(data);
  if (found == blocks.end()) return;
  ++releases_;
  give_back(location, found->second);
  blocks.erase(found);
}

std::int64_t Memory::available_bytes(DeviceId location) const {
  const std::lock_guard lock(mutex_);
  const auto where = static_cast<std::size_t>(location);
  std::int64_t free_bytes = 0;
  if (on_host(location)) {
    free_bytes = free_host_bytes();
  } else {
    const DeviceScope device(ordinal(location));
    std::size_t free = 0, total = 0;
    if (!works(cudaMemGetInfo(&free, &total))) return 0;
    free_bytes = static_cast<std::int64_t>(free);
  }
  free_bytes += arenas_[where].bytes;
  if (settings_.limit_bytes > 0 && !on_host(location))
    free_bytes =
        std::min(free_bytes, settings_.limit_bytes - held_bytes_[where] + arenas_[where].bytes);
  return free_bytes;
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// memory.cpp: arenas and blocks from the C++ heap. It must not know plans.
#include "backend/host/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"

namespace fleet::host {
namespace {

// Large blocks lie on huge pages where the system has them: a tile is then a few pages, not
// hundreds.
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// All bits set is a NaN in every type.
void fill_with_nan(char* data, std::int64_t bytes) {
  if (bytes > 0) std::memset(data, 0xff, static_cast<std::size_t>(bytes));
}

#ifdef __SANITIZE_THREAD__
// Of each write ThreadSanitizer keeps notes of twice its size. Fresh memory needs none: no other
// thread knows it yet, and most of it is never used.
__attribute__((no_sanitize("thread"))) void fill_fresh(char* data, std::int64_t bytes) {
  // volatile: a loop that is made a memset would be noted. Whole words fit, since blocks are
  // aligned.
  auto* words = reinterpret_cast<volatile std::uint64_t*>(data);
  for (std::int64_t i = 0; i < ceil_div(bytes, 8); ++i) words[i] = ~std::uint64_t{0};
}
#else
void fill_fresh(char* data, std::int64_t bytes) { fill_with_nan(data, bytes); }
#endif

char* raw_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  const bool large = size >= 2 * kHugePageBytes;
  const std::size_t alignment = large ? kHugePageBytes : kAlignmentBytes;
  const std::size_t rounded = round_up(size, alignment);
  auto* data = static_cast<char*>(std::aligned_alloc(alignment, rounded));
  if (data != nullptr && large) madvise(data, rounded, MADV_HUGEPAGE);  // a wish, no more
  return data;
}

}  // namespace

void Memory::Free::operator()(char* data) const { std::free(data); }

Memory::Memory(Settings settings)
    : settings_(std::move(settings)), stores_(settings_.limit_bytes.size()) {}

std::int64_t Memory::limit(DeviceId location) const {
  const std::int64_t bytes = settings_.limit_bytes[static_cast<std::size_t>(location)];
  return bytes > 0 ? bytes : std::numeric_limits<std::int64_t>::max();
}

Memory::Store& Memory::store(DeviceId location) {
  return stores_.at(static_cast<std::size_t>(location));
}

const Memory::Store& Memory::store(DeviceId location) const {
  return stores_.at(static_cast<std::size_t>(location));
}

Memory::Block Memory::get(DeviceId location, std::int64_t bytes) {
  const Store& store = this->store(location);
  const bool fails = ++allocations_ == settings_.failing_allocation;
  const bool fits = bytes <= limit(location) - store.blocks_bytes - store.arena.bytes;
  char* data = fits && !fails ? raw_memory(bytes) : nullptr;
  if (data == nullptr)
    throw Error(Status::no_memory,
                "no " + std::to_string(bytes) + " bytes at location " + place_word(location));
  if (settings_.poison) fill_fresh(data, bytes);
  Block block;
  block.data.reset(data);
  block.bytes = bytes;
  return block;
}

void Memory::give_back(Block& block) {
  if (settings_.poison && block.data) fill_with_nan(block.data.get(), block.bytes);
  block = Block{};
}

void Memory::reserve(const std::vector<std::int64_t>& arena_bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t d = 0; d < arena_bytes.size(); ++d)
    if (arena_bytes[d] > 0) stores_.at(d).is_reserved = false;
  for (std::size_t d = 0; d < arena_bytes.size(); ++d) {
    const auto location = static_cast<DeviceId>(d);
    Store& store = this->store(location);
    if (arena_bytes[d] <= store.arena.bytes) continue;
    give_back(store.arena);  // first, so that old and new need not fit together
    store.arena = get(location, arena_bytes[d]);
  }
  for (std::size_t d = 0; d < arena_bytes.size(); ++d)
    if (arena_bytes[d] > 0) stores_.at(d).is_reserved = true;
}

void Memory::let_go(DeviceId location) {
  const std::lock_guard lock(mutex_);
  store(location).is_reserved = false;
}

char* Memory::arena(DeviceId location) const { return store(location).arena.data.get(); }

void Memory::trim() {
  const std::lock_guard lock(mutex_);
  for (Store& store : stores_)
    if (!store.is_reserved) give_back(store.arena);
}

void* Memory::allocate(DeviceId location, std::int64_t bytes) {
  if (bytes <= 0) return nullptr;
  const std::lock_guard lock(mutex_);
  Store& store = this->store(location);
  // A pooled arena is only a convenience: it makes room for what a caller asks for.
  if (!store.is_reserved && bytes > limit(location) - store.blocks_bytes - store.arena.bytes)
    give_back(store.arena);
  Block block = get(location, bytes);
  void* data = block.data.get();
  store.blocks_bytes += bytes;
  store.blocks.emplace(data, std::move(block));
  return data;
}

void Memory::release(DeviceId location, void* data) {
  const std::lock_guard lock(mutex_);
  Store& store = this->store(location);
  const auto found = store.blocks.find(data);
  if (found == store.blocks.end()) return;
  store.blocks_bytes -= found->second.bytes;
  give_back(found->second);
  store.blocks.erase(found);
}

std::int64_t Memory::available_bytes(DeviceId location) const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, limit(location) - store(location).blocks_bytes);
}

void Memory::poison_arenas(const std::vector<std::int64_t>& bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    const Block& arena = stores_.at(d).arena;
    fill_with_nan(arena.data.get(), std::min(bytes[d], arena.bytes));
  }
}

void Memory::forget(DeviceId location) {
  const std::lock_guard lock(mutex_);
  Store& store = this->store(location);
  fill_with_nan(store.arena.data.get(), store.arena.bytes);
  for (auto& [data, block] : store.blocks) fill_with_nan(block.data.get(), block.bytes);
}

}  // namespace fleet::host

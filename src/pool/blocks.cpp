// SPDX-License-Identifier: BSD-3-Clause
// blocks.cpp: a table with an entry for each piece of the addresses, under one lock that is not
// held while the pages of a whole block are given back, cleared or touched. It knows neither malloc
// nor devices.
#include "pool/blocks.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>

#include "pool/pages.hpp"

namespace fleet::pool {
namespace {

/// Addresses for each byte of the cap: four times as many as blocks of kLeastBlockBytes take, so
/// that gaps do no harm.
constexpr std::size_t kAddressesPerByte = 16;
constexpr std::size_t kMostAddresses = std::size_t{16} << 40;
/// An idle block may be larger by a part of the bytes that are asked for.
constexpr std::size_t kLooseness = 8;

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t granules_for(std::size_t bytes) {
  return rounded(bytes, kPoolPieceBytes) / kPoolPieceBytes;
}

std::int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

/// Recursive: a fork has it while handlers of the program may allocate.
class Blocks::Lock {
 public:
  explicit Lock(Blocks& blocks) : mutex_(&blocks.mutex_) { pthread_mutex_lock(mutex_); }
  ~Lock() { pthread_mutex_unlock(mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* const mutex_;
};

bool Blocks::open(std::size_t cap) {
  if (cap < kLeastBlockBytes) return false;
  rlimit limit;
  // Reserved addresses count for it, and would leave the program none.
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return false;
  const std::size_t extent =
      cap > kMostAddresses / kAddressesPerByte
          ? kMostAddresses
          : std::max(rounded(cap * kAddressesPerByte, kPoolPieceBytes), 4 * kPoolPieceBytes);
  const std::size_t granules = extent / kPoolPieceBytes;
  void* table = mmap(nullptr, granules * sizeof(Granule), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED) return false;
  char* const first = reserve(extent, kPoolPieceBytes);
  if (first == nullptr) {
    munmap(table, granules * sizeof(Granule));
    return false;
  }
  const Lock lock(*this);
  granules_ = static_cast<Granule*>(table);  // fresh pages: all members are 0, as they begin
  count_ = granules;
  cap_ = cap;
  first_.store(reinterpret_cast<std::uintptr_t>(first));
  extent_.store(extent);
  return true;
}

void Blocks::close() {
  const Lock lock(*this);
  if (granules_ == nullptr) return;
  munmap(address(0), extent_.exchange(0));
  munmap(granules_, count_ * sizeof(Granule));
  granules_ = nullptr;
  count_ = end_ = cap_ = held_ = pinned_ = idle_ = 0;
}

/// With the lock, as all that follows: the block that begins there and that the program has.
Blocks::Index Blocks::block_at(const void* data) {
  if (!owns(data)) return kNone;
  const Index block = granule_of(data);
  return address(block) == data && at(block).use == Use::used ? block : kNone;
}

/// The used block that has all of these bytes.
Blocks::Index Blocks::block_around(const void* data, std::int64_t bytes) {
  if (!owns(data) || bytes <= 0) return kNone;
  const std::uint32_t owner = at(granule_of(data)).block;
  if (owner == 0) return kNone;
  const Index block = owner - 1;
  const auto* const end = static_cast<const char*>(data) + bytes;
  const bool fits = at(block).use == Use::used && end <= address(block) + at(block).bytes;
  return fits ? block : kNone;
}

PoolPiece Blocks::piece_of(Index granule) {
  const Index block = at(granule).block - 1;
  const std::size_t before = (granule - block) * kPoolPieceBytes;
  return {address(granule), std::min(kPoolPieceBytes, at(block).bytes - before)};
}

/// The smallest idle block of so many bytes that is not too large.
Blocks::Index Blocks::find_idle(std::size_t bytes) {
  if (idle_ == 0) return kNone;
  Index best = kNone;
  for (Index i = 0; i < end_; i += std::max<Index>(1, at(i).granules)) {
    const Granule& block = at(i);
    if (block.use != Use::idle || block.bytes < bytes || block.bytes > bytes + bytes / kLooseness)
      continue;
    if (best == kNone || block.bytes < at(best).bytes) best = i;
  }
  return best;
}

bool Blocks::is_free(Index first, std::size_t granules) const {
  if (first + granules > count_) return false;
  for (Index i = first; i < std::min(first + granules, end_); ++i)
    if (granules_[i].block != 0) return false;
  return true;
}

/// The first free addresses.
Blocks::Index Blocks::find_free(std::size_t granules) {
  Index start = 0;
  for (Index i = 0; i < end_ && i - start < granules;) {
    const bool is_taken = at(i).block != 0;
    i += is_taken ? at(i).granules : 1;
    if (is_taken) start = i;
  }
  return start + granules <= count_ ? start : kNone;
}

/// Free granules become a block that the program has.
void Blocks::claim(Index block, std::size_t bytes) {
  const std::size_t granules = granules_for(bytes);
  for (Index i = block; i < block + granules; ++i)
    at(i) = {.block = static_cast<std::uint32_t>(block) + 1};
  at(block).use = Use::used;
  at(block).granules = static_cast<std::uint32_t>(granules);
  at(block).bytes = bytes;
  held_ += bytes;
  end_ = std::max(end_, block + granules);
}

void Blocks::forget(Index block) {
  held_ -= at(block).bytes;
  const Index behind = block + at(block).granules;
  for (Index i = block; i < behind; ++i) at(i) = {};
  while (end_ > 0 && at(end_ - 1).block == 0) --end_;
}

std::size_t Blocks::idle_bytes() {
  std::size_t sum = 0;
  for (Index i = 0; i < end_; i += std::max<Index>(1, at(i).granules))
    if (at(i).use == Use::idle) sum += at(i).bytes;
  return sum;
}

/// False: beyond the cap, which idle blocks that could make room are to do.
bool Blocks::may_grow(std::size_t bytes) {
  if (held_ + bytes <= cap_) return true;
  if (idle_ > 0 && held_ - idle_bytes() + bytes <= cap_)
    room_wanted_ = std::max(room_wanted_, bytes);
  return false;
}

/// A block of fresh pages.
Blocks::Index Blocks::make(std::size_t bytes) {
  if (!may_grow(bytes)) {
    counters_.beyond += static_cast<std::int64_t>(bytes);
    return kNone;
  }
  const Index block = find_free(granules_for(bytes));
  if (block == kNone || !map_memory(address(block), bytes)) return kNone;
  claim(block, bytes);
  return block;
}

void* Blocks::allocate(std::size_t bytes, Contents contents) {
  if (bytes > kMostAddresses) return nullptr;
  const std::size_t wanted = rounded(bytes, kHugePageBytes);
  Index block = kNone;
  bool is_fresh = false;
  {
    const Lock lock(*this);
    block = find_idle(wanted);
    is_fresh = block == kNone;
    if (is_fresh) {
      block = make(wanted);
      if (block == kNone) return nullptr;
    } else {
      at(block).use = Use::used;
      --idle_;
      show_to_children(address(block), at(block).bytes);
      counters_.reused += static_cast<std::int64_t>(bytes);
    }
    ++counters_.blocks;
    counters_.given += static_cast<std::int64_t>(bytes);
  }
  if (!is_fresh && contents == Contents::zero) clear(address(block), bytes);
  return address(block);
}

/// The block is nobody's: its pages go, then its entry.
void Blocks::retire(Index block) {
  unmap_memory(address(block), at(block).bytes);
  const Lock lock(*this);
  forget(block);
}

void Blocks::set_idle(Index block) {
  at(block).use = Use::idle;
  at(block).freed_ns = now_ns();
  ++idle_;
  // A child's copy of what nobody uses would be a waste, and the pages of pins are copied at once.
  hide_from_children(address(block), at(block).bytes);
}

void Blocks::release(void* data) {
  Index block = kNone;
  {
    const Lock lock(*this);
    block = block_at(data);
    if (block == kNone) return;
    if (at(block).pinned > 0 || at(block).busy > 0) return set_idle(block);
    at(block).use = Use::leaving;
  }
  retire(block);
}

/// Of a block without a pin; false, with nothing changed, where it cannot be done.
bool Blocks::resize_in_place(Index block, std::size_t bytes) {
  const std::size_t before = at(block).bytes;
  const std::size_t old_granules = at(block).granules, granules = granules_for(bytes);
  char* const data = address(block);
  if (bytes < before) {
    unmap_memory(data + bytes, before - bytes);
    for (Index i = block + granules; i < block + old_granules; ++i) at(i) = {};
    held_ -= before - bytes;
  } else {
    if (granules > old_granules && !is_free(block + old_granules, granules - old_granules))
      return false;
    if (!map_memory(data + before, bytes - before)) return false;
    for (Index i = block + old_granules; i < block + granules; ++i)
      at(i) = {.block = static_cast<std::uint32_t>(block) + 1};
    held_ += bytes - before;
    end_ = std::max(end_, block + granules);
  }
  at(block).bytes = bytes;
  at(block).granules = static_cast<std::uint32_t>(granules);
  while (end_ > 0 && at(end_ - 1).block == 0) --end_;
  return true;
}

/// Of a block without a pin, to other addresses; nullptr, with nothing changed, where it cannot be
/// done.
void* Blocks::move(Index block, std::size_t bytes) {
  const std::size_t before = at(block).bytes;
  const Index target = find_free(granules_for(bytes));
  if (target == kNone || !map_memory(address(target) + before, bytes - before)) return nullptr;
  if (!move_memory(address(block), address(target), before)) {
    unmap_memory(address(target) + before, bytes - before);
    return nullptr;
  }
  forget(block);
  claim(target, bytes);
  return address(target);
}

void* Blocks::resize(void* data, std::size_t bytes) {
  if (bytes < kLeastBlockBytes || bytes > kMostAddresses) return nullptr;
  const std::size_t wanted = rounded(bytes, kHugePageBytes);
  const Lock lock(*this);
  const Index block = block_at(data);
  if (block == kNone) return nullptr;
  const std::size_t before = at(block).bytes;
  if (wanted == before) return data;
  if (at(block).pinned > 0 || at(block).busy > 0)
    return wanted < before && wanted >= before / 2 ? data : nullptr;
  if (wanted > before && !may_grow(wanted - before)) return nullptr;
  if (resize_in_place(block, wanted)) return data;
  return wanted > before ? move(block, wanted) : nullptr;
}

std::size_t Blocks::usable_bytes(const void* data) {
  const Lock lock(*this);
  const Index block = block_at(data);
  return block == kNone ? 0 : at(block).bytes;
}

PoolState Blocks::state(const void* data, std::int64_t bytes) {
  if (!owns(data)) return PoolState::elsewhere;
  const Lock lock(*this);
  const Index block = block_around(data, bytes);
  if (block == kNone) return PoolState::elsewhere;
  const Index last = granule_of(static_cast<const char*>(data) + bytes - 1);
  for (Index i = granule_of(data); i <= last; ++i)
    if (!at(i).is_pinned) return at(block).is_refused ? PoolState::refused : PoolState::plain;
  return PoolState::pinned;
}

PoolCounters Blocks::counters() {
  const Lock lock(*this);
  return counters_;
}

bool Blocks::take_plain(const void* data, std::int64_t bytes, PoolPiece& piece) {
  const Lock lock(*this);
  const Index block = block_around(data, bytes);
  if (block == kNone || at(block).is_refused) return false;
  const Index last = granule_of(static_cast<const char*>(data) + bytes - 1);
  for (Index i = granule_of(data); i <= last; ++i) {
    if (at(i).is_pinned || at(i).is_busy) continue;
    at(i).is_busy = true;
    ++at(block).busy;
    piece = piece_of(i);
    return true;
  }
  return false;
}

void Blocks::note(const PoolPiece& piece, PoolState now) {
  Index block = kNone;
  {
    const Lock lock(*this);
    const Index granule = granule_of(piece.data);
    if (!at(granule).is_busy) return;  // this is the child of a fork
    block = at(granule).block - 1;
    at(granule).is_busy = false;
    --at(block).busy;
    if (now == PoolState::pinned) {
      at(granule).is_pinned = true;
      ++at(block).pinned;
      ++pinned_;
      counters_.pinned += static_cast<std::int64_t>(piece.bytes);
    }
    if (now == PoolState::refused) at(block).is_refused = true;
    const bool is_left = at(block).use == Use::idle && at(block).pinned == 0 && at(block).busy == 0;
    if (!is_left) return;
    --idle_;
    at(block).use = Use::leaving;
  }
  retire(block);
}

/// The one that has been idle for the longest time.
bool Blocks::take_idle(std::int64_t least_age_ns, void*& block) {
  const Lock lock(*this);
  if (held_ + room_wanted_ <= cap_) room_wanted_ = 0;
  const std::int64_t latest_ns = now_ns() - (room_wanted_ > 0 ? 0 : least_age_ns);
  Index oldest = kNone;
  for (Index i = 0; idle_ > 0 && i < end_; i += std::max<Index>(1, at(i).granules)) {
    if (at(i).use != Use::idle || at(i).busy > 0 || at(i).freed_ns > latest_ns) continue;
    if (oldest == kNone || at(i).freed_ns < at(oldest).freed_ns) oldest = i;
  }
  if (oldest == kNone) {
    room_wanted_ = 0;
    return false;
  }
  --idle_;
  at(oldest).use = Use::leaving;
  block = address(oldest);
  return true;
}

bool Blocks::take_any(void*& block) {
  if (take_idle(0, block)) return true;
  const Lock lock(*this);
  for (Index i = 0; i < end_; i += std::max<Index>(1, at(i).granules)) {
    if (at(i).pinned == 0 || at(i).use != Use::used) continue;
    block = address(i);
    return true;
  }
  return false;
}

bool Blocks::take_pinned(void* data, PoolPiece& piece) {
  const Lock lock(*this);
  const Index block = granule_of(data);
  for (Index i = block; at(block).pinned > 0 && i < block + at(block).granules; ++i) {
    if (!at(i).is_pinned) continue;
    at(i).is_pinned = false;
    at(i).is_busy = true;
    --at(block).pinned;
    ++at(block).busy;
    --pinned_;
    piece = piece_of(i);
    return true;
  }
  return false;
}

void Blocks::give_back(void* data) {
  const Index block = granule_of(data);
  {
    const Lock lock(*this);
    if (at(block).use != Use::leaving) return;  // take_any gave one that the program has
  }
  retire(block);
}

bool Blocks::has_pinned() {
  const Lock lock(*this);
  return pinned_ > 0 || idle_ > 0;
}

void Blocks::before_fork() { pthread_mutex_lock(&mutex_); }
void Blocks::after_fork_in_parent() { pthread_mutex_unlock(&mutex_); }

void Blocks::after_fork_in_child() {
  // The lock is of a thread with another number.
  mutex_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  for (Index i = 0; i < end_;) {
    const Index next = i + std::max<Index>(1, at(i).granules);
    for (Index g = i; g < next; ++g) at(g).is_pinned = at(g).is_busy = false;
    at(i).pinned = at(i).busy = 0;
    at(i).is_refused = false;
    if (at(i).use == Use::idle || at(i).use == Use::leaving) {
      unmap_memory(address(i), at(i).bytes);  // hidden ones are holes, which others could get
      forget(i);
    }
    i = next;
  }
  pinned_ = idle_ = 0;
  room_wanted_ = 0;
}

}  // namespace fleet::pool

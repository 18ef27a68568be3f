// SPDX-License-Identifier: BSD-3-Clause
// pages.cpp: mappings, and shares of them for short-lived threads. It knows no blocks.
#include "pool/pages.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace fleet::pool {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr int kMostThreads = 16;
constexpr std::size_t kStackBytes = std::size_t{1} << 20;  // some programs' TLS is in it too
/// Starting a thread takes as long as touching a tenth of this.
constexpr std::size_t kLeastShareBytes = std::size_t{16} << 20;
constexpr int kDefaultPolicy = 0;   // MPOL_DEFAULT of the kernel's mempolicy.h
constexpr int kInterleave = 3;      // MPOL_INTERLEAVE
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on
constexpr int kLeaveUnmapped = 4;   // MREMAP_DONTUNMAP, from Linux 5.7 on

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool has_several_nodes() {
  static std::atomic<int> known{-1};
  int several = known.load(std::memory_order_relaxed);
  if (several < 0) {
    several = access("/sys/devices/system/node/node1", F_OK) == 0 ? 1 : 0;
    known.store(several, std::memory_order_relaxed);
  }
  return several != 0;
}

/// Whoever started the program may have said where its memory is to be (numactl).
bool has_policy() {
  int mode = kDefaultPolicy;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) == 0 &&
         mode != kDefaultPolicy;
}

/// All devices read it: each node has its share of the pages.
void spread_over_nodes(char* data, std::size_t bytes) {
  if (!has_several_nodes() || has_policy()) return;
  const unsigned long all_nodes = ~0UL;
  // A wish: where it is not allowed, pages are where they are touched.
  syscall(SYS_mbind, data, bytes, kInterleave, &all_nodes, 8 * sizeof all_nodes, 0U);
}

int core_count() {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(cores, 1);
}

struct Share {
  void (*work)(char* data, std::size_t bytes);
  char* data;
  std::size_t bytes;
};

void* work_on(void* argument) {
  const Share& share = *static_cast<const Share*>(argument);
  share.work(share.data, share.bytes);
  return nullptr;
}

/// Splits the bytes among threads, of which the caller is one.
void work_in_shares(char* data, std::size_t bytes, void (*work)(char*, std::size_t)) {
  const auto most = static_cast<std::size_t>(std::clamp(core_count() / 2, 1, kMostThreads));
  const std::size_t threads = std::clamp<std::size_t>(bytes / kLeastShareBytes, 1, most);
  const std::size_t share =
      (bytes / threads + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  Share shares[kMostThreads];
  pthread_t crew[kMostThreads];
  std::size_t hired = 0, at = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (; hired + 1 < threads && at + share < bytes; ++hired, at += share) {
    shares[hired] = {work, data + at, share};
    if (pthread_create(&crew[hired], &attributes, work_on, &shares[hired]) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  work(data + at, bytes - at);
  for (std::size_t i = 0; i < hired; ++i) pthread_join(crew[i], nullptr);
}

void touch_share(char* data, std::size_t bytes) {
  if (madvise(data, bytes, kPopulateWrite) == 0) return;
  for (std::size_t at = 0; at < bytes; at += kPageBytes)
    std::atomic_ref(data[at]).fetch_or(0, std::memory_order_relaxed);
}

void clear_share(char* data, std::size_t bytes) { memset(data, 0, bytes); }

}  // namespace

char* reserve(std::size_t bytes, std::size_t alignment) {
  void* data = mmap(nullptr, bytes + alignment, PROT_NONE, kReserved, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(data);
  char* const start =
      first + (alignment - reinterpret_cast<std::uintptr_t>(data) % alignment) % alignment;
  if (start > first) munmap(first, static_cast<std::size_t>(start - first));
  const std::size_t rest = alignment - static_cast<std::size_t>(start - first);
  if (rest > 0) munmap(start + bytes, rest);
  return start;
}

bool map_memory(char* data, std::size_t bytes) {
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED)
    return false;
  madvise(data, bytes, MADV_HUGEPAGE);
  spread_over_nodes(data, bytes);
  return true;
}

void unmap_memory(char* data, std::size_t bytes) {
  if (bytes == 0) return;
  // Refused where there are too many mappings: without pages it is nearly as good.
  if (mmap(data, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED)
    madvise(data, bytes, MADV_DONTNEED);
}

bool move_memory(char* from, char* to, std::size_t bytes) {
  // The old addresses stay mapped, so that nobody else is given them.
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | kLeaveUnmapped, to) == MAP_FAILED)
    return false;
  unmap_memory(from, bytes);
  return true;
}

void hide_from_children(char* data, std::size_t bytes) { madvise(data, bytes, MADV_DONTFORK); }
void show_to_children(char* data, std::size_t bytes) { madvise(data, bytes, MADV_DOFORK); }

void touch(char* data, std::size_t bytes) { work_in_shares(data, bytes, touch_share); }
void clear(char* data, std::size_t bytes) { work_in_shares(data, bytes, clear_share); }

}  // namespace fleet::pool

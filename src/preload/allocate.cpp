// SPDX-License-Identifier: BSD-3-Clause
// allocate.cpp: malloc and its kin for the whole program, where this library is preloaded: large
// blocks come from the pool, all else goes on to the allocator behind, which is found by name and
// may be any. It knows no BLAS.
//
// Nothing here needs a constructor, since the dynamic linker allocates before they run.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "preload/process_pool.hpp"

namespace fleet::preload {
namespace {

using pool::kLeastBlockBytes;
using Contents = pool::Blocks::Contents;

/// The allocator behind.
struct Behind {
  std::atomic<void* (*)(size_t)> malloc{nullptr};
  std::atomic<void* (*)(size_t, size_t)> calloc{nullptr};
  std::atomic<void* (*)(void*, size_t)> realloc{nullptr};
  std::atomic<void (*)(void*)> free{nullptr};
  std::atomic<void* (*)(size_t, size_t)> aligned_alloc{nullptr};
  std::atomic<int (*)(void**, size_t, size_t)> posix_memalign{nullptr};
  std::atomic<void* (*)(size_t, size_t)> memalign{nullptr};
  std::atomic<void* (*)(size_t)> valloc{nullptr};
  std::atomic<void* (*)(size_t)> pvalloc{nullptr};
  std::atomic<size_t (*)(void*)> malloc_usable_size{nullptr};
};
constinit Behind behind;

// While the allocator behind is looked for, dlsym may allocate a little itself: that comes from
// here, and stays.
constexpr size_t kEarlyBytes = size_t{64} << 10;
constexpr size_t kEarlyAlignment = 16;
alignas(kEarlyAlignment) constinit char early[kEarlyBytes] = {};
constinit std::atomic<size_t> early_used{0};
constinit thread_local bool is_looking [[gnu::tls_model("initial-exec")]] = false;

bool is_early(const void* data) {
  return reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(early) < kEarlyBytes;
}

/// Zeros, after a word with their number.
void* early_allocate(size_t bytes) {
  const size_t whole =
      (bytes + kEarlyAlignment - 1) / kEarlyAlignment * kEarlyAlignment + kEarlyAlignment;
  if (bytes > kEarlyBytes) return nullptr;
  const size_t at = early_used.fetch_add(whole);
  if (at + whole > kEarlyBytes) return nullptr;
  memcpy(early + at, &bytes, sizeof bytes);
  return early + at + kEarlyAlignment;
}

size_t early_bytes(const void* data) {
  size_t bytes = 0;
  memcpy(&bytes, static_cast<const char*>(data) - kEarlyAlignment, sizeof bytes);
  return bytes;
}

template <typename Function>
void find(std::atomic<Function>& target, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  Function function = nullptr;
  memcpy(&function, &found, sizeof function);
  target.store(function, std::memory_order_release);
}

/// Any number of threads may come here at once: all find the same.
[[gnu::noinline]] void look_behind() {
  is_looking = true;
  find(behind.calloc, "calloc");
  find(behind.realloc, "realloc");
  find(behind.free, "free");
  find(behind.aligned_alloc, "aligned_alloc");
  find(behind.posix_memalign, "posix_memalign");
  find(behind.memalign, "memalign");
  find(behind.valloc, "valloc");
  find(behind.pvalloc, "pvalloc");
  find(behind.malloc_usable_size, "malloc_usable_size");
  find(behind.malloc, "malloc");
  is_looking = false;
}

/// nullptr while this thread looks for the allocator behind.
template <typename Function>
Function real(std::atomic<Function>& member) {
  const Function function = member.load(std::memory_order_relaxed);
  if (function != nullptr) [[likely]]
    return function;
  if (is_looking) return nullptr;
  look_behind();
  return member.load(std::memory_order_relaxed);
}

bool is_large(size_t bytes) { return bytes >= kLeastBlockBytes; }

/// Blocks of the pool begin at multiples of its pieces.
bool is_aligned_enough(size_t alignment) { return alignment <= kPoolPieceBytes; }

void* pool_aligned(size_t alignment, size_t bytes) {
  return is_large(bytes) && is_aligned_enough(alignment) ? allocate_in_pool(bytes, Contents::any)
                                                         : nullptr;
}

bool is_power_of_two(size_t number) { return number != 0 && (number & (number - 1)) == 0; }

/// A block of the pool that becomes larger or smaller.
void* resize_pooled(void* data, size_t bytes) {
  const int kept = errno;
  void* resized = process_pool.resize(data, bytes);
  errno = kept;
  if (resized != nullptr) return resized;
  resized = malloc(bytes);
  if (resized == nullptr) return nullptr;
  memcpy(resized, data, std::min(bytes, process_pool.usable_bytes(data)));
  release_in_pool(data);
  return resized;
}

void* resize_early(void* data, size_t bytes) {
  void* resized = malloc(bytes);
  if (resized != nullptr) memcpy(resized, data, std::min(bytes, early_bytes(data)));
  return resized;
}

}  // namespace
}  // namespace fleet::preload

using namespace fleet::preload;

#define FLEET_EXPORTED extern "C" [[gnu::visibility("default")]]

FLEET_EXPORTED void* malloc(size_t bytes) noexcept {
  if (is_large(bytes)) [[unlikely]]
    if (void* data = allocate_in_pool(bytes, Contents::any)) return data;
  const auto function = real(behind.malloc);
  return function != nullptr ? function(bytes) : early_allocate(bytes);
}

FLEET_EXPORTED void* calloc(size_t count, size_t each) noexcept {
  size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(count, each, &bytes);
  if (!overflows && is_large(bytes)) [[unlikely]]
    if (void* data = allocate_in_pool(bytes, Contents::zero)) return data;
  const auto function = real(behind.calloc);
  if (function != nullptr) return function(count, each);
  return overflows ? nullptr : early_allocate(bytes);
}

FLEET_EXPORTED void free(void* data) noexcept {
  if (process_pool.owns(data)) [[unlikely]]
    return release_in_pool(data);
  if (is_early(data)) [[unlikely]]
    return;
  if (const auto function = real(behind.free)) function(data);
}

FLEET_EXPORTED void* realloc(void* data, size_t bytes) noexcept {
  if (data == nullptr) return malloc(bytes);
  if (process_pool.owns(data)) [[unlikely]] {
    if (bytes > 0) return resize_pooled(data, bytes);
    release_in_pool(data);
    return nullptr;
  }
  if (is_early(data)) [[unlikely]]
    return resize_early(data, bytes);
  const auto function = real(behind.realloc);
  const auto usable = real(behind.malloc_usable_size);
  if (function == nullptr) return nullptr;
  // A block that is large already, and not the pool's, grows best where it is.
  if (is_large(bytes) && usable != nullptr && !is_large(usable(data))) [[unlikely]] {
    if (void* grown = allocate_in_pool(bytes, Contents::any)) {
      memcpy(grown, data, usable(data));
      real(behind.free)(data);
      return grown;
    }
  }
  return function(data, bytes);
}

FLEET_EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (void* data = is_power_of_two(alignment) ? pool_aligned(alignment, bytes) : nullptr)
    return data;
  const auto function = real(behind.aligned_alloc);
  return function != nullptr ? function(alignment, bytes) : nullptr;
}

FLEET_EXPORTED int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  const bool is_legal = is_power_of_two(alignment) && alignment % sizeof(void*) == 0;
  if (void* data = is_legal ? pool_aligned(alignment, bytes) : nullptr) {
    *result = data;
    return 0;
  }
  const auto function = real(behind.posix_memalign);
  return function != nullptr ? function(result, alignment, bytes) : ENOMEM;
}

FLEET_EXPORTED void* memalign(size_t alignment, size_t bytes) noexcept {
  if (void* data = pool_aligned(alignment, bytes)) return data;
  const auto function = real(behind.memalign);
  return function != nullptr ? function(alignment, bytes) : nullptr;
}

FLEET_EXPORTED void* valloc(size_t bytes) noexcept {
  if (void* data = pool_aligned(1, bytes)) return data;
  const auto function = real(behind.valloc);
  return function != nullptr ? function(bytes) : nullptr;
}

FLEET_EXPORTED void* pvalloc(size_t bytes) noexcept {
  if (void* data = pool_aligned(1, bytes)) return data;
  const auto function = real(behind.pvalloc);
  return function != nullptr ? function(bytes) : nullptr;
}

FLEET_EXPORTED size_t malloc_usable_size(void* data) noexcept {
  if (process_pool.owns(data)) [[unlikely]]
    return process_pool.usable_bytes(data);
  if (is_early(data)) [[unlikely]]
    return early_bytes(data);
  const auto function = real(behind.malloc_usable_size);
  return function != nullptr ? function(data) : 0;
}

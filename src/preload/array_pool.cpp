// SPDX-License-Identifier: BSD-3-Clause
// array_pool.cpp: the functions of a handler for the memory of NumPy's arrays (NEP 49): large
// arrays come from the pool, all else from the handler that was there before. They stay when the
// handler is set no longer, since arrays keep it. It needs neither NumPy nor Python.
#include <string.h>

#include <algorithm>

#include "preload/process_pool.hpp"

namespace {

using fleet::pool::Blocks;
using fleet::preload::process_pool;

/// NumPy's PyDataMemAllocator, of which `context` is the first argument of each function.
struct ArrayAllocator {
  void* context;
  void* (*malloc)(void* context, size_t bytes);
  void* (*calloc)(void* context, size_t count, size_t each);
  void* (*realloc)(void* context, void* data, size_t bytes);
  void (*free)(void* context, void* data, size_t bytes);
};

/// The one before ours is our context.
const ArrayAllocator& before(void* context) { return *static_cast<ArrayAllocator*>(context); }

void* pooled(size_t bytes, Blocks::Contents contents) {
  return bytes >= fleet::pool::kLeastBlockBytes ? fleet::preload::allocate_in_pool(bytes, contents)
                                                : nullptr;
}

}  // namespace

#define FLEET_EXPORTED extern "C" [[gnu::visibility("default")]]

FLEET_EXPORTED void* fleetblas_array_malloc(void* context, size_t bytes) {
  void* data = pooled(bytes, Blocks::Contents::any);
  return data != nullptr ? data : before(context).malloc(before(context).context, bytes);
}

FLEET_EXPORTED void* fleetblas_array_calloc(void* context, size_t count, size_t each) {
  size_t bytes = 0;
  void* data =
      __builtin_mul_overflow(count, each, &bytes) ? nullptr : pooled(bytes, Blocks::Contents::zero);
  return data != nullptr ? data : before(context).calloc(before(context).context, count, each);
}

FLEET_EXPORTED void* fleetblas_array_realloc(void* context, void* data, size_t bytes) {
  if (!process_pool.owns(data))
    return before(context).realloc(before(context).context, data, bytes);
  if (void* resized = process_pool.resize(data, bytes)) return resized;
  void* fresh = fleetblas_array_malloc(context, bytes);
  if (fresh == nullptr) return nullptr;
  memcpy(fresh, data, std::min(bytes, process_pool.usable_bytes(data)));
  fleet::preload::release_in_pool(data);
  return fresh;
}

FLEET_EXPORTED void fleetblas_array_free(void* context, void* data, size_t bytes) {
  if (process_pool.owns(data)) return fleet::preload::release_in_pool(data);
  before(context).free(before(context).context, data, bytes);
}

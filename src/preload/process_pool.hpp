// SPDX-License-Identifier: BSD-3-Clause
// process_pool.hpp: the one pool of a process, as the preload library has it: made when the first
// large block is asked for, and never destroyed. It knows no device.
#pragma once
#include <cstddef>

#include "pool/blocks.hpp"

namespace fleet::preload {

/// Constant before the first call, since malloc comes before constructors, and without destructor,
/// since free comes after those.
extern constinit pool::Blocks process_pool;

/// A block of the pool; nullptr where malloc has to give it. Leaves errno as it is.
void* allocate_in_pool(std::size_t bytes, pool::Blocks::Contents contents);

/// Frees a block of the pool. Leaves errno as it is.
void release_in_pool(void* block);

}  // namespace fleet::preload

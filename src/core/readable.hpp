// SPDX-License-Identifier: BSD-3-Clause
// readable.hpp: can the CPU reach this memory at all? It knows no context and no device.
#pragma once
#include <cstdint>

namespace fleet {

/// Throws Error(unsupported) unless the CPU can read the first and the last of `bytes`. Use it
/// where no backend can be asked: the kernel is asked instead, so that memory of a GPU, or memory
/// that a forked child did not inherit, causes no fault.
void require_readable(const void* data, std::int64_t bytes);

}  // namespace fleet

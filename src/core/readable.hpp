// SPDX-License-Identifier: BSD-3-Clause
// readable.hpp: can the CPU reach this memory at all? It knows no context and no device.
#pragma once
#include <cstdint>

namespace fleet {

/// Throws Error(unsupported) unless the CPU can read the first and the last of `bytes`. For when no
/// backend can be asked. The kernel is: memory of a GPU, and what a forked child has not inherited,
/// is found out without a fault.
void require_readable(const void* data, std::int64_t bytes);

}  // namespace fleet

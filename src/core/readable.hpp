// SPDX-License-Identifier: BSD-3-Clause
// readable.hpp: can the CPU reach this memory at all? It knows no context and no device.
#pragma once
#include <cstdint>
#include <string_view>

namespace fleet {

/// Whether the CPU can read the first and the last of `bytes`. Costs two system calls that do
/// nothing.
bool is_readable(const void* data, std::int64_t bytes);

/// Throws Error(unsupported), which says `why` no device is asked, unless is_readable(). Use it
/// where no backend can be asked: the kernel is asked instead, so that memory of a GPU, or memory
/// that a forked child did not inherit, causes no fault.
void require_readable(const void* data, std::int64_t bytes,
                      std::string_view why = "no device works in a forked child or at exit");

}  // namespace fleet

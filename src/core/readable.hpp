// SPDX-License-Identifier: BSD-3-Clause
// readable.hpp: can the CPU reach this memory at all? It knows no context and no device.
#pragma once
#include <cstdint>
#include <string_view>

namespace fleet {

/// Whether the system reads this byte for us, in about a microsecond. It reads none of a GPU's
/// memory, of a driver's, of nobody's and of what a handler of the program provides: the CPU may
/// reach those all the same. Checkers of memory do not mind the question.
bool system_can_read(const void* data);

/// Throws Error(unsupported), which says `why` no device is asked, unless the CPU can read the
/// first and the last of `bytes`. Use it where no backend can be asked: the kernel is asked
/// instead, so that memory of a GPU, or memory that a forked child did not inherit, causes no
/// fault.
void require_readable(const void* data, std::int64_t bytes,
                      std::string_view why = "no device works in a forked child or at exit");

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// pages.hpp: address space that is reserved once, and memory in it: huge pages, spread over the
// NUMA nodes, that many threads touch. It knows no blocks. It calls the system and nothing that
// allocates, but where it starts threads.
#pragma once
#include <cstddef>

namespace fleet::pool {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Addresses that nobody else is given, without memory; nullptr where the system refuses. The start
/// is a multiple of `alignment`.
char* reserve(std::size_t bytes, std::size_t alignment);

/// Gives reserved addresses memory, which is zero and is taken from the system page by page as it
/// is touched. False: the system refuses.
bool map_memory(char* data, std::size_t bytes);
/// The addresses are reserved again, and their memory is the system's.
void unmap_memory(char* data, std::size_t bytes);
/// Moves mapped memory to reserved addresses, without a copy. False, with nothing changed: the
/// system cannot.
bool move_memory(char* from, char* to, std::size_t bytes);

/// Children of a fork get none of it, or get it again.
void hide_from_children(char* data, std::size_t bytes);
void show_to_children(char* data, std::size_t bytes);

/// Gives every page memory without a change of what it holds, whoever else writes there.
void touch(char* data, std::size_t bytes);
/// Writes zeros.
void clear(char* data, std::size_t bytes);

}  // namespace fleet::pool

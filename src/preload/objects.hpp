// SPDX-License-Identifier: BSD-3-Clause
// objects.hpp: the libraries that are loaded in this process, as far as the dynamic linker tells.
// It knows nothing of BLAS.
#pragma once
#include <cstddef>

namespace fleet::preload {

inline constexpr std::size_t kPathBytes = 8192;  ///< two PATH_MAX: a folder and a file

/// `name`, as seen from the folder that really holds this library: links are followed, and the
/// working directory by now does not matter.
bool file_beside_us(const char* name, char (&path)[kPathBytes]);

/// True when the address lies in this library.
bool is_ours(const void* address);

/// The library that holds an address, by a handle that keeps it loaded; nullptr for an address in
/// the main program or in none.
void* library_of(const void* address);

/// The start of the loaded object that holds an address, or nullptr.
const void* base_of(const void* address);

/// The first symbol called `name` that is not ours, in a library or what it needs; else nullptr.
void* find_in(void* library, const char* name);

/// True for a symbol that look-ups of `name` meet before ours, such as that of a profiler which is
/// preloaded in front of us: it goes on to the next one, so a call handed to it would come back.
bool is_in_front(const void* symbol, const char* name);

/// find_in, but nothing that is in front of us.
void* find_behind(void* library, const char* name);

/// Asks `find` about every loaded library but this one, in load order, until it answers. The
/// library of the answer stays loaded for ever.
void* search_objects(void* (*find)(void* library, void* request), void* request);

/// The first symbol called `name` that is neither ours nor in front of us in any loaded library,
/// local ones included.
void* find_anywhere(const char* name);

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// front.hpp: differences between the two libraries in front of a BLAS, the preload library
// (front.cpp) and libblas.so.3 (src/libblas). It knows nothing of calls.
#pragma once

namespace fleet::preload {

struct Served;

/// The core's file, as seen from the folder of this library.
extern const char* const kCoreFile;

/// The function of that name in the BLAS that this library has chosen for itself; nullptr where it
/// chooses none, or the chosen one has no such name.
void* find_chosen(const char* name);

/// The row of a name of LAPACK; nullptr where this library does not serve it.
Served* find_lapack(const char* name);

/// Forgets where patched GOT entries of LAPACK's names led.
void forget_patched_lapack();

/// True if another library of ours gets all calls first and has offered them already.
bool stands_behind_another();

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// forward.hpp: the names of libblas.so.3 that lead to the BLAS behind, and what to do where that
// lacks one. It knows nothing of devices.
#pragma once

namespace fleet::libblas {

/// Where calls of one name go: a row that forward.S makes for each, read by its jump.
struct Forwarded {
  void* target;  ///< until the first call of the name, the code that asks fleet_resolve
  const char* name;
};

/// Our own function of that name, for the few that many a BLAS lacks; else nullptr.
void* own_function(const char* name);

/// As the reference BLAS spells it; `name` need not end in a zero.
using Xerbla = void(const char* name, const int* position, unsigned long name_length);

/// The program's xerbla_ if it brings one, else that of this library.
Xerbla& program_xerbla();

}  // namespace fleet::libblas

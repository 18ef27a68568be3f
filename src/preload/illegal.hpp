// SPDX-License-Identifier: BSD-3-Clause
// illegal.hpp: which argument the reference BLAS would refuse, and who is told. It knows nothing of
// devices.
#pragma once
#include <cstdint>

#include "preload/names.hpp"

namespace fleet::preload {

/// The fault of an illegal call.
struct Illegal {
  int fortran_position = 0;  ///< in the column-major call; 0 where that call could not be made
  int cblas_position = 0;    ///< as the reference CBLAS says it: of the column-major call, plus one
  int written_position = 0;  ///< in the CBLAS call as the program wrote it
  bool row_major = false;
  const char* form = "";  ///< printf's format of the reference's message, for `value`
  int value = 0;
};

/// Calls the program's own error handler. False if it has none: the BLAS behind then reports the
/// error.
bool tell_program(SymbolId id, const Illegal& illegal);

/// The same for a Fortran routine of any name ("dgetrf"), by its family's error handler.
bool tell_program(const char* xerbla, const char* routine, int position);

/// The reference's message on stderr, if there is no BLAS behind either.
void print_illegal(SymbolId id, const Illegal& illegal);
void print_illegal(const char* routine, int position);
/// That a call has no result, on stderr: nothing here can do it.
void print_not_done(const char* symbol);

}  // namespace fleet::preload

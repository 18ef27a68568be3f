// SPDX-License-Identifier: BSD-3-Clause
// illegal.hpp: which argument the reference BLAS would refuse, and who is told. It knows nothing of
// devices.
#pragma once
#include <cstdint>

#include "preload/names.hpp"

namespace fleet::preload {

/// A flag as 'n', 't' or 'c', else 0. Lower case is as good as upper case.
inline char fortran_flag(char flag) {
  const char lower = static_cast<char>(flag | 0x20);
  return lower == 'n' || lower == 't' || lower == 'c' ? lower : '\0';
}

/// The position of the first illegal argument of the column-major xGEMM, numbered as the reference
/// BLAS does; 0 when all are legal.
template <class Int>
int first_illegal(char transa, char transb, Int m, Int n, Int k, Int lda, Int ldb, Int ldc) {
  const auto at_least_1 = [](Int x) { return x > 1 ? x : Int(1); };
  if (!transa) return 1;
  if (!transb) return 2;
  if (m < 0) return 3;
  if (n < 0) return 4;
  if (k < 0) return 5;
  if (lda < at_least_1(transa == 'n' ? m : k)) return 8;
  if (ldb < at_least_1(transb == 'n' ? k : n)) return 10;
  return ldc < at_least_1(m) ? 13 : 0;
}

/// What is wrong with a call.
struct Illegal {
  int fortran_position = 0;  ///< in the column-major call; 0 where that call could not be made
  int cblas_position = 0;    ///< as the reference CBLAS says it: of the column-major call, plus one
  bool row_major = false;
  const char* form = "";  ///< printf's format of the reference's message, for `value`
  int value = 0;
};

/// Tells the program's own error handler. False when it has none: then the BLAS behind says it in
/// its own way.
bool tell_program(SymbolId id, const Illegal& illegal);

/// The reference's message on stderr, for when there is no BLAS behind either.
void print_illegal(SymbolId id, const Illegal& illegal);

}  // namespace fleet::preload

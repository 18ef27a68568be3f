// SPDX-License-Identifier: BSD-3-Clause
// illegal.cpp: finds the error handlers that a program brought along, at the time of the error. It
// must not call the handler of a BLAS library: that one answers for its own calls only, and the
// reference CBLAS's ends the process.
#include "preload/illegal.hpp"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "preload/behind.hpp"
#include "preload/objects.hpp"

namespace fleet::preload {
namespace {

using Xerbla = void(const char* name, const std::int64_t* position, std::size_t name_length);
using CblasXerbla = void(std::int64_t position, const char* name, const char* form, ...);

// As the reference spells it: upper case, six characters at least, the last ones blank.
struct FortranName {
  char text[8] = "      ";
  int letters = 0;
};

FortranName fortran_name(const char* routine) {
  FortranName name;
  for (const char* letter = routine; *letter; ++letter)
    name.text[name.letters++] = static_cast<char>(toupper(*letter));
  return name;
}

struct CblasName {
  char text[16];
  const char* routine() const { return text + sizeof "cblas_" - 1; }
};

CblasName cblas_name(SymbolId id) {
  CblasName name;
  snprintf(name.text, sizeof name.text, "cblas_%c%s", symbols[id].type, symbols[id].word);
  return name;
}

bool in_blas_library(const void* handler) {
  const void* base = base_of(handler);
  void* library = library_of(handler);
  if (!library) return false;
  const void* getrf = find_in(library, "dgetrf_");  // the reference LAPACK has one too
  bool found = getrf && base_of(getrf) == base;
  for (int row = 0; row < kSymbolCount && !found; ++row) {
    const bool dgemm = symbols[row].type == 'd' && symbols[row].routine == fleet_dropin_gemm;
    const void* gemm = dgemm ? find_in(library, symbols[row].name) : nullptr;
    found = gemm && base_of(gemm) == base;
  }
  dlclose(library);
  return found;
}

// A handler of the program's own, by the name of the caller's family of names or the plain one.
template <class Handler>
Handler* own_handler(const char* family_name, const char* plain_name) {
  for (const char* name : {family_name, plain_name}) {
    void* handler = find_in(RTLD_DEFAULT, name);
    if (handler && !in_blas_library(handler)) return reinterpret_cast<Handler*>(handler);
  }
  return nullptr;
}

// Handlers written for the reference CBLAS turn positions of row-major calls round themselves, as
// told by variables of that library. Where the variables do not exist, they cannot.
class ReferenceFlags {
 public:
  explicit ReferenceFlags(const Illegal& illegal)
      : row_major_(find("RowMajorStrg")), from_c_(find("CBLAS_CallFromC")) {
    if (row_major_) *row_major_ = illegal.row_major;
    if (from_c_) *from_c_ = 1;
  }
  ~ReferenceFlags() {
    if (row_major_) *row_major_ = 0;
    if (from_c_) *from_c_ = 0;
  }
  ReferenceFlags(const ReferenceFlags&) = delete;
  ReferenceFlags& operator=(const ReferenceFlags&) = delete;
  bool handler_turns_positions() const { return row_major_ != nullptr; }

 private:
  static int* find(const char* name) { return static_cast<int*>(find_in(RTLD_DEFAULT, name)); }
  int* row_major_;
  int* from_c_;
};

void call_fortran_handler(Xerbla* handler, const FortranName& name, std::int64_t position) {
  // 64 bits serve both widths: the low half comes first on every machine we build for.
  handler(name.text, &position, strlen(name.text));
}

void call_cblas_handler(CblasXerbla* handler, SymbolId id, const Illegal& illegal) {
  const ReferenceFlags flags(illegal);
  const int position =
      flags.handler_turns_positions() ? illegal.cblas_position : illegal.written_position;
  handler(position, cblas_name(id).text, illegal.form, illegal.value);
}

}  // namespace

bool tell_program(SymbolId id, const Illegal& illegal) {
  const Symbol& symbol = symbols[id];
  // The reference CBLAS judges its flags itself and leaves the sizes to the Fortran routine.
  if (illegal.fortran_position)
    if (auto* handler = own_handler<Xerbla>(symbol.xerbla, "xerbla_")) {
      const FortranName name = fortran_name(cblas_name(id).routine());
      if (symbol.shape == Shape::fortran)
        return call_fortran_handler(handler, name, illegal.fortran_position), true;
      const ReferenceFlags flags(illegal);
      return call_fortran_handler(handler, name, illegal.fortran_position), true;
    }
  if (symbol.shape == Shape::fortran) return false;
  auto* handler = own_handler<CblasXerbla>(symbol.cblas_xerbla, "cblas_xerbla");
  return handler && (call_cblas_handler(handler, id, illegal), true);
}

bool tell_program(const char* xerbla, const char* routine, int position) {
  auto* handler = own_handler<Xerbla>(xerbla, "xerbla_");
  return handler && (call_fortran_handler(handler, fortran_name(routine), position), true);
}

void print_illegal(const char* routine, int position) {
  const FortranName name = fortran_name(routine);
  fprintf(stderr, " ** On entry to %.*s parameter number %2d had an illegal value\n", name.letters,
          name.text, position);
}

void print_not_done(const char* symbol) {
  fprintf(stderr, "fleetblas: %s: there is no LAPACK, and the core could not do the call\n",
          symbol);
}

void print_illegal(SymbolId id, const Illegal& illegal) {
  if (symbols[id].shape == Shape::fortran)
    return print_illegal(cblas_name(id).routine(), illegal.fortran_position);
  fprintf(stderr, "Parameter %d to routine %s was incorrect\n", illegal.written_position,
          cblas_name(id).text);
  fprintf(stderr, illegal.form, illegal.value);
}

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// own.cpp: the names of the reference's libblas.so.3 that other libraries lack: its error handlers
// and the parts of its C interface. It must not know where other names lead.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libblas/forward.hpp"
#include "preload/elements.hpp"

#define FLEET_EXPORT extern "C" [[gnu::visibility("default")]]

// Flags between the reference CBLAS and error handlers that were written for it.
FLEET_EXPORT int CBLAS_CallFromC;
FLEET_EXPORT int RowMajorStrg;
int CBLAS_CallFromC = 0;
int RowMajorStrg = 0;

namespace fleet::libblas {
namespace {

using preload::ComplexDouble;
using preload::ComplexFloat;

// Names that the program or forward.S has.
extern "C" Xerbla xerbla_;

// Unlike the reference's it does not end the program: a library that is put under a program later
// should not be what ends it.
void own_xerbla(const char* name, const int* position, unsigned long name_length) {
  int length = static_cast<int>(strnlen(name, name_length));
  while (length > 0 && name[length - 1] == ' ') --length;
  fprintf(stderr, " ** On entry to %.*s parameter number %2d had an illegal value\n", length, name,
          *position);
}

// From one array of characters per letter, as C programs have them.
void own_xerbla_array(const char* name, const int* name_length, const int* position,
                      unsigned long) {
  xerbla_(name, position, static_cast<unsigned long>(*name_length));
}

void own_cblas_xerbla(int position, const char* name, const char* form, ...) {
  va_list values;
  va_start(values, form);
  if (position) fprintf(stderr, "Parameter %d to routine %s was incorrect\n", position, name);
  vfprintf(stderr, form, values);
  va_end(values);
}

float own_scabs1(const ComplexFloat* z) { return fabsf(z->re) + fabsf(z->im); }
double own_dcabs1(const ComplexDouble* z) { return fabs(z->re) + fabs(z->im); }

// The reference's C interface calls functions through subroutines that store the result.
#define FLEET_ONE_ARRAY(name, Value)                                           \
  extern "C" Value name##_(const int*, const void*, const int*);               \
  void name##sub(const int* n, const void* x, const int* incx, Value* value) { \
    *value = name##_(n, x, incx);                                              \
  }
#define FLEET_TWO_ARRAYS(name, Value)                                                          \
  extern "C" Value name##_(const int*, const void*, const int*, const void*, const int*);      \
  void name##sub(const int* n, const void* x, const int* incx, const void* y, const int* incy, \
                 Value* value) {                                                               \
    *value = name##_(n, x, incx, y, incy);                                                     \
  }
// clang-format off
#define FLEET_ONE_ARRAY_NAMES(X) \
  X(sasum, float) X(dasum, double) X(scasum, float) X(dzasum, double) \
  X(snrm2, float) X(dnrm2, double) X(scnrm2, float) X(dznrm2, double) \
  X(isamax, int) X(idamax, int) X(icamax, int) X(izamax, int)
#define FLEET_TWO_ARRAYS_NAMES(X) \
  X(sdot, float) X(ddot, double) X(dsdot, double) X(cdotu, ComplexFloat) \
  X(cdotc, ComplexFloat) X(zdotu, ComplexDouble) X(zdotc, ComplexDouble)
// clang-format on
FLEET_ONE_ARRAY_NAMES(FLEET_ONE_ARRAY)
FLEET_TWO_ARRAYS_NAMES(FLEET_TWO_ARRAYS)

extern "C" float sdsdot_(const int*, const float*, const void*, const int*, const void*,
                         const int*);
void sdsdotsub(const int* n, const float* start, const void* x, const int* incx, const void* y,
               const int* incy, float* value) {
  *value = sdsdot_(n, start, x, incx, y, incy);
}
void scabs1sub(const ComplexFloat* z, float* value) { *value = own_scabs1(z); }
void dcabs1sub(const ComplexDouble* z, double* value) { *value = own_dcabs1(z); }

struct Named {
  const char* name;
  void (*function)();
};
template <class Function>
Named named(const char* name, Function* function) {
  return {name, reinterpret_cast<void (*)()>(function)};
}

}  // namespace

Xerbla& program_xerbla() { return xerbla_; }

void* own_function(const char* name) {
#define FLEET_SUB(name, Value) named(#name "sub_", &name##sub),
  const Named all[] = {FLEET_ONE_ARRAY_NAMES(FLEET_SUB) FLEET_TWO_ARRAYS_NAMES(FLEET_SUB)
                           named("sdsdotsub_", &sdsdotsub),
                       named("scabs1sub_", &scabs1sub),
                       named("dcabs1sub_", &dcabs1sub),
                       named("cblas_scabs1", &own_scabs1),
                       named("cblas_dcabs1", &own_dcabs1),
                       named("cblas_xerbla", &own_cblas_xerbla),
                       named("xerbla_array_", &own_xerbla_array),
                       named("xerbla_", &own_xerbla)};
  for (const Named& own : all)
    if (strcmp(own.name, name) == 0) return reinterpret_cast<void*>(own.function);
  return nullptr;
}

}  // namespace fleet::libblas

// SPDX-License-Identifier: BSD-3-Clause
// fortran.cpp: the functions with Fortran names. It knows nothing but their parameters.
#include "preload/entries.hpp"

namespace fleet::preload {

#define FLEET_DEFINE_fortran(name, routine)                                                   \
  FLEET_DEFINE_ENTRY(name, (FLEET_ARGUMENTS_##routine(FLEET_PARAMETER, k_##name)), kColMajor, \
                     FLEET_ARGUMENTS_##routine(FLEET_VALUE, k_##name))
#define FLEET_DEFINE_cblas(name, routine)
#define FLEET_DEFINE(name, word, routine, T, shape, ...) FLEET_DEFINE_##shape(name, routine)
FLEET_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload

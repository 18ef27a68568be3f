// SPDX-License-Identifier: BSD-3-Clause
// cblas.cpp: the functions with CBLAS names, of both layouts. It knows nothing but their
// parameters.
#include "preload/entries.hpp"

namespace fleet::preload {

#define FLEET_DEFINE_cblas(name, routine)                                                      \
  FLEET_DEFINE_ENTRY(name, (int layout, FLEET_ARGUMENTS_##routine(FLEET_PARAMETER, k_##name)), \
                     layout, FLEET_ARGUMENTS_##routine(FLEET_VALUE, k_##name))
#define FLEET_DEFINE_fortran(name, routine)
#define FLEET_DEFINE(name, word, routine, T, shape, ...) FLEET_DEFINE_##shape(name, routine)
FLEET_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload

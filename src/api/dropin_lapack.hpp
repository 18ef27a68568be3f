// SPDX-License-Identifier: BSD-3-Clause
// dropin_lapack.hpp: the functions of fleet_dropin_core that are about LAPACK. It knows no symbol
// names.
#pragma once
#include <cstdint>

#include "api/dropin.h"

namespace fleet::capi {

int offer_lapack(const fleet_dropin_lapack_call* call, std::int64_t* info);
int compute_lapack(const fleet_dropin_lapack_call* call, std::int64_t* info);
void note_host_lapack(const fleet_dropin_lapack_call* call, double seconds);
std::int64_t block_size(char type, std::int64_t m, std::int64_t n, std::int64_t above,
                        std::int64_t most);

}  // namespace fleet::capi

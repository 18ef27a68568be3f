// SPDX-License-Identifier: BSD-3-Clause
// guarded_blas.hpp: a CPU BLAS whose products a fork waits for. It knows no context.
#pragma once
#include <memory>

#include "cpu/blas.hpp"

namespace fleet {

/// `blas` with a Pass around each product. Long products are cut into panels of columns, so that
/// neither a fork nor the end of the process waits long for one.
std::shared_ptr<CpuBlas> guarded(std::shared_ptr<CpuBlas> blas);

}  // namespace fleet

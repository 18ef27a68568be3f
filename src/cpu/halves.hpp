// SPDX-License-Identifier: BSD-3-Clause
// halves.hpp: floats as pairs of halves, whose products are nearly those of the floats: where they
// lie in a panel, and what updates do with them on the CPU, as GPUs do it. It must not know plans.
#pragma once
#include "cpu/blas.hpp"

namespace fleet {

/// What is below a panel's square, side by side: matrices of halves with as many rows and columns.
struct HalvesOfPanel {
  View first = {}, second = {};
};
/// `tile`: all of the panel's.
HalvesOfPanel halves_of(const Panel& panel, const View& tile);

/// Makes the halves of the panel launch.c of its floats.
void split_panel(const Launch& launch);

/// product.c -= A*product.b, with the panel launch.a below its square as A, which product.a is, by
/// three products of halves. launch.alpha: see kScaleOfHalves. Throws std::bad_alloc.
void multiply_halves(const Launch& launch, const Launch& product, CpuBlas& blas);

}  // namespace fleet

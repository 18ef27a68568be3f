// SPDX-License-Identifier: BSD-3-Clause
// gemm_pieces.hpp: one product as several smaller ones. It must not know who computes them.
#pragma once
#include <functional>

#include "run/launch.hpp"

namespace fleet {

/// The k of a product.
inline std::int64_t depth_of(const Launch& launch) {
  return launch.op_a == Op::none ? launch.a.cols : launch.a.rows;
}

/// Calls `work` with products of at most `edge` in m and n and `depth` in k that make up `launch`
/// (k > 0) when done in the order given: the first one of each part of C carries beta, later
/// ones 1.
void for_each_piece(const Launch& launch, std::int64_t edge, std::int64_t depth,
                    const std::function<void(const Launch&)>& work);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// panels.hpp: the kernels of factorizations (program/panel.hpp), on the CPU; and the steps of which
// an update is made, for whoever computes them. It must not know plans.
#pragma once
#include <functional>

#include "cpu/blas.hpp"

namespace fleet {

/// Does one of the kernels from Kernel::update on, whose operands are in host memory.
void run_factoring(const Launch& launch, CpuBlas& blas);

/// Who does the steps of an update.
struct UpdateSteps {
  std::function<void(const Launch&)> multiply;
  /// c = the solution of L*x = c, with the unit lower triangle at the head of the panel.
  std::function<void(const View& panel, const View& c)> solve;
  /// The rows of c, as the panel's notes say, in the order of its columns.
  std::function<void(const View& panel, const View& c)> exchange;
  /// Memory for a result in between, of the elements' type; two at a time.
  std::function<View(int which, std::int64_t rows, std::int64_t cols)> scratch;
};

/// The strip launch.c by the panel launch.a:
///   potrf   c -= P*P_j^H, where P_j are the rows of the panel that meet the strip's diagonal
///   getrf   rows are exchanged; the rows beside the panel's square are solved with its L, and the
///           others updated by their product with the rest of the panel
///   geqrf   c = (1 - V*T^H*V^H)*c
void update(const Launch& launch, const UpdateSteps& steps);

/// The part of the panel's tile that begins at `along` on its long side and is `size` long.
View part_of_panel(const Launch& launch, const View& tile, std::int64_t along, std::int64_t size,
                   Fill fill = Fill::full);

}  // namespace fleet

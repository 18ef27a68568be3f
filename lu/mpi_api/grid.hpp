// SPDX-License-Identifier: BSD-3-Clause
// grid.hpp: what a fleet_mpi_grid is, and how a call on it goes. It knows no routine.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>

#include "dist/grid.hpp"
#include "fleetblas/mpi.h"
#include "routines/described.hpp"
#include "work/workshop.hpp"

struct fleet_mpi_grid {
  std::unique_ptr<fleet::lu::Comm> given, ordered;  ///< as MPI numbers the ranks; along rows
  std::optional<fleet::lu::Grid> grid;
  std::optional<fleet::lu::Workshop> workshop;
  fleet::lu::Overlap overlap = fleet::lu::Overlap::full;
  bool has_failed = false;
};

namespace fleet::lu {

/// Runs a call on all ranks. `prepare` looks at the arguments, throws Refusal, and returns what is
/// to be done: that happens only where no rank has refused. `same` are arguments that all ranks
/// have to agree on.
fleet_status call(fleet_mpi_grid* grid, const char* name, std::initializer_list<double> same,
                  const std::function<std::function<void()>()>& prepare);

/// Keeps the reason for fleet_mpi_message().
fleet_status ended(fleet_status status, const std::string& why);

}  // namespace fleet::lu

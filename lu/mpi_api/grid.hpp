// SPDX-License-Identifier: BSD-3-Clause
// grid.hpp: what a fleet_mpi_grid is, and how a call on it goes. It knows no routine.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>

#include "dist/grid.hpp"
#include "fleetblas/mpi.h"
#include "on_device/own_device.hpp"
#include "routines/described.hpp"
#include "work/workshop.hpp"

struct fleet_mpi_grid {
  std::unique_ptr<fleet::lu::Comm> given, ordered;  ///< as MPI numbers the ranks; along rows
  std::optional<fleet::lu::Grid> grid;
  std::optional<fleet::lu::Workshop> workshop;
  std::optional<fleet::lu::OwnDevice> device;
  fleet::lu::Overlap overlap = fleet::lu::Overlap::full;
  bool has_failed = false;
};

namespace fleet::lu {

/// What is to be done by a call that no rank has refused.
struct Steps {
  std::function<void()> run;
  /// Before it, and before anything is touched, by all ranks together: takes the memory that the
  /// call needs. Where it throws, all ranks refuse with FLEET_NO_MEMORY.
  std::function<void()> make_room = {};
};

/// A word of what all ranks have to agree on, exactly.
template <typename Number>
std::uint64_t word(Number value) {
  if constexpr (std::is_floating_point_v<Number>)
    return std::bit_cast<std::uint64_t>(value);
  else
    return static_cast<std::uint64_t>(value);
}
/// Of a descriptor: all its numbers but the context and the leading dimension.
std::uint64_t word(const int* descriptor);

/// Runs a call on all ranks. `prepare` looks at the arguments, without messages, and throws Refusal
/// where they are of no use: nothing is done then on any rank. `same` are arguments that all ranks
/// have to agree on. Nothing is thrown: the program may be a C one.
fleet_status call_prepared(fleet_mpi_grid* grid, const char* name,
                           std::initializer_list<std::uint64_t> same,
                           const std::function<Steps()>& prepare) noexcept;
/// The same. A reference to a function needs no memory.
template <typename Prepare>
fleet_status call(fleet_mpi_grid* grid, const char* name, std::initializer_list<std::uint64_t> same,
                  const Prepare& prepare) noexcept {
  return call_prepared(grid, name, same, std::cref(prepare));
}

/// Keeps the reason for fleet_mpi_message(): "name: why".
fleet_status ended(fleet_status status, const char* name = "", const char* why = "") noexcept;

}  // namespace fleet::lu

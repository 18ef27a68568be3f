// SPDX-License-Identifier: BSD-3-Clause
// backend.hpp: a Backend that moves no data and takes no time: runs are simulated.
#pragma once
#include <memory>

#include "run/backend.hpp"

namespace fleet {

/// Times runs by simulate() on `machine`. Addresses that it hands out are distinct and not null,
/// but must not be read or written. Memory is counted: arenas and allocations of a location
/// together never exceed what the machine has there (a device with 0 memory_bytes has no limit).
std::unique_ptr<Backend> make_sim_backend(const Machine& machine);

}  // namespace fleet

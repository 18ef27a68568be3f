// SPDX-License-Identifier: BSD-3-Clause
// tracked.hpp: tracked matrices of a test of the C API on virtual devices, and the bytes that calls
// on them have moved. It knows the public header only.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "fleetblas/fleetblas.hpp"
#include "support/host_context.hpp"

namespace fleet::test {

/// Small tiles, and NaN in all memory that was not written. `more`: further options, each after a
/// semicolon.
inline std::string small_tiles(int devices, const std::string& more = "") {
  return host_options(devices) + ";inject=poison;tile=16" + more;
}

struct DestroyHandle {
  void operator()(fleet_matrix* matrix) const { fleet_matrix_destroy(matrix); }
  void operator()(fleet_event* event) const { fleet_event_destroy(event); }
};
using MatrixHandle = std::unique_ptr<fleet_matrix, DestroyHandle>;
using EventHandle = std::unique_ptr<fleet_event, DestroyHandle>;

/// Bytes of one kind ("h2d", "d2h", "p2p") since the context was made.
inline std::int64_t moved(const fleetblas::Context& context, const char* kind) {
  return nlohmann::json::parse(context.stats_json())["bytes_by_kind"].value(kind, std::int64_t{0});
}

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// examine.hpp: checks with data that the memory and the links of a backend work. It knows no kind
// of backend.
#pragma once
#include <string>
#include <vector>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"

namespace fleet {

const char* to_string(Finding::Verdict verdict);

/// Writes a pattern to the memory of each place and reads it back, sends one over each link by a
/// tiny plan, and compares them byte by byte. Links much slower than others of their kind (by the
/// rates in `measured`) and pairs of devices without a link are `slow`. A simulated backend moves
/// no data, so its links are only named. A failure of the backend is a finding, never an exception.
std::vector<Finding> examine_links(Backend& backend, const Machine& measured);

/// Findings on the host: CPU BLAS, cores, memory, the limit on locked memory, the folder for
/// measured machines.
std::vector<Finding> examine_host(const Options& options, const CpuBlas& blas);

/// Can this process make files in the folder? Tries it, and leaves nothing behind.
bool can_write_into(const std::string& folder);

}  // namespace fleet

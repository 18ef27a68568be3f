// SPDX-License-Identifier: BSD-3-Clause
// examine.hpp: looks whether what a backend offers does what it should, by data. It knows no kind
// of backend.
#pragma once
#include <vector>

#include "base/options.hpp"
#include "cpu/blas.hpp"
#include "run/backend.hpp"

namespace fleet {

const char* to_string(Finding::Verdict verdict);

/// A pattern written to the memory of each place and read back, and one sent over each link by a
/// tiny plan, compared byte by byte; links much slower than others of their kind, and pairs of
/// devices without a link, are `slow`. Simulated runs move nothing: their links are only named.
/// Never throws for what a backend does not do: that is a finding.
/// `measured` has the rates.
std::vector<Finding> examine_links(Backend& backend, const Machine& measured);

/// The CPU's side of any machine: CPU BLAS, cores, memory, the limit on locked memory, the folder
/// for measured machines.
std::vector<Finding> examine_host(const Options& options, const CpuBlas& blas);

}  // namespace fleet

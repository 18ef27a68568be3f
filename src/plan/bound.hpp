// SPDX-License-Identifier: BSD-3-Clause
// bound.hpp: the least time in which any plan could do a problem on a machine.
#pragma once
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "problem/problem.hpp"
#include "program/tile_program.hpp"

namespace fleet {

struct Bound {
  double seconds = 0;
  std::string limited_by;  ///< "flops", the name of the port that limits, or (vectors) "memory"
};

/// Lower bound of problem and machine, never of a plan: the minimum over f, the share of the
/// arithmetic done where the data is, of the larger of the arithmetic at the best rates and, for
/// every port, the bytes that must cross it whatever the plan, over its capacity. What must leave
/// home follows from Loomis-Whitney: devices that do a share s of the products must see fractions
/// a, b, c of A, B, C with a*b*c >= s*s (half of that where C is a triangle) and each at most 1.
/// Triangles count as such, and a matrix that is both factors once.
///
/// Whole items of a batch may be shared out, so there a share costs no more than its part. What
/// comes home of C is at least the part that the others must have seen when they see all of A and
/// B.
///
/// All links out of (into) a place together are bounded by charging each to itself or to a port
/// that it crosses; without such a port the limit is named after the place ("out of 0", "into
/// host"). Ports that kernels share (cores, the thread of a virtual device) count what kernels and
/// copies take together. The host does no arithmetic, so that for host operands f is zero, but with
/// a `cpu_part` of its rates beside the devices, where all operands lie in its memory (Tuning):
/// then it is a home like others, and what pageable memory costs is left out. Without products the
/// bound is 0; where no device computes the type, or what must move cannot, it is infinite. The
/// search rounds down.
///
/// Where a device shares memory with the host (Device::shares_host), pageable memory counts as
/// pinned.
///
/// With vectors every element is also read by the kernels of some device, at the rate of its
/// memory.
Bound bound(const Problem& problem, const Machine& machine, double cpu_part = 0);

/// Of a factorization, whose strips are as wide as is best of some widths: the largest of the
/// arithmetic at the rates of all workers; what has to cross ports if the matrix leaves its home
/// once and comes back once; and the chain of panels, each at the rate of panels on the fastest
/// device, with the update of the next strip by it ("panels").
Bound bound(const Factorization& what, const Machine& machine);

/// Widths of strips, in elements, that plans choose from: none is wider than the diagonal or than
/// `widest`. Where panels may be wider than kWidestPanel, the whole matrix is among them.
std::vector<std::int64_t> strip_widths(const Factorization& what, std::int64_t widest);

/// The same of a program. With several calls: the arithmetic of all of them, and what has to cross
/// ports to and from the host if every matrix leaves once and comes back once. What matrices at
/// home on devices move is left out, so the bound may be lower there than that of a single call.
Bound bound(const TileProgram& program, const Machine& machine, double cpu_part = 0);

}  // namespace fleet

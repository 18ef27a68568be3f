// SPDX-License-Identifier: BSD-3-Clause
// expand.hpp: turns a call into tile kernels. After the problem, only this unit and decompose know
// what a routine is.
#pragma once
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/locked.hpp"
#include "program/tile_program.hpp"

namespace fleet {

/// The tile program of one call, with A, B and C as matrices kA, kB and kC.
///
/// Every routine multiplies a factor along the rows of C by one along its columns, and sums in
/// ascending order of k. Tiles of op(A) are stored tiles, read transposed; so are the tiles of a
/// symmetric matrix's unstored triangle. Where A is triangular, products with its zeros are left
/// out, and the tiles of C follow each other in the order of dependence: trsm solves for a tile
/// after the tiles that it reads, trmm replaces a tile before the tiles that it reads. syr2k and
/// her2k have two products for each tile of k. k == 0 scales C.
TileProgram expand(const Problem& problem, const CallCuts& cuts);

/// Appends one more call. `matrices` names A, B and C among those of the program; kNoMatrix makes a
/// new one. Throws Error(bad_argument) and leaves the program as it was if the call needs a named
/// matrix cut or stored in another way, or both reads and writes it.
void append(TileProgram& program, const Problem& problem, const CallCuts& cuts,
            const std::array<MatrixId, 3>& matrices);

/// A dimension of a call.
using CutsOf = Cuts CallCuts::*;
/// The dimensions along the rows and columns of an operand as it is stored.
std::pair<CutsOf, CutsOf> stored_dimensions(const Problem& problem, int operand);

/// The kernel of a routine's products.
Kernel product_of(Routine routine);

/// The programs of one problem under different cuts, which are kept. Every call of `of` must have
/// the same problem. Several threads may call it.
class Expansions {
 public:
  std::shared_ptr<const TileProgram> of(const Problem& problem, const CallCuts& cuts);

 private:
  Locked<std::vector<std::shared_ptr<const TileProgram>>> known_;
};

}  // namespace fleet

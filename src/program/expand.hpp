// SPDX-License-Identifier: BSD-3-Clause
// expand.hpp: from a call to the tile kernels that it is made of. This unit and decompose are the
// only ones after the problem that know what a routine is.
#pragma once
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "program/tile_program.hpp"

namespace fleet {

/// The tile program of one call, with A, B and C as matrices kA, kB and kC.
///
/// Every routine is products of a factor along the rows of C and one along its columns, summed in
/// ascending order of k. Tiles of op(A) are stored tiles, read transposed; so are tiles of the
/// triangle of a symmetric matrix that is not stored. Where A is triangular, products with its
/// zeros are left out, and the tiles of C follow each other in an order of dependence: trsm solves
/// for a tile after those that it takes part of, trmm replaces one before those are replaced that
/// it takes part of. syr2k and her2k have two products for each tile of k. k == 0 scales C.
TileProgram expand(const Problem& problem, const CallCuts& cuts);

/// Appends one more call. `matrices` names A, B and C among those of the program, kNoMatrix makes a
/// new one. Throws Error(bad_argument), with the program as it was, where a named matrix is cut or
/// stored otherwise than the call needs it, or is read and written by it.
void append(TileProgram& program, const Problem& problem, const CallCuts& cuts,
            const std::array<MatrixId, 3>& matrices);

/// The kernel of a routine's products.
Kernel product_of(Routine routine);

/// The programs of one problem under different cuts, each expanded once. They know no other
/// problem: the one given first stays.
class Expansions {
 public:
  std::shared_ptr<const TileProgram> of(const Problem& problem, const CallCuts& cuts);

 private:
  std::vector<std::shared_ptr<const TileProgram>> known_;
};

}  // namespace fleet

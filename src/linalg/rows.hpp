// SPDX-License-Identifier: BSD-3-Clause
// rows.hpp: rows of a matrix, to and from where they lie one after another, for programs that deal
// the rows of a matrix themselves. It knows no C types.
#pragma once
#include "linalg/level3.hpp"

namespace fleet::linalg {

// `numbers`: a column with the rows of `matrix`, from 1 on (RowNumber); a packed row is a column of
// `packed`, one for each of them. All lie in one place; Error(unsupported) otherwise.

void pack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed);
void unpack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed);

}  // namespace fleet::linalg

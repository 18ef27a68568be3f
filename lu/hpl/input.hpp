// SPDX-License-Identifier: BSD-3-Clause
// input.hpp: HPL.dat, in which users of Linpack say what is to run. It knows no ranks.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fleet::lu {

/// What HPL.dat asks for. What chooses between variants of HPL's own algorithm is read, and is part
/// of a result's name there, but chooses nothing here.
struct Input {
  /// Where results go: 6 is standard output, 7 standard error, any other number the file.
  int device = 6;
  std::string file;
  std::vector<std::int64_t> orders, blocks;  ///< Ns, NBs
  bool column_major = false;                 ///< how ranks are numbered in a grid
  struct Dims {
    int rows, cols;
  };
  std::vector<Dims> grids;  ///< Ps and Qs
  double threshold = 16;
  std::vector<int> depths;  ///< of look-ahead: 0 is none
  /// The first of RFACTs, NDIVs, PFACTs, NBMINs and BCASTs, as in "WR11C2R4".
  char rfact = 'R', pfact = 'R';
  int ndiv = 2, nbmin = 4, bcast = 1;
};

/// Throws Failure, which names the file, the line and what is wrong with it.
Input parse_input(std::string_view text, const std::string& file = "HPL.dat");

}  // namespace fleet::lu

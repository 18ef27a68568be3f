// SPDX-License-Identifier: BSD-3-Clause
// later_calls.cpp: the last uses of tiles.
#include "plan/later_calls.hpp"

#include <algorithm>

#include "base/sizes.hpp"

namespace fleet {

LaterCalls::LaterCalls(const TileProgram& program, bool is_asked) : program_(program) {
  if (!is_asked) return;
  std::size_t tiles = 0;
  for (const Matrix& matrix : program.matrices) {
    bases_.push_back(tiles);
    tiles += index(matrix.tile_rows()) * index(matrix.items) * index(matrix.tile_cols());
  }
  last_use_.assign(tiles, -1);
  last_write_.assign(tiles, -1);
  for (int c = 0; c < std::ssize(program.calls); ++c) {
    const ProgramCall& call = program.calls[index(c)];
    for (int id = call.first_chain; id < call.first_chain + call.chains; ++id) {
      const OpChain& chain = program.chains[index(id)];
      last_use_[place(chain.target)] = last_write_[place(chain.target)] = c;
      for (OpId op = chain.first; op < chain.first + chain.ops; ++op)
        for (const Factor& input : program.op(op).inputs)
          if (input.tile.exists()) last_use_[place(input.tile)] = c;
    }
    may_wait_.push_back(may_wait(c));
  }
}

std::size_t LaterCalls::place(const TileId& tile) const {
  return bases_[index(tile.matrix)] +
         index(tile.row) * index(program_.matrix_of(tile).tile_cols()) + index(tile.col);
}

// After a fault the version is computed once more from what is at home. Of calls that read what
// they write, each tile would need the others as they were.
bool LaterCalls::may_wait(int call) const {
  const std::vector<ProgramCall>& calls = program_.calls;
  const MatrixId target = calls[index(call)].target();
  int last = call;
  for (int c = call; c < std::ssize(calls); ++c) {
    if (calls[index(c)].target() != target) continue;
    const bool scales =
        calls[index(c)].chains > 0 &&
        program_.op(program_.chains[index(calls[index(c)].first_chain)].first).kernel ==
            Kernel::scale;  // which it is at home
    if (calls[index(c)].reads_target || scales) return false;
    last = c;
  }
  const auto is_input = [&](MatrixId matrix) {
    return std::ranges::count(calls[index(call)].matrices, matrix) > 0;
  };
  for (int c = call + 1; c <= last; ++c)
    if (const MatrixId written = calls[index(c)].target(); written != target && is_input(written))
      return false;
  return last > call;
}

}  // namespace fleet

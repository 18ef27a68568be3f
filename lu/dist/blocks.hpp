// SPDX-License-Identifier: BSD-3-Clause
// blocks.hpp: indices that are dealt in blocks to parts in turn, as ScaLAPACK deals rows and
// columns. It knows no data.
#pragma once
#include <algorithm>
#include <cstdint>

namespace fleet::lu {

/// Indices 0 to n-1 in blocks of nb; block b is of part b mod parts. Part 0 has the first one.
struct Blocks {
  std::int64_t n = 0, nb = 1;
  int parts = 1;

  std::int64_t count() const { return (n + nb - 1) / nb; }
  int owner(std::int64_t global) const { return static_cast<int>(global / nb % parts); }
  /// How many of the indices below `global` a part has: its first local index from there on.
  std::int64_t local_begin(std::int64_t global, int part) const {
    const std::int64_t whole = global / nb, rest = global % nb;
    std::int64_t blocks = whole / parts;
    const std::int64_t turn = whole % parts;
    if (part < turn) ++blocks;
    return blocks * nb + (part == turn ? rest : 0);
  }
  std::int64_t local_size(int part) const { return local_begin(n, part); }
  /// Of an index that its owner has.
  std::int64_t local(std::int64_t global) const { return global / nb / parts * nb + global % nb; }
  std::int64_t global(std::int64_t local, int part) const {
    return (local / nb * parts + part) * nb + local % nb;
  }
};

}  // namespace fleet::lu

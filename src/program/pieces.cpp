// SPDX-License-Identifier: BSD-3-Clause
// pieces.cpp: groups, blocks and tiles of one dimension.
#include "program/pieces.hpp"

#include <cmath>
#include <numeric>

#include "base/sizes.hpp"

namespace fleet {
namespace {

// The first step of k is not halved below this: products of a few columns gain nothing by coming
// early.
constexpr std::int64_t kLeastRamp = 8;

// Begins of `parts` nearly equal pieces of [0, size), aligned; fewer if some would be empty.
std::vector<std::int64_t> split(std::int64_t size, std::int64_t parts) {
  parts = std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(size, 1));
  const std::int64_t even = ceil_div(size, parts);
  const std::int64_t unit = alignment_of(even);
  std::vector<std::int64_t> begins;
  for (std::int64_t p = 0; p < parts; ++p) {
    // Rounding the ideal cut (not the piece) keeps pieces within one unit of each other.
    const std::int64_t ideal = size * p / parts;
    const std::int64_t begin = (ideal + unit / 2) / unit * unit;
    if (begin < size && (begins.empty() || begin > begins.back())) begins.push_back(begin);
  }
  return begins;
}

std::int64_t end_of(const std::vector<std::int64_t>& begins, std::size_t i, std::int64_t size) {
  return i + 1 < begins.size() ? begins[i + 1] : size;
}

struct Block {
  std::int64_t begin = 0, size = 0;
  int owner = 0;  ///< row or column of the grid
};

// Splits [0, size) into a block for each row or column of the grid, by their shares. A share that
// rounds to nothing gets no block.
std::vector<Block> blocks_of(std::int64_t size, const GridLines& lines) {
  const std::span<const double> shares = lines.shares;
  std::vector<Block> blocks;
  if (shares.empty()) {
    const auto begins = split(size, lines.count);
    for (std::size_t b = 0; b < begins.size(); ++b)
      blocks.push_back({begins[b], end_of(begins, b, size) - begins[b], static_cast<int>(b)});
    return blocks;
  }
  const double whole = std::accumulate(shares.begin(), shares.end(), 0.0);
  double sum = 0;
  std::int64_t begin = 0;
  for (std::size_t b = 0; b < shares.size(); ++b) {
    sum += shares[b];
    const double ideal = static_cast<double>(size) * sum / whole;
    const std::int64_t unit = alignment_of(size / std::ssize(shares));
    const std::int64_t end =
        b + 1 == shares.size()
            ? size
            : std::clamp<std::int64_t>(std::llround(ideal / static_cast<double>(unit)) * unit,
                                       begin, size);
    if (end > begin) blocks.push_back({begin, end - begin, static_cast<int>(b)});
    begin = end;
  }
  return blocks;
}

// Deals given tiles to the groups and lines in whose equal parts their middles lie.
std::vector<Piece> given_pieces(const Cuts& cuts, std::int64_t group, const GridLines& lines) {
  std::vector<Piece> pieces;
  const std::int64_t size = cuts.back(), groups = group > 0 ? ceil_div(size, group) : 1;
  const auto part_of = [&](std::size_t tile, std::int64_t begin, std::int64_t end,
                           std::int64_t parts) {
    return ((cuts[tile] + cuts[tile + 1] - 2 * begin) * parts - 1) / (2 * (end - begin));
  };
  std::size_t begin = 0;  // of the group
  for (std::size_t t = 0; t + 1 < cuts.size(); ++t) {
    const auto in_group = [&](std::size_t tile) { return part_of(tile, 0, size, groups); };
    if (in_group(t) != in_group(begin)) begin = t;
    std::size_t end = t + 1;
    while (end + 1 < cuts.size() && in_group(end) == in_group(t)) ++end;
    const int last = pieces.empty() ? -1 : pieces.back().group;
    pieces.push_back({cuts[t], begin == t ? last + 1 : last,
                      static_cast<int>(part_of(t, cuts[begin], cuts[end], lines.count))});
  }
  return pieces;
}

}  // namespace

std::int64_t alignment_of(std::int64_t piece) {
  return piece >= 2048 ? 128 : piece >= 1024 ? 64 : piece >= 128 ? 8 : 1;
}

std::vector<Piece> pieces_of(std::int64_t size, std::int64_t group, const GridLines& lines) {
  std::vector<Piece> pieces;
  if (size == 0) return pieces;
  if (lines.cuts != nullptr) return given_pieces(*lines.cuts, group, lines);
  auto groups = split(size, group > 0 ? ceil_div(size, group) : 1);
  if (lines.halves_last && groups.size() > 1) {
    const std::int64_t half = (size - groups.back()) / 2, unit = alignment_of(half);
    if (half >= unit * lines.count) groups.push_back(size - half / unit * unit);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t group_size = end_of(groups, g, size) - groups[g];
    for (const Block& block : blocks_of(group_size, lines))
      for (std::int64_t t : split(block.size, ceil_div(block.size, lines.edge_of(block.owner))))
        pieces.push_back({groups[g] + block.begin + t, static_cast<int>(g), block.owner});
  }
  return pieces;
}

void ramp_up(std::vector<Piece>& pieces, std::int64_t size, int halvings) {
  if (pieces.empty()) return;
  std::int64_t edge = pieces.size() > 1 ? pieces[1].begin : size;
  for (int halved = 0; halved < halvings; ++halved) {
    edge /= 2;
    if (edge < kLeastRamp) return;
    const std::int64_t unit = alignment_of(edge);
    Piece second = pieces.front();
    second.begin = edge / unit * unit;
    pieces.insert(pieces.begin() + 1, second);
  }
}

void deal(std::vector<Piece>& pieces, int count) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int turn = static_cast<int>(i) % (2 * count);
    pieces[i].block = turn < count ? turn : 2 * count - 1 - turn;
  }
}

void cycle(std::vector<Piece>& pieces, int count) {
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].block = static_cast<int>(i) % count;
}

void append_strip(std::vector<Piece>& pieces, std::int64_t end, std::int64_t strip, int owner) {
  if (strip == 0) return;
  std::int64_t longest = 1;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    longest =
        std::max(longest, (i + 1 < pieces.size() ? pieces[i + 1].begin : end) - pieces[i].begin);
  // Cuts are rounded to whole units, so one more piece may be needed to stay below that.
  std::vector<std::int64_t> begins;
  for (std::int64_t count = ceil_div(strip, longest);; ++count) {
    begins = split(strip, count);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < begins.size(); ++i)
      most = std::max(most, end_of(begins, i, strip) - begins[i]);
    if (most <= longest || count >= strip) break;
  }
  for (const std::int64_t begin : begins) pieces.push_back({end + begin, 0, owner});
}

std::vector<Piece> alike(std::vector<Piece> other) {
  for (Piece& piece : other) piece.group = piece.block = 0;
  return other;
}

}  // namespace fleet

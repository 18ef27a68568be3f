// SPDX-License-Identifier: BSD-3-Clause
// distribution.cpp: the words of block-cyclic places, and what the model makes of them.
#include "program/distribution.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "program/composition.hpp"
#include "program/decompose.hpp"

namespace fleet {
namespace {

/// Reads a positive number from the begin of the rest of `word`.
std::int64_t take_number(std::string_view word, std::string_view& rest, const char* what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 1 || number > kMost)
    throw Error(Status::bad_argument, "place '" + std::string(word) + "': " + what +
                                          " is no positive number; expected a word like c2x2:1024");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

Grid grid_for(std::int64_t rows, std::int64_t cols, int devices) {
  const auto edges = [&](const Grid& grid) {
    return static_cast<double>(rows) / grid.rows + static_cast<double>(cols) / grid.cols;
  };
  return std::ranges::min(grids_of(std::max(1, devices)), {}, edges);
}

}  // namespace

CyclicPlace parse_cyclic(std::string_view word) {
  constexpr std::int64_t kMostPlaces = 4096;
  CyclicPlace place;
  std::string_view rest = word.substr(1);
  if (!rest.empty() && rest[0] != ':') {
    const std::int64_t rows = take_number(word, rest, "the number of the grid's rows");
    if (!rest.starts_with('x'))
      throw Error(Status::bad_argument, "place '" + std::string(word) +
                                            "': the grid needs rows and columns, like c2x2:1024");
    rest.remove_prefix(1);
    const std::int64_t cols = take_number(word, rest, "the number of the grid's columns");
    if (rows > kMostPlaces || cols > kMostPlaces)
      throw Error(Status::bad_argument,
                  "place '" + std::string(word) + "': the grid has more places than any machine");
    place.grid = {static_cast<int>(rows), static_cast<int>(cols)};
  }
  if (rest.starts_with(':')) {
    rest.remove_prefix(1);
    place.block = take_number(word, rest, "the block");
  }
  if (!rest.empty())
    throw Error(Status::bad_argument, "place '" + std::string(word) + "': '" + std::string(rest) +
                                          "' is too much; expected a word like c2x2:1024");
  return place;
}

Distribution distribution_of(const CyclicPlace& place, std::int64_t rows, std::int64_t cols,
                             const RegularTiles& tiles) {
  const Grid grid = place.grid.rows > 0 ? place.grid : grid_for(rows, cols, tiles.devices);
  if (grid.rows * grid.cols > tiles.devices)
    throw Error(Status::bad_argument, "a place of " + std::to_string(grid.rows) + "x" +
                                          std::to_string(grid.cols) + " devices: there are " +
                                          std::to_string(tiles.devices));
  Distribution made{.grid = grid, .block = place.block};
  if (made.block == 0) made.block = regular_edge(std::max(rows, cols), tiles);
  for (int d = 0; d < grid.rows * grid.cols; ++d) made.devices.push_back(kFirstDevice + d);
  return made;
}

}  // namespace fleet

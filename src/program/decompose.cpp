// SPDX-License-Identifier: BSD-3-Clause
// decompose.cpp: groups, blocks and tiles of each dimension.
#include "program/decompose.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/owners.hpp"

namespace fleet {
namespace {

struct Piece {
  std::int64_t begin = 0;
  int group = 0;
  int block = 0;
};

// Tile edges are multiples of this, so that copies are aligned and tiles are whole numbers of the
// 128 x 128 elements that a block of GPU threads computes. It grows with the piece, so that
// rounding stays small beside it.
std::int64_t alignment_of(std::int64_t piece) {
  return piece >= 2048 ? 128 : piece >= 1024 ? 64 : piece >= 128 ? 8 : 1;
}

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

/// The rows (or columns) of the grid, which divide a dimension of C or of k among themselves.
struct GridLines {
  int count = 1;
  std::int64_t tile = 1;                     ///< largest edge of the tiles
  std::span<const double> shares = {};       ///< empty: equal ones
  std::span<const std::int64_t> tiles = {};  ///< largest edges by line; empty: `tile` for all
  const Cuts* cuts = nullptr;                ///< where the tiles begin, if that is given

  std::int64_t edge_of(int line) const {
    return std::max<std::int64_t>(1, tiles.empty() ? tile : tiles[static_cast<std::size_t>(line)]);
  }
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

// Splits [0, size) into groups of at most `group` (0: one group), each group into a block for each
// row or column of the grid, and each block into tiles.
std::vector<Piece> pieces_of(std::int64_t size, std::int64_t group, const GridLines& lines) {
  std::vector<Piece> pieces;
  if (size == 0) return pieces;
  if (lines.cuts != nullptr) return given_pieces(*lines.cuts, group, lines);
  const auto groups = split(size, group > 0 ? ceil_div(size, group) : 1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t group_size = end_of(groups, g, size) - groups[g];
    for (const Block& block : blocks_of(group_size, lines))
      for (std::int64_t t : split(block.size, ceil_div(block.size, lines.edge_of(block.owner))))
        pieces.push_back({groups[g] + block.begin + t, static_cast<int>(g), block.owner});
  }
  return pieces;
}

// Splits the first of `pieces` (of [0, size)) into pieces of growing length: it is halved, then its
// first half, and so on.
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

// Deals pieces to the rows (or columns) of the grid to and fro.
void deal(std::vector<Piece>& pieces, int count) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int turn = static_cast<int>(i) % (2 * count);
    pieces[i].block = turn < count ? turn : 2 * count - 1 - turn;
  }
}

// Deals pieces to the rows (or columns) of the grid in turn.
void cycle(std::vector<Piece>& pieces, int count) {
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].block = static_cast<int>(i) % count;
}

// Adds the CPU's strip after `end`, where the pieces of the grid end. Its pieces are no longer than
// theirs, because slots of devices have room for the longest piece of all.
void append_cpu(std::vector<Piece>& pieces, std::int64_t end, std::int64_t strip) {
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
  for (const std::int64_t begin : begins) pieces.push_back({end + begin, 0, Dealing::kCpu});
}

// The pieces of `other`, in one group.
std::vector<Piece> alike(std::vector<Piece> other) {
  for (Piece& piece : other) piece.group = piece.block = 0;
  return other;
}

Cuts cuts_of(const std::vector<Piece>& pieces, std::int64_t size) {
  Cuts cuts;
  for (const Piece& p : pieces) cuts.push_back(p.begin);
  cuts.push_back(size);
  return cuts;
}

int count_of(const std::vector<int>& ids) {
  return ids.empty() ? 1 : *std::ranges::max_element(ids) + 1;
}

// Groups and owners of the rows of C over all items. Items smaller than a group are grouped whole.
void own_rows(const Problem& problem, const Tuning& tuning, const std::vector<Piece>& pieces,
              Dealing& d) {
  int groups_per_item = 1;
  for (const Piece& piece : pieces) groups_per_item = std::max(groups_per_item, piece.group + 1);
  const std::int64_t items_per_group =
      tuning.group_rows() == 0
          ? problem.batch
          : std::max<std::int64_t>(1, tuning.group_rows() / std::max<std::int64_t>(problem.m, 1));
  for (std::int64_t item = 0; item < problem.batch; ++item)
    for (const Piece& piece : pieces) {
      d.row_group.push_back(groups_per_item > 1
                                ? static_cast<int>(item) * groups_per_item + piece.group
                                : static_cast<int>(item / items_per_group));
      d.row_owner.push_back(piece.block);
    }
  if (problem.batch == 1) return;
  // The rows of tiles of several items are dealt to the grid's rows in equal contiguous runs.
  for (std::size_t begin = 0; begin < d.row_group.size();) {
    std::size_t end = begin;
    while (end < d.row_group.size() && d.row_group[end] == d.row_group[begin]) ++end;
    for (std::size_t i = begin; i < end; ++i)
      d.row_owner[i] = static_cast<int>((i - begin) * static_cast<std::size_t>(tuning.grid.rows) /
                                        (end - begin));
    begin = end;
  }
}

// Shares and tile edges by line are as many as the grid has lines, and sensible.
void require_lines(const Problem& problem, const Tuning& tuning) {
  const RoutineTraits& traits = problem.traits();
  const bool allowed = problem.batch == 1 && !traits.triangle && !traits.triangular;
  const auto require = [&](const auto& values, int lines, const auto& is_sensible,
                           const char* message) {
    if (!values.empty() &&
        (!allowed || std::ssize(values) != lines || !std::ranges::all_of(values, is_sensible)))
      throw Error(Status::bad_argument, message);
  };
  const auto is_share = [](double share) { return share > 0 && share < 1e6; };
  const auto is_edge = [](std::int64_t edge) { return edge > 0; };
  const auto [rows, cols] = tuning.grid;
  require(tuning.row_shares, rows, is_share, "the shares are not those of the grid");
  require(tuning.col_shares, cols, is_share, "the shares are not those of the grid");
  require(tuning.row_tiles, rows, is_edge, "the tile edges are not those of the grid");
  require(tuning.col_tiles, cols, is_edge, "the tile edges are not those of the grid");
}

// A part along one edge of C, as a number of elements.
std::int64_t strip_of(std::int64_t size, double part) {
  constexpr std::int64_t kFastest = 64;  // paper 3, III: kernels are fastest on multiples of it
  const std::int64_t unit = std::min(kFastest, alignment_of(size));
  const std::int64_t most = std::max<std::int64_t>(0, (size - 1) / unit);
  const double units =
      std::clamp(part, 0.0, 1.0) * static_cast<double>(size) / static_cast<double>(unit);
  return unit * std::clamp<std::int64_t>(std::llround(units), 0, most);
}

// Where the routine allows either, the longer edge of C is cut: that leaves the devices least to
// fetch. Columns lie together, so of equal edges they are taken.
bool cuts_columns(const Problem& problem) {
  return problem.traits().has_side() ? problem.side == Side::left : problem.n >= problem.m;
}

// Parts of sums are numbered without those that rounding left empty: the first has the first step.
void number_steps(Dealing& d, const std::vector<Piece>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    d.step_owner.push_back(i == 0 ? 0
                                  : d.step_owner.back() + (steps[i].block != steps[i - 1].block));
}

Decomposition decompose_vectors(const Problem& problem, const Tuning& tuning,
                                const CallCuts* given) {
  Decomposition made;
  Dealing& d = made.deal;
  const auto cols =
      pieces_of(problem.n, 0, {.tile = tuning.tile, .cuts = given ? &given->n : nullptr});
  // Where tiles are given, the grid is that of a whole program, and no bit may depend on it.
  const auto steps = pieces_of(problem.k, 0,
                               {.count = given ? 1 : tuning.grid.rows,
                                .tile = tuning.edge_k(),
                                .cuts = given ? &given->k : nullptr});
  made.cuts = {{0, 1}, cuts_of(cols, problem.n), cuts_of(steps, problem.k)};
  d.grid = tuning.grid;
  d.row_owner = d.row_group = {0};
  // Columns of tiles go to the columns of the grid in turn; each turn is a group of its own.
  for (int i = 0; i < static_cast<int>(cols.size()); ++i) {
    d.col_owner.push_back(i % tuning.grid.cols);
    d.col_group.push_back(i / tuning.grid.cols);
  }
  d.col_groups = count_of(d.col_group);
  number_steps(d, steps);
  d.step_cube.assign(steps.size(), 0);
  d.streams = true;
  return made;
}

}  // namespace

bool may_split_k(const Problem& problem) {
  const RoutineTraits& traits = problem.traits();
  return problem.batch == 1 && problem.k > 0 && !traits.vectors && !traits.triangle &&
         !traits.triangular && !traits.has_side() && !traits.twice &&
         !is_half(problem.type.storage);
}

bool may_have_cpu(const Problem& problem) {
  return problem.batch == 1 && problem.k > 0 && !problem.traits().vectors &&
         std::ranges::all_of(problem.operands, [](const Operand& o) { return on_host(o.home); });
}

CpuStrip cpu_strip(const Problem& problem, double share) {
  if (problem.traits().triangle) {
    // Without the last part x of its edge, (1 - x)^2 of a triangle is left.
    const std::int64_t edge = strip_of(problem.n, 1 - std::sqrt(1 - std::clamp(share, 0.0, 1.0)));
    return {edge, edge};
  }
  if (cuts_columns(problem)) return {.cols = strip_of(problem.n, share)};
  return {.rows = strip_of(problem.m, share)};
}

double share_of(const Problem& problem, const CpuStrip& strip) {
  const auto part = [](std::int64_t of, std::int64_t size) {
    return size == 0 ? 0.0 : static_cast<double>(of) / static_cast<double>(size);
  };
  if (problem.traits().triangle) {
    const double left = 1 - part(strip.cols, problem.n);
    return 1 - left * left;
  }
  return part(strip.rows, problem.m) + part(strip.cols, problem.n);
}

std::int64_t longest_step(Storage storage, std::int64_t tile) {
  constexpr std::int64_t kTilesPerHalfStep = 4;
  return is_half(storage) ? kTilesPerHalfStep * tile : tile;
}

namespace {

Decomposition decompose(const Problem& problem, const Tuning& tuning, const CallCuts* given) {
  require_lines(problem, tuning);
  const RoutineTraits& traits = problem.traits();
  if (traits.vectors && problem.k > 0) return decompose_vectors(problem, tuning, given);
  const bool splits = tuning.split_k;
  if (splits && (!may_split_k(problem) || tuning.out_of_core != OutOfCore::none))
    throw Error(Status::bad_argument, "sums are split for products of whole matrices only");
  const bool is_dealt = tuning.owners != Owners::blocks;
  if ((is_dealt && (splits || problem.batch > 1)) || (!is_dealt && !tuning.worker_shares.empty()))
    throw Error(Status::bad_argument, "single tiles are dealt for one whole product only");
  if (given && (tuning.has_cpu() || !tuning.row_shares.empty() || !tuning.col_shares.empty()))
    throw Error(Status::bad_argument, "tiles that are given are dealt in equal parts");
  if (tuning.has_cpu() && (splits || is_dealt || !may_have_cpu(problem)))
    throw Error(Status::bad_argument, "the CPU has no part of such a problem");
  const CpuStrip cpu = tuning.has_cpu() ? cpu_strip(problem, tuning.cpu_share) : CpuStrip{};
  const std::int64_t grid_m = problem.m - cpu.rows, grid_n = problem.n - cpu.cols;
  Decomposition made;
  Dealing& d = made.deal;
  const Cuts* const cuts_m = given ? &given->m : nullptr;
  const Cuts* const cuts_n = given ? &given->n : nullptr;
  // The lines that divide C or, with split sums, k.
  GridLines by_row{.count = tuning.grid.rows,
                   .tile = tuning.edge_m(),
                   .shares = tuning.row_shares,
                   .tiles = tuning.row_tiles,
                   .cuts = cuts_m};
  const GridLines by_col{.count = tuning.grid.cols,
                         .tile = tuning.tile,
                         .shares = tuning.col_shares,
                         .tiles = tuning.col_tiles,
                         .cuts = cuts_n};
  GridLines by_step{.tile = longest_step(problem.type.storage, tuning.edge_k()),
                    .cuts = given ? &given->k : nullptr};
  if (splits) {
    by_step.count = by_row.count;
    by_step.shares = by_row.shares;
    by_row = {.tile = tuning.edge_m(), .cuts = cuts_m};
  } else {
    by_row.count = static_cast<int>(ceil_div<std::int64_t>(tuning.grid.rows, problem.batch));
  }
  auto rows = pieces_of(grid_m, tuning.group_rows(), by_row);
  auto cols = pieces_of(grid_n, tuning.group, by_col);
  auto steps =
      pieces_of(problem.k, tuning.out_of_core == OutOfCore::cube ? tuning.group : 0, by_step);
  if (traits.triangle) {
    rows = cols = pieces_of(grid_n, tuning.group, {.tile = tuning.tile, .cuts = cuts_n});
    deal(rows, tuning.grid.rows);
    deal(cols, tuning.grid.cols);
  }
  if (is_dealt) {
    if (!traits.triangle) {
      rows = pieces_of(problem.m, tuning.group_rows(), {.tile = tuning.edge_m(), .cuts = cuts_m});
      cols = pieces_of(problem.n, tuning.group, {.tile = tuning.tile, .cuts = cuts_n});
    }
    cycle(rows, tuning.grid.rows);
    cycle(cols, tuning.grid.cols);
  }
  const bool left = problem.side == Side::left;
  if (traits.triangular) {
    std::vector<Piece>& along = left ? rows : cols;
    along =
        pieces_of(left ? problem.m : problem.n, 0,
                  {.tile = left ? tuning.edge_m() : tuning.tile, .cuts = left ? cuts_m : cuts_n});
    deal(along, left ? tuning.grid.rows : tuning.grid.cols);
    const int count = static_cast<int>(along.size());
    for (int i = 0; i < count; ++i)
      along[static_cast<std::size_t>(i)].group = rank_of_tile(problem, count, i);
    d.cols_outside = left;
    d.to_and_fro = false;
  }
  append_cpu(rows, grid_m, cpu.rows);
  append_cpu(cols, grid_n, cpu.cols);
  if (traits.has_side() && problem.k > 0)
    steps = alike(left ? rows : cols);
  else if (!given)
    ramp_up(steps, problem.k, tuning.ramp);
  made.cuts = {cuts_of(rows, problem.m), cuts_of(cols, problem.n), cuts_of(steps, problem.k)};
  d.grid = tuning.grid;
  own_rows(problem, tuning, rows, d);
  for (const Piece& p : cols) {
    d.col_owner.push_back(p.block);
    d.col_group.push_back(p.group);
  }
  if (deals_single_tiles(tuning))
    d.tile_owner = owner_map(tuning, static_cast<int>(rows.size()), static_cast<int>(cols.size()));
  for (const Piece& p : steps) d.step_cube.insert(d.step_cube.end(), traits.twice ? 2 : 1, p.group);
  if (splits) number_steps(d, steps);
  d.row_groups = count_of(d.row_group);
  d.col_groups = count_of(d.col_group);
  d.cubes = count_of(d.step_cube);
  return made;
}

}  // namespace

Decomposition decompose(const Problem& problem, const Tuning& tuning) {
  return decompose(problem, tuning, nullptr);
}

Dealing deal_tiles(const Problem& problem, const CallCuts& cuts, const Tuning& tuning) {
  return decompose(problem, tuning, &cuts).deal;
}

Dealing deal_to_owners(const Problem& problem, const CallCuts& cuts, const Tuning& tuning,
                       const Distribution& distribution) {
  Dealing deal = deal_tiles(problem, cuts, tuning);
  if (deal.streams) return deal;
  for (std::size_t row = 0; row < deal.row_owner.size(); ++row)
    deal.row_owner[row] = distribution.grid_row(cuts.m[row]);
  for (std::size_t col = 0; col < deal.col_owner.size(); ++col)
    deal.col_owner[col] = distribution.grid_col(cuts.n[col]);
  return deal;
}

int rank_of_tile(const Problem& problem, int tiles, int tile) {
  const bool lower = (problem.uplo == Uplo::lower) == (problem.op_a == Op::none);
  // trsm from the left by a lower triangle ascends; an upper triangle, the right side and trmm each
  // turn that round.
  const bool ascending = (lower == (problem.side == Side::left)) == problem.traits().solves;
  return ascending ? tile : tiles - 1 - tile;
}

std::int64_t Dealing::most_single_tiles() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(groups() * grid.rows * grid.cols), 0);
  std::int64_t most = 0;
  for (std::size_t t = 0; t < tile_owner.size(); ++t) {
    const int group = position(row_group[t / col_owner.size()], col_group[t % col_owner.size()]);
    const int at = group * grid.rows * grid.cols + tile_owner[t];
    most = std::max(most, ++counts[static_cast<std::size_t>(at)]);
  }
  return most;
}

int Dealing::position(int row_group, int col_group) const {
  if (cols_outside) return col_group * row_groups + row_group;
  if (to_and_fro && row_group % 2 == 1) col_group = col_groups - 1 - col_group;
  return row_group * col_groups + col_group;
}

std::pair<int, int> Dealing::group_at(int position) const {
  if (cols_outside) return {position % row_groups, position / row_groups};
  const int row_group = position / col_groups, col_group = position % col_groups;
  return {row_group, to_and_fro && row_group % 2 == 1 ? col_groups - 1 - col_group : col_group};
}

std::vector<Grid> grids_of(int workers) {
  std::vector<Grid> grids;
  for (int rows = 1; rows <= workers; ++rows)
    if (workers % rows == 0) grids.push_back({rows, workers / rows});
  return grids;
}

Grid near_square_grid(int workers) {
  Grid best{workers, 1};
  for (const Grid& g : grids_of(workers))
    if (g.rows >= g.cols && g.rows < best.rows) best = g;
  return best;
}

}  // namespace fleet

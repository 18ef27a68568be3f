// SPDX-License-Identifier: BSD-3-Clause
// decompose.cpp: the pieces of each dimension by what the routine is, and who has them.
#include "program/decompose.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/owners.hpp"
#include "program/pieces.hpp"

namespace fleet {
namespace {

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
  const bool allowed = problem.batch == 1 && !traits.triangle;
  const auto require = [&](const auto& values, int lines, bool fits, const auto& is_sensible,
                           const char* message) {
    if (!values.empty() && (!allowed || !fits || std::ssize(values) != lines ||
                            !std::ranges::all_of(values, is_sensible)))
      throw Error(Status::bad_argument, message);
  };
  // Tiles along the side of a triangle are dealt to and fro.
  const bool left = problem.side == Side::left, dealt = traits.triangular;
  const auto is_share = [](double share) { return share > 0 && share < 1e6; };
  const auto is_edge = [](std::int64_t edge) { return edge > 0; };
  const auto [rows, cols] = tuning.grid;
  const char* const no_shares = "the shares are not those of the grid";
  const char* const no_edges = "the tile edges are not those of the grid";
  require(tuning.row_shares, rows, !dealt || !left || rows == 1, is_share, no_shares);
  require(tuning.col_shares, cols, !dealt || left || cols == 1, is_share, no_shares);
  require(tuning.row_tiles, rows, !dealt, is_edge, no_edges);
  require(tuning.col_tiles, cols, !dealt, is_edge, no_edges);
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
  GridLines by_col{.count = tuning.grid.cols,
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
  // Workers that compute in place replace their tiles at once.
  const bool is_late = traits.triangular && tuning.inputs_first && !given && !tuning.has_cpu() &&
                       tuning.out_of_core == OutOfCore::none && on_host(problem.operands[kC].home);
  by_row.halves_last = by_col.halves_last = is_late;
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
    d.is_late = is_late;
    d.reversed = is_late && !traits.solves;
  }
  append_strip(rows, grid_m, cpu.rows, Dealing::kCpu);
  append_strip(cols, grid_n, cpu.cols, Dealing::kCpu);
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

int Dealing::place_in_turn(int turn, int group) const {
  const bool is_last = turn == (cols_outside ? col_groups : row_groups) - 1;
  const bool turns_back = to_and_fro ? turn % 2 == 1 : reversed && !is_last;
  return turns_back ? groups_in_turn() - 1 - group : group;
}

int Dealing::position(int row_group, int col_group) const {
  const int turn = cols_outside ? col_group : row_group;
  const int group = cols_outside ? row_group : col_group;
  return turn * groups_in_turn() + place_in_turn(turn, group);
}

std::pair<int, int> Dealing::group_at(int position) const {
  const int turn = turn_of(position);
  const int group = place_in_turn(turn, position % groups_in_turn());
  return cols_outside ? std::pair(group, turn) : std::pair(turn, group);
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

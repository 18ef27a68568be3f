// SPDX-License-Identifier: BSD-3-Clause
// preset.cpp: the table of policies, and the few candidates of each. Pure.
#include "tune/preset.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "tune/candidates.hpp"
#include "tune/choice.hpp"
#include "tune/cpu_share.hpp"
#include "tune/fits.hpp"
#include "tune/limits.hpp"
#include "tune/paralia.hpp"

namespace fleet {
namespace {

constexpr std::array<PresetPolicy, 5> kPolicies = {{
    // Tiles in turn, nothing kept, everything from home and over the host (paper 2, 2.1 and 2.2;
    // paper 1, IV-D: transfers pass through PCIe even between GPUs).
    {Preset::cublasxt, "cublasxt", "overlap,outofcore", Owners::round_robin, Routing::over_host,
     false, 0},
    // 2D block-cyclic, tiles kept and taken from the fastest holder, work stealing (paper 2, 2.1 to
    // 2.3).
    {Preset::blasx, "blasx", "caching,overlap,bandwidth,outofcore", Owners::cyclic_2d,
     Routing::fleet, true, 0},
    // Owner-computes over 2D block-cyclic tiles with work stealing, and its order of sources (paper
    // 5, III-C and IV-D).
    {Preset::xkblas, "xkblas", "caching,overlap,bandwidth,forwarding,outofcore", Owners::cyclic_2d,
     Routing::devices_first, true, 0},
    // 2D-cyclic, static, routes over one more device, sub-kernels in their order (paper 2, 3.2, 3.5
    // and 3.6).
    {Preset::paralia, "paralia", "caching,overlap,bandwidth,forwarding,outofcore",
     Owners::cyclic_2d, Routing::fleet, false, 1},
    // All rules of paper 1; its grid is that of SUMMA, its tile that of its authors' code.
    {Preset::uncut, "uncut", "all,-grid,-tile", Owners::blocks, Routing::pairs, false, 0},
}};

// Edges that paper 5 (IV-A) tries.
constexpr std::array<std::int64_t, 3> kUsualTiles{1024, 2048, 4096};

std::vector<std::int64_t> tiles_of(const PresetPolicy& policy, const Problem& problem,
                                   const TuneRequest& request, const Grid& grid) {
  if (request.tile > 0) return {request.tile};
  if (policy.preset == Preset::uncut && !has_square_tiles(problem))
    return {tile_of_authors(problem, grid)};
  const std::int64_t longest = std::max({problem.m, problem.n, problem.k});
  std::vector<std::int64_t> tiles;
  for (const std::int64_t edge : kUsualTiles)
    if (tiles.empty() || tiles.back() < longest) tiles.push_back(edge);
  return tiles;
}

// Out of core, paper 1 runs cubes; the others keep tiles of C and throw out inputs.
bool make_fit(const PresetPolicy& policy, const Problem& problem, Tuning& t) {
  if (!t.rules.has(Rule::caching) || fits_in_core(problem, t)) return true;
  const bool cubes = policy.preset == Preset::uncut && !problem.traits().triangular;
  t.out_of_core = cubes ? OutOfCore::cube : OutOfCore::stationary;
  t.group = largest_group(problem, t);
  return t.group > 0;
}

}  // namespace

std::span<const PresetPolicy> preset_policies() { return kPolicies; }

const char* to_string(Preset preset) {
  for (const PresetPolicy& policy : kPolicies)
    if (policy.preset == preset) return policy.name;
  return "none";
}

Preset parse_preset(std::string_view text) {
  if (text.empty() || text == "none") return Preset::none;
  std::string allowed = "none";
  for (const PresetPolicy& policy : kPolicies) {
    if (text == policy.name) return policy.preset;
    allowed += std::string(", ") + policy.name;
  }
  throw Error(Status::bad_option, "preset=" + std::string(text) + ": expected one of " + allowed);
}

double tile_cost_of_authors(const Problem& problem, int workers, std::int64_t tile) {
  double padding = 0;
  for (const std::int64_t size : {problem.m, problem.n, problem.k})
    if (size % tile != 0)
      padding += 1 / static_cast<double>(std::max<std::int64_t>(1, size / tile));
  const double t = static_cast<double>(tile);
  const double overlap = static_cast<double>(workers) * t / static_cast<double>(problem.m) * t /
                         static_cast<double>(problem.n) * t / static_cast<double>(problem.k);
  const double latency =
      t < limits::kLatencyTile ? limits::kLatencyWeight * limits::kLatencyTile / t : 0;
  return padding + overlap + latency;
}

std::int64_t tile_of_authors(const Problem& problem, const Grid& grid) {
  const std::int64_t most = std::min(
      {ceil_div(problem.m * problem.batch, grid.rows), ceil_div(problem.n, grid.cols), problem.k});
  const int workers = grid.rows * grid.cols;
  std::int64_t best = std::min(most, limits::kEdgeStep);
  for (std::int64_t tile = best; tile <= most; tile += limits::kEdgeStep)
    if (tile_cost_of_authors(problem, workers, tile) <=
        tile_cost_of_authors(problem, workers, best))
      best = tile;
  return best;
}

Tuned tune_as(const PresetPolicy& policy, const Problem& problem, const Machine& machine,
              const TuneRequest& request) {
  TuneRequest wanted = request;
  wanted.rules = parse_rules(policy.rules);
  wanted.max_hops = policy.max_hops;
  wanted.cpu_part = 0;
  Tuning base = base_tuning(problem, machine, wanted);
  base.routing = policy.routing;
  base.steals = policy.steals;
  const bool single_tiles = problem.batch == 1;
  if (single_tiles) base.owners = policy.owners;
  double estimate_s = 0;
  if (policy.preset == Preset::paralia && single_tiles && !problem.traits().triangular) {
    const Selection selected = select_as_paralia(problem, machine, base.workers, request);
    base.workers = selected.workers;
    base.worker_shares = selected.shares;
    estimate_s = selected.seconds;
  }
  const bool is_chosen = request.grid.rows * request.grid.cols == std::ssize(base.workers);
  base.grid = is_chosen ? request.grid : near_square_grid(static_cast<int>(base.workers.size()));
  Choice choice(problem, machine, request.goal);
  choice.leave_cpu_out(why_no_cpu(problem, machine, request));
  for (const std::int64_t tile : tiles_of(policy, problem, request, base.grid)) {
    Considered c{.tuning = base, .estimate_s = estimate_s};
    c.tuning.tile = tile;
    if (make_fit(policy, problem, c.tuning)) choice.attempt(std::move(c));
  }
  if (choice.planned() == 0) throw choice.refusal();
  return choice.take();
}

}  // namespace fleet

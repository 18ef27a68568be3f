// SPDX-License-Identifier: BSD-3-Clause
// limits.hpp: every number of the tuner that is neither the problem's nor the machine's, each with
// its unit and its reason. It knows no tuning.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace fleet::limits {

// ---- memory -------------------------------------------------------------------------------------

/// Share of the available memory that slots may take (paper 1, III-C1).
inline constexpr double kMemoryShare = 0.8;
/// Bytes beside the slots, a few pages: small arenas round up to them.
inline constexpr double kSpareBytes = 65536;
/// Slots in tiles per element of a block: tiles round up and slots are aligned; with a triangle,
/// tiles on its diagonal are whole, which takes a little more.
inline constexpr double kRounded = 1.01, kRoundedTriangle = 1.02;
/// Groups into which the longest edge is cut at most; more have no products worth a task.
inline constexpr std::int64_t kMostPieces = 4096;
/// Steps of k whose inputs are in memory at a time with C stationary: one used, one arriving.
inline constexpr std::int64_t kStepsInMemory = 2;
/// Slots beside those that stay: a tile of C on its way in and one out, and for triangles as many
/// inputs as solving one tile may wait for.
inline constexpr std::int64_t kMovingOutputs = 2, kMovingInputs = 6;

// ---- tile edges, in elements --------------------------------------------------------------------

/// With rule `tile` off (paper 1: T_min).
inline constexpr std::int64_t kFixedTile = 2048;
/// The edge at which tile_cost weighs latency by kLatencyWeight (paper 1, III-A).
inline constexpr double kLatencyTile = 2048, kLatencyWeight = 0.2;
/// Larger tiles leave nothing to overlap.
inline constexpr std::int64_t kLargestTile = 8192;
/// Below this nothing fits for other reasons.
inline constexpr std::int64_t kLeastTile = 16;
/// What kernels like edges to be multiples of, and the least edge that pieces are cut down to.
inline constexpr std::int64_t kEdgeStep = 128;
/// Numbers of tiles along the longest edge of a block. The last one is tried whatever its edge.
inline constexpr std::array<std::int64_t, 15> kPieces{1,  2,  3,  4,  5,  6,  8, 10,
                                                      12, 16, 20, 24, 32, 48, 64};
/// Rounds in which the tiles of a triangle are dealt, as long as its tiles have this edge: smaller
/// ones are not worth a product.
inline constexpr std::array<std::int64_t, 8> kRounds{1, 2, 3, 4, 6, 8, 12, 16};
inline constexpr std::int64_t kLeastOfRound = 2048;
/// How much longer than wide tiles may be along m and along k, and up to which width they are tried
/// so: wider ones have columns that are long enough for any link.
inline constexpr std::array<std::int64_t, 4> kStretchesM{1, 2, 4, 8};
inline constexpr std::array<std::int64_t, 3> kStretchesK{1, 2, 4};
inline constexpr std::int64_t kLongestStretched = 4096;

// ---- the budget of planning, in tasks -----------------------------------------------------------
// It is counted in tasks, so that no plan depends on a clock. Planning and simulating costs 0.4 to
// 1 us a task: about 1 ms is spent at least, and up to 7 ms (or 8 % of the estimated run, if that
// is more) where that is no more than 40 % of the run, since a first call should not plan longer
// than it gains; or three plans of the size at hand.

inline constexpr double kTasksPerSecond = 1 / 0.8e-6;
inline constexpr std::int64_t kLeastBudget = 1500;
inline constexpr double kUsualBudget = 9000;
/// Shares of the estimated run.
inline constexpr double kUsualShare = 0.08, kLargestShare = 0.4;
/// Plans of the size at hand that the budget grows to, as far as the largest share allows.
inline constexpr double kBudgetFactor = 3.0;

/// A part of the budget, in whole tasks.
struct Part {
  std::int64_t of, in;
  constexpr std::int64_t operator()(std::int64_t budget) const { return budget * of / in; }
};
/// A third of it is for groups, and half of it if tiles leave less; larger parts of an owner come
/// on top, and so does a first step of k that is halved.
inline constexpr Part kForTiles{2, 3}, kForGroups{1, 2}, kForShares{1, 5};

/// Tasks of a plan; larger plans cost more than they gain, so they are tried last.
inline constexpr std::int64_t kMostTasks = 30000;
/// Plans of tiles in all, however small.
inline constexpr int kMostPlanned = 32;

// ---- variants of the fastest --------------------------------------------------------------------

/// Of the fastest plans this many are tried with a first step of k that is halved this often.
inline constexpr std::size_t kMostRamped = 5;
inline constexpr int kRamp = 3;
/// Of the fastest plans this many are tried with C in groups one after another: the first go home
/// while the last are computed. Each has a number of groups along the longer edge of C and is as
/// wide along the other one, or (one row) is columns of C with all of their rows, since long tiles
/// would not fit into less.
inline constexpr std::size_t kMostGrouped = 3;
struct Groups {
  int rows, cols;
};
inline constexpr std::array<Groups, 6> kGroups{{{3, 3}, {1, 4}, {2, 2}, {1, 8}, {4, 4}, {1, 2}}};
/// Of the fastest plans this many are tried with a larger part of C for the worker that it is at
/// home with, found in this many rounds.
inline constexpr std::size_t kMostShared = 3;
inline constexpr int kShareRounds = 2;
/// Share of C: the others get something, or they were no workers.
inline constexpr double kMostOwned = 0.95;
/// Times an equal part; tiles are too coarse for less.
inline constexpr double kWorthFavouring = 1.04;

// ---- the choice, as ratios of times -------------------------------------------------------------

/// Estimates that are no further apart say nothing about which is better: the cheaper to plan
/// comes first.
inline constexpr double kAlike = 1.12;
/// Of plans that are simulated within this of the fastest, the one is chosen that would be fastest
/// if each task cost its issuing once more: copies of small tiles and much issuing are where runs
/// fall behind their simulation (docs/performance/lessons.md).
inline constexpr double kNear = 1.02;
/// Differences below this are none: of two plans that were simulated 0.5 % apart, that of larger
/// tiles was 2 % faster.
inline constexpr double kSame = 1.01;

// ---- levels 1 and 2 -----------------------------------------------------------------------------

/// Tiles into which each worker's part is cut along each dimension: a few hide the first one's way
/// and the last one's, more only cost latency.
inline constexpr std::array<std::int64_t, 4> kVectorPieces{1, 2, 4, 8};
/// Bytes of a tile product: more gain nothing on any link.
inline constexpr std::int64_t kMostVectorBytes = std::int64_t{64} << 20;
/// Slots of that size that a worker's memory holds at least.
inline constexpr std::int64_t kVectorSlots = 12;
/// Of a product's bytes, one edge of a tile may stand for this part; other edges are cut too.
inline constexpr std::int64_t kVectorParts = 4;
/// Tasks planned for each set of workers: these calls take little longer than 1 us a task.
inline constexpr std::int64_t kMostVectorTasks = 10'000;
/// Tasks of a tile product, before it is planned: it comes, is used, and something goes home.
inline constexpr std::int64_t kTasksPerVectorTile = 3;

// ---- what is kept for the reader ----------------------------------------------------------------

/// Candidates without a plan that are kept with a tuning, since plans stay in a cache; the others
/// are counted.
inline constexpr std::size_t kMostPassedOver = 48;

}  // namespace fleet::limits

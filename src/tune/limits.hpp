// SPDX-License-Identifier: BSD-3-Clause
// limits.hpp: the constants of the tuner, each with its unit and its reason. It knows no tuning.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace fleet::limits {

// ---- memory -------------------------------------------------------------------------------------

/// Share of the available memory that slots may take (paper 1, III-C1).
inline constexpr double kMemoryShare = 0.8;
/// Bytes of overhead beside the slots, a few pages, because small arenas are rounded up.
inline constexpr double kSpareBytes = 65536;
/// Bytes of slots per byte of a block: tiles round up and slots are aligned. A triangle takes a
/// little more, since tiles on its diagonal are stored whole.
inline constexpr double kRounded = 1.01, kRoundedTriangle = 1.02;
/// Most groups along the longest edge; with more, products are too small for a task.
inline constexpr std::int64_t kMostPieces = 4096;
/// Steps of k whose inputs are in memory at once while C stays: one in use, one arriving.
inline constexpr std::int64_t kStepsInMemory = 2;
/// Slots beside those of resident tiles: one tile of C arriving and one leaving, and for triangles
/// the inputs that the solve of one tile may wait for.
inline constexpr std::int64_t kMovingOutputs = 2, kMovingInputs = 6;

// ---- tile edges, in elements --------------------------------------------------------------------

/// The edge if rule `tile` is off (paper 1: T_min).
inline constexpr std::int64_t kFixedTile = 2048;
/// The edge at which tile_cost weighs latency by kLatencyWeight (paper 1, III-A).
inline constexpr double kLatencyTile = 2048, kLatencyWeight = 0.2;
/// The largest edge: larger tiles leave nothing to overlap.
inline constexpr std::int64_t kLargestTile = 8192;
/// The most memory of the pinned ring through which pageable operands go: this, or a share of these
/// operands where that is more, unless every tile needs more. The first call of a plan waits until
/// it is pinned, 40 ms per GiB on H100.
inline constexpr std::int64_t kMostRingBytes = std::int64_t{512} << 20;
inline constexpr double kRingShare = 1.0 / 16;
/// The least edge that is tried when memory is short: if it does not fit, tiles are not the reason.
inline constexpr std::int64_t kLeastTile = 16;
/// Kernels are fastest on edges that are multiples of this; also the least edge of a piece.
inline constexpr std::int64_t kEdgeStep = 128;
/// Of the best rate, what products of the least tiles of programs reach. With more, too few tiles
/// are left to overlap (TRSM and GEMM of 4096 on dgx1, simulated: 18.1 ms with 0.9, 11.5 with 0.8).
inline constexpr double kFastEnough = 0.8;
/// Numbers of tiles along the longest edge of a block. The last is tried whatever edge it gives.
inline constexpr std::array<std::int64_t, 15> kPieces{1,  2,  3,  4,  5,  6,  8, 10,
                                                      12, 16, 20, 24, 32, 48, 64};
/// Numbers of rounds in which the tiles of a triangle are dealt, and the least edge of such tiles:
/// smaller ones are not worth a product.
inline constexpr std::array<std::int64_t, 8> kRounds{1, 2, 3, 4, 6, 8, 12, 16};
inline constexpr std::int64_t kLeastOfRound = 2048;
/// Other edges of a triangle's tiles are tried if their estimate, which takes the parts of workers
/// for even ones, is below this share of the least of whole rounds.
inline constexpr double kWorthUnevenParts = 0.95;
/// Least ratio of k to the edges of C with which sums are split over the workers, and the numbers
/// of tiles along the longest edge of a worker's part that are tried then.
inline constexpr std::int64_t kSplitAspect = 2;
inline constexpr std::array<std::int64_t, 7> kSplitPieces{1, 2, 3, 4, 6, 8, 12};
/// Numbers of tiles along the rows and along the columns of C that a worker has, and of steps of
/// its part of k, that are tried too; in grids of at most so many columns.
inline constexpr int kMostColumnsOfParts = 2;
struct TilesOfPart {
  std::int64_t rows, cols, steps;
};
inline constexpr std::array<TilesOfPart, 4> kTilesOfPart{
    {{1, 3, 3}, {1, 4, 2}, {2, 2, 3}, {2, 3, 2}}};
/// Ratios of length to width of tiles along m and along k, and the largest width with which they
/// are tried: columns of larger tiles are long enough for any link.
inline constexpr std::array<std::int64_t, 4> kStretchesM{1, 2, 4, 8};
inline constexpr std::array<std::int64_t, 3> kStretchesK{1, 2, 4};
inline constexpr std::int64_t kLongestStretched = 4096;

// ---- sets of workers ----------------------------------------------------------------------------

/// Most workers of which every set is estimated: eight have 255.
inline constexpr std::size_t kMostEnumerated = 8;
/// Most sets of one size for which tunings are listed, and how far above the least estimate theirs
/// may be, since estimates of sets of different sizes are rough.
inline constexpr std::ptrdiff_t kMostOfSize = 3;
inline constexpr double kWorthATeam = 2;
/// Most tunings planned for one set, and the number after which a set is given up whose best is
/// behind the fastest by the ratio kHopelessTeam.
inline constexpr std::size_t kMostOfTeam = 8, kLeastOfTeam = 2;
inline constexpr double kHopelessTeam = 1.2;
/// Most sets whose best tunings are varied, and most tunings planned for these before.
inline constexpr std::size_t kMostVaried = 2, kMostOfBestTeam = 16;
/// Numbers of tiles along a block with which sets are estimated.
inline constexpr std::array<std::int64_t, 3> kTeamPieces{1, 2, 4};

// ---- the budget of planning, in tasks -----------------------------------------------------------
// The budget is counted in tasks, so that no plan depends on a clock. Planning and simulating cost
// 0.4 to 1 us per task, and more where copies and kernels get other rates more than kRatesOfTask
// times per task: in chains over 72 devices it is hundreds of times, 0.1 us each. The budget is 7
// ms, or 8 % of the estimated run if that is more, but at most 40 % of the run, since a first call
// should not plan longer than it gains; and at least 1 ms. It grows to three plans of the size at
// hand.

inline constexpr double kTasksPerSecond = 1 / 0.8e-6;
inline constexpr std::int64_t kRatesOfTask = 8;
inline constexpr std::int64_t kLeastBudget = 1500;
inline constexpr double kUsualBudget = 9000;
/// Shares of the estimated run.
inline constexpr double kUsualShare = 0.08, kLargestShare = 0.4;
/// Number of plans of the size at hand to which the budget grows, within the largest share.
inline constexpr double kBudgetFactor = 3.0;
/// The part of all these that a quick search gets. Without smaller sets of workers it takes a
/// quarter of the time of a whole one, and its plans take 3 % longer (simulated: the mean of 280
/// problems on two machines with four GPUs).
inline constexpr double kQuick = 1.0 / 3;

/// The least budget with which helpers are worth their start and end, which take 0.2 to 0.4 ms (one
/// to seven of them, on two cores), more than kLeastBudget; and the most threads that plan: the
/// first tiles that are tried, 32 at most, are a third of all plans, and what follows them comes a
/// few at a time.
inline constexpr std::int64_t kWorthHelpers = 2000;
inline constexpr int kMostPlanning = 8;

/// A part of the budget, in whole tasks.
struct Part {
  std::int64_t of, in;
  constexpr std::int64_t operator()(std::int64_t budget) const { return budget * of / in; }
};
/// Tiles get two thirds of the budget. Groups get what tiles leave, and at least half of the
/// budget. A larger part for the owner of operands gets a fifth on top; plans with a halved first
/// step, with C and k cut apart, or with one chain for both sides of C, are few and have no limit.
/// Smaller sets of workers get three quarters of it on top, and each of the best of these a quarter
/// for more tilings and half of it for groups. Sets of many workers are few, one of each size, and
/// get three eighths and no more tilings: tuning for 72 devices is to take less than two seconds.
/// The CPU's part gets a quarter, and results that wait for inputs a third.
inline constexpr Part kForTiles{2, 3}, kForGroups{1, 2}, kForShares{1, 5}, kForTeams{3, 4},
    kForTeamsOfMany{3, 8}, kForBestTeam{1, 4}, kForGroupsOfTeam{1, 2}, kForCpu{1, 4},
    kForInputsFirst{1, 3};

/// Most tasks of a plan; larger plans cost more than they gain, so they are tried last.
inline constexpr std::int64_t kMostTasks = 30000;
/// Most plans made for different tiles, however small they are.
inline constexpr int kMostPlanned = 32;

// ---- variants of the fastest --------------------------------------------------------------------

/// First steps that are halved and other parts of C are also tried for the best plan of each grid
/// that none of the fastest plans has, within this ratio of the fastest: what they gain differs by
/// more than grids do.
inline constexpr std::size_t kMostOtherGrids = 3;
inline constexpr double kOtherGrid = 1.05;

/// The kMostRamped fastest plans are also tried with a first step of k that is halved kRamp times.
inline constexpr std::size_t kMostRamped = 5;
inline constexpr int kRamp = 3;
/// Distributed results are computed elsewhere than where they belong if that saves this part.
inline constexpr double kWorthLeavingOwners = 0.03;

/// The kMostGrouped fastest plans are also tried with C in groups that are computed one after
/// another: the first go home while the last are computed. `rows` is the number of groups along the
/// longer edge of C, and groups are square; with one row, a group is a panel of whole columns of C,
/// since long tiles would not fit into less.
inline constexpr std::size_t kMostGrouped = 3;
struct Groups {
  int rows, cols;
};
inline constexpr std::array<Groups, 6> kGroups{{{3, 3}, {1, 4}, {2, 2}, {1, 8}, {4, 4}, {1, 2}}};
/// Beside a triangular A the fastest plan of each of a few other edges of its tiles is grouped too,
/// within this ratio of the fastest.
inline constexpr std::size_t kMostOtherEdges = 2;
inline constexpr double kOtherEdge = 1.1;
/// Results that wait for inputs are tried in these groups (turns), with smaller tiles as long as
/// that is faster, and for the kMostInputsFirst fastest plans.
inline constexpr std::array<Groups, 2> kTurns{{{1, 2}, {1, 4}}};
inline constexpr std::size_t kMostInputsFirst = 3;
/// The kMostBothSides fastest plans of a symmetric C, and the fastest without groups, are also
/// tried with one chain of copies of a tile for the users on both sides.
inline constexpr std::size_t kMostBothSides = 3;
/// The kMostShared fastest plans are also tried with a larger part of C for the worker that holds
/// the operands, adjusted in kShareRounds rounds.
inline constexpr std::size_t kMostShared = 3;
inline constexpr int kShareRounds = 2;
/// Workers whose speeds differ by this ratio are uneven: they get parts by their speeds.
inline constexpr double kUneven = 1.05;
/// Parts are adjusted in kBalanceRounds rounds until the products of all workers end within the
/// ratio kBalanced (paper 2, 3.1).
inline constexpr double kBalanced = 1.05;
inline constexpr int kBalanceRounds = 3;
/// Workers' links differ in speed from this ratio on. The kMostTwoSized fastest plans are then also
/// tried with tiles of other edges for the workers with faster links, down to this part.
inline constexpr double kFasterLink = 1.2, kLeastPart = 0.25;
inline constexpr std::size_t kMostTwoSized = 2;
/// Largest share of C for one worker, so that the others still get some.
inline constexpr double kMostOwned = 0.95;
/// Least ratio of that share to an equal one; tiles are too coarse for a smaller difference.
inline constexpr double kWorthFavouring = 1.04;

/// The kMostInPlace best plans are also tried with operands in memory that devices share with the
/// host in place.
inline constexpr std::size_t kMostInPlace = 2;

// ---- the CPU's share ----------------------------------------------------------------------------

/// Ratio of times, without the CPU and with it, below which it stays out: its rates beside copies
/// are less sure than those of devices.
inline constexpr double kWorthTheCpu = 1.05;
/// The kMostWithCpu best plans are also tried with a part of C for the CPU, which is adjusted in
/// kCpuRounds rounds until it ends with the devices within the ratio kBalanced.
inline constexpr std::size_t kMostWithCpu = 2;
inline constexpr int kCpuRounds = 3;

// ---- the choice, as ratios of times -------------------------------------------------------------

/// Estimates within this ratio do not tell which candidate is faster: the one that is cheaper to
/// plan comes first.
inline constexpr double kAlike = 1.12;
/// Among plans simulated within 2 % of the fastest, the tuner prefers the one that would be fastest
/// if issuing each task cost twice as much: runs with many small copies and much issuing fall
/// behind their simulation (docs/performance/lessons.md).
inline constexpr double kNear = 1.02;
/// Simulated times within this ratio count as equal: of two plans simulated 0.5 % apart, the one
/// with larger tiles was 2 % faster when measured, and of two 1 % apart it was 3 % slower.
inline constexpr double kSame = 1.005;

/// Of the nearly best plans the first kMostExamined are also simulated with products, links to the
/// host and links between devices slower than known, one kind at a time, by this factor. The one
/// that takes least in its worst case is chosen, issuing at twice its cost being a case too.
inline constexpr std::size_t kMostExamined = 3;
/// Effort, in tasks, of all plans that are examined; the first in order is chosen where it has
/// more.
inline constexpr std::int64_t kMostExaminedEffort = 40'000;
inline constexpr double kErrorOfRates = 1 / 1.15;

// ---- levels 1 and 2 -----------------------------------------------------------------------------

/// Tiles per worker along each dimension: a few hide the first and last copy, more cost latency.
inline constexpr std::array<std::int64_t, 4> kVectorPieces{1, 2, 4, 8};
/// Most bytes of a tile product: more gain nothing on any link.
inline constexpr std::int64_t kMostVectorBytes = std::int64_t{64} << 20;
/// A tile product takes at most the kVectorSlots-th part of a worker's memory.
inline constexpr std::int64_t kVectorSlots = 12;
/// An edge may take the kVectorParts-th part of a tile product's bytes; other edges are cut too.
inline constexpr std::int64_t kVectorParts = 4;
/// Most tasks planned for each set of workers: such calls take little longer than 1 us per task.
inline constexpr std::int64_t kMostVectorTasks = 10'000;
/// Estimated tasks of a tile product: copy in, compute, copy home.
inline constexpr std::int64_t kTasksPerVectorTile = 3;

// ---- candidates kept for reports ----------------------------------------------------------------

/// Most candidates without a plan that are kept with a tuning, since plans stay in a cache; further
/// ones are only counted.
inline constexpr std::size_t kMostPassedOver = 48;

}  // namespace fleet::limits

// SPDX-License-Identifier: BSD-3-Clause
// tune.hpp: finds the best tuning and plan for a problem on a machine. Pure.
#pragma once
#include <exception>
#include <functional>
#include <optional>
#include <string_view>

#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "tune/considered.hpp"
#include "tune/goal.hpp"

namespace fleet {

/// The library whose policies a plan follows (preset.hpp).
enum class Preset { none, cublasxt, blasx, xkblas, paralia, uncut };

/// The choices that the caller fixed; the tuner makes all others.
struct TuneRequest {
  std::vector<DeviceId> workers;  ///< empty: every device that can compute the type
  bool selects = false;           ///< workers may be left out where that is faster
  /// For a call that waits: by all workers, and with a part of the budget (limits::kQuick).
  bool quick = false;
  std::vector<std::int64_t> memory_cap;  ///< per device; empty: 80 % of Machine memory
  std::int64_t tile = 0;                 ///< 0: by model
  Grid grid{0, 0};                       ///< if it does not match the number of workers: by model
  Rules rules = Rules::all();
  Preset preset = Preset::none;  ///< not none: it replaces rules, tiles, owners, routes, max_hops
  int max_hops = 1;              ///< most other workers on the way of a tile (paper 2, 3.2)
  bool own_copies = false;  ///< as in Tuning; the CPU, which multiplies in place, stays out then
  double cpu_part = 0;      ///< as in Tuning; 0: the CPU has no lane beside the devices,
  std::string_view why_no_part = "the backend leaves it out";  ///< for this reason
  std::optional<double> cpu_share;  ///< of the work, for that lane; nothing: by model,
  /// which gives it what it would compute if it took this many times as long,
  double cpu_margin = 1;
  double cpu_least_s = 0;       ///< and nothing where devices alone take less than this
  int helpers = 0;              ///< threads that plan beside the caller's; they change no plan
  bool shares_pageable = true;  ///< where memory is shared with the host, pageable memory is too
  Goal goal;
  std::function<bool()> gives_up;  ///< level 3: asked before each plan; true: throws GaveUp
};

/// Nobody waits for the plan any more.
struct GaveUp : std::exception {
  const char* what() const noexcept override { return "planning was given up"; }
};

struct Tuned {
  Plan plan;
  Cost cost;        ///< predicted: of the simulated plan
  int planned = 0;  ///< candidates that were planned and simulated
  Search search;    ///< all candidates, and why the others were not chosen
};

/// Closed-form times of tunings with the same workers: the larger of arithmetic and traffic per
/// port, plus the arrival of the first tiles and the last tile's way home. It ranks candidates; its
/// times are never reported as predictions.
class Estimator {
 public:
  /// `problem` and `machine` must outlive the estimator.
  Estimator(const Problem& problem, const Machine& machine, const std::vector<DeviceId>& workers);
  double seconds(const Tuning& tuning) const;

  /// Links by purpose, found once.
  struct Ways {
    struct Operand {
      std::vector<LinkId> out, back;  ///< home (if pageable, the ring) to workers, workers to home
      LinkId ring_out = -1, ring_back = -1;
      bool home_works = false;
    };
    Operand operand[3];
    std::vector<LinkId> between;  ///< worker to worker
    std::vector<char> in_turn;    ///< by device: plans send in turn what leaves it
  };

 private:
  const Problem& problem_;
  const Machine& machine_;
  Ways ways_;
};

/// Paper 1, III-A: padding(T) + overlap(T) + latency(T), as read in PAPERS.md.
double tile_cost(const Problem& problem, int workers, std::int64_t tile);

/// Estimates all candidates, plans and simulates the best few, returns the one of the least value
/// by the request's goal. Throws as make_plan.
Tuned tune(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// The same for a problem with vectors, k > 0 and n > 0: few plans, all small, each simulated.
Tuned tune_vectors(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// Seconds of the whole problem by the CPU BLAS on all cores; infinite if the host has no rates.
double host_s(const Problem& problem, const Machine& machine);

}  // namespace fleet

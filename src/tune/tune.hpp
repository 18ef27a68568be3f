// SPDX-License-Identifier: BSD-3-Clause
// tune.hpp: from problem and machine to Tuning, and from there to the best plan. Pure.
#pragma once
#include <optional>

#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "sim/trace.hpp"
#include "tune/considered.hpp"

namespace fleet {

/// What the caller fixed; everything else is the tuner's.
struct TuneRequest {
  std::vector<DeviceId> workers;         ///< empty: every device that can compute the type
  std::vector<std::int64_t> memory_cap;  ///< per device; empty: 80 % of Machine memory
  std::int64_t tile = 0;                 ///< 0: by model
  Grid grid{0, 0};                       ///< one that does not hold the workers: by model
  Rules rules = Rules::all();
  bool own_copies = false;  ///< as in Tuning
};

struct Tuned {
  Plan plan;
  double predicted_s = 0;  ///< simulated makespan of `plan`
  int planned = 0;         ///< candidates that were planned and simulated
  Search search;           ///< what else was considered, and why it was not chosen
};

/// Closed-form times of tunings that differ in all but their workers: the larger of arithmetic and
/// traffic per port, plus the first tiles' arrival and the last one's way home. Ranks candidates;
/// never reported as a prediction.
class Estimator {
 public:
  /// Both must outlive it.
  Estimator(const Problem& problem, const Machine& machine, const std::vector<DeviceId>& workers);
  double seconds(const Tuning& tuning) const;

  /// Links by what they are for, found once.
  struct Ways {
    struct Operand {
      std::vector<LinkId> out, back;  ///< home (pageable: the ring) to workers, workers to home
      LinkId ring_out = -1, ring_back = -1;
      bool home_works = false;
    };
    Operand operand[3];
    std::vector<LinkId> between;  ///< workers
  };

 private:
  const Problem& problem_;
  const Machine& machine_;
  Ways ways_;
};

/// Paper 1, III-A: padding(T) + overlap(T) + latency(T), as read in PAPERS.md.
double tile_cost(const Problem& problem, int workers, std::int64_t tile);

/// Candidates -> estimate -> the best few planned and simulated -> the best. Throws as make_plan.
Tuned tune(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// tune of a problem with vectors, k and n > 0: few plans, all small, each simulated.
Tuned tune_vectors(const Problem& problem, const Machine& machine, const TuneRequest& request);

/// Seconds of the whole problem by the CPU BLAS in place on all cores, by the machine's host rates
/// (infinite when it gives none).
double host_s(const Problem& problem, const Machine& machine);

}  // namespace fleet

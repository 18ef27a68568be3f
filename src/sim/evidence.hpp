// SPDX-License-Identifier: BSD-3-Clause
// evidence.hpp: what the runs of one plan have shown so far, and what follows from one more. Pure;
// it knows no cache and no clock.
#pragma once
#include <vector>

#include "sim/observe.hpp"

namespace fleet {

/// The last run of a plan, as far as it contradicts the prediction.
struct Evidence {
  int runs = 0;      ///< all of them, the cold first one included
  int far_off = 0;   ///< runs in a row that were off by kFarOff, in the same direction
  double speed = 1;  ///< predicted seconds of the last run as a share of measured ones; 1: right
  double untimed_speed = 0;  ///< the same where it was off and did not measure its tasks, else 0
  bool timed = false;        ///< `observed` is known
  std::vector<Correction> observed;
  /// Runs that measured their tasks because that was wanted, and of virtual devices, whose runs all
  /// do, those that were compared. After the n-th, 4^n runs do without, until `look_from`: such
  /// runs take up to a third longer, and what the model leaves out would have each run measured.
  int looks = 0;
  int look_from = 0;

  /// Without what it says against a prediction that holds no more.
  Evidence about_runs() const { return {.runs = runs, .looks = looks, .look_from = look_from}; }
};

/// Whether the next run should measure its tasks: the last one was off, and nobody knows where.
inline bool wants_task_times(const Evidence& evidence) {
  return distance(evidence.speed) > kNoise && !evidence.timed &&
         evidence.runs >= evidence.look_from;
}

/// What a run teaches.
struct Lesson {
  std::vector<Correction> corrections;  ///< of the machine that predicted it: they change it
  bool far_off = false;   ///< the prediction was off by kFarOff in this run and the one before
  bool too_fast = false;  ///< these runs were faster, and none of the machine's rates is to blame
};

/// Takes down one run of `plan`, which `machine` predicts to take `predicted_s`. `measured` is of a
/// run that was not disturbed, as far as its owner knows. A run teaches nothing if it is the first
/// of its plan, which is cold; if it is off by more than 8 times, in which something else happened;
/// if devices waited for their tasks to be issued; or if measuring its tasks has slowed it down, as
/// it does where they are short. A correction needs two runs in a row that point the same way, of
/// which the last has the times of its tasks.
Lesson learn(Evidence& evidence, const Plan& plan, const Machine& machine, double predicted_s,
             const Trace& measured);

}  // namespace fleet

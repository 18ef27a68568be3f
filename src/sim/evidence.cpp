// SPDX-License-Identifier: BSD-3-Clause
// evidence.cpp: the rules by which two runs of a plan agree.
#include "sim/evidence.hpp"

#include <algorithm>
#include <utility>

#include "sim/simulate.hpp"

namespace fleet {
namespace {

/// A run that is off by more than this was stopped, swapped out, or is of another machine.
constexpr double kIncredible = 8;

bool same_way(double a, double b) { return (a < 1) == (b < 1); }

/// What this run observed, as far as the one before, of which only the whole time is known, was off
/// in the same direction.
std::vector<Correction> in_direction_of(double speed, const std::vector<Correction>& observed) {
  std::vector<Correction> agree;
  for (const Correction& each : observed)
    if (same_way(each.factor, speed) && distance(each.factor) > kNoise) agree.push_back(each);
  return agree;
}

void look_later(Evidence& evidence) {
  constexpr int kMostDoublings = 8;
  ++evidence.looks;
  evidence.look_from = evidence.runs + (1 << std::min(2 * evidence.looks, kMostDoublings));
}

Evidence one_run_later(const Evidence& before) {
  Evidence later = before.about_runs();
  ++later.runs;
  return later;
}

}  // namespace

Lesson learn(Evidence& evidence, const Plan& plan, const Machine& machine, double predicted_s,
             const Trace& measured) {
  const Evidence before = std::exchange(evidence, one_run_later(evidence));
  if (before.runs == 0 || !(predicted_s > 0) || !(measured.seconds > 0)) return {};
  const bool timed = has_task_times(plan, measured);
  const bool asked = timed && wants_task_times(before);
  if (asked) look_later(evidence);  // whatever it shows
  if (measured.waits_for_issuing()) return {};
  const double speed = predicted_s / measured.seconds;
  if (distance(speed) <= kNoise || distance(speed) > kIncredible) return {};

  const bool again = distance(before.speed) > kNoise && same_way(speed, before.speed);
  evidence.speed = speed;
  if (distance(speed) > kFarOff) evidence.far_off = again ? before.far_off + 1 : 1;
  Lesson lesson{.far_off = evidence.far_off >= 2};
  if (!timed) {
    evidence.untimed_speed = speed;
    return lesson;
  }
  if (before.runs < before.look_from) return lesson;
  if (again && !asked) look_later(evidence);
  if (speed * kNoise < before.untimed_speed) return lesson;

  evidence.timed = true;
  evidence.observed = observe(plan, machine, simulate(plan, machine), measured);
  if (!again) return lesson;
  lesson.corrections = before.timed ? agreed(before.observed, evidence.observed)
                                    : in_direction_of(before.speed, evidence.observed);
  lesson.corrections = evened(machine, std::move(lesson.corrections));
  if (corrected(machine, lesson.corrections) == machine) {  // none, or all at their bounds
    lesson.corrections.clear();
    lesson.too_fast = lesson.far_off && speed > 1;
  } else {  // what was observed is off against a machine that is no more
    const int far_off = evidence.far_off;
    evidence = evidence.about_runs();
    evidence.far_off = far_off;
  }
  return lesson;
}

}  // namespace fleet

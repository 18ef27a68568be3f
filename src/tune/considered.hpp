// SPDX-License-Identifier: BSD-3-Clause
// considered.hpp: the candidates of a tuner, and why each was chosen or not. Plain values that
// decide nothing.
#pragma once
#include <string>
#include <vector>

#include "base/objective.hpp"
#include "problem/problem.hpp"
#include "program/tuning.hpp"

namespace fleet {

struct Considered {
  /// The outcome for this candidate. Those with one of the first nine were planned and simulated.
  enum class Verdict {
    chosen,
    slower,        ///< than the chosen one, where time is the objective
    worse,         ///< than the chosen one by another objective
    too_slow,      ///< it takes more of the least time than the objective allows
    less_robust,   ///< at least as good, but worse where rates of the machine are wrong by 15 %
    more_issuing,  ///< at least as fast, but issuing its extra tasks would cost more than it gains
    little_gain,   ///< better with the CPU's part, but by less than limits::kWorthTheCpu
    without_cpu,   ///< the caller gave the CPU a part, and here it has none
    alike,         ///< neither faster nor with fewer tasks: the one planned first was kept
    refused,       ///< the planner found no plan: no memory, or no route
    over_budget,   ///< planning it would exceed the budget of tasks
    enough_plans,  ///< enough plans were made before its turn
    too_large,     ///< its tiles are larger than any link needs
  };

  Tuning tuning;
  double estimate_s = 0;    ///< closed form; 0: levels 1 and 2 have none
  double seconds = 0;       ///< simulated; 0 without a plan
  double joules = 0;        ///< the same; 0 too where time is the objective, or watts are not known
  double value = 0;         ///< of this cost by the objective
  double worst_s = 0;       ///< with rates slower, or issuing slower, than known; 0: not examined
  std::int64_t tasks = 0;   ///< of its plan, or estimated if it has none
  std::int64_t effort = 0;  ///< of planning and simulating it, in tasks; 0 without a plan
  /// Seconds after which each worker's last product ends, in the simulation; empty without a plan.
  std::vector<double> ends_s;
  double devices_end_s = 0;  ///< the same of the last task that is not the CPU's, with C at home
  Verdict verdict = Verdict::slower;
  std::int64_t limit =
      0;                ///< the limit it exceeded: tasks left, plans made, bytes of a tile product
  std::string refusal;  ///< the planner's message

  bool is_planned() const { return verdict <= Verdict::alike; }
};

inline constexpr int kVerdicts = 13;
const char* to_string(Considered::Verdict verdict);  ///< the enumerator's name

/// A worker that the chosen plan does without.
struct LeftOut {
  DeviceId device = kHost;
  std::string why;  ///< a sentence with the number that shows it
};

/// All candidates of one tuning.
struct Search {
  Objective objective;
  std::vector<Considered> list;  ///< in the order of consideration
  std::size_t chosen = 0;
  std::size_t passed_over = 0;   ///< candidates in the list that have no plan
  std::int64_t not_kept = 0;     ///< further candidates without a plan, not in the list
  double least_s = 0;            ///< of all that have a plan
  double least_without_cpu = 0;  ///< value of all without a part for the CPU
  bool needs_cpu = false;        ///< the caller gave the CPU a part
  std::string no_cpu;            ///< why no candidate has a part for the CPU

  /// Adds a candidate without a plan to the list, or only counts it if the list has enough.
  void pass_over(Considered&& candidate, Considered::Verdict verdict, std::int64_t limit = 0);
  /// Chooses the candidate at `index` and gives every planned candidate its verdict. `issue_s` is
  /// the cost of issuing one task.
  void choose(std::size_t index, double issue_s);
  /// The chosen candidate, then the other planned ones by value, then the rest by estimate.
  std::vector<const Considered*> best_first() const;
  /// Why the candidate was not chosen, as one sentence with the numbers that show it.
  std::string reason(const Considered& candidate) const;
  /// The devices of any candidate that do not compute in the chosen one, in ascending order.
  std::vector<LeftOut> left_out() const;
  /// Why the CPU computes nothing beside the devices, like left_out; empty where it does.
  std::string cpu_left_out() const;
  /// Whether a candidate must not be chosen: the CPU's part gains it too little beside the best
  /// value without the CPU, or it lacks the part that the caller gave the CPU.
  bool is_cpu_against(const Considered& candidate, double least_without) const;
};

}  // namespace fleet

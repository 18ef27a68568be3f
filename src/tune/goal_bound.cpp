// SPDX-License-Identifier: BSD-3-Clause
// goal_bound.cpp: lower bounds of energy, from the bound of time of each set of devices.
#include "tune/goal_bound.hpp"

#include <algorithm>
#include <functional>

#include "base/sizes.hpp"
#include "plan/bound.hpp"
#include "tune/limits.hpp"
#include "tune/teams.hpp"

namespace fleet {
namespace {

class GoalBounder {
 public:
  GoalBounder(const Problem& problem, const Machine& machine, double cpu_part, const Goal& goal)
      : problem_(problem),
        machine_(machine),
        cpu_part_(cpu_part),
        goal_(goal),
        knows_watts_(machine.knows_watts()) {}

  double of_set(const Team& set) const;
  double of_any(Team workers) const;

 private:
  const Device& device(DeviceId d) const { return machine_.devices[static_cast<std::size_t>(d)]; }
  double rate(DeviceId d) const { return machine_.best_rate(d, problem_.type); }
  /// Of the host's rates, what its part reaches.
  double of_cpu() const { return cpu_part_ * device(kHost).beside; }
  /// Joules that a flop takes on this device beyond waiting.
  double joules_per_flop(DeviceId d) const {
    const Watts& watts = device(d).watts;
    // What levels 1 and 2 take depends on the bytes that kernels stream: counted as waiting.
    return problem_.traits().vectors ? 0 : std::max(0.0, watts.multiply - watts.wait) / rate(d);
  }
  double least_joules_per_flop(const Team& set) const {
    double least = kNever;
    for (const DeviceId d : set) least = std::min(least, joules_per_flop(d));
    if (cpu_part_ > 0 && rate(kHost) > 0)
      least = std::min(least, joules_per_flop(kHost) / of_cpu());
    return least;
  }
  double value(double seconds, int devices, double waiting_watts, double joules_per_flop) const {
    Cost cost{.seconds = seconds, .devices = devices};
    if (knows_watts_) cost.joules = waiting_watts * seconds + joules_per_flop * flops(problem_);
    return goal_.value(cost);
  }

  const Problem& problem_;
  const Machine& machine_;
  const double cpu_part_;
  const Goal& goal_;
  const bool knows_watts_;
};

double GoalBounder::of_set(const Team& set) const {
  Machine machine = machine_;
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    if (!std::ranges::binary_search(set, d))
      machine.devices[static_cast<std::size_t>(d)].kernels.clear();
  Team taking_part = set;
  for (const Operand& operand : problem_.operands)
    if (!on_host(operand.home) && std::ranges::find(taking_part, operand.home) == taking_part.end())
      taking_part.push_back(operand.home);
  double watts = 0;
  for (const DeviceId d : taking_part) watts += device(d).watts.wait;
  return value(bound(problem_, machine, cpu_part_).seconds, static_cast<int>(taking_part.size()),
               watts, least_joules_per_flop(set));
}

double GoalBounder::of_any(Team workers) const {
  const double all_s = bound(problem_, machine_, cpu_part_).seconds;
  const double per_flop = least_joules_per_flop(workers);
  std::vector<double> rates, watts;
  for (const DeviceId d : workers) {
    rates.push_back(rate(d));
    watts.push_back(device(d).watts.wait);
  }
  std::ranges::sort(rates, std::greater<>());
  std::ranges::sort(watts);
  double least = kNever, waiting_watts = 0;
  double rate = cpu_part_ > 0 ? of_cpu() * this->rate(kHost) : 0;  // it has a part beside any set
  for (std::size_t i = 0; i < workers.size(); ++i) {
    rate += rates[i];
    waiting_watts += watts[i];
    least = std::min(least, value(std::max(all_s, flops(problem_) / rate), static_cast<int>(i + 1),
                                  waiting_watts, per_flop));
  }
  return least;
}

}  // namespace

std::optional<double> goal_bound(const Problem& problem, const Machine& machine,
                                 const std::vector<DeviceId>& workers, const Goal& goal,
                                 double cpu_part) {
  if (goal.is_time()) return bound(problem, machine, cpu_part).seconds;
  if (goal.objective.kind == Objective::Kind::own) return std::nullopt;
  if (flops(problem) == 0) return 0;
  const GoalBounder bounder(problem, machine, cpu_part, goal);
  if (workers.size() > limits::kMostEnumerated) return bounder.of_any(workers);
  double least = kNever;
  for (const Team& set : all_sets(problem, machine, workers))
    least = std::min(least, bounder.of_set(set));
  return least;
}

}  // namespace fleet

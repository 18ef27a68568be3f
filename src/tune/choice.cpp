// SPDX-License-Identifier: BSD-3-Clause
// choice.cpp: plans candidates, keeps the plans that may be chosen, and chooses. Pure.
#include "tune/choice.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "sim/simulate.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

/// The machine as it would be if its file were wrong about products, about links to the host, or
/// about links between devices.
std::vector<Machine> slower(const Machine& machine) {
  std::vector<Machine> machines(3, machine);
  for (Device& device : machines[0].devices) {
    device.memory_bytes_per_s *= limits::kErrorOfRates;
    for (KernelRate& rate : device.kernels) rate.flops_per_s *= limits::kErrorOfRates;
  }
  std::vector<int> used_by(machine.ports.size(), 0);  ///< the last kind of links at each port
  for (const Link& link : machine.links) {
    const bool with_host = on_host(link.source) || on_host(link.target);
    Machine& other = machines[with_host ? 1 : 2];
    other.links[static_cast<std::size_t>(&link - machine.links.data())].bytes_per_s *=
        limits::kErrorOfRates;
    for (const PortShare& share : link.ports)
      used_by[static_cast<std::size_t>(share.port)] = with_host ? 1 : 2;
  }
  for (std::size_t port = 0; port < used_by.size(); ++port)
    if (used_by[port] > 0)
      machines[static_cast<std::size_t>(used_by[port])].ports[port].capacity *=
          limits::kErrorOfRates;
  return machines;
}

/// Notes when the last product of each worker ends, and when the devices have their part at home.
void note_ends(Considered& c, const Plan& plan, const Trace& trace) {
  c.devices_end_s = 0;
  std::vector<double> of_device;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const bool computes = task.kind == TaskKind::compute;
    const double stop_s = trace.spans[id].stop_s;
    if (!computes || !on_host(task.device())) c.devices_end_s = std::max(c.devices_end_s, stop_s);
    if (!computes) continue;
    const auto device = static_cast<std::size_t>(task.device());
    if (device >= of_device.size()) of_device.resize(device + 1, 0.0);
    of_device[device] = std::max(of_device[device], stop_s);
  }
  c.ends_s.clear();
  for (const DeviceId worker : plan.tuning.workers) {
    const auto device = static_cast<std::size_t>(worker);
    c.ends_s.push_back(device < of_device.size() ? of_device[device] : 0.0);
  }
}

/// Different edges may cut alike.
bool cut_alike(const Considered& a, const Considered& b) {
  return a.seconds == b.seconds && a.tasks == b.tasks;
}

}  // namespace

class Choice::Eligible {
 public:
  explicit Eligible(const Choice& choice) : choice_(choice) {
    for (const Considered& c : choice.search_.list)
      if (is_fast(c) && !c.tuning.has_cpu())
        least_without_cpu_ = std::min(least_without_cpu_, c.value);
  }
  bool operator()(const Considered& c) const {
    return is_fast(c) && !choice_.search_.is_cpu_against(c, least_without_cpu_);
  }

 private:
  bool is_fast(const Considered& c) const { return c.is_planned() && !choice_.is_too_slow(c); }

  const Choice& choice_;
  double least_without_cpu_ = kNever;
};

const Considered* Choice::attempt(Considered c) {
  try {
    auto [plan, trace, rates_given] = ahead_.take(c.tuning);
    c.seconds = trace.seconds;
    c.value = c.seconds;
    if (!goal_.is_time()) {
      const Cost cost = cost_of(plan, machine_, trace);
      c.joules = cost.joules;
      c.value = goal_.value(cost);
    }
    c.tasks = std::ssize(plan.tasks);
    c.effort = std::max(c.tasks, rates_given / limits::kRatesOfTask);
    note_ends(c, plan, trace);
    ++planned_;
    least_s_ = std::min(least_s_, c.seconds);
    if (!is_too_slow(c)) least_ = std::min(least_, rank(c));
    near_.push_back({search_.list.size(), std::move(plan), std::move(trace), rank(c)});
    std::erase_if(near_, [&, newest = search_.list.size()](const Kept& kept) {
      return kept.rank > within(limits::kNear, least_) && kept.candidate != newest;
    });
    search_.list.push_back(std::move(c));
    return &search_.list.back();
  } catch (const Error& e) {
    if (e.status() != Status::no_memory && e.status() != Status::unreachable) throw;
    refusal_ = e;
    c.refusal = e.what();
    search_.pass_over(std::move(c), Considered::Verdict::refused);
    return nullptr;
  }
}

std::vector<Considered> Choice::best(std::size_t most, const std::vector<DeviceId>* team) const {
  std::vector<const Considered*> sorted;
  for (const Considered& c : search_.list)
    if (c.is_planned() && (team == nullptr || c.tuning.workers == *team)) sorted.push_back(&c);
  std::ranges::stable_sort(
      sorted, {}, [&](const Considered* c) { return std::tuple(is_too_slow(*c), rank(*c)); });
  sorted.resize(std::min(sorted.size(), most));
  std::vector<Considered> copies;
  for (const Considered* c : sorted) copies.push_back(*c);
  return copies;
}

std::vector<Considered> Choice::best_of_grids(std::size_t most,
                                              const std::vector<DeviceId>& team) const {
  std::vector<Considered> all = best(search_.list.size(), &team), chosen;
  for (Considered& c : all) {
    bool is_first = true, is_twin = false;
    for (const Considered& other : chosen)
      if (other.tuning.grid == c.tuning.grid) {
        is_first = false;
        is_twin |= cut_alike(other, c);
      }
    const bool is_near = rank(c) <= within(limits::kOtherGrid, least_) && !is_too_slow(c);
    if (!is_twin && (chosen.size() < most ||
                     (is_near && is_first && chosen.size() < most + limits::kMostOtherGrids)))
      chosen.push_back(std::move(c));
  }
  return chosen;
}

/// The plan of a candidate, made again where it was not among the best when it was booked.
Choice::Kept Choice::plan_of(std::size_t candidate) {
  const auto kept = std::ranges::find(near_, candidate, &Kept::candidate);
  if (kept != near_.end()) return std::move(*kept);
  const Considered& c = search_.list[candidate];
  auto [plan, trace, rates_given] = ahead_.take(c.tuning);
  return {candidate, std::move(plan), std::move(trace), rank(c)};
}

void Choice::require_cpu() {
  search_.needs_cpu = std::ranges::any_of(search_.list, [this](const Considered& c) {
    return c.is_planned() && !is_too_slow(c) && c.tuning.has_cpu();
  });
}

void Choice::rank_by_goal() {
  by_goal_ = true;
  least_ = kNever;
  const Eligible is_eligible(*this);
  for (const Considered& c : search_.list)
    if (is_eligible(c)) least_ = std::min(least_, c.value);
  for (Kept& kept : near_) kept.rank = search_.list[kept.candidate].value;
}

/// A few candidates within kNear of the best: those that cost least if issuing takes twice as long.
std::vector<std::size_t> Choice::nearly_best() const {
  const Eligible is_eligible(*this);
  std::vector<std::tuple<double, std::size_t, std::size_t>> near;
  for (std::size_t i = 0; i < search_.list.size(); ++i) {
    const Considered& c = search_.list[i];
    if (!is_eligible(c) || c.value > within(limits::kNear, least_)) continue;
    const double per_second = c.seconds > 0 ? std::abs(c.value) / c.seconds : 1;
    near.emplace_back(std::max(c.value, within(limits::kSame, least_)) +
                          per_second * machine_.issue_s * static_cast<double>(c.tasks),
                      c.tuning.workers.size(), i);
  }
  // Where a share rounds to nothing, a plan of more workers is the same as one of fewer.
  std::ranges::sort(near);
  std::vector<std::size_t> candidates;
  for (const auto& [issued, workers, i] : near) {
    const auto is_same = [&, i = i](std::size_t other) {
      return cut_alike(search_.list[other], search_.list[i]);
    };
    if (std::ranges::none_of(candidates, is_same)) candidates.push_back(i);
    if (candidates.size() == limits::kMostExamined) break;
  }
  return candidates;
}

/// Notes the most that each plan takes where products, links or issuing are slower than known.
void Choice::examine(const std::vector<Kept>& affordable) {
  const std::vector<Machine> machines = slower(machine_);
  const std::size_t n = machines.size();
  std::vector<double> seconds(affordable.size() * n);
  helpers().for_each(seconds.size(), [&](std::size_t i) {
    seconds[i] = simulate(affordable[i / n].plan, machines[i % n]).seconds;
  });
  for (std::size_t i = 0; i < affordable.size(); ++i) {
    Considered& c = search_.list[affordable[i].candidate];
    c.worst_s = std::max(std::ranges::max(std::span(seconds).subspan(i * n, n)),
                         c.seconds + machine_.issue_s * static_cast<double>(c.tasks));
  }
}

// Among the nearly best plans, the one that errors of the machine and of issuing harm least.
Tuned Choice::take() {
  rank_by_goal();  // what was best when it came may be too slow by now
  if (least_ == kNever)
    throw Error(Status::bad_argument, "the objective is a finite number for no plan");
  helpers().withdraw();
  std::vector<Kept> candidates;
  std::int64_t left = limits::kMostExaminedEffort;
  for (const std::size_t i : nearly_best()) {
    const std::int64_t effort = search_.list[i].effort;
    if (!candidates.empty() && effort > left) break;
    left -= effort;
    candidates.push_back(plan_of(i));
  }
  if (left >= 0 && candidates.size() > 1) examine(candidates);
  std::optional<Kept> best;
  double least_s = kNever;
  for (Kept& kept : candidates) {
    const Considered& c = search_.list[kept.candidate];
    for (Considered& twin : search_.list)
      if (twin.is_planned() && cut_alike(twin, c)) twin.worst_s = c.worst_s;
    if (best && limits::kSame * c.worst_s >= least_s) continue;
    least_s = c.worst_s;
    best = std::move(kept);
  }
  search_.choose(best->candidate, machine_.issue_s);
  const Cost cost = cost_of(best->plan, machine_, best->trace);
  return {.plan = std::move(best->plan),
          .cost = cost,
          .planned = planned_,
          .search = std::move(search_)};
}

}  // namespace fleet

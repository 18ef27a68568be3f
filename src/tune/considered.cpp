// SPDX-License-Identifier: BSD-3-Clause
// considered.cpp: the verdicts on candidates, and a sentence for each.
#include "tune/considered.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "base/sizes.hpp"
#include "tune/goal.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

using Verdict = Considered::Verdict;

/// Formats a number the same way in every locale.
std::string number(double value, int decimals) {
  std::array<char, 400> text;  // room for the 309 digits before the point of the largest double
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, decimals);
  return {text.data(), end.ptr};
}

std::string number(double value) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  return {text.data(), end.ptr};
}

/// The percentage by which `more` exceeds `less`, rounded to digits that are significant.
std::string percent(double more, double less) {
  const double part = 100 * (more / less - 1);
  if (part < 0.01) return "less than 0.01 %";
  return number(part, part < 1 ? 2 : part < 10 ? 1 : 0) + " %";
}

std::string times_estimate(const Considered& candidate, const Considered& chosen) {
  if (candidate.estimate_s <= 0 || chosen.estimate_s <= 0) return "";
  return "; estimate " + number(candidate.estimate_s / chosen.estimate_s, 2) +
         " times that of the chosen";
}

/// "3 % more energy", "as much energy"
std::string compared(const char* more, const char* less, double value, double other) {
  return value >= other ? percent(value, other) + " " + more : percent(other, value) + " " + less;
}

}  // namespace

const char* to_string(Considered::Verdict verdict) {
  constexpr const char* kNames[kVerdicts] = {
      "chosen",       "slower",       "worse",       "too_slow", "less_robust",
      "more_issuing", "little_gain",  "without_cpu", "alike",    "refused",
      "over_budget",  "enough_plans", "too_large"};
  return kNames[static_cast<std::size_t>(verdict)];
}

void Search::pass_over(Considered&& candidate, Verdict verdict, std::int64_t limit) {
  if (passed_over == limits::kMostPassedOver) {
    ++not_kept;
    return;
  }
  ++passed_over;
  candidate.verdict = verdict;
  candidate.limit = std::max<std::int64_t>(limit, 0);
  list.push_back(std::move(candidate));
}

void Search::choose(std::size_t index, double issue_s) {
  chosen = index;
  const Considered& best = list[index];
  least_s = best.seconds;
  least_without_cpu = kNever;
  for (const Considered& c : list) {
    if (!c.is_planned()) continue;
    least_s = std::min(least_s, c.seconds);
    if (!c.tuning.has_cpu()) least_without_cpu = std::min(least_without_cpu, c.value);
  }
  for (Considered& c : list) {
    if (!c.is_planned()) continue;
    const Verdict behind = objective.is_time() ? Verdict::slower : Verdict::worse;
    c.verdict = c.seconds > objective.most_time * least_s ? Verdict::too_slow
                : needs_cpu && !c.tuning.has_cpu()        ? Verdict::without_cpu
                : c.value > best.value                    ? behind
                : is_cpu_against(c, least_without_cpu)    ? Verdict::little_gain
                : c.worst_s > best.worst_s                ? Verdict::less_robust
                : c.tasks > best.tasks && issue_s > 0     ? Verdict::more_issuing
                                                          : Verdict::alike;
  }
  list[index].verdict = Verdict::chosen;
}

std::vector<const Considered*> Search::best_first() const {
  std::vector<const Considered*> sorted;
  sorted.reserve(list.size());
  for (const Considered& c : list) sorted.push_back(&c);
  const auto rank = [](const Considered* c) {
    return std::tuple(c->verdict != Verdict::chosen, !c->is_planned(),
                      c->verdict == Verdict::too_slow, c->is_planned() ? c->value : c->estimate_s);
  };
  std::ranges::stable_sort(sorted, {}, rank);
  return sorted;
}

std::vector<LeftOut> Search::left_out() const {
  const Considered& best = list[chosen];
  std::map<DeviceId, const Considered*> with;  ///< the best candidate with each worker
  for (const Considered* c : best_first())
    for (const DeviceId worker : c->tuning.workers)
      if (!on_host(worker)) with.try_emplace(worker, c);
  for (const DeviceId worker : best.tuning.workers) with.erase(worker);
  std::vector<LeftOut> devices;
  for (const auto& [device, c] : with) {
    const int count = c->tuning.places();
    const std::string on =
        "the best with it, on " + std::to_string(count) + (count == 1 ? " device, " : " devices, ");
    if (c->is_planned())
      devices.push_back({device, on + "is " + reason(*c)});
    else
      devices.push_back({device, on + "was " + reason(*c)});
  }
  return devices;
}

std::string Search::cpu_left_out() const {
  if (list.empty() || list[chosen].tuning.has_cpu()) return "";
  if (!no_cpu.empty()) return no_cpu;
  for (const Considered* c : best_first())
    if (c->tuning.has_cpu())
      return "the best with it, on " + number(100 * c->tuning.cpu_share, 0) +
             " % of the product, " + (c->is_planned() ? "is " : "was ") + reason(*c);
  return "";
}

bool Search::is_cpu_against(const Considered& c, double least_without) const {
  if (needs_cpu) return !c.tuning.has_cpu();
  return c.tuning.has_cpu() && least_without <= within(limits::kWorthTheCpu, c.value);
}

std::string Search::reason(const Considered& c) const {
  const Considered& best = list[chosen];
  const auto limit = std::to_string(c.limit);
  const auto same = [&] { return std::string(objective.is_time() ? "as fast" : "as good"); };
  switch (c.verdict) {
    case Verdict::chosen:
      return "chosen";
    case Verdict::slower: {
      std::string text = "slower by " + percent(c.seconds, best.seconds);
      if (c.tasks < best.tasks && c.seconds <= limits::kNear * best.seconds)
        text += ", with fewer tasks to issue (-" + std::to_string(best.tasks - c.tasks) + ")";
      return text;
    }
    case Verdict::worse:
      if (objective.kind == Objective::Kind::own)
        return "worse: " + number(c.value) + ", the chosen one " + number(best.value);
      return "worse: " + percent(c.value, best.value) +
             (objective.kind == Objective::Kind::edp ? " more energy x time (" : " more energy (") +
             compared("slower", "faster", c.seconds, best.seconds) +
             (c.joules > 0 && best.joules > 0 && objective.kind == Objective::Kind::edp
                  ? ", " + compared("more energy", "less energy", c.joules, best.joules)
                  : "") +
             ")";
    case Verdict::too_slow:
      return "too slow: " + number(c.seconds / least_s, 2) + " times the least time, at most " +
             number(objective.most_time, 2) + " is allowed";
    case Verdict::less_robust:
      return (c.value >= best.value ? same()
              : objective.kind == Objective::Kind::own
                  ? std::string("better")
                  : "better by " + percent(best.value, c.value)) +
             ", but " + percent(c.worst_s, best.worst_s) + " slower in its worst case";
    case Verdict::more_issuing:
      return (c.value >= best.value ? same()
              : objective.is_time() ? "faster by " + percent(best.value, c.value)
                                    : std::string("better")) +
             ", but more tasks to issue (+" + std::to_string(c.tasks - best.tasks) + ")";
    case Verdict::little_gain:
      return (c.value < least_without_cpu && c.value > 0
                  ? "better than without it by " + percent(least_without_cpu, c.value)
                  : same()) +
             ", and " + number(100 * (limits::kWorthTheCpu - 1), 0) +
             " % is the least that the CPU has to gain";
    case Verdict::without_cpu:
      return "without the part that the CPU is to have";
    case Verdict::alike:
      return same() + " within " + number(100 * (limits::kSame - 1), 1) +
             " %: the one planned first was kept";
    case Verdict::refused:
      return "refused: " + c.refusal;
    case Verdict::over_budget:
      return "not planned: its tasks exceed the " + limit + " left in the budget" +
             times_estimate(c, best);
    case Verdict::enough_plans:
      return "not planned: " + limit + " plans were made before its turn" + times_estimate(c, best);
    case Verdict::too_large:
      return "not planned: a tile product moves more than " + limit + " bytes";
  }
  return "";
}

}  // namespace fleet

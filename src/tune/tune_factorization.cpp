// SPDX-License-Identifier: BSD-3-Clause
// tune_factorization.cpp: candidates of a factorization: few, since each is planned and simulated.
#include "tune/tune_factorization.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/helpers.hpp"
#include "base/locked.hpp"
#include "base/sizes.hpp"
#include "plan/bound.hpp"
#include "plan/factor_planner.hpp"
#include "plan/kernel_times.hpp"
#include "plan/strip_bytes.hpp"
#include "program/strips.hpp"
#include "sim/simulate.hpp"
#include "tune/candidates.hpp"
#include "tune/lasting.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

/// Notes of panels are 32-bit integers.
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;
/// Planning looks at all strips of a worker for each update.
constexpr int kMostStripsAtAll = 2048;
/// A plan has about the square of this many ops.
constexpr std::int64_t kMostStrips = 256;
/// Strips of small matrices.
constexpr std::int64_t kNarrowest = 32;
/// The share of the rate of products that LAPACK on a CPU reaches.
constexpr double kShareOfProducts = 2.0 / 3;

void add_cost(Cost& sum, const Cost& one) {
  sum.source = one.source;
  sum.seconds += one.seconds;
  sum.devices = std::max(sum.devices, one.devices);
  sum.joules += one.joules;
  sum.joules_node += one.joules_node;
  sum.bytes_by_link.resize(std::max(sum.bytes_by_link.size(), one.bytes_by_link.size()), 0);
  for (std::size_t l = 0; l < one.bytes_by_link.size(); ++l)
    sum.bytes_by_link[l] += one.bytes_by_link[l];
}

class FactorTuner {
 public:
  FactorTuner(const Factorization& what, const Machine& machine, const TuneRequest& request)
      : what_(what), holders_(what.holders()), machine_(machine), request_(request) {
    base_ = base_tuning(product_like(what), machine, request);
    base_.max_hops = 0;
    if (holders_.empty()) return;
    // A strip is factored where it lies, in memory of its own, so its address changes no bits.
    for (const DeviceId device : holders_)
      if (std::ranges::find(base_.workers, device) == base_.workers.end())
        throw Error(Status::unreachable, "device " + machine_.devices.at(index(device)).name +
                                             ", which has a part of the matrix, does not compute");
    base_.workers = holders_;
    base_.own_copies = false;
  }

  TunedFactorization run() {
    if (what_.diagonal() == 0) throw Error(Status::bad_argument, "an empty matrix has no plan");
    if (what_.m > kMostRows)
      throw Error(Status::unsupported, "the notes of a panel count no more rows than 32 bits");
    std::vector<std::size_t> teams{base_.workers.size()};
    if (request_.selects && holders_.empty())
      for (std::size_t count = base_.workers.size() / 2; count > 0; count /= 2)
        teams.push_back(count);
    std::vector<Tuning> tunings;
    for (const std::size_t count : teams)
      for (const std::int64_t width : widths()) {
        Tuning& tuning = tunings.emplace_back(base_);
        tuning.workers.resize(count);
        tuning.grid = {1, static_cast<int>(count)};
        tuning.tile = width;
      }
    std::vector<Attempt> attempts(tunings.size());
    // A caller's own objective is called in the caller's thread.
    const int others = static_cast<int>(std::ssize(tunings)) - 1;
    Helpers helpers(request_.goal.own ? 0 : std::min(request_.helpers, others));
    helpers.for_each(tunings.size(), [&](std::size_t i) { attempts[i] = attempt(tunings[i], i); });
    return chosen(std::move(attempts));
  }

 private:
  /// One width and set of workers.
  struct Attempt {
    TriedStrips tried;
    std::optional<Error> refusal;
  };
  /// The best so far; of equal ones the first.
  struct Best {
    TunedFactorization candidate;
    std::size_t attempt = 0;
    double value = 0;
  };

  TunedFactorization chosen(std::vector<Attempt> attempts) {
    TunedFactorization best = best_.with([](Best& b) { return std::move(b.candidate); });
    for (Attempt& attempt : attempts) {
      if (!attempt.refusal)
        ++best.planned;
      else if (best.stages.empty())
        refusal_ = *attempt.refusal;
      best.tried.push_back(std::move(attempt.tried));
    }
    if (best.stages.empty()) throw refusal_;
    best.cost.source = CostSource::predicted;
    return best;
  }

  Attempt attempt(const Tuning& tuning, std::size_t number) {
    try {
      return {.tried = planned(tuning, number), .refusal = {}};
    } catch (const Error& error) {
      if (error.status() != Status::no_memory && error.status() != Status::unreachable) throw;
      return {.tried = {.width = tuning.tile, .workers = tuning.workers, .refusal = error.what()},
              .refusal = error};
    }
  }

  std::vector<std::int64_t> widths() const {
    const std::int64_t diagonal = what_.diagonal();
    // What is dealt is spread over its devices by its strips, and pageable strips pass through
    // pinned slots of their size.
    const bool may_be_wide = what_.dealt.empty() && what_.home != kPageable;
    std::int64_t widest = may_be_wide ? diagonal : std::min(diagonal, kWidestPanel);
    for (const DeviceId d : base_.workers)
      widest = std::min(
          widest,
          machine_.devices[index(d)].panels[static_cast<std::size_t>(what_.routine)].widest);
    if (request_.tile > 0) return {std::min(request_.tile, widest)};
    std::vector<std::int64_t> widths = strip_widths(what_, widest);
    std::erase_if(widths,
                  [&](std::int64_t width) { return ceil_div(diagonal, width) > kMostStrips; });
    if (widths.empty())
      widths.push_back(std::min(widest, std::max(ceil_div(diagonal, kMostStrips), kNarrowest)));
    return widths;
  }

  TriedStrips planned(const Tuning& tuning, std::size_t number) {
    TunedFactorization candidate{.width = tuning.tile};
    const Strips all = strips_on(machine_, tuning.workers, what_, tuning.tile);
    if (all.count() > kMostStripsAtAll)
      throw Error(Status::unsupported, "a factorization in " + std::to_string(all.count()) +
                                           " strips would take too long to plan");
    const int per_stage = strips_per_stage(all, tuning);
    const auto add = [&](const Stage& stage) {
      Strips strips = all;
      strips.stage = stage;
      Plan plan = schedule_factorization(std::make_shared<const TileProgram>(expand(strips)),
                                         machine_, tuning);
      const Trace trace = simulate(plan, machine_);
      add_cost(candidate.cost, cost_of(plan, machine_, trace));
      candidate.stages.push_back(std::move(plan));
    };
    for (int begin = 0; begin < all.count(); begin += per_stage)
      add({.begin = begin, .end = std::min(begin + per_stage, all.count())});
    const bool exchanges = what_.routine == Factoring::getrf && candidate.stages.size() > 1;
    for (int begin = 0; exchanges && begin + 1 < all.panels; begin += per_stage)
      add({.begin = begin, .end = std::min(begin + per_stage, all.panels), .only_exchanges = true});
    const double value = request_.goal.value(candidate.cost);
    TriedStrips tried{.width = tuning.tile, .workers = tuning.workers, .cost = candidate.cost};
    tried.value = value;
    tried.stages = candidate.stages.size();
    for (const Plan& plan : candidate.stages) tried.tasks += plan.tasks.size();
    best_.with([&](Best& best) {
      const bool is_better = best.candidate.stages.empty() || value < best.value ||
                             (value == best.value && number < best.attempt);
      if (is_better) best = {std::move(candidate), number, value};
    });
    return tried;
  }

  /// As many as the caps hold: all of them, where that is possible.
  int strips_per_stage(const Strips& all, const Tuning& tuning) const {
    const StripBytes bytes = strip_bytes(matrices_of(all));
    std::int64_t least = all.count();
    for (const DeviceId d : tuning.workers) {
      if (index(d) >= tuning.memory_cap.size()) continue;
      const std::int64_t left = tuning.memory_cap[index(d)] - bytes.beside;
      const bool in_place = (what_.home == d || !holders_.empty()) && !tuning.own_copies;
      least = std::min(least, in_place ? least : left / bytes.strip);
    }
    if (least * std::ssize(tuning.workers) >= all.count()) return all.count();
    if (least < 1 || !tuning.rules.has(Rule::outofcore))
      throw Error(Status::no_memory, "the memory caps hold no strip of the matrix beside panels");
    if (what_.kept)
      throw Error(Status::no_memory, "the memory caps do not hold the factors beside panels");
    return static_cast<int>(least * std::ssize(tuning.workers));
  }

  const Factorization& what_;
  const std::vector<DeviceId> holders_;
  const Machine& machine_;
  const TuneRequest& request_;
  Tuning base_;
  Locked<Best> best_;
  Error refusal_{Status::no_memory, "the memory caps hold no strip of the matrix"};
};

}  // namespace

/// For tuned_for_lasting().
static void price(TunedFactorization& tuned, const Machine& machine) {
  tuned.cost = {};
  for (const Plan& stage : tuned.stages) add_cost(tuned.cost, predicted(stage, machine));
}

TunedFactorization tune(const Factorization& what, const Machine& machine,
                        const TuneRequest& request) {
  return tuned_for_lasting(
      machine, [&](const Machine& lasting) { return FactorTuner(what, lasting, request).run(); });
}

double host_s(const Factorization& what, const Machine& machine) {
  const double edge = static_cast<double>(what.diagonal());
  if (edge == 0) return 0;
  const double rate = machine.rate(kHost, machine.rated_as(kHost, what.type()), edge, edge, edge);
  return rate > 0 ? flops(what) / (kShareOfProducts * rate) : kNever;
}

}  // namespace fleet

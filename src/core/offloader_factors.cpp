// SPDX-License-Identifier: BSD-3-Clause
// offloader_factors.cpp: factorizations on devices: their plans, stage by stage, and what happens
// where one fails. It only passes addresses on.
#include <algorithm>

#include "base/clock.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/cpu_path.hpp"
#include "core/offloader.hpp"
#include "machine/corrections.hpp"
#include "program/strips.hpp"
#include "recover/recover.hpp"
#include "tune/tune_factorization.hpp"

namespace fleet {
namespace {

constexpr std::size_t kMostFactors = 32;
constexpr int kAttempts = 2;

/// Has a task of the run begun to change the matrix at home?
bool has_touched_home(const Plan& plan, const Trace& trace) {
  const int strips = plan.program->strips->count();
  for (std::size_t t = 0; t < std::min(plan.tasks.size(), trace.spans.size()); ++t) {
    const Task& task = plan.tasks[t];
    const bool begun = trace.spans[t].done() || trace.spans[t].start_s >= 0;
    if (begun && task.tile.matrix < strips && task.to.in_place()) return true;
  }
  return false;
}

/// Copies of the matrix, in memory of the caller.
bool has_own_strips(const Offloader::Factored& factored) {
  return !factored.strips.empty() || !factored.slots.empty();
}

/// Memory for what is in slots only, so that the CPU can complete a run.
class ScratchHomes {
 public:
  /// Throws std::bad_alloc.
  ScratchHomes(const TileProgram& program, Binding& binding) {
    for (std::size_t m = 0; m < program.matrices.size(); ++m) {
      if (!program.matrices[m].is_scratch) continue;
      const TileId tile{static_cast<MatrixId>(m), 0, 0};
      memory_.emplace_back(static_cast<std::size_t>(program.bytes_of(tile)));
      binding.matrices[m] = {.data = memory_.back().data(), .ld = program.rows_of(tile)};
    }
  }

 private:
  std::vector<std::vector<char>> memory_;
};

}  // namespace

KeptPinned::~KeptPinned() {
  // In a forked child the memory is the parent's.
  if (data_ != nullptr && !gate::in_forked_child()) backend_->release(kHost, data_);
}

void* KeptPinned::of(Backend& backend, std::int64_t bytes) {
  if (data_ == nullptr) {
    data_ = backend.allocate(kHost, bytes);
    backend_ = &backend;
  }
  return data_;
}

PlannedFactors Offloader::plan_factors(const Factorization& what) {
  TuneRequest wanted = request(product_like(what));
  wanted.cpu_part = 0;
  const double start_s = now_s();
  TunedFactorization tuned = tune(what, *model(), wanted);
  PlannedFactors planned{.cost = tuned.cost, .host_s = fleet::host_s(what, *model())};
  planned.plan_s = now_s() - start_s;
  planning_s_ += planned.plan_s;
  for (Plan& plan : tuned.stages) {
    verify(plan);
    Planned stage{.tuned = {.plan = std::move(plan), .planned = tuned.planned}};
    stage.tuned.cost.seconds = tuned.cost.seconds / static_cast<double>(tuned.stages.size());
    stage.places = places_of(stage.tuned.plan);
    stage.serial = ++last_serial_;
    stage.made_for = stage.priced_for = online_.version();
    planned.stages.push_back(std::make_shared<const Planned>(std::move(stage)));
  }
  planned.tried = std::move(tuned.tried);
  return planned;
}

std::shared_ptr<const PlannedFactors> Offloader::find_factors(const Factorization& what) {
  const auto known =
      std::ranges::find(factors_, what, [](const auto& entry) { return entry.first; });
  if (known == factors_.end()) return nullptr;
  const PlannedFactors& found = *known->second;
  if (found.stages.empty() && found.priced_for != online_.version()) {
    factors_.erase(known);  // what was hopeless may not be any more
    return nullptr;
  }
  std::rotate(known, known + 1, factors_.end());
  return factors_.back().second;
}

std::shared_ptr<const PlannedFactors> Offloader::plan(const Factorization& what) {
  if (auto known = find_factors(what); known != nullptr && !known->stages.empty()) return known;
  return keep(what, plan_factors(what));
}

std::shared_ptr<const PlannedFactors> Offloader::keep(const Factorization& what,
                                                      PlannedFactors planned) {
  auto kept = std::make_shared<const PlannedFactors>(std::move(planned));
  std::erase_if(factors_, [&](const auto& entry) { return entry.first == what; });
  if (factors_.size() >= kMostFactors) factors_.erase(factors_.begin());
  factors_.emplace_back(what, kept);
  return kept;
}

Bound Offloader::bound(const Factorization& what) { return fleet::bound(what, at_best(*model())); }

std::shared_ptr<const PlannedFactors> Offloader::plan_if_promising(const Factorization& what) {
  if (const auto known = find_factors(what)) return known;
  const double by_cpu_s = fleet::host_s(what, *model());
  const double at_least_s = fleet::bound(what, *model()).seconds;
  if (at_least_s < by_cpu_s) return plan(what);
  PlannedFactors hopeless;
  hopeless.cost.seconds = at_least_s;
  hopeless.host_s = by_cpu_s;
  hopeless.priced_for = online_.version();
  return keep(what, std::move(hopeless));
}

std::unique_ptr<Execution> Offloader::begin_first(const Factorization& what, FactorRun& run,
                                                  const Log& log) {
  Backend& backend = *engine().backend;
  for (int attempt = 0;; ++attempt) {
    try {
      const auto& stage = run.planned->stages.front();
      const Strips& all = *stage->tuned.plan.program->strips;
      run.outcomes = run.planned->outcomes->of(
          backend, all.outcome_elements(all.panels) * bytes_of(what.storage));
      run.binding = bind(all, run.factored->a, run.factored->lda, run.outcomes);
      std::ranges::copy(run.factored->strips, run.binding.matrices.begin());
      run.binding.slots = run.factored->slots;
      run.binding.scalars[kScaleOfHalves] = run.factored->scale_of_halves;
      return backend.begin(stage->tuned.plan, run.binding, stage->serial);
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      // Strips in memory of their own were cut for this very plan: there is no other one.
      const int most = has_own_strips(*run.factored) ? 1 : kAttempts;
      const bool is_last = error.status() != Status::no_memory || attempt == most;
      log.line(Log::kWarning, {error.what(), is_last ? "; left to the CPU" : "; trying with less"});
      run.refusal = error.status() == Status::no_memory ? "no memory on the devices"
                                                        : "the devices do not work";
      if (is_last) return nullptr;
    }
    // Once more with what others give back, then with half.
    give_back(attempt);
    if (attempt == 0) continue;
    calls_with_less_ = 1;
    forget_plans();
    halve_caps();
    try {
      run.planned = plan(what);
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      return nullptr;
    }
  }
}

/// Stages after the first: the matrix has been changed.
std::unique_ptr<Execution> Offloader::begin_later(const Planned& stage, const FactorRun& run) {
  Backend& backend = *engine().backend;
  try {
    return backend.begin(stage.tuned.plan, run.binding, stage.serial);
  } catch (const Error& error) {
    if (error.status() != Status::no_memory) throw_undefined();
  }
  give_back(0);
  return backend.begin(stage.tuned.plan, run.binding, stage.serial);
}

Offloader::Outcome Offloader::run(const Factorization& what, Factored& factored,
                                  const std::shared_ptr<const PlannedFactors>& planned,
                                  CallRecord& record, Journal& journal, const Log& log) {
  const Computing computing;
  FactorRun run{.planned = planned, .factored = &factored};
  auto first = begin_first(what, run, log);
  if (first == nullptr) {
    record.reason = run.refusal;
    return Outcome::not_possible;
  }
  const auto& stages = run.planned->stages;
  Outcome outcome = finish_stage(stages.front(), std::move(first), run, record, journal, log);
  if (outcome == Outcome::not_possible) return outcome;
  past_first_write([&] {
    for (auto stage = stages.begin() + 1; stage != stages.end(); ++stage) {
      run.is_touched = true;
      const Outcome of_stage =
          finish_stage(*stage, begin_later(**stage, run), run, record, journal, log);
      if (of_stage == Outcome::finished_on_cpu) outcome = of_stage;
    }
  });
  const Strips& all = *stages.front()->tuned.plan.program->strips;
  factored.info = decode_outcomes(all, run.outcomes, factored.pivots, factored.tau);
  record.predicted_s = run.planned->cost.seconds;
  return outcome;
}

/// Not possible: the matrix is as it was.
Offloader::Outcome Offloader::finish_stage(const std::shared_ptr<const Planned>& planned,
                                           std::unique_ptr<Execution> execution,
                                           const FactorRun& run, CallRecord& record,
                                           Journal& journal, const Log& log) {
  const Plan& plan = planned->tuned.plan;
  const double start_s = now_s();
  Trace trace = fleet::complete(plan, run.binding, *execution);
  const bool whole = trace.status == Status::ok;
  const bool is_copy = has_own_strips(*run.factored);
  if (!whole && !run.is_touched && (is_copy || !has_touched_home(plan, trace))) {
    note_outcome(trace, log);
    log.line(Log::kWarning, {trace.message, "; left to the CPU"});
    record.reason = "a fault before the matrix was changed";
    return Outcome::not_possible;
  }
  past_first_write([&] {
    note_outcome(trace, log);
    if (whole) return;
    log.line(Log::kWarning, {trace.message, "; finishing on the CPU"});
    std::optional<CpuBlas::Lease> lease;
    lease_if_possible(lease, *blas_, cores_);
    Binding with_scratch = run.binding;
    const ScratchHomes scratch(*plan.program, with_scratch);
    recover({plan, with_scratch, trace, *execution}, lost_, *engine().backend, *blas_);
  });
  keep_books(*planned, trace, record);
  try {
    auto kept = std::make_shared<const Trace>(std::move(trace));
    journal.note(RunRecord{planned, online_.machine(), std::move(kept), start_s});
  } catch (const std::bad_alloc&) {
    // The factors are complete: a lost timeline is no error.
  }
  return whole ? Outcome::done : Outcome::finished_on_cpu;
}

}  // namespace fleet

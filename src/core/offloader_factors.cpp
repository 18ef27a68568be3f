// SPDX-License-Identifier: BSD-3-Clause
// offloader_factors.cpp: factorizations on devices: their plans, stage by stage, and what happens
// where one fails. It only passes addresses on.
#include <algorithm>

#include "base/clock.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/cpu_path.hpp"
#include "core/offloader.hpp"
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

/// What tuning looks at of a problem: its type, and where it lies.
Problem alike(const Factorization& what) {
  return make_problem({.type = what.type(), .m = what.m, .n = what.n, .k = what.diagonal()},
                      {.homes = {what.home, what.home, what.home}});
}

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
  TuneRequest wanted = request(alike(what));
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

std::shared_ptr<const PlannedFactors> Offloader::plan(const Factorization& what) {
  const auto known =
      std::ranges::find(factors_, what, [](const auto& entry) { return entry.first; });
  if (known != factors_.end()) {
    std::rotate(known, known + 1, factors_.end());
    return factors_.back().second;
  }
  auto planned = std::make_shared<const PlannedFactors>(plan_factors(what));
  if (factors_.size() >= kMostFactors) factors_.erase(factors_.begin());
  factors_.emplace_back(what, planned);
  return planned;
}

Bound Offloader::bound(const Factorization& what) { return fleet::bound(what, *model()); }

std::shared_ptr<const PlannedFactors> Offloader::plan_if_promising(const Factorization& what) {
  const double by_cpu_s = fleet::host_s(what, *model());
  const double at_least_s = bound(what).seconds;
  if (at_least_s < by_cpu_s) return plan(what);
  PlannedFactors hopeless;
  hopeless.cost.seconds = at_least_s;
  hopeless.host_s = by_cpu_s;
  return std::make_shared<const PlannedFactors>(std::move(hopeless));
}

Offloader::Outcome Offloader::run(const Factorization& what, Factored& factored,
                                  const std::shared_ptr<const PlannedFactors>& planned,
                                  CallRecord& record, Journal& journal, const Log& log) {
  const Computing computing;
  Backend& backend = *engine().backend;
  Outcome outcome = Outcome::done;
  auto stages = planned;
  for (int attempt = 0;; ++attempt) {
    try {
      const Strips& all = *stages->stages.front()->tuned.plan.program->strips;
      void* const outcomes =
          stages->outcomes->of(backend, all.outcome_elements(all.panels) * bytes_of(what.storage));
      for (const auto& stage : stages->stages) {
        const Binding binding = bind(all, factored.a, factored.lda, outcomes);
        const bool is_first = &stage == &stages->stages.front();
        const Outcome of_stage = run_stage(stage, binding, is_first, record, journal, log);
        if (of_stage == Outcome::not_possible) return of_stage;
        if (of_stage == Outcome::finished_on_cpu) outcome = of_stage;
      }
      factored.info = decode_outcomes(all, outcomes, factored.pivots, factored.tau);
      record.predicted_s = stages->cost.seconds;
      return outcome;
    } catch (const Error& error) {
      if (error.status() != Status::no_memory || attempt == kAttempts) {
        if (error.status() == Status::internal || error.status() == Status::device_failed) throw;
        record.reason = "no memory on the devices";
        return Outcome::not_possible;
      }
      log.line(Log::kWarning, {error.what(), "; trying with less"});
    }
    // Once more with what others give back, then with half.
    if (relief_) relief_(attempt);
    backend.trim();
    if (attempt == 0) continue;
    calls_with_less_ = 1;
    forget_plans();
    for (std::int64_t& cap : caps_) cap /= 2;
    try {
      stages = plan(what);
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      record.reason = "no memory on the devices";
      return Outcome::not_possible;
    }
  }
}

Offloader::Outcome Offloader::run_stage(const std::shared_ptr<const Planned>& planned,
                                        const Binding& binding, bool is_first, CallRecord& record,
                                        Journal& journal, const Log& log) {
  const Plan& plan = planned->tuned.plan;
  Backend& backend = *engine().backend;
  const double start_s = now_s();
  std::unique_ptr<Execution> run;
  try {
    run = backend.begin(plan, binding, planned->serial);
  } catch (const Error& error) {
    if (is_first && error.status() != Status::device_failed) throw;
    if (is_first) {
      log.line(Log::kWarning, {error.what(), "; left to the CPU"});
      record.reason = "the devices do not work";
      return Outcome::not_possible;
    }
    throw_undefined();
  }
  Trace trace = fleet::complete(plan, binding, *run);
  note_outcome(trace, log);
  const bool whole = trace.status == Status::ok;
  if (!whole) {
    if (is_first && !has_touched_home(plan, trace)) {
      log.line(Log::kWarning, {trace.message, "; left to the CPU"});
      record.reason = "a fault before the matrix was changed";
      return Outcome::not_possible;
    }
    log.line(Log::kWarning, {trace.message, "; finishing on the CPU"});
    past_first_write([&] {
      std::optional<CpuBlas::Lease> lease;
      lease_if_possible(lease, *blas_, cores_);
      Binding with_scratch = binding;
      const ScratchHomes scratch(*plan.program, with_scratch);
      recover({plan, with_scratch, trace, *run}, lost_, backend, *blas_);
    });
  }
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

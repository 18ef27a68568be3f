// SPDX-License-Identifier: BSD-3-Clause
// offloader_programs.cpp: plans of several calls as one.
#include <algorithm>

#include "base/clock.hpp"
#include "core/engine.hpp"
#include "core/offloader.hpp"
#include "tune/tune_program.hpp"

namespace fleet {

RegularTiles Offloader::regular_tiles(Storage storage) {
  return fleet::regular_tiles(*model(), storage, options_.tile);
}

ProgramPlanner Offloader::program_planner(const Problem& problem) {
  ProgramPlanner planner{
      .machine = model(), .version = online_.version(), .request = request(problem), .workers = {}};
  for (const Storage storage :
       {Storage::f32, Storage::f64, Storage::c32, Storage::c64, Storage::f16, Storage::bf16})
    for (const Compute compute : {Compute::native, Compute::tf32})
      planner.workers[{compute, storage}] = workers({compute, storage});
  return planner;
}

Planned Offloader::plan_afresh(const ProgramPtr& program, const Residency& before) {
  const ProgramPlanner planner = program_planner(program->calls.front().problem);
  Planned planned = planner.plan(program, before);
  note_left_out(planned);
  verify(planned.tuned.plan);
  return planned;
}

std::shared_ptr<const Planned> Offloader::plan(const ProgramPtr& program, const Residency& before) {
  const ProgramKey key = key_of(*program, before);
  if (auto known = programs_.find(key)) return known;
  Planned planned = plan_afresh(program, before);
  planning_s_ += planned.plan_s;
  planned.serial = ++last_serial_;
  auto kept = std::make_shared<const Planned>(std::move(planned));
  programs_.insert(key, kept);
  return kept;
}

void Offloader::adopt(const ProgramKey& key, Planned planned) {
  if (planned.made_for != online_.version() || !lost_.empty() || programs_.find(key) != nullptr)
    return;
  note_left_out(planned);
  verify(planned.tuned.plan);
  planned.serial = ++last_serial_;
  planned.is_ahead = true;
  programs_.insert(key, std::make_shared<const Planned>(std::move(planned)));
}

Plan Offloader::plan_return(const ProgramPtr& matrices, const Residency& before,
                            std::span<const TileId> tiles) {
  Plan plan = fleet::plan_return(matrices, before, tiles, *model(), {});
  verify(plan);
  return plan;
}

Plan Offloader::plan_spread(const ProgramPtr& matrices, const Residency& before,
                            std::span<const Residency::Copy> wanted, bool takes_memory) {
  const auto caps =
      takes_memory ? std::span<const std::int64_t>(caps_) : std::span<const std::int64_t>{};
  Plan plan = fleet::plan_spread(matrices, before, wanted, *model(), caps);
  verify(plan);
  return plan;
}

bool Offloader::run_copies(const Plan& plan, const Binding& binding, Journal& journal,
                           const Log& log) {
  const auto run = engine().backend->begin(plan, binding, 0);
  const Trace trace = fleet::complete(plan, binding, *run);
  note_outcome(trace, log);
  journal.note_bytes(traffic_of(plan, trace));
  return trace.status == Status::ok;
}

void Offloader::forget_plans() {
  cache_.clear();
  again_.forget();
  parts_.clear();
  programs_.clear();
  factors_.clear();
}

}  // namespace fleet

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

Planned Offloader::plan_afresh(const ProgramPtr& program) {
  TuneRequest wanted = request(program->calls.front().problem);
  for (const ProgramCall& call : program->calls) {
    const std::vector<DeviceId> usable = workers(call.problem.type);
    std::erase_if(wanted.workers, [&](DeviceId d) { return std::ranges::count(usable, d) == 0; });
  }
  if (wanted.workers.empty())
    throw Error(Status::unsupported, "no device computes the types of all calls of the program");
  const double start_s = now_s();
  Planned planned{.tuned = tune_program(program, *model(), wanted)};
  planned.plan_s = now_s() - start_s;
  planned.made_for = planned.priced_for = online_.version();
  note_left_out(planned);
  verify(planned.tuned.plan);
  return planned;
}

std::shared_ptr<const Planned> Offloader::plan(const ProgramPtr& program) {
  if (auto known = programs_.find(program->calls)) return known;
  Planned planned = plan_afresh(program);
  planning_s_ += planned.plan_s;
  planned.serial = ++last_serial_;
  auto kept = std::make_shared<const Planned>(std::move(planned));
  programs_.insert(program->calls, kept);
  return kept;
}

void Offloader::forget_plans() {
  cache_.clear();
  programs_.clear();
}

}  // namespace fleet

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

Planned Offloader::plan_afresh(const ProgramPtr& program, const Residency& before) {
  TuneRequest wanted = request(program->calls.front().problem);
  for (const ProgramCall& call : program->calls) {
    const std::vector<DeviceId> usable = workers(call.problem.type);
    std::erase_if(wanted.workers, [&](DeviceId d) { return std::ranges::count(usable, d) == 0; });
  }
  if (wanted.workers.empty())
    throw Error(Status::unsupported, "no device computes the types of all calls of the program");
  const double start_s = now_s();
  Planned planned{.tuned = tune_program(program, *model(), wanted, before)};
  planned.plan_s = now_s() - start_s;
  planned.made_for = planned.priced_for = online_.version();
  note_left_out(planned);
  verify(planned.tuned.plan);
  return planned;
}

Offloader::ProgramKey Offloader::key_of(const TileProgram& program, const Residency& before) {
  ProgramKey key{
      .calls = program.calls, .stays = {}, .returns = {}, .distributions = {}, .before = before};
  for (const Matrix& matrix : program.matrices) {
    key.stays.push_back(matrix.stays);
    key.returns.push_back(matrix.returns);
    key.distributions.push_back(matrix.distribution);
  }
  return key;
}

std::shared_ptr<const Planned> Offloader::plan(const ProgramPtr& program, const Residency& before) {
  ProgramKey key = key_of(*program, before);
  if (auto known = programs_.find(key)) return known;
  Planned planned = plan_afresh(program, before);
  planning_s_ += planned.plan_s;
  planned.serial = ++last_serial_;
  auto kept = std::make_shared<const Planned>(std::move(planned));
  programs_.insert(key, kept);
  return kept;
}

Plan Offloader::plan_return(const ProgramPtr& matrices, const Residency& before,
                            std::span<const TileId> tiles) {
  Plan plan = fleet::plan_return(matrices, before, tiles, *model(), {});
  verify(plan);
  return plan;
}

Plan Offloader::plan_spread(const ProgramPtr& matrices, const Residency& before,
                            std::span<const Residency::Copy> wanted) {
  Plan plan = fleet::plan_spread(matrices, before, wanted, *model(), caps_);
  verify(plan);
  return plan;
}

void Offloader::forget_plans() {
  cache_.clear();
  programs_.clear();
}

}  // namespace fleet

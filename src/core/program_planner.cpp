// SPDX-License-Identifier: BSD-3-Clause
// program_planner.cpp: the workers of a program, and the time that planning takes.
#include "core/program_planner.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace fleet {

ProgramKey key_of(const TileProgram& program, const Residency& before) {
  ProgramKey key{
      .calls = program.calls, .stays = {}, .returns = {}, .distributions = {}, .before = before};
  for (const Matrix& matrix : program.matrices) {
    key.stays.push_back(matrix.stays);
    key.returns.push_back(matrix.returns);
    key.distributions.push_back(matrix.distribution);
  }
  return key;
}

Planned ProgramPlanner::plan(const std::shared_ptr<const TileProgram>& program,
                             const Residency& before) const {
  TuneRequest wanted = request;
  for (const ProgramCall& call : program->calls) {
    const auto usable = workers.find(call.problem.type);
    std::erase_if(wanted.workers, [&](DeviceId d) {
      return usable == workers.end() || std::ranges::count(usable->second, d) == 0;
    });
  }
  if (wanted.workers.empty())
    throw Error(Status::unsupported, "no device computes the types of all calls of the program");
  const double start_s = now_s();
  Planned planned{.tuned = tune_program(program, *machine, wanted, before)};
  planned.plan_s = now_s() - start_s;
  planned.made_for = planned.priced_for = version;
  return planned;
}

}  // namespace fleet

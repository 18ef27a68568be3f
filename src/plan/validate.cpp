// SPDX-License-Identifier: BSD-3-Clause
// validate.cpp: what a plan needs of its program, dealings, machine and tuning.
#include "plan/validate.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fleet {
namespace {

// Nothing that the CPU does beside the devices waits for one of them, or is waited for: its lane
// runs by itself. That holds where one call has all of its operands in host memory.
void require_cpu(const TileProgram& program, const Tuning& tuning) {
  const bool is_last = tuning.workers.back() == kHost &&
                       std::count(tuning.workers.begin(), tuning.workers.end(), kHost) == 1;
  const bool is_part = tuning.cpu_share > 0 && tuning.cpu_share < 1 && tuning.cpu_part > 0;
  const bool in_place = std::ranges::all_of(
      program.matrices, [](const Matrix& matrix) { return on_host(matrix.home); });
  if (!is_last || !is_part || !in_place || tuning.own_copies || program.calls.size() != 1)
    throw Error(Status::bad_argument, "the CPU has no part of such a plan");
}

// Its results are at home at once, which no op may wait for that reads a copy of what they replace.
void require_sharing(const TileProgram& program, const Machine& machine, const Tuning& tuning) {
  const bool is_allowed = std::ranges::all_of(tuning.sharing, [&](DeviceId d) {
    return d >= kFirstDevice && d < std::ssize(machine.devices) &&
           machine.devices[static_cast<std::size_t>(d)].shares_host;
  });
  const bool reads_targets =
      std::ranges::any_of(program.calls, [](const ProgramCall& call) { return call.reads_target; });
  if (!is_allowed || reads_targets || tuning.own_copies || program.calls.size() != 1)
    throw Error(Status::bad_argument, "no device shares memory with the host for such a plan");
}

}  // namespace

void require_valid(const TileProgram& program, std::span<const Dealing> deals,
                   const Machine& machine, const Tuning& tuning) {
  if (tuning.workers.empty()) throw Error(Status::bad_argument, "a plan needs at least one worker");
  if (tuning.places() + (tuning.has_cpu() ? 1 : 0) != static_cast<int>(tuning.workers.size()))
    throw Error(Status::bad_argument, "the grid does not hold the workers");
  if (tuning.has_cpu()) require_cpu(program, tuning);
  if (!tuning.sharing.empty()) require_sharing(program, machine, tuning);
  if (deals.size() != program.calls.size())
    throw Error(Status::bad_argument, "not every call of the program is dealt to the workers");
  for (const Dealing& deal : deals) {
    if (deal.grid != tuning.grid)
      throw Error(Status::bad_argument, "a call is dealt to another grid of workers");
    if (deal.is_late && deals.size() != 1)
      throw Error(Status::bad_argument, "results are late in plans of single calls only");
  }
  for (const ProgramCall& call : program.calls) {
    const Matrix& target = program.matrices[static_cast<std::size_t>(call.target())];
    if (tuning.both_sides && (target.diagonal == Fill::full || target.items > 1))
      throw Error(Status::bad_argument, "tiles are on both sides of a triangle of C only");
  }
  if (tuning.tile < 1) throw Error(Status::bad_argument, "the tile edge must be positive");
  if (tuning.out_of_core != OutOfCore::none && tuning.memory_cap.size() < machine.devices.size())
    throw Error(Status::bad_argument, "an out-of-core plan needs a memory cap for every device");
  const auto known = [&](DeviceId d) {
    return d >= 0 && d < static_cast<DeviceId>(machine.devices.size());
  };
  for (DeviceId worker : tuning.workers)
    if (!known(worker) || worker == kPageable)
      throw Error(Status::bad_argument, "a worker is no device of the machine");
  for (const Matrix& matrix : program.matrices)
    if (!known(matrix.home))
      throw Error(Status::bad_argument, "an operand is at device " + place_word(matrix.home) +
                                            ", which the machine does not have");
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// joined_calls.hpp: which queued calls can be planned as one. It knows no plans and no devices.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/call_queue.hpp"
#include "program/composition.hpp"

namespace fleet {

/// The first calls of a queue as a program. Operands that are the same block of memory are one
/// matrix.
struct JoinedCalls {
  std::size_t count = 0;  ///< of calls; 0: the first has to be computed by itself
  std::shared_ptr<const TileProgram> program;
  std::vector<Block> blocks;                   ///< of the matrices of the program
  std::vector<Block> reads;                    ///< what is to be at home after the program
  std::vector<std::array<DeviceId, 3>> homes;  ///< of the operands of each call
  std::vector<Arguments>
      arguments;  ///< of each call of the program; those that do nothing have none
};

/// Joins calls as long as they can be in one plan: until one uses memory that another one writes
/// and that is not the same block (overlapping views, other leading dimensions), or uses a matrix
/// stored in another way (as a triangle and as a whole), or reads what it writes, or there are
/// many; or until one writes what an earlier one of them brings home, or is a transfer. `homes`:
/// where the operands of a call are; what it throws for the first call is passed on.
JoinedCalls join(std::span<const QueuedCall> calls,
                 const std::function<std::array<DeviceId, 3>(const Call&)>& homes,
                 const std::function<CallCuts(const Call&, const Problem&)>& cuts);

}  // namespace fleet

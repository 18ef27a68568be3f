// SPDX-License-Identifier: BSD-3-Clause
// copy_times.hpp: how long the copies of a plan take with the machine otherwise idle. It knows no
// schedule.
#pragma once
#include <algorithm>

#include "plan/plan.hpp"

namespace fleet {

/// A copy by itself: latency_s for each chunk, or each copy that it takes, + bytes / rate.
struct LoneCopy {
  double bytes = 0;
  double rate = 0;       ///< bytes per second, without latency
  double latency_s = 0;  ///< of all chunks
  double seconds() const { return latency_s + bytes / rate; }
};

inline LoneCopy lone_copy(const Plan& plan, const Machine& machine, const Task& copy) {
  const Link& link = machine.links[static_cast<std::size_t>(copy.link)];
  Cargo cargo = plan.program->cargo_of(copy.tile);
  if (!copy.from.in_place() && !copy.to.in_place()) cargo.column_bytes = 0;
  if (on_host(link.source) && on_host(link.target)) {  // by threads: no more than counts
    cargo.bytes = plan.program->moved_bytes_of(copy.tile);
    cargo.copies = 1;
  }
  return {.bytes = static_cast<double>(std::max<std::int64_t>(1, cargo.bytes)),
          .rate = link.rate(cargo),
          .latency_s = link.latency(plan.queues[static_cast<std::size_t>(copy.queue)].in_turn) *
                       std::max<int>(copy.chunks, cargo.copies)};
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// context_blocks.cpp: the block size with which devices help a blocked routine that is not ours. It
// plans nothing, starts nothing and takes no turn.
#include <array>
#include <mutex>

#include "core/context.hpp"
#include "plan/bound.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

/// Few, since the model cannot tell those between apart.
constexpr std::array<std::int64_t, 5> kBlockSizes{64, 128, 256, 512, 1024};
/// How far the bound has to be below the CPU's time. For such updates plans take 1.0 to 2 times the
/// bound, and 3.5 times on gh200 (simulated); and where devices are just faster, larger blocks gain
/// nothing.
constexpr double kClearly = 2;

bool is_clearly_faster(const Problem& problem, const Machine& machine) {
  return kClearly * bound(problem, machine).seconds < host_s(problem, machine);
}

}  // namespace

std::int64_t Context::block_size(const BlockedUpdate& update) {
  const User inside(users_);
  if (why_no_devices() != nullptr || offloader_.backend_if_started() == nullptr) return 0;
  const auto machine = offloader_.model_if_started();
  // Nobody waits for another one's question.
  std::unique_lock lock(block_sizes_lock_, std::try_to_lock);
  KnownBlockSize* const known =
      lock.owns_lock() ? &block_sizes_[static_cast<std::size_t>(update.storage)] : nullptr;
  if (known != nullptr && known->machine == machine && known->update == update) return known->size;
  const std::int64_t size = find_block_size(update, *machine);
  if (known != nullptr) *known = {.machine = machine, .update = update, .size = size};
  return size;
}

std::int64_t Context::find_block_size(const BlockedUpdate& update, const Machine& machine) const {
  for (const std::int64_t size : kBlockSizes) {
    if (size <= update.above || size > update.most) continue;
    // Matrices that LAPACK works on are in memory that nobody has pinned.
    const Problem problem =
        make_problem({.type = {.storage = update.storage}, .m = update.m, .n = update.n, .k = size},
                     {.homes = {kPageable, kPageable, kPageable}});
    const bool helps = options_.offload == Offload::always ||
                       (options_.min_flops > 0 ? flops(problem) >= options_.min_flops
                                               : is_clearly_faster(problem, machine));
    if (helps) return size;
  }
  return 0;
}

}  // namespace fleet

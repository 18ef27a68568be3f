// SPDX-License-Identifier: BSD-3-Clause
// pools.cpp: sizes and numbers of recycled slots.
#include "plan/pools.hpp"

#include <algorithm>

#include "base/sizes.hpp"

namespace fleet {
namespace {

// Kernels of a streaming call whose tiles a worker has at a time: one on each of two lanes, and
// those after them, whose tiles are on their way.
constexpr std::int64_t kStreamed = 4;

struct TileBytes {
  std::int64_t input = 1, output = 1;  ///< at least one, so that an empty call divides by something
};

TileBytes largest_tiles(const TileProgram& program) {
  TileBytes bytes;
  for (const ProgramCall& call : program.calls) {
    const std::int64_t element =
        bytes_of(program.matrices[static_cast<std::size_t>(call.target())].storage);
    const std::int64_t m = longest_piece(call.cuts.m), n = longest_piece(call.cuts.n),
                       k = longest_piece(call.cuts.k);
    bytes.input = std::max(bytes.input, std::max(m * k, k * n) * element);
    bytes.output = std::max(bytes.output, m * n * element);
  }
  if (program.calls.empty())
    for (const Matrix& matrix : program.matrices)
      bytes.output =
          std::max(bytes.output, longest_piece(matrix.row_cuts) * longest_piece(matrix.col_cuts) *
                                     bytes_of(matrix.storage));
  return bytes;
}

/// The most rows (or columns) of tiles that `owner` has in one group, or with `in_all` in all.
std::int64_t most_in_group(const std::vector<int>& owners, const std::vector<int>& groups,
                           int group_count, int owner, bool in_all) {
  if (in_all) return std::ranges::count(owners, owner);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group_count), 0);
  for (std::size_t i = 0; i < owners.size(); ++i)
    if (owners[i] == owner) ++counts[static_cast<std::size_t>(groups[i])];
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

/// Slots of one worker.
struct Split {
  std::int64_t inputs = 0, outputs = 0;
};

/// Divides a cap: the targets of the largest group first (twice, so that one group drains while the
/// next begins, if that leaves room for the inputs of three steps), inputs take the rest.
Split divide(const ProgramCall& call, const Dealing& deal, int worker, bool in_place,
             std::int64_t cap, const TileBytes& tile) {
  // Results that others read stay until all of their readers are computed.
  const bool stays = call.reads_results;
  const std::int64_t rows = most_in_group(deal.row_owner, deal.row_group, deal.row_groups,
                                          worker / deal.grid.cols, stays && deal.cols_outside);
  const std::int64_t cols = most_in_group(deal.col_owner, deal.col_group, deal.col_groups,
                                          worker % deal.grid.cols, stays && !deal.cols_outside);
  // The lazily fetched original of C needs room beside the accumulator, two at a time.
  const std::int64_t once = in_place ? 0 : std::max(rows * cols, deal.most_single_tiles()) + 2;
  const std::int64_t step_bytes = 3 * (rows + cols) * tile.input;
  Split split;
  split.outputs = cap - 2 * once * tile.output >= step_bytes ? 2 * once : once;
  split.inputs = std::max<std::int64_t>(0, (cap - split.outputs * tile.output) / tile.input);
  return split;
}

/// Streaming kernels whose tiles a cap holds. Fewer than usual are slower, but where a call needed
/// more memory by itself than with others it would be planned with other tiles, and round
/// otherwise.
std::int64_t streamed_at_once(const Tuning& tuning, std::size_t device, const TileBytes& tile) {
  if (device >= tuning.memory_cap.size()) return kStreamed;
  return std::clamp<std::int64_t>(tuning.memory_cap[device] / (2 * (tile.input + tile.output)), 1,
                                  kStreamed);
}

/// Two per worker: one fills while the other empties, in each direction.
std::int64_t transit_slots(const Tuning& tuning) {
  return std::max<std::int64_t>(4, 2 * std::int64_t{tuning.places()});
}

}  // namespace

std::int64_t ring_slots(const Tuning& tuning) {
  return std::max(kLeastRingSlots, transit_slots(tuning));
}

void limit_pools(std::vector<SlotStore>& stores, const Plan& plan, const Machine& machine,
                 std::span<const Dealing> deals) {
  const TileProgram& program = *plan.program;
  const Tuning& tuning = plan.tuning;
  TileBytes tile = largest_tiles(program);
  const std::int64_t transit_bytes = round_up(std::max(tile.input, tile.output), kAlignmentBytes);
  stores[kHost].limit(Pool::transit, ring_slots(tuning), std::max(tile.input, tile.output));
  // And as many for tiles that pass through a worker.
  if (tuning.max_hops > 0)
    for (const DeviceId worker : tuning.workers)
      if (!on_host(worker))
        stores[static_cast<std::size_t>(worker)].limit(Pool::transit, transit_slots(tuning),
                                                       std::max(tile.input, tile.output));
  const bool streams = !deals.empty() && std::ranges::all_of(deals, &Dealing::streams);
  const bool caches = tuning.rules.has(Rule::caching);
  if (!streams && caches && tuning.out_of_core == OutOfCore::none) return;

  tile = {round_up(tile.input, kAlignmentBytes), round_up(tile.output, kAlignmentBytes)};
  for (int w = 0; w < tuning.places(); ++w) {  // the CPU's part needs no slots
    const auto device = static_cast<std::size_t>(tuning.workers[static_cast<std::size_t>(w)]);
    if (streams) {
      const std::int64_t at_once = streamed_at_once(tuning, device, tile);
      stores[device].limit(Pool::input, 2 * at_once, tile.input);
      stores[device].limit(Pool::output, std::max<std::int64_t>(2, at_once), tile.output);
    } else if (!caches) {
      // Every product fetches its own tiles: twice as many as the lanes work on.
      stores[device].limit(Pool::input, 4 * std::max(1, machine.devices[device].lanes), tile.input);
    } else {
      const std::int64_t passing = tuning.max_hops > 0 ? transit_slots(tuning) * transit_bytes : 0;
      const std::int64_t cap =
          tuning.memory_cap[device] - program.prepared_bytes(machine.devices[device]) - passing;
      Split least{.inputs = SlotStore::kUnlimited, .outputs = 0};
      for (std::size_t c = 0; c < program.calls.size(); ++c) {
        const bool in_place =
            program.in_place(program.calls[c].target(), static_cast<DeviceId>(device), tuning);
        const Split split = divide(program.calls[c], deals[c], w, in_place, cap, tile);
        least.inputs = std::min(least.inputs, split.inputs);
        least.outputs = std::max(least.outputs, split.outputs);
      }
      stores[device].limit(Pool::output, least.outputs, tile.output);
      stores[device].limit(Pool::input, least.inputs, tile.input);
    }
  }
}

}  // namespace fleet

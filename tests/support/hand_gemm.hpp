// SPDX-License-Identifier: BSD-3-Clause
// hand_gemm.hpp: plans of products with real data, made task by task. It knows no planner and
// checks nothing.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan.hpp"

namespace fleet::test {

/// Every link and device has one queue. The default place of a tile is the operand's own storage.
class HandGemm {
 public:
  struct Edges {
    std::int64_t m, n, k;
  };
  HandGemm(const Machine& machine, const Problem& problem, const Edges& tile) : machine_(machine) {
    plan_.program = std::make_shared<const TileProgram>(expand(
        problem, {cuts(problem.m, tile.m), cuts(problem.n, tile.n), cuts(problem.k, tile.k)}));
    plan_.slots.resize(machine.devices.size());
    plan_.arena_bytes.resize(machine.devices.size(), 0);
  }

  /// A new slot for tiles of this shape.
  Where slot(DeviceId device, const TileId& tile) {
    const auto d = static_cast<std::size_t>(device);
    const std::int64_t bytes = plan_.program->bytes_of(tile);
    plan_.slots[d].push_back({.offset_bytes = plan_.arena_bytes[d], .bytes = bytes});
    plan_.arena_bytes[d] += (bytes + 255) / 256 * 256;
    return {.device = device, .slot = static_cast<int>(plan_.slots[d].size()) - 1};
  }

  struct Copy {
    TileId tile;
    Where from{kHost};
    Where to{kHost};
    std::vector<TaskId> after = {};
    int chunks = 1;
    TaskId upstream = kNoTask;
  };
  TaskId copy(const Copy& copy) {
    return add({.kind = on_host(copy.to.device) && !on_host(copy.from.device) ? TaskKind::writeback
                                                                              : TaskKind::fetch,
                .chunks = static_cast<std::uint8_t>(copy.chunks),
                .queue = queue({Queue::Kind::link, copy.to.device, copy.from.device, 0}),
                .link = machine_.find_link(copy.from.device, copy.to.device),
                .upstream = copy.upstream,
                .tile = copy.tile,
                .from = copy.from,
                .to = copy.to},
               copy.after);
  }

  /// The product of step `k_index` of a tile; the program knows its factors.
  struct Multiply {
    Where a_at{kHost};
    Where b_at{kHost};
    TileId c;
    Where to{kHost};
    Accumulate accumulate = Accumulate::sum;
    int k_index = 0;
    std::vector<TaskId> after = {};
  };
  TaskId multiply(const Multiply& product) {
    return add({.kind = TaskKind::compute,
                .accumulate = product.accumulate,
                .queue = queue({Queue::Kind::lane, product.to.device, kHost, 0}),
                .tile = product.c,
                .to = product.to,
                .inputs = {product.a_at, product.b_at},
                .op = op_of(product.c, product.k_index)},
               product.after);
  }

  /// Kernel::add, with the caller's C at `c_at`, or Kernel::scale.
  struct Compute {
    Kernel kernel = Kernel::scale;
    TileId c;
    Where c_at{kHost};
    Where to{kHost};
    std::vector<TaskId> after = {};
  };
  TaskId compute(const Compute& compute) {
    return add({.kind = TaskKind::compute,
                .kernel = compute.kernel,
                .accumulate = Accumulate::beta,
                .queue = queue({Queue::Kind::lane, compute.to.device, kHost, 0}),
                .tile = compute.c,
                .to = compute.to,
                .inputs = {compute.c_at, Where{}},
                .op = op_of(compute.c, 0)},
               compute.after);
  }

  const Plan& get() const { return plan_; }

 private:
  static Cuts cuts(std::int64_t size, std::int64_t tile) {
    Cuts cuts = {0};
    while (cuts.back() < size) cuts.push_back(std::min(size, cuts.back() + tile));
    return cuts;
  }
  OpId op_of(const TileId& c, int k_index) const {
    for (const OpChain& chain : plan_.program->chains)
      if (chain.target == c) return chain.first + k_index;
    return kNoOp;
  }
  QueueId queue(const Queue& wanted) {
    const auto found = std::ranges::find(plan_.queues, wanted);
    if (found == plan_.queues.end()) plan_.queues.push_back(wanted);
    return static_cast<QueueId>(std::ranges::find(plan_.queues, wanted) - plan_.queues.begin());
  }
  TaskId add(Task task, const std::vector<TaskId>& after) {
    task.after_begin = static_cast<std::int32_t>(plan_.after_pool.size());
    task.after_count = static_cast<std::int32_t>(after.size());
    plan_.after_pool.insert(plan_.after_pool.end(), after.begin(), after.end());
    plan_.tasks.push_back(task);
    return static_cast<TaskId>(plan_.tasks.size()) - 1;
  }

  const Machine& machine_;
  Plan plan_;
};

}  // namespace fleet::test

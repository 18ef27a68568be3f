// SPDX-License-Identifier: BSD-3-Clause
// call_order.cpp: calls as members of a queue, and when they conflict. It knows no threads.
#include "core/call_order.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "base/turns.hpp"

namespace fleet {
namespace {

using Blocks = std::array<Block, 3>;

Blocks blocks_of(const PendingCall& pending) {
  const QueuedCall& queued = pending.queued;
  return {queued.block(kA), queued.block(kB), queued.block(kC)};
}

bool conflict(const Blocks& x, const Blocks& y) {
  const auto meets = [](const Blocks& all, const Block& written) {
    return std::ranges::any_of(all, [&](const Block& block) { return overlap(block, written); });
  };
  return meets(x, y[kC]) || meets(y, x[kC]);
}

}  // namespace

Block QueuedCall::block(int operand) const {
  if (transfer == nullptr) return block_of(call, operand);
  return operand == kA ? transfer->from : operand == kC ? transfer->to : Block{};
}

void QueuedCall::fail(Status status, std::string_view what, std::string_view cause) const noexcept {
  try {
    event->finish(status, std::string(call.symbol).append(": ").append(what).append(cause));
  } catch (const std::bad_alloc&) {
    event->finish(status, {});
  }
}

bool may_start(const PendingCall& pending) {
  return std::ranges::all_of(pending.after, [](const auto& event) { return event->done(); });
}

std::shared_ptr<const Event> failed_before(const PendingCall& pending) {
  for (const auto& event : pending.after)
    if (event->done() && event->status() != Status::ok) return event;
  return nullptr;
}

std::vector<std::size_t> next_calls(std::span<const PendingCall> pending, std::size_t most) {
  std::vector<Turn> queue;
  std::vector<Blocks> blocks;
  for (const PendingCall& call : pending) {
    queue.push_back({.may_start = may_start(call), .priority = call.priority});
    blocks.push_back(blocks_of(call));
  }
  return next_turns(queue, most, [&](std::size_t earlier, std::size_t later) {
    return conflict(blocks[earlier], blocks[later]);
  });
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// call_order.hpp: which of the queued calls are computed next. Pure; it knows no threads.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/call.hpp"
#include "core/event.hpp"
#include "program/tile_program.hpp"

namespace fleet {

/// Elements that move, in place of a call.
struct Transfer {
  enum class Kind {
    copy,       ///< `from`, which is as large, is copied into `to`
    distribute  ///< the tiles of `to` belong to devices from now on, and go there
  };
  Kind kind = Kind::copy;
  Block from = {}, to;
  std::optional<Distribution> distribution = {};
};

struct QueuedCall {
  Call call;  ///< of a transfer: nothing but its name
  std::shared_ptr<Event> event;
  bool only_reads = false;  ///< it computes nothing: C comes home
  std::shared_ptr<const Transfer> transfer = {};

  /// The memory of an operand: a transfer has kA, which it reads, and kC, which it writes.
  Block block(int operand) const;

  /// Finishes the event with a message that begins with the call's name.
  void fail(Status status, std::string_view what, std::string_view cause = {}) const noexcept;
};

struct PendingCall {
  QueuedCall queued;
  int priority = 0;
  /// It starts only after these, and fails if one of them has failed.
  std::vector<std::shared_ptr<const Event>> after;
};

bool may_start(const PendingCall& pending);
/// One of the events that it comes after and that has failed, or nullptr.
std::shared_ptr<const Event> failed_before(const PendingCall& pending);

/// Indices of the calls to be computed next, together, by next_turns(): calls conflict that share
/// memory which one of them writes.
std::vector<std::size_t> next_calls(std::span<const PendingCall> pending, std::size_t most);

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// context_queue.cpp: how queued calls are done: as many as possible as one plan on the devices.
#include <algorithm>
#include <new>

#include "base/clock.hpp"
#include "base/gate.hpp"
#include "core/context.hpp"

namespace fleet {
namespace {

/// Runs `act`; false, with the event finished, where it throws.
template <typename Act>
bool or_finish(const QueuedCall& queued, Act act) noexcept {
  try {
    act();
    return true;
  } catch (const Error& error) {
    queued.fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    queued.event->finish(Status::no_memory, {});
  } catch (const std::exception& error) {
    queued.fail(Status::internal, error.what());
  }
  return false;
}

}  // namespace

void Context::wait_for_queued(const Call& call) {
  if (!queue_.is_busy()) return;
  for (const int x : {kA, kB, kC})
    queue_.wait_for(block_of(call, x), x == kC ? CallQueue::Use::any : CallQueue::Use::writing);
}

void Context::wait_for_queued(const void* data, std::int64_t bytes) {
  queue_.wait_for(
      {.begin = reinterpret_cast<std::uintptr_t>(data), .bytes = bytes, .is_plain = false},
      CallQueue::Use::any);
}

std::size_t Context::compute_queued(std::span<QueuedCall> calls) {
  const User inside(users_);
  return compute_joined(calls);
}

/// Computes the first calls; returns how many.
std::size_t Context::compute_joined(std::span<QueuedCall> calls) {
  QueuedCall& first = calls.front();
  const bool may_join = !gate::only_cpu_left() && offloader_.has_backend() &&
                        options_.offload != Offload::never && options_.backend != BackendKind::sim;
  JoinedCalls joined;
  bool done = false;
  const bool is_legal = or_finish(first, [&] {
    if (!may_join) return void(usable_homes(first.call));
    std::array<RegularTiles, kStorages> tiles;
    {
      const auto turn = take_turn();
      if (!start_devices().empty()) return;
      for (int storage = 0; storage < kStorages; ++storage)
        tiles[static_cast<std::size_t>(storage)] =
            offloader_.regular_tiles(static_cast<Storage>(storage));
    }
    joined = join(
        calls, [this](const Call& call) { return usable_homes(call); },
        [&](Storage storage) { return tiles[static_cast<std::size_t>(storage)]; });
    done = joined.count > 0 && run_joined(joined, calls.first(joined.count));
  });
  if (!is_legal) return 1;
  if (!done) {
    compute_alone(first);
    joined.count = 1;
  }
  for (const QueuedCall& queued : calls.first(joined.count))
    if (queued.event->status() == Status::ok && !queued.call.traits().triangle)
      queue_.note_written(block_of(queued.call, kC));
  return joined.count;
}

/// Throws Error(device_failed) where an operand was on a device that is lost, or what a failed call
/// has left undefined.
Context::Homes Context::usable_homes(const Call& call) {
  const bool reads_c = !call.beta_is_zero() || call.traits().triangular;
  for (const int x : {kA, kB, kC})
    if (x == kC ? reads_c : !call.only_scales()) queue_.require_defined(block_of(call, x));
  const Homes homes = locate(call);
  if (std::ranges::all_of(homes, on_host) || gate::only_cpu_left()) return homes;
  const auto turn = take_turn();
  for (const DeviceId home : homes)
    if (offloader_.is_lost(home))
      throw Error(Status::device_failed,
                  "device " + offloader_.place_of(home) + ", which holds an operand, was lost");
  return homes;
}

void Context::compute_alone(QueuedCall& queued) {
  if (or_finish(queued, [&] { compute_now(queued.call); })) queued.event->finish(Status::ok, {});
}

/// False: nothing was touched, and the calls have to be computed one by one.
bool Context::run_joined(const JoinedCalls& joined, std::span<QueuedCall> calls) {
  const double start_s = now_s();
  std::vector<CallRecord> records(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    begin_record(records[i], calls[i].call);
    note_place(records[i], joined.homes[i]);
  }
  CallRecord& first = records.front();
  Status status = Status::ok;
  std::string failure;
  double predicted_s = 0;
  if (!joined.arguments.empty()) {
    try {
      const auto turn = take_turn();
      offloader_.retry_limits();
      const double before_s = offloader_.planning_s();
      auto planned = offloader_.plan(joined.program);
      first.plan_s = offloader_.planning_s() - before_s;
      first.prepare_s = now_s() - start_s;
      predicted_s = planned->tuned.cost.seconds;
      const auto outcome = offloader_.run(joined.program, joined.arguments, std::move(planned),
                                          first, *journal_, log_);
      if (outcome == Offloader::Outcome::not_possible) return false;
      if (outcome == Offloader::Outcome::finished_on_cpu)
        first.reason = "finished on the CPU after a fault";
    } catch (const Error& error) {
      if (error.status() != Status::device_failed && error.status() != Status::internal)
        return false;  // there is no plan
      status = error.status();
      failure = error.what();
    } catch (const std::exception&) {  // std::bad_alloc, std::length_error: no plan either
      return false;
    }
  }
  // Each call gets its part of the time by its arithmetic.
  double all_flops = 0;
  for (const QueuedCall& queued : calls) all_flops += flops(queued.call);
  const double seconds = now_s() - start_s;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const double part = all_flops > 0 ? flops(calls[i].call) / all_flops : 1.0;
    records[i].status = status;
    const bool computes = !calls[i].call.changes_nothing();
    records[i].ran = computes ? Ran::devices : Ran::nowhere;
    if (*records[i].reason == '\0') records[i].reason = computes ? "queued" : "nothing to do";
    records[i].predicted_s = part * predicted_s;
    records[i].workers = first.workers;
    close_record(records[i], part * seconds);
    if (status == Status::ok)
      calls[i].event->finish(Status::ok, {});
    else
      calls[i].fail(status, failure);
  }
  return true;
}

}  // namespace fleet

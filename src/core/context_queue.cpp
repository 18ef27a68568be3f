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

/// Waits for queued calls that use what the call uses, and brings it home.
void Context::settle(const Call& call) {
  if (queue_.is_busy())
    for (const int x : {kA, kB, kC})
      queue_.wait_for(block_of(call, x), x == kC ? CallQueue::Use::any : CallQueue::Use::writing);
  make_coherent(call);
  for (const int x : {kA, kB, kC}) queue_.require_arrived(block_of(call, x));
  require_defined(call);
}

/// Throws the error of what was to make an operand that the call reads.
void Context::require_defined(const Call& call) {
  if (!queue_.has_undefined() || call.changes_nothing()) return;
  const bool reads_c = !call.beta_is_zero() || call.traits().triangular;
  for (const int x : {kA, kB, kC})
    if (x == kC ? reads_c : !call.only_scales()) queue_.require_defined(block_of(call, x));
}

void Context::settle(const void* data, std::int64_t bytes, bool is_written) {
  const Block block = range_of(data, bytes);
  queue_.wait_for(block, CallQueue::Use::any);
  make_coherent(block, is_written ? Access::update : Access::read);
  if (is_written) return;
  queue_.require_arrived(block);
  queue_.require_defined(block);
}

void Context::read(const Block& block) {
  // Queued behind the calls that make it, it comes home tile by tile while they are computed.
  if (queue_.uses(block, CallQueue::Use::writing)) {
    try {
      queue_.wait(*queue_.push_read(block));
    } catch (const Error&) {
      // It may be defined all the same, or have an error of its own.
    }
  }
  queue_.wait_for(block, CallQueue::Use::any);
  queue_.require_arrived(block);
  make_coherent(block, Access::read);
  queue_.require_defined(block);
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
    AllTiles tiles;
    {
      const auto turn = take_turn();
      if (!start_devices().empty()) return;
      tiles = all_tiles();
    }
    const auto join_all = [&](std::span<QueuedCall> these) {
      joined = join(
          these, [this](const Call& call) { return usable_homes(call); },
          [&](const Call& call, const Problem& problem) { return cuts_of(call, problem, tiles); });
      done = joined.count > 0 &&
             run_joined(joined, these.first(joined.count), calls.subspan(joined.count));
    };
    join_all(calls.first(drafted(calls)));
    // By itself it may fit where all do not. Its tiles are the same.
    if (!done && joined.count > 1) join_all(calls.first(1));
  });
  if (!is_legal) return 1;
  if (!done) {
    compute_alone(first);
    joined.count = 1;
  }
  return joined.count;
}

/// From any thread.
CallCuts Context::cuts_of(const Call& call, const Problem& problem, const AllTiles& tiles) const {
  return cuts_of_call(problem, tiles[static_cast<std::size_t>(call.type.storage)],
                      distributions_of(call));
}

/// With the turn.
Context::AllTiles Context::all_tiles() {
  AllTiles tiles;
  for (int storage = 0; storage < kStorages; ++storage)
    tiles[static_cast<std::size_t>(storage)] =
        offloader_.regular_tiles(static_cast<Storage>(storage));
  return tiles;
}

/// The call has written all of C, unless that is a triangle; what it updated was defined before.
void Context::note_defined(const Call& call) {
  if (access_of(call, kC) == Access::write) queue_.note_written(block_of(call, kC));
}

/// Throws Error(device_failed) where an operand was on a device that is lost, or what a failed call
/// has left undefined.
Context::Homes Context::usable_homes(const Call& call) {
  require_defined(call);
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
  const bool done = or_finish(queued, [&] {
    if (queued.only_reads) return read_alone(queued);
    if (queued.transfer != nullptr) return move(*queued.transfer);
    make_coherent(queued.call);
    require_defined(queued.call);
    compute_now(queued.call);
    note_defined(queued.call);
  });
  if (done) queued.event->finish(Status::ok, {});
}

/// A read by itself.
void Context::read_alone(const QueuedCall& queued) {
  const Block block = block_of(queued.call, kC);
  make_coherent(block, Access::read);
  queue_.require_defined(block);
}

/// It fails with the calls around it only if one of them was to write what it reads.
void Context::finish_read(const QueuedCall& queued, std::span<const QueuedCall> calls,
                          Status status, const std::string& failure) {
  const Block block = block_of(queued.call, kC);
  const auto writes = [&](const QueuedCall& call) {
    return !call.only_reads && overlap(block_of(call.call, kC), block);
  };
  if (status != Status::ok && std::ranges::any_of(calls, writes))
    return queued.fail(status, failure);
  if (or_finish(queued, [&] { queue_.require_defined(block); }))
    queued.event->finish(Status::ok, {});
}

/// With the turn, after a program: what is read of parts of its matrices, and of others, comes
/// home.
void Context::read_in_turn(std::span<const QueuedCall> calls) {
  for (const QueuedCall& queued : calls)
    if (queued.only_reads)
      bring_home([&](const Block& tile) { return overlap(tile, block_of(queued.call, kC)); });
}

/// The program with matrices that may stay where they are computed: those that are tracked.
PlacedProgram Context::placed(const JoinedCalls& joined) {
  auto program = std::make_shared<TileProgram>(*joined.program);
  // Elements of vectors stream by.
  const bool streams = std::ranges::all_of(
      program->calls, [](const ProgramCall& call) { return call.problem.traits().vectors; });
  for (std::size_t m = 0; m < program->matrices.size(); ++m) {
    Matrix& matrix = program->matrices[m];
    const Block& block = joined.blocks[m];
    matrix.stays = !streams && block.is_plain && residents_.is_tracked(block);
    if (matrix.stays) matrix.distribution = residents_.distribution_of(block);
    matrix.returns = !matrix.stays || std::ranges::any_of(joined.reads, [&](const Block& read) {
      return covers(read, block);
    });
  }
  return {.program = std::move(program), .blocks = joined.blocks};
}

/// Brings home what overlaps a matrix of the program without being one.
void Context::clear_the_way(const PlacedProgram& placed) {
  for (std::size_t m = 0; m < placed.blocks.size(); ++m) {
    const std::vector<Block> tiles = residents_.in_the_way(placed, m);
    if (tiles.empty()) continue;
    bring_home([&](const Block& tile) { return std::ranges::find(tiles, tile) != tiles.end(); });
    if (placed.program->matrices[m].is_written) residents_.drop_in_the_way(placed, m);
  }
  require_read_defined(placed);
}

/// Nothing where devices do not hold the tiles; no matrix was touched then.
std::optional<Offloader::Outcome> Context::run_where_tiles_are(const PlacedProgram& placed,
                                                               std::span<const Arguments> arguments,
                                                               std::span<const QueuedCall> calls,
                                                               std::span<const QueuedCall> later,
                                                               CallRecord& record) {
  std::shared_ptr<const Planned> planned;
  KeptSlots slots;
  try {
    planned = offloader_.plan(placed.program, residents_.of(placed));
    record.is_planned_ahead = planned->is_ahead;
    make_room(planned->tuned.plan, placed, later);
    slots = residents_.bind(planned->tuned.plan, placed, *offloader_.engine().backend);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    return std::nullopt;
  }
  const Plan& plan = planned->tuned.plan;
  auto outcome = Offloader::Outcome::not_possible;
  try {
    begin_ahead(planned, placed, calls);
    outcome = offloader_.run(arguments, planned, slots, record, *journal_, log_);
    end_ahead();
  } catch (const Error& error) {
    end_ahead();
    if (error.status() == Status::device_failed)
      residents_.note_failure(plan, placed, slots);
    else
      residents_.undo(plan, slots);
    throw;
  } catch (...) {
    end_ahead();
    residents_.undo(plan, slots);
    throw;
  }
  if (outcome == Offloader::Outcome::not_possible) {
    residents_.undo(plan, slots);
    return std::nullopt;
  }
  past_first_write([&] {
    outcome == Offloader::Outcome::done ? residents_.note(plan, placed, slots)
                                        : residents_.note_failure(plan, placed, slots);
  });
  return outcome;
}

/// With the turn. Throws as Offloader::run.
Offloader::Outcome Context::run_program(const JoinedCalls& joined,
                                        std::span<const QueuedCall> calls,
                                        std::span<const QueuedCall> later, CallRecord& record) {
  note_lost_devices();
  return_untracked();
  const PlacedProgram placed = this->placed(joined);
  const bool stays = std::ranges::any_of(placed.program->matrices, &Matrix::stays);
  if (stays || !residents_.empty()) {
    clear_the_way(placed);
    if (const auto outcome = run_where_tiles_are(placed, joined.arguments, calls, later, record))
      return *outcome;
    return_all_in_turn();
    require_read_defined(placed);
  }
  auto planned = offloader_.plan(joined.program, {});
  return offloader_.run(joined.program, joined.arguments, std::move(planned), record, *journal_,
                        log_);
}

/// Throws Error(device_failed) where what the program reads could not come home.
void Context::require_read_defined(const PlacedProgram& placed) {
  for (std::size_t m = 0; m < placed.blocks.size(); ++m)
    if (placed.program->matrices[m].is_read) queue_.require_defined(placed.blocks[m]);
}

/// False: nothing was touched, and the calls have to be computed one by one.
bool Context::run_joined(const JoinedCalls& joined, std::span<QueuedCall> calls,
                         std::span<const QueuedCall> later) {
  const double start_s = now_s();
  std::vector<CallRecord> records(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    begin_record(records[i], calls[i].call);
    note_place(records[i], joined.homes[i]);
  }
  CallRecord& first = records.front();
  Status status = Status::ok;
  std::string failure;
  bool is_home = true;  // what is read, after a failure
  if (joined.arguments.empty()) {
    const auto turn = take_turn();
    forget_old_copies();
    read_in_turn(calls);
  } else {
    try {
      const auto turn = take_turn();
      offloader_.retry_limits();
      const double before_s = offloader_.planning_s();
      const auto outcome = run_program(joined, calls, later, first);
      first.plan_s = offloader_.planning_s() - before_s;
      if (outcome == Offloader::Outcome::not_possible) return false;
      past_first_write([&] {
        for (const QueuedCall& queued : calls) note_defined(queued.call);
        note_lost_devices();
        return_untracked();
        read_in_turn(calls);
      });
      if (outcome == Offloader::Outcome::finished_on_cpu)
        first.reason = "finished on the CPU after a fault";
    } catch (const Error& error) {
      if (error.status() != Status::device_failed && error.status() != Status::internal)
        return false;  // there is no plan
      status = error.status();
      // The calls have failed whatever else does: none of them may be computed a second time.
      try {
        failure = error.what();
        const auto turn = take_turn();
        note_lost_devices();
        return_untracked();
        read_in_turn(calls);
      } catch (const std::exception&) {
        is_home = false;
      }
    } catch (const std::exception&) {  // std::bad_alloc, std::length_error: no plan either
      return false;
    }
  }
  // Each call gets its part of the time by its arithmetic.
  const double predicted_s = first.predicted_s;
  double all_flops = 0;
  for (const QueuedCall& queued : calls) all_flops += flops(queued.call);
  const double seconds = now_s() - start_s;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].only_reads) {
      is_home ? finish_read(calls[i], calls, status, failure) : calls[i].fail(status, failure);
      continue;
    }
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

// SPDX-License-Identifier: BSD-3-Clause
// context.cpp: how a call is done: where its operands lie, who does it and why. It knows no C types
// and no files.
#include "core/context.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/cpu_path.hpp"
#include "core/guarded_blas.hpp"
#include "core/readable.hpp"

namespace fleet {
namespace {

/// The items from `first` on as a call of their own.
Call rest_of(const Call& call, std::int64_t first) {
  Call rest = call;
  rest.batch -= first;
  rest.arguments = arguments_from(call, first);
  return rest;
}

std::shared_ptr<CpuBlas> load_blas(const Options& options) {
  auto blas = guarded(CpuBlas::load(options.cpu_blas));
  gate::install();
  return blas;
}

}  // namespace

Context::Context(const Options& options)
    : options_(options),
      log_(options.log_level, options.log_file),
      blas_(load_blas(options)),
      cores_(options.cpu_threads > 0 ? options.cpu_threads : core_count()),
      journal_(std::make_shared<Journal>(options)),
      offloader_(options, blas_),
      queue_([this](std::span<QueuedCall> calls) { return compute_queued(calls); }) {
  offloader_.set_relief([this](int attempt) {
    attempt == 0 ? residents_.trim(*offloader_.engine().backend) : return_all_in_turn();
  });
}

Context::~Context() {
  queue_.drain();
  return_all();
  // In a forked child, calls of the parent's other threads never end.
  while (users_ > 0 && !gate::in_forked_child())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  close_journal(journal_);
  for (const Range& range : registry_.remove_all()) give_back(range);
  if (gate::in_forked_child()) offloader_.leave_to_parent();
}

void Context::compute(const Call& call) {
  settle(call);
  compute_now(call);
  note_defined(call);
}

void Context::compute_now(const Call& call) {
  const User inside(users_);
  const double start_s = now_s();
  CallRecord record;
  begin_record(record, call);
  try {
    run(call, start_s, record);
  } catch (const Error& error) {
    record.status = error.status();
    close_record(record, now_s() - start_s);
    throw;
  }
  close_record(record, now_s() - start_s);
}

void Context::run(const Call& call, double start_s, CallRecord& record) {
  if (call.changes_nothing()) {
    record.reason = "nothing to do";
    return;
  }
  if (options_.backend == BackendKind::sim)
    throw Error(Status::unsupported, "backend=sim computes nothing: it is for plans and timelines");
  const Homes homes = locate(call);
  note_place(record, homes);
  std::optional<DeviceUse> use;
  const Choice choice = choose_in_turn(call, homes, use);
  record.prepare_s = now_s() - start_s;
  const std::int64_t done = choice.devices ? run_on_devices(call, homes, choice, *use, record) : 0;
  if (done == call.batch) return;
  record.ran = Ran::cpu;
  if (!choice.devices) note_choice(record, choice);
  finish_on_cpu(call, done, homes, use);
}

/// With the turn unless the call needs neither plan nor device; where it needs both, it has devices
/// then, or all of them.
Context::Choice Context::choose_in_turn(const Call& call, const Homes& homes,
                                        std::optional<DeviceUse>& use) {
  const char* reason = reason_for_cpu(call, homes);
  const bool alone = gate::only_cpu_left();
  if (alone && reason == nullptr) reason = "the process ends";  // since a moment
  if (!alone && (reason == nullptr || !all_on_host(homes))) use.emplace(turn_);
  if (reason != nullptr) return {.reason = reason};
  try {
    // Large batches are planned in parts, as they are computed.
    const bool may_share = call.batch <= Offloader::kSampleItems;
    if (!may_share) use->become_sole();
    if (offloader_.engine_if_started() != nullptr) offloader_.retry_limits();
    const double before_s = offloader_.planning_s();
    for (;;) {
      Choice choice = choose(call, homes);
      const bool is_ready =
          !choice.devices || !may_share || takes_devices(call, homes, choice, *use);
      choice.plan_s = offloader_.planning_s() - before_s;
      if (is_ready) return choice;
      wait_for_devices(choice, *use);
    }
  } catch (const std::bad_alloc&) {
    return {.reason = "no memory to plan"};
  }
}

/// All items but the first `done`, which are in C already.
void Context::finish_on_cpu(const Call& call, std::int64_t done, const Homes& homes,
                            std::optional<DeviceUse>& use) {
  if (done == 0) return run_on_cpu(call, homes, use);
  past_first_write([&] { run_on_cpu(rest_of(call, done), homes, use); });
}

void Context::run_on_cpu(const Call& call, const Homes& homes, std::optional<DeviceUse>& use) {
  const Computing computing;
  if (gate::only_cpu_left()) {
    // No backend works now, but the memory of virtual devices can be reached.
    for (const std::size_t operand : {kA, kB, kC})
      if (operand == kC || !call.only_scales())
        require_readable(call.arguments.data[operand], call.all_bytes(static_cast<int>(operand)));
    return multiply_in_place(call, *blas_, 1);
  }
  if (!all_on_host(homes)) {
    use->become_sole();
    return multiply_staged(call, homes, *blas_, cores_, *offloader_.engine().backend);
  }
  use.reset();
  multiply_in_place(call, *blas_, cores_);
}

/// Items done on devices, from the first on: fewer than all where memory or devices ran out.
std::int64_t Context::run_on_devices(const Call& call, const Homes& homes, const Choice& choice,
                                     DeviceUse& use, CallRecord& record) {
  note_choice(record, choice);
  pin_soon(call);
  record.is_at_once = choice.is_at_once;
  std::int64_t done = 0;
  try {
    const std::int64_t most = offloader_.items_per_plan(problem_of(call, homes, call.batch));
    while (done < call.batch) {
      const std::int64_t items = std::min(most, call.batch - done);
      const Problem problem = problem_of(call, homes, items);
      const bool known = !choice.planned->tuned.plan.program->calls.empty() &&
                         choice.planned->tuned.plan.problem() == problem;
      auto planned = known ? choice.planned : offloader_.plan(problem);
      const double predicted_s = planned->tuned.cost.seconds;
      const auto outcome = offloader_.run(problem, arguments_from(call, done), std::move(planned),
                                          use, record, *journal_, log_);
      if (outcome == Offloader::Outcome::not_possible) break;
      record.ran = Ran::devices;
      record.predicted_s = (done == 0 ? 0 : record.predicted_s) + predicted_s;
      if (outcome == Offloader::Outcome::finished_on_cpu)
        record.reason = "finished on the CPU after a fault";
      done += items;
    }
  } catch (const Error& error) {
    const bool no_plan =
        error.status() != Status::device_failed && error.status() != Status::internal;
    if (!no_plan && done > 0) throw_undefined();
    if (!no_plan) throw;
    record.reason = "no memory on the devices";
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error: no plan either
    record.reason = "no memory to plan";
  }
  return done;  // what is left goes to the CPU
}

const char* Context::why_no_devices() const {
  if (gate::in_forked_child()) return "forked child";
  if (gate::only_cpu_left()) return "the process ends";
  if (!offloader_.has_backend()) return "no usable device";
  return options_.offload == Offload::never ? "offload=never" : nullptr;
}

bool Context::reaches_min_flops(double flops) const {
  return options_.offload == Offload::always || flops >= options_.min_flops;
}

const char* Context::reason_for_cpu(const Call& call, const Homes& homes) const {
  if (const char* why = why_no_devices(); why != nullptr) return why;
  if (call.only_scales() && on_host(homes[kC])) return "nothing to multiply";
  if (!reaches_min_flops(flops(call))) return "below min_flops";
  if (call.repeats()) return "an increment of 0";
  if (output_overlaps(call)) return "C overlaps A or B";
  return nullptr;
}

std::string Context::start_devices() {
  try {
    offloader_.engine();
    if (!has_told_why_) tell_why_not_all();
    return {};
  } catch (const Error& error) {
    const bool chosen = std::ranges::count(options_.origins, Origin::caller) > 0;
    if (error.status() == Status::bad_option && chosen) throw;
    return error.what();
  }
}

Context::Choice Context::choose(const Call& call, const Homes& homes) {
  if (const std::string why = start_devices(); !why.empty())
    return {.reason = "no usable device", .detail = why};
  for (const DeviceId home : homes)
    if (offloader_.is_lost(home))
      throw Error(Status::device_failed,
                  "device " + offloader_.place_of(home) + ", which holds an operand, was lost");
  if (offloader_.workers(call.type).empty()) return {.reason = "no device is left"};
  try {
    const Problem problem = problem_of(call, homes, std::min(call.batch, Offloader::kSampleItems));
    if (options_.offload == Offload::always)
      return {.devices = true, .reason = "offload=always", .planned = offloader_.plan(problem)};
    if (options_.min_flops > 0)
      return {.devices = true, .reason = "min_flops", .planned = offloader_.plan(problem)};
    return choose_by_model(problem);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    return {.reason = "no plan", .detail = error.what()};
  } catch (const std::length_error&) {
    return {.reason = "no plan", .detail = "too large to plan"};
  }
}

Context::Choice Context::choose_by_model(const Problem& problem, Offloader::Pace pace) {
  Choice choice;
  choice.planned = offloader_.plan_if_promising(problem, pace);
  const double devices_s = choice.planned->tuned.cost.seconds, cpu_s = choice.planned->host_s;
  choice.devices = choice.planned->tuned.planned > 0 && devices_s < cpu_s;
  if (!choice.devices) offloader_.note_unused_devices();
  choice.reason = choice.devices ? "the model: devices are faster" : "the model: the CPU is faster";
  choice.detail = duration(devices_s) + " on devices, " + duration(cpu_s) + " on the CPU";
  return choice;
}

bool Context::compute_if_profitable(const Call& call, const char*& reason) {
  const User inside(users_);
  reason = "nothing to do";
  if (call.changes_nothing() || options_.backend == BackendKind::sim) return false;
  const double start_s = now_s();
  CallRecord record;
  begin_record(record, call);
  std::optional<Homes> homes;
  // Logs the error. False: the BLAS behind may do the call.
  const auto keeps = [&](Status status, const char* text) {
    log_error(text);
    reason = "an error on the devices";
    record.status = status;
    // The BLAS behind would begin from an undefined C.
    if (status == Status::device_failed) return true;
    // It would crash on an operand that is on a device, as a whole or in part.
    return homes ? !all_on_host(*homes)
                 : status == Status::bad_argument || status == Status::unsupported;
  };
  try {
    settle(call);
  } catch (const std::exception& error) {
    // Nobody else can do it: its operands are not at home, or undefined.
    log_error(error.what());
    record.status = Status::device_failed;
    close_record(record, now_s() - start_s);
    return true;
  }
  try {
    homes = locate(call);
    std::optional<DeviceUse> use;
    const Choice choice = choose_in_turn(call, *homes, use);
    reason = choice.reason;
    // The BLAS behind cannot reach operands on a device: those calls are always ours.
    if (!choice.devices && all_on_host(*homes)) return false;
    record.prepare_s = now_s() - start_s;
    note_place(record, *homes);
    if (!choice.devices) note_choice(record, choice);
    const std::int64_t done =
        choice.devices ? run_on_devices(call, *homes, choice, *use, record) : 0;
    if (done < call.batch) {
      reason = record.reason;
      if (done == 0 && all_on_host(*homes)) return false;
      record.ran = Ran::cpu;
      finish_on_cpu(call, done, *homes, use);
    }
  } catch (const Error& error) {
    if (!keeps(error.status(), error.what())) return false;
  } catch (const std::bad_alloc&) {
    if (!keeps(Status::no_memory, "the host has no memory left")) return false;
  }
  if (record.status == Status::ok) note_defined(call);
  close_record(record, now_s() - start_s);
  return true;
}

void Context::log_error(const char* text) { log_.line(Log::kError, {text}); }

void Context::set_objective(std::function<double(const Cost&)> own) {
  const User inside(users_);
  if (gate::only_cpu_left())
    throw Error(Status::unsupported, "nothing is planned in a forked child or at exit");
  const auto turn = take_turn();
  Goal goal{.objective = options_.objective, .own = std::move(own)};
  if (goal.own) goal.objective = {.kind = Objective::Kind::own};
  offloader_.set_goal(std::move(goal));
  min_flops_ = -1;
}

double Context::min_flops() {
  if (!offloader_.has_backend() || options_.offload == Offload::never) return kNever;
  if (options_.offload == Offload::always || options_.min_flops == 1) return 0;
  if (options_.min_flops > 0) return options_.min_flops;
  if (gate::only_cpu_left()) return kNever;
  const User inside(users_);
  const DeviceUse turn(turn_);
  // GPUs take a second to start: small products are not worth asking the model.
  if (offloader_.engine_if_started() == nullptr && options_.backend != BackendKind::host)
    return kColdFlops;
  if (min_flops_ < 0) min_flops_ = profitable_flops();
  return min_flops_;
}

/// By bisection over cubes in pageable memory, as unmodified programs use.
double Context::profitable_flops() {
  constexpr std::int64_t kLeast = 128, kMost = 16384;
  std::int64_t high = kLeast;
  while (high <= kMost && !profitable(high)) high *= 2;
  if (high > kMost) return kNever;
  std::int64_t low = high / 2;
  while (high > kLeast && high - low > high / 8) {
    const std::int64_t middle = (low + high) / 2;
    (profitable(middle) ? high : low) = middle;
  }
  const auto edge = static_cast<double>(high);
  return 2 * edge * edge * edge;
}

bool Context::profitable(std::int64_t edge) {
  const Problem problem =
      make_problem({.m = edge, .n = edge, .k = edge}, {.homes = {kPageable, kPageable, kPageable}});
  try {
    return choose_by_model(problem, Offloader::Pace::well).devices;
  } catch (const Error&) {
    return false;
  }
}

Context::Homes Context::locate(const Call& call) {
  // The loader takes longer than a small product to say whether the program uses GPUs. A call that
  // no device may do asks it for operands alone that look like a GPU's.
  if (why_no_devices() == nullptr && reaches_min_flops(flops(call))) start_for_memory_of_program();
  Homes homes{kHost, kHost, kHost};
  std::array<PoolState, 3> pooled{};
  for (const std::size_t operand : {kA, kB, kC}) {
    if (operand != kC && call.only_scales()) continue;
    std::tie(homes[operand], pooled[operand]) =
        locate_with_pool(call.arguments.data[operand], call.all_bytes(static_cast<int>(operand)));
  }
  // While A and B are being pinned a call is planned as before any operand was: each mixture would
  // be a plan of its own, made for one call. A new C in each call is no such moment.
  if (pooled[kA] == PoolState::plain || pooled[kB] == PoolState::plain)
    for (const std::size_t operand : {kA, kB, kC})
      if (pooled[operand] == PoolState::pinned) homes[operand] = kPageable;
  return homes;
}

/// Has the operands of a call that devices do pinned. C first: it is often memory that nobody has
/// touched, and is needed last.
void Context::pin_soon(const Call& call) noexcept {
  for (const std::size_t operand : {kC, kA, kB})
    if (operand == kC || !call.only_scales())
      pin_soon(call.arguments.data[operand], call.all_bytes(static_cast<int>(operand)));
}

void Context::pin_soon(const void* data, std::int64_t bytes) noexcept {
  // The plan of pinned operands may be another one, and then bits are.
  if (options_.deterministic) return;
  try {
    pins_.pin_soon(*offloader_.engine().backend, data, bytes);
  } catch (const std::exception&) {
    // No memory for it, or no devices any more: the call does without.
  }
}

/// By the registry alone: a CPU BLAS has used the operands, so no device has to be asked.
Context::Homes Context::registered_homes(const Call& call) {
  Homes homes{kPageable, kPageable, kPageable};
  if (registry_.empty()) return homes;
  const gate::StateLock lock;
  for (const std::size_t operand : {kA, kB, kC})
    homes[operand] = registry_.locate(call.arguments.data[operand], 1);
  return homes;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// context_factor.cpp: how a factorization is done, and the door by which what is built on it works
// on matrices on the host. It knows no C types.
#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/clock.hpp"
#include "base/gate.hpp"
#include "core/context.hpp"
#include "core/cpu_path.hpp"
#include "core/readable.hpp"
#include "core/strip_memory.hpp"
#include "cpu/copies.hpp"
#include "cpu/lapack.hpp"

namespace fleet {
namespace {

std::int64_t factor_in_place(const FactorCall& call, const View& a, CpuBlas& blas) {
  switch (call.routine) {
    case Factoring::potrf:
      return lapack::potrf(blas, call.storage, a);
    case Factoring::getrf:
      return lapack::getrf(blas, call.storage, a, call.pivots);
    case Factoring::geqrf:
      lapack::geqrf(blas, call.storage, a, call.tau);
  }
  return 0;
}

}  // namespace

std::int64_t Context::factor(const FactorCall& call) {
  const User inside(users_);
  const double start_s = now_s();
  CallRecord record;
  begin_record(record, call);
  std::int64_t info = 0;
  try {
    info = run_factor(call, record);
  } catch (const Error& error) {
    record.status = error.status();
    close_record(record, now_s() - start_s);
    throw;
  }
  close_record(record, now_s() - start_s);
  return info;
}

std::int64_t Context::run_factor(const FactorCall& call, CallRecord& record) {
  record.reason = "nothing to do";
  if (call.is_empty()) return 0;
  if (options_.backend == BackendKind::sim)
    throw Error(Status::unsupported, "backend=sim computes nothing: it is for plans and timelines");
  const View a = call.matrix();
  const Block block = block_of(a, call.storage);
  const DeviceId home = locate(call.a, block.bytes);
  note_place(record, {home, home, home});
  std::int64_t info = 0;
  if (const auto what = dealt(call, block)) {
    wait_for_queued(block, Access::update);
    queue_.require_arrived(block);
    if (factor_on_devices(call, *what, record, info)) return info;
    log_.line(Log::kWarning, {"a block-cyclic matrix comes home to be factored: ", record.reason,
                              record.detail.empty() ? "" : ": ", record.detail});
    record.detail.clear();
  }
  settle(block, Access::update);
  if (factor_on_devices(call, call.at(home), record, info)) return info;
  record.ran = Ran::cpu;
  if (on_host(home)) {
    if (gate::only_cpu_left()) require_readable(call.a, block.bytes);
    with_cpu([&](CpuBlas& blas) {
      info = past_first_write([&] { return factor_in_place(call, a, blas); });
    });
    return info;
  }
  std::vector<char> copy;
  try {
    copy.resize(static_cast<std::size_t>(a.rows * a.cols * bytes_of(call.storage)));
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error
    throw Error(Status::no_memory, "the host cannot hold the matrix on a device");
  }
  const View on_cpu{
      .data = copy.data(), .rows = a.rows, .cols = a.cols, .ld = a.rows, .fill = a.fill};
  this->copy(on_cpu, a, call.storage);
  with_cpu([&](CpuBlas& blas) { info = factor_in_place(call, on_cpu, blas); });
  past_first_write([&] { this->copy(a, on_cpu, call.storage); });
  return info;
}

const char* Context::reason_for_cpu(const Factorization& what) const {
  if (const char* why = why_no_devices(); why != nullptr) return why;
  if (options_.offload != Offload::always && flops(what) < std::max(options_.min_flops, 1.0))
    return "below min_flops";
  // GPUs take a second to start.
  if (on_host(what.home) && options_.offload != Offload::always &&
      offloader_.engine_if_started() == nullptr && options_.backend != BackendKind::host &&
      flops(what) < kColdFlops)
    return "below min_flops";
  return nullptr;
}

/// With the turn. Nothing where the CPU has to do it; the record says why. Throws as tune() does.
std::shared_ptr<const PlannedFactors> Context::promising_plan(const Factorization& what,
                                                              CallRecord& record) {
  if (offloader_.workers(what.type()).empty()) {
    record.reason = "no device is left";
    return nullptr;
  }
  const double planning_before_s = offloader_.planning_s();
  const bool is_forced = forces_devices();
  auto planned = is_forced ? offloader_.plan(what) : offloader_.plan_if_promising(what);
  record.plan_s += offloader_.planning_s() - planning_before_s;
  record.predicted_s = planned->cost.seconds;
  record.reason = options_.offload == Offload::always ? "offload=always"
                  : is_forced                         ? "min_flops"
                                                      : "the model: devices are faster";
  if (is_forced) return planned;
  record.detail =
      duration(planned->cost.seconds) + " on devices, " + duration(planned->host_s) + " on the CPU";
  if (!planned->stages.empty() && planned->cost.seconds < planned->host_s) return planned;
  record.reason = "the model: the CPU is faster";
  return nullptr;
}

/// False, with the matrix untouched: the CPU has to do it, and the record says why.
bool Context::factor_on_devices(const FactorCall& call, const Factorization& what,
                                CallRecord& record, std::int64_t& info) {
  if (const char* reason = reason_for_cpu(what); reason != nullptr) {
    record.reason = reason;
    return false;
  }
  const double start_s = now_s();
  const auto turn = take_turn();
  try {
    if (const std::string why = start_devices(); !why.empty()) {
      record.reason = "no usable device";
      record.detail = why;
      return false;
    }
    if (offloader_.is_lost(what.home) && what.dealt.empty())
      throw Error(Status::device_failed, "device " + offloader_.place_of(what.home) +
                                             ", which holds an operand, was lost");
    offloader_.retry_limits();
    const auto planned = promising_plan(what, record);
    if (planned == nullptr) return false;
    record.prepare_s = now_s() - start_s;
    return run_factors(call, what, planned, record, info);
  } catch (const Error& error) {
    const Status status = error.status();
    if (status == Status::device_failed || status == Status::internal) throw;
    record.reason = "no plan";
    record.detail = error.what();
  } catch (const std::bad_alloc&) {
    record.reason = "no memory to plan";
  } catch (const std::length_error&) {
    record.reason = "no plan";
    record.detail = "too large to plan";
  }
  return false;
}

/// With the turn. A matrix that is dealt is factored in memory of its own, so that its tiles are as
/// they were until its factors replace them.
bool Context::run_factors(const FactorCall& call, const Factorization& what,
                          const std::shared_ptr<const PlannedFactors>& planned, CallRecord& record,
                          std::int64_t& info) {
  Offloader::Factored factored{
      .a = call.a, .lda = call.lda, .pivots = call.pivots, .tau = call.tau};
  const Block block = block_of(call.matrix(), call.storage);
  std::optional<StripMemory> strips;
  auto outcome = Offloader::Outcome::not_possible;
  try {
    if (!what.dealt.empty()) {
      // In place there is one stage.
      take_strips(block, *planned->stages.front()->tuned.plan.program->strips, strips);
      factored.strips = strips->strips();
    }
    pin_soon(call.a, block.bytes);
    outcome = offloader_.run(what, factored, planned, record, *journal_, log_);
  } catch (const Error& error) {
    if (what.dealt.empty() || error.status() != Status::device_failed) throw;
    record.reason = "a fault before the matrix was changed";
    note_lost_devices();
    return false;
  }
  if (outcome == Offloader::Outcome::not_possible) return false;
  if (strips) past_first_write([&] { give_strips_back(block, *strips); });
  record.ran = Ran::devices;
  if (outcome == Offloader::Outcome::finished_on_cpu)
    record.reason = "finished on the CPU after a fault";
  info = factored.info;
  return true;
}

void Context::run_with_cpu(const std::function<void(CpuBlas&)>& work) {
  const User inside(users_);
  const Computing computing;
  std::optional<CpuBlas::Lease> lease;
  lease_if_possible(lease, *blas_, gate::only_cpu_left() ? 1 : cores_);
  work(*blas_);
}

int Context::cpu_threads() const { return gate::only_cpu_left() ? 1 : cores_; }

void Context::wait_for_queued(const Block& block, Access access) {
  if (queue_.is_busy())
    queue_.wait_for(block, access == Access::read ? CallQueue::Use::writing : CallQueue::Use::any);
}

void Context::settle(const Block& block, Access access) {
  if (block.bytes == 0) return;
  wait_for_queued(block, access);
  make_coherent(block, access);
  queue_.require_arrived(block);
  if (access != Access::write && queue_.has_undefined()) queue_.require_defined(block);
}

bool Context::bring_to_cpu(const View& matrix, Storage storage, Access access) {
  const User inside(users_);
  if (options_.backend == BackendKind::sim)
    throw Error(Status::unsupported, "backend=sim computes nothing: it is for plans and timelines");
  const Block block = block_of(matrix, storage);
  settle(block, access);
  if (block.bytes == 0) return true;
  if (!on_host(locate(matrix.data, block.bytes))) return false;
  if (gate::only_cpu_left()) require_readable(matrix.data, block.bytes);
  return true;
}

void Context::note_cpu_wrote(const View& matrix, Storage storage) {
  if (matrix.rows > 0 && matrix.cols > 0) queue_.note_written(block_of(matrix, storage));
}

void Context::copy(const View& to, const View& from, Storage storage) {
  const User inside(users_);
  const Block target = block_of(to, storage), source = block_of(from, storage);
  if (target.bytes == 0) return;
  settle(target, Access::write);
  settle(source, Access::read);
  const std::int64_t element = bytes_of(storage);
  const DeviceId target_home = locate(to.data, target.bytes);
  const DeviceId source_home = locate(from.data, source.bytes);
  if (gate::only_cpu_left()) {
    require_readable(from.data, source.bytes);
    require_readable(to.data, target.bytes);
  }
  if ((on_host(target_home) && on_host(source_home)) || gate::only_cpu_left()) {
    copy_columns(from, to, element, 0, to.cols);
  } else {
    transfer_alone({target_home, to}, {source_home, from}, element);
  }
  queue_.note_written(target);
}

}  // namespace fleet

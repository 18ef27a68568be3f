// SPDX-License-Identifier: BSD-3-Clause
// context_held.cpp: on which devices factors stay, in the precision of their matrix or in single
// precision, or why on none. It knows no rule of refinement.
#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/gate.hpp"
#include "core/context.hpp"
#include "core/held_factors.hpp"
#include "core/mixed_factors.hpp"

namespace fleet {
namespace {

/// The least time in which the matrix reaches the devices, column by column in turn.
double spreading_s(const Machine& machine, DeviceId home, const std::vector<DeviceId>& devices,
                   double bytes) {
  const DeviceId from = on_host(home) ? kHost : home;
  const double of_each = bytes / static_cast<double>(devices.size());
  std::vector<double> ports_s(machine.ports.size(), 0);
  double most_s = 0;
  for (const DeviceId device : devices) {
    const LinkId id = device == home ? -1 : machine.find_link(from, device);
    if (id < 0) continue;
    const Link& link = machine.links[index(id)];
    most_s = std::max(most_s, of_each / link.bytes_per_s);
    for (const PortShare& share : link.ports) {
      double& port_s = ports_s[index(share.port)];
      port_s += of_each * share.weight / machine.ports[index(share.port)].capacity;
      most_s = std::max(most_s, port_s);
    }
  }
  return most_s;
}

/// The matrix's own device comes first.
std::vector<DeviceId> from_home_on(std::vector<DeviceId> devices, DeviceId home) {
  const auto own = std::ranges::find(devices, home);
  if (own != devices.end()) std::rotate(devices.begin(), own, own + 1);
  return devices;
}

}  // namespace

/// With the turn: all devices, or half as many again and again, whichever are done first.
std::shared_ptr<const PlannedFactors> Context::plan_mixed(const Factorization& what, DeviceId home,
                                                          CallRecord& record) {
  const std::vector<DeviceId> all = from_home_on(offloader_.workers(what.type()), home);
  const double bytes = 2.0 * static_cast<double>(what.m) * static_cast<double>(what.n) *
                       static_cast<double>(bytes_of(what.storage));
  std::shared_ptr<const PlannedFactors> best;
  double best_s = 0;
  for (std::size_t count = all.size(); count > 0; count /= 2) {
    Factorization part = what;
    part.dealt.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    part.home = part.dealt.front();
    if (count == 1) part.dealt.clear();
    try {
      auto planned = offloader_.plan(part);
      const double seconds =
          planned->cost.seconds + spreading_s(*offloader_.model(), home, part.holders(), bytes);
      if (best == nullptr || seconds < best_s) {
        best = std::move(planned);
        best_s = seconds;
      }
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      record.detail = error.what();
    }
    if (!options_.selects_devices) break;
  }
  if (best == nullptr) {
    record.reason = all.empty() ? "no device is left" : "no plan";
    return nullptr;
  }
  record.detail.clear();
  if (!forces_devices() && best_s >= best->host_s) {
    record.reason = "the model: the CPU is faster";
    return nullptr;
  }
  return best;
}

/// With the turn. Nothing where other ways are faster, or no plan is possible.
std::shared_ptr<const PlannedFactors> Context::plan_held(const Factorization& what,
                                                         CallRecord& record) {
  try {
    return promising_plan(what, record);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    record.reason = "no plan";
    record.detail = error.what();
  }
  return nullptr;
}

template <class Factors, class Plan, class Make>
std::unique_ptr<Factors> Context::hold(const Factorization& what, CallRecord& record, Plan plan,
                                       Make make) {
  if (record.reason = reason_for_cpu(what); record.reason != nullptr) return nullptr;
  const double start_s = now_s();
  auto turn = take_turn();
  if (record.detail = start_devices(); !record.detail.empty()) {
    record.reason = "no usable device";
    return nullptr;
  }
  if (offloader_.is_lost(what.home)) {
    record.reason = "the device of the matrix was lost";
    return nullptr;
  }
  offloader_.retry_limits();
  const double planning_before_s = offloader_.planning_s();
  const auto planned = plan();
  record.plan_s = offloader_.planning_s() - planning_before_s;
  if (planned == nullptr) return nullptr;
  try {
    const HeldFactors::On on{offloader_, residents_.memory(), *journal_, log_};
    std::unique_ptr<Factors> factors = make(on, planned);
    record.prepare_s = now_s() - start_s;
    record.ran = Ran::devices;
    if (factors == nullptr) return nullptr;
    factors->keep(std::move(turn));
    return factors;
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    record.detail = error.what();
    record.reason = error.status() == Status::no_memory ? "no memory on the devices"
                                                        : "the devices do not work";
  }
  note_lost_devices();
  return nullptr;
}

/// By `hold_at(home, record)`, once the matrix is complete at its home.
template <class Factors, class HoldAt>
std::unique_ptr<Factors> Context::factors_of(const HeldCall& call, Storage storage,
                                             HoldAt hold_at) {
  const User inside(users_);
  if (options_.backend == BackendKind::sim || gate::only_cpu_left()) return nullptr;
  const Block block = block_of(call.a, call.storage);
  settle(block, Access::read);
  const DeviceId home = locate(call.a.data, block.bytes);
  const double start_s = now_s();
  CallRecord record;
  begin_record(record, FactorCall{.symbol = call.symbol,
                                  .routine = Factoring::getrf,
                                  .storage = storage,
                                  .m = call.a.rows,
                                  .n = call.a.cols,
                                  .lda = call.a.ld});
  note_place(record, {home, home, home});
  std::unique_ptr<Factors> factors;
  try {
    factors = hold_at(home, record);
  } catch (const std::bad_alloc&) {
    record.reason = "no memory to plan";
  } catch (const std::length_error&) {
    record.reason = "too large to plan";
  }
  if (factors != nullptr) {
    pin_soon(call.a.data, block.bytes);  // for the next time
    close_record(record, now_s() - start_s);
  } else {
    log_.line(Log::kInfo, {call.symbol, " holds no factors on devices: ", record.reason,
                           record.detail.empty() ? "" : ": ", record.detail});
  }
  return factors;
}

std::unique_ptr<MixedFactors> Context::mixed_factors(const HeldCall& call) {
  const Storage narrow = narrow_of(call.storage);
  return factors_of<MixedFactors>(call, narrow, [&](DeviceId home, CallRecord& record) {
    const Factorization what{.routine = Factoring::getrf,
                             .storage = narrow,
                             .m = call.a.rows,
                             .n = call.a.cols,
                             .home = home,
                             .refined = true};
    return hold<MixedFactors>(
        what, record, [&] { return plan_mixed(what, home, record); },
        [&](const HeldFactors::On& on, const auto& planned) {
          record.reason = "refined in double precision";
          auto factors =
              std::make_unique<MixedFactors>(on, call, home, options_.deterministic, planned);
          if (factors->fits() && !factors->factor(record)) factors.reset();
          return factors;
        });
  });
}

std::unique_ptr<HeldFactors> Context::held_factors(const HeldCall& call) {
  return factors_of<HeldFactors>(
      call, call.storage, [&](DeviceId home, CallRecord& record) -> std::unique_ptr<HeldFactors> {
        if (!on_host(home)) {
          record.reason = "the matrix is on a device";
          return nullptr;
        }
        const Factorization what{.routine = Factoring::getrf,
                                 .storage = call.storage,
                                 .m = call.a.rows,
                                 .n = call.a.cols,
                                 .home = home,
                                 .kept = true};
        return hold<HeldFactors>(
            what, record, [&] { return plan_held(what, record); },
            [&](const HeldFactors::On& on, const auto& planned) {
              record.reason = "factors stay on devices";
              auto factors = std::make_unique<HeldFactors>(on, call.symbol, call.columns, planned);
              const Offloader::Factored factored{
                  .a = call.a.data, .lda = call.a.ld, .pivots = call.pivots};
              if (!factors->factor(factored, record)) factors.reset();
              return factors;
            });
      });
}

}  // namespace fleet

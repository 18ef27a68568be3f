// SPDX-License-Identifier: BSD-3-Clause
// context_at_once.cpp: calls that several threads wait for, on devices at the same time where that
// finishes them sooner than one after the other. It runs nothing.
#include <algorithm>

#include "base/clock.hpp"
#include "core/context.hpp"

namespace fleet {
namespace {

/// Two calls at once have to be predicted to take at most this part of the time of one after the
/// other: predictions are a few percent off.
constexpr double kWorthSharing = 0.95;
/// How long a call waits for devices before it asks again what would finish it sooner: by then
/// others may be late.
constexpr double kLeastWaitS = 1e-3, kMostWaitS = 60;

/// Seconds that each port is busy with the copies of a plan.
std::vector<double> port_seconds(const Cost& cost, const Machine& machine) {
  std::vector<double> seconds(machine.ports.size(), 0);
  for (std::size_t link = 0; link < cost.bytes_by_link.size(); ++link)
    for (const PortShare& share : machine.links[link].ports) {
      const auto port = static_cast<std::size_t>(share.port);
      seconds[port] += static_cast<double>(cost.bytes_by_link[link]) * share.weight /
                       machine.ports[port].capacity;
    }
  return seconds;
}

/// Until both are done, on devices of their own: they share the ports of the host.
double seconds_together(const Cost& one, const Cost& other, const Machine& machine) {
  double least_s = std::max(one.seconds, other.seconds);
  const std::vector<double> by_one = port_seconds(one, machine),
                            by_other = port_seconds(other, machine);
  for (std::size_t port = 0; port < by_one.size(); ++port)
    least_s = std::max(least_s, by_one[port] + by_other[port]);
  return least_s;
}

/// What any plan for it needs: the devices that hold its operands, and the ring for pageable ones.
Places homes_of(const Problem& problem) {
  Places homes;
  for (const Operand& operand : problem.operands)
    if (operand.home != kHost) homes.add(operand.home == kPageable ? kHost : operand.home);
  return homes;
}

std::array<DeviceTurn::Range, 3> memory_of(const Call& call) {
  std::array<DeviceTurn::Range, 3> memory;
  for (const int x : {kA, kB, kC}) {
    const Block block = block_of(call, x);
    memory[static_cast<std::size_t>(x)] = {block.begin, block.bytes};
  }
  return memory;
}

}  // namespace

/// A plan for `one` on some of these devices, which it need not share with anybody, if both calls
/// are done sooner that way than one after the other; nullptr: they are not.
std::shared_ptr<const Planned> Context::shared(const DeviceTurn::Caller& one,
                                               const DeviceTurn::Caller& rival,
                                               std::span<const DeviceId> devices,
                                               const DeviceUse& use) {
  if (devices.size() < 2) return nullptr;
  const auto middle = devices.begin() + std::ssize(devices) / 2;
  std::vector<DeviceId> first(devices.begin(), middle), second(middle, devices.end());
  const Places homes = homes_of(one.problem), homes_of_rival = homes_of(rival.problem);
  if (homes.meets(homes_of_rival)) return nullptr;
  if (homes.meets(Places(second)) || homes_of_rival.meets(Places(first))) std::swap(first, second);
  if (homes.meets(Places(second)) || homes_of_rival.meets(Places(first))) return nullptr;
  const auto planned = offloader_.plan_on(one.problem, first);
  const auto planned_rival = offloader_.plan_on(rival.problem, second);
  if (use.taken().meets(planned->places) || planned->places.meets(planned_rival->places))
    return nullptr;
  const double together_s =
      seconds_together(planned->tuned.cost, planned_rival->tuned.cost, *offloader_.model());
  return together_s < kWorthSharing * (one.seconds + rival.seconds) ? planned : nullptr;
}

/// Takes the devices of the plan if nobody has them, or those that are free if the call is done
/// sooner on them than after those that are in its way. Then the plan is one for them.
bool Context::takes_devices(const Call& call, const Homes& homes, Choice& choice, DeviceUse& use) {
  const Problem problem = problem_of(call, homes, call.batch);
  const double alone_s = choice.planned->tuned.cost.seconds;
  const auto take = [&](std::shared_ptr<const Planned> planned) {
    choice.is_at_once = !use.is_sole();
    choice.planned = std::move(planned);
    use.take(choice.planned->places, {problem, alone_s, memory_of(call)},
             choice.planned->tuned.cost.seconds);
    return true;
  };
  const Places taken = use.taken();
  const Places& wanted = choice.planned->places;
  const bool is_in_the_way = taken.meets(wanted);
  // Its plan is not to depend on what others do, or is to have all devices.
  if (options_.deterministic || !options_.selects_devices)
    return !is_in_the_way && take(choice.planned);
  const DeviceTurn::Caller* const rival =
      use.rival([&](const Problem& other) { return !homes_of(other).meets(taken); });
  if (!is_in_the_way && rival == nullptr) return take(choice.planned);  // nearly all calls
  std::vector<DeviceId> free = offloader_.workers(problem.type);
  std::erase_if(free, [&](DeviceId device) { return taken.has(device); });
  std::shared_ptr<const Planned> planned = choice.planned;
  if (is_in_the_way) {
    if (free.empty() || homes_of(problem).meets(taken)) return false;
    // A plan for these devices alone takes as long to make; it pays if they meet again.
    const bool is_known = offloader_.has_plan_on(problem, free) || use.is_steady();
    if (!is_known && use.seconds_until_free(wanted) < choice.planned->whole_search_s())
      return false;
    planned = offloader_.plan_on(problem, free);
    const double part_s = planned->tuned.cost.seconds;
    const bool may_be_cpus = options_.offload == Offload::automatic && options_.min_flops == 0;
    if (taken.meets(planned->places) || part_s >= use.seconds_until_free(wanted) + alone_s ||
        (may_be_cpus && part_s > choice.planned->host_s))
      return false;
  }
  if (rival != nullptr)
    if (auto part = shared({problem, planned->tuned.cost.seconds}, *rival, free, use))
      planned = std::move(part);
  return take(std::move(planned));
}

/// For a while.
void Context::wait_for_devices(const Choice& choice, DeviceUse& use) {
  const Planned& planned = *choice.planned;
  use.wait({planned.tuned.plan.problem(), planned.tuned.cost.seconds}, planned.places,
           std::clamp(2 * use.seconds_until_free(planned.places), kLeastWaitS, kMostWaitS));
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// faults.cpp: faults by name turned into faults by number. It must not know who runs tasks.
#include "run/faults.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fleet {
namespace {

bool has_link(const Machine& machine, const std::string& name) {
  for (LinkId link = 0; link < static_cast<LinkId>(machine.links.size()); ++link)
    if (link_name(machine, link) == name) return true;
  return false;
}

/// A number is the name of a device, which keeps it where only some devices are used.
DeviceId find_device(const Machine& machine, int number) {
  for (DeviceId d = kFirstDevice; d < static_cast<DeviceId>(machine.devices.size()); ++d)
    if (machine.devices[static_cast<std::size_t>(d)].name == std::to_string(number)) return d;
  return -1;
}

void require_link(const Machine& machine, const std::string& name) {
  if (!has_link(machine, name))
    throw Error(Status::bad_option, "inject: there is no link \"" + name + "\"");
}

}  // namespace

Machine without_peers(Machine machine, const Inject& inject) {
  const auto cut = [&](const Link& link) {
    if (on_host(link.source) || on_host(link.target)) return false;
    return std::ranges::any_of(inject.nopeer, [&](const Inject::NoPeer& pair) {
      if (pair.a < 0) return true;
      const DeviceId a = find_device(machine, pair.a), b = find_device(machine, pair.b);
      return (a == link.source && b == link.target) || (a == link.target && b == link.source);
    });
  };
  std::erase_if(machine.links, cut);
  return machine;
}

Faults::Faults(const Inject& inject, const Machine& machine, const Machine& whole)
    : copy_(inject.copy),
      launch_(inject.launch),
      delay_s_(machine.links.size(), 0.0),
      slow_factor_(machine.links.size(), 1.0),
      reported_(machine.devices.size()) {
  for (const Inject::Delay& delay : inject.delay) require_link(whole, delay.link);
  for (const Inject::Slow& slow : inject.slow) require_link(whole, slow.link);
  for (LinkId link = 0; link < static_cast<LinkId>(machine.links.size()); ++link) {
    const std::string name = link_name(machine, link);
    for (const Inject::Delay& delay : inject.delay)
      if (delay.link == name) delay_s_[static_cast<std::size_t>(link)] = delay.seconds;
    for (const Inject::Slow& slow : inject.slow)
      if (slow.link == name) slow_factor_[static_cast<std::size_t>(link)] = slow.factor;
  }
  if (!inject.lost) return;
  dying_ = find_device(machine, inject.lost->device);
  if (dying_ < 0)
    throw Error(Status::bad_option,
                "inject: there is no device " + std::to_string(inject.lost->device));
  kernels_left_ = inject.lost->tiles;
  if (inject.lost->tiles <= 0) lost_ = dying_;
}

void Faults::note_kernel(DeviceId device) {
  if (device == dying_ && kernels_left_.fetch_sub(1) == 1) lost_ = dying_;
}

void Faults::note_reported(DeviceId device) {
  if (device < 0) return;
  reported_[static_cast<std::size_t>(device)] = true;
  any_reported_ = true;
}

void Faults::require_alive(DeviceId location) const {
  if (is_lost(location))
    throw Error(Status::device_failed, "device " + place_word(location) + " was lost");
}

void Faults::require_devices(const Plan& plan) const {
  if (!any_reported_) return;
  for (const Task& task : plan.tasks) {
    require_alive(task.to.device);
    if (task.kind != TaskKind::compute) require_alive(task.from.device);
  }
}

}  // namespace fleet

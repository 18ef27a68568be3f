// SPDX-License-Identifier: BSD-3-Clause
// slower.hpp: machines that are slower than others.
#pragma once
#include "machine/machine.hpp"

namespace fleet::test {

/// All rates of the machine times `factor`: what it does takes 1 / factor as long.
inline Machine slower(Machine machine, double factor) {
  for (Device& device : machine.devices) {
    for (KernelRate& rate : device.kernels) rate.flops_per_s *= factor;
    device.memory_bytes_per_s *= factor;
  }
  for (Link& link : machine.links) link.bytes_per_s *= factor;
  for (Port& port : machine.ports) port.capacity *= factor;
  return machine;
}

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// shipped.hpp: the machines that are shipped, and square products on them.
#pragma once
#include <string>

#include "machine/machine.hpp"
#include "tune/teams.hpp"

namespace fleet::test {

inline Machine shipped(const std::string& name) {
  return load_machine(name, FLEETBLAS_SOURCE_DIR "/machines");
}

/// All devices of the machine.
inline Team all_of(const Machine& machine) {
  Team all;
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d) all.push_back(d);
  return all;
}

/// A product of doubles with m = n = k, all operands at `home`.
inline Problem square(std::int64_t n, DeviceId home) {
  return make_problem({.m = n, .n = n, .k = n}, {.homes = {home, home, home}});
}

}  // namespace fleet::test

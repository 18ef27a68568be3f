// SPDX-License-Identifier: BSD-3-Clause
// product_times.hpp: a cache of the times of tile products. It knows no plan.
#pragma once
#include <array>
#include <cstdint>

#include "machine/machine.hpp"

namespace fleet {

/// Machine::multiply_s for hot loops (planner, simulator): plans have few distinct shapes, and
/// computing each time takes logarithms.
class ProductTimes {
 public:
  explicit ProductTimes(const Machine& machine) : machine_(machine) {}

  double seconds(DeviceId device, DataType type, std::int64_t m, std::int64_t n, std::int64_t k) {
    Known& known = known_[place(device, m, n, k)];
    if (known.m != m || known.n != n || known.k != k || known.device != device ||
        known.type != type)
      known = {m, n, k, device, type, machine_.multiply_s(device, type, m, n, k)};
    return known.seconds;
  }

 private:
  struct Known {
    std::int64_t m = -1, n = -1, k = -1;
    DeviceId device = -1;
    DataType type;
    double seconds = 0;
  };
  static constexpr int kBits = 8;

  // Shapes often differ by one in a size; large odd factors carry that to the upper bits.
  static std::size_t place(DeviceId device, std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::uint64_t mixed = static_cast<std::uint64_t>(m) * 0x9E3779B97F4A7C15u +
                                static_cast<std::uint64_t>(n) * 0xC2B2AE3D27D4EB4Fu +
                                static_cast<std::uint64_t>(k) * 0x165667B19E3779F9u +
                                static_cast<std::uint64_t>(device) * 0xD6E8FEB86659FD93u;
    return mixed >> (64 - kBits);
  }

  const Machine& machine_;
  std::array<Known, std::size_t{1} << kBits> known_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// grid_factor.hpp: a system of equations in the memory of devices, factored by all ranks of a grid
// of several rows.
#pragma once
#include "factor/factor.hpp"
#include "on_device/section.hpp"

namespace fleet::lu {

/// The memory of such a factorization beside the matrix.
struct DeviceWorkspace {
  std::array<Device::Memory, 2> panels;         ///< of a step and the next one
  std::array<DeviceSectionMemory, 3> sections;  ///< by Part
  PanelBuffers messages;                        ///< the panels on the host
  Buffer columns;                               ///< of a panel that the host factors

  /// Nothing where the device has no room. What is on the host is taken by touch().
  static std::optional<DeviceWorkspace> make(const Grid& grid, const DeviceSystem& system,
                                             const Device& device, Overlap overlap);
  /// Takes that, and pins it for the device. Throws Failure where there is too little.
  Pinned touch(const Grid& grid, const DeviceSystem& system, const Device& device, Overlap overlap);
  /// Has the device do once what it does in each step, so that it has started. Changes some of the
  /// matrix.
  void warm_up(const DeviceSystem& system, const Device& device);
};

/// What the matrix has in the end: U is enough for back substitution.
enum class Kept { upper, both };

struct DeviceSchedule {
  Overlap overlap = Overlap::full;
  Kept kept = Kept::upper;
};

/// As factor() of a System, by the same tasks. Panels are factored on the host; panels and rows
/// travel over its memory.
Factored factor(const Grid& grid, const DeviceSystem& system, DeviceWorkspace& workspace,
                const Device& device, const Rank& rank, const DeviceSchedule& schedule,
                const std::function<void(std::int64_t, std::int64_t)>& after_step = {});

}  // namespace fleet::lu

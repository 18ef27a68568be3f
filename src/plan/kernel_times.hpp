// SPDX-License-Identifier: BSD-3-Clause
// kernel_times.hpp: how long the kernels of a program take on a machine, for the planner's clock
// and for the simulator. It knows no schedule.
#pragma once
#include <algorithm>

#include "machine/product_times.hpp"
#include "program/tile_program.hpp"
#include "program/tuning.hpp"

namespace fleet {

class KernelTimes {
 public:
  /// Program and machine must outlive it. The tuning says how much of the host's rates is left.
  KernelTimes(const TileProgram& program, const Machine& machine, const Tuning& tuning)
      : program_(program),
        machine_(machine),
        cpu_part_(tuning.has_cpu() ? tuning.cpu_part * machine.devices[kHost].beside : 1),
        product_times_(machine) {}

  /// Seconds of an op with the device otherwise idle, launch included. The planner's clock takes
  /// this: it has the ops of a device one after the other.
  double seconds(DeviceId device, const TileOp& op, const TileId& target) {
    return whole_s(device, op, target) * share(device, op, target) + steps_s(device, op) +
           few_rows_s(device, op, target);
  }
  /// The same with the multiply-adds of whole tiles.
  double whole_s(DeviceId device, const TileOp& op, const TileId& target) {
    if (has_vectors(op.kernel))
      return machine_.stream_s(device, program_.streamed_bytes_of(op, target));
    const double whole_s =
        product_times_.seconds(device, program_.type_of(op, target), program_.rows_of(target),
                               program_.cols_of(target), program_.depth_of(op, target));
    return on_host(device) ? whole_s / cpu_part_ : whole_s;
  }
  /// The part of whole_s that the op takes: products with triangles take less than with whole
  /// tiles, but more than their multiply-adds.
  double share(DeviceId device, const TileOp& op, const TileId& target) const {
    if (has_vectors(op.kernel)) return 1;
    const double work = program_.work_of(op, target);
    if (work == 1 || op.kernel == Kernel::solve || program_.fill_of(target) != Fill::full)
      return work;
    constexpr double kHalf = 0.5;  // a large triangle's share of a square's multiply-adds
    return std::min(1.0, work / kHalf * of(device).triangle_share);
  }
  /// Seconds of a solve beyond its multiply-adds, in which most processors are free for others.
  double steps_s(DeviceId device, const TileOp& op) const {
    if (op.kernel != Kernel::solve) return 0;
    return static_cast<double>(program_.rows_of(op.inputs[0].tile)) * of(device).solve_row_s;
  }
  /// Seconds of a solve beyond its multiply-adds, in which it keeps the device busy.
  double few_rows_s(DeviceId device, const TileOp& op, const TileId& target) const {
    if (op.kernel != Kernel::solve) return 0;
    const std::int64_t elements = program_.rows_of(target) * program_.cols_of(target);
    return static_cast<double>(elements) * of(device).solve_element_s;
  }

 private:
  const Device& of(DeviceId device) const {
    return machine_.devices[static_cast<std::size_t>(device)];
  }

  const TileProgram& program_;
  const Machine& machine_;
  const double cpu_part_;
  ProductTimes product_times_;
};

}  // namespace fleet

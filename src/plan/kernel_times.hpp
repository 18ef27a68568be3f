// SPDX-License-Identifier: BSD-3-Clause
// kernel_times.hpp: how long the kernels of a program take on a machine, for the planner's clock
// and for the simulator. It knows no schedule.
#pragma once
#include <algorithm>
#include <vector>

#include "base/sizes.hpp"
#include "machine/product_times.hpp"
#include "program/strips.hpp"
#include "program/tile_program.hpp"
#include "program/tuning.hpp"

namespace fleet {

/// Products of halves in the place of one of floats: first times first, and each second times the
/// other's first.
inline constexpr int kProductsOfHalves = 3;

/// Strips of `width`, whose updates multiply halves where that makes factors that are refined much
/// sooner on all workers.
inline Strips strips_on(const Machine& machine, const std::vector<DeviceId>& workers,
                        const Factorization& what, std::int64_t width) {
  // Floats have to be made halves.
  constexpr double kLeastGain = 4.0 / 3;
  Strips strips = strips_of(what, width);
  strips.in_halves =
      what.refined && what.storage == Storage::f32 && std::ranges::all_of(workers, [&](DeviceId d) {
        return machine.best_rate(d, DataType::f16) >=
               kLeastGain * kProductsOfHalves * machine.best_rate(d, what.type());
      });
  return strips;
}

class KernelTimes {
 public:
  /// Program, machine and tuning must outlive it. The tuning says how much of the host's rates is
  /// left, and what lies in memory that is shared with the host.
  KernelTimes(const TileProgram& program, const Machine& machine, const Tuning& tuning)
      : program_(program),
        machine_(machine),
        tuning_(tuning),
        cpu_part_(tuning.has_cpu() ? tuning.cpu_part * machine.devices[kHost].beside : 1),
        product_times_(machine) {
    if (tuning.sharing.empty()) return;
    reach_.resize(machine.devices.size());
    for (const DeviceId d : tuning.sharing)
      reach_[static_cast<std::size_t>(d)] = reach_of(d, static_cast<double>(tuning.sharing.size()));
  }

  /// Seconds of an op with the device otherwise idle, launch included. The planner's clock takes
  /// this: it has the ops of a device one after the other.
  double seconds(DeviceId device, const TileOp& op, const TileId& target) {
    return whole_s(device, op, target) * share(device, op, target) + steps_s(device, op) +
           few_rows_s(device, op, target);
  }
  /// The same with the multiply-adds of whole tiles.
  double whole_s(DeviceId device, const TileOp& op, const TileId& target) {
    if (factors(op.kernel)) return factoring_s(device, op, target);
    const double whole_s =
        has_vectors(op.kernel)
            ? machine_.stream_s(device, program_.streamed_bytes_of(op, target))
            : product_times_.seconds(device, program_.type_of(op, target), program_.rows_of(target),
                                     program_.cols_of(target), program_.depth_of(op, target));
    if (on_host(device)) return has_vectors(op.kernel) ? whole_s : whole_s / cpu_part_;
    return reach_.empty() ? whole_s : std::max(whole_s, shared_s(device, op, target));
  }
  /// The part of whole_s that the op takes: products with triangles take less than with whole
  /// tiles, but more than their multiply-adds.
  double share(DeviceId device, const TileOp& op, const TileId& target) const {
    if (has_vectors(op.kernel) || factors(op.kernel)) return 1;
    const double work = program_.work_of(op, target);
    if (work == 1 || op.kernel == Kernel::solve || program_.fill_of(target) != Fill::full)
      return work;
    constexpr double kHalf = 0.5;  // a large triangle's share of a square's multiply-adds
    return std::min(1.0, work / kHalf * of(device).triangle_share);
  }
  /// Seconds of a solve beyond its multiply-adds, in which most processors are free for others.
  double steps_s(DeviceId device, const TileOp& op) const {
    if (op.kernel != Kernel::solve) return 0;
    const TileId& triangle = op.inputs[0].tile;
    const Device& d = of(device);
    const bool plain = d.plain_row_s > 0 && !program_.is_prepared(triangle, Form::inverses, d);
    return static_cast<double>(program_.rows_of(triangle)) *
           (plain ? d.plain_row_s : d.solve_row_s);
  }
  /// Seconds of a solve beyond its multiply-adds, in which it keeps the device busy.
  double few_rows_s(DeviceId device, const TileOp& op, const TileId& target) const {
    if (op.kernel != Kernel::solve) return 0;
    const std::int64_t elements = program_.rows_of(target) * program_.cols_of(target);
    return static_cast<double>(elements) * of(device).solve_element_s;
  }

 private:
  /// A product works on blocks of C with about this edge, and reads their rows of A and columns of
  /// B for each of them anew: no cache keeps what comes from the host
  /// (docs/performance/lessons.md).
  static constexpr std::int64_t kBlock = 128;

  /// The way between the host's memory and a device's kernels: what limits the bytes of each way,
  /// and what limits both together. Ports are in equal parts for all devices that share memory.
  struct Reach {
    struct Limit {
      double in_s = 0, out_s = 0;  ///< per byte
    };
    std::vector<Limit> limits;
  };
  Reach reach_of(DeviceId device, double sharers) const {
    const auto way = [&](LinkId id) -> const Link& {
      return machine_.links.at(static_cast<std::size_t>(id));
    };
    const Link& in = way(machine_.find_link(kHost, device));
    const Link& out = way(machine_.find_link(device, kHost));
    Reach reach{{{.in_s = 1 / in.bytes_per_s}, {.out_s = 1 / out.bytes_per_s}}};
    std::vector<Reach::Limit> ports(machine_.ports.size());
    const auto per_byte_s = [&](const PortShare& share) {
      return share.weight * sharers / machine_.ports[static_cast<std::size_t>(share.port)].capacity;
    };
    for (const PortShare& share : in.ports)
      ports[static_cast<std::size_t>(share.port)].in_s += per_byte_s(share);
    for (const PortShare& share : out.ports)
      ports[static_cast<std::size_t>(share.port)].out_s += per_byte_s(share);
    for (const Reach::Limit& port : ports)
      if (port.in_s + port.out_s > 0) reach.limits.push_back(port);
    return reach;
  }

  /// Of an op of a factorization. A panel and products beside it take as long as one after the
  /// other (docs/performance, "Factorizations on one H100"), so the panel keeps the device busy.
  double factoring_s(DeviceId device, const TileOp& op, const TileId& target) {
    if (copies_factors(op.kernel))
      return machine_.stream_s(device, program_.streamed_bytes_of(op, target));
    const TileId& holder = op.kernel == Kernel::factor ? target : op.inputs[0].tile;
    const Panel& panel = *program_.matrix_of(holder).panel;
    const DataType type = program_.type_of(op, target);
    if (op.kernel == Kernel::update) {
      ProductShape product = program_.product_of_update(op, target);
      if (panel.in_halves) product.k *= kProductsOfHalves;
      const std::int64_t exchanged = program_.exchanged_bytes_of(op, target);
      return (exchanged > 0 ? machine_.stream_s(device, exchanged) : 0) +
             product.times * product_times_.seconds(device, panel.in_halves ? DataType::f16 : type,
                                                    product.m, product.n, product.k);
    }
    const double flops = (is_complex(type.storage) ? 8 : 2) * program_.multiply_adds_of(op, target);
    const double rate =
        machine_.rate(device, type, static_cast<double>(panel.length),
                      static_cast<double>(panel.width), static_cast<double>(panel.width));
    const PanelTimes& steps = panels_of(device, panel);
    const auto width = static_cast<double>(panel.width);
    const std::int64_t streamed = panel.is_solved_below() ? panel.width : panel.length;
    return of(device).launch_s + width * steps.column_s +
           width * static_cast<double>(streamed) * steps.element_s + flops / rate +
           solve_below_s(device, panel);
  }
  /// Of the solve below a panel's square, beyond its multiply-adds.
  double solve_below_s(DeviceId device, const Panel& panel) const {
    const std::int64_t below = panel.length - panel.width;
    if (below == 0 || !panel.is_solved_below()) return 0;
    const Device& d = of(device);
    return d.prepare_s + static_cast<double>(panel.width) * d.solve_row_s +
           static_cast<double>(panel.width * below) * d.solve_element_s;
  }
  const PanelTimes& panels_of(DeviceId device, const Panel& panel) const {
    return of(device).panels[panel.kind()];
  }

  const Device& of(DeviceId device) const {
    return machine_.devices[static_cast<std::size_t>(device)];
  }
  /// Seconds in which what the op uses in memory shared with the host passes the device's links.
  double shared_s(DeviceId device, const TileOp& op, const TileId& target) const {
    const Reach& reach = reach_[static_cast<std::size_t>(device)];
    if (reach.limits.empty()) return 0;
    const auto is_shared = [&](const TileId& tile) {
      return tile.exists() && on_host(program_.matrix_of(tile).home) &&
             program_.in_place(tile.matrix, device, tuning_);
    };
    double in = 0, out = 0;
    for (const std::size_t x : {0, 1}) {
      const TileId& tile = op.inputs[x].tile;
      if (!is_shared(tile)) continue;
      const std::int64_t along = x == 0 ? program_.cols_of(target) : program_.rows_of(target);
      const std::int64_t times = has_vectors(op.kernel) ? 1 : ceil_div(along, kBlock);
      in += static_cast<double>(times * program_.bytes_of(tile));
    }
    if (is_shared(target)) {
      out = static_cast<double>(program_.bytes_of(target));
      in += out;
    }
    double least_s = 0;
    for (const Reach::Limit& limit : reach.limits)
      least_s = std::max(least_s, in * limit.in_s + out * limit.out_s);
    return of(device).launch_s + least_s / of(device).in_place_share;
  }

  const TileProgram& program_;
  const Machine& machine_;
  const Tuning& tuning_;
  const double cpu_part_;
  std::vector<Reach> reach_;  ///< by device; empty: none shares memory with the host
  ProductTimes product_times_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// mail.hpp: panels from device to device along a row of the grid. It knows no matrix.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "comm_nccl/device_row.hpp"
#include "dist/grid.hpp"
#include "on_device/device.hpp"
#include "work/engine.hpp"

namespace fleet::lu {

/// Two panels at a time are known, on each rank, in memory of its device. Ranks of one process
/// fetch a panel from the device that has it; between processes it goes over host memory, or by
/// NCCL where there is a DeviceRow. All ranks of the row make the same calls in the same order,
/// each by the thread that factors. Each throws Failure.
class Mail {
 public:
  /// What a rank keeps panels in.
  struct Places {
    std::array<Device::Memory, 2> panels;
    std::array<Device::Memory, 2> ways;  ///< on the host, where panels go over it
  };
  /// Places for panels of `size` numbers; nothing where the device has no room.
  static std::optional<Places> places(const Device& device, std::int64_t size);
  /// Takes the host's. Throws Failure where there is too little.
  static void take_ways(const Device& device, std::int64_t size, Places& places);
  /// Panels go from one process to another.
  static bool is_between_processes(const Grid& grid) {
    return grid.cols > 1 && !grid.all.shares_memory();
  }

  /// `between`: of the grid's row, or nothing; without, processes need ways.
  Mail(const Grid& grid, const Device& device, Engine& engine, Places places,
       std::unique_ptr<DeviceRow> between = nullptr);
  /// Ranks that are fetching from this one are waited for.
  ~Mail() { withdraw(); }
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  /// The memory of panel k, once nobody needs what was there before.
  double* place(std::int64_t k);
  /// Sends panel k, of `count` numbers, which column `root` of the grid has in its place.
  void send(std::int64_t k, std::int64_t count, int root);
  /// Waits until it is there.
  void arrive(std::int64_t k);
  /// As it arrived.
  const double* panel(std::int64_t k) { return slot(k).panel.data(); }
  /// Waits until nobody needs what this rank has sent.
  void settle();
  /// For a rank that has failed: others fetch nothing from it any more, and messages between
  /// devices end.
  void withdraw();

 private:
  class Offer;
  struct Slot {
    Device::Memory panel, way;
    std::shared_ptr<Offer> offer;  ///< the panel, for ranks of this process
    double offered = 0;            ///< the number of the sender's offer
    std::int64_t count = 0;
    bool comes = false;        ///< another rank has it
    std::vector<double> said;  ///< that ranks have it
    std::unique_ptr<Request> sent, all_have_it;
  };
  Slot& slot(std::int64_t k) { return slots_[static_cast<std::size_t>(k % 2)]; }

  Comm& row_;
  const Device& device_;
  Engine& engine_;
  const bool fetches_;  ///< from ranks of the same process
  /// Of ranks that say that they have a panel.
  const std::unique_ptr<Comm> receipts_;
  const std::vector<std::int64_t> counts_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<DeviceRow> between_;  ///< goes before the memory that it may write to
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// mail.hpp: panels from device to device along a row of the grid. It knows no matrix.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "dist/grid.hpp"
#include "on_device/device.hpp"
#include "work/engine.hpp"

namespace fleet::lu {

/// Two panels at a time are known, on each rank, in memory of its device. Ranks of one process
/// fetch a panel from the device that has it; between processes it goes over host memory. All ranks
/// of the row make the same calls in the same order, each by the thread that factors.
class Mail {
 public:
  /// `size`: of the largest panel. Throws Failure.
  Mail(const Grid& grid, const Device& device, Engine& engine, std::int64_t size);

  /// The memory of panel k, once nobody needs what was there before.
  double* place(std::int64_t k);
  /// Sends panel k, of `count` numbers, which column `root` of the grid has in its place.
  void send(std::int64_t k, std::int64_t count, int root);
  /// Waits until it is there.
  void arrive(std::int64_t k);
  /// Waits until nobody needs what this rank has sent.
  void settle();
  /// As it arrived.
  const double* panel(std::int64_t k) { return slot(k).panel.data(); }

 private:
  struct Slot {
    Device::Memory panel, way;
    double address = 0;        ///< of the sender's panel, as bits
    std::vector<double> said;  ///< that ranks have it
    std::unique_ptr<Request> sent, all_have_it;
  };
  Slot& slot(std::int64_t k) { return slots_[static_cast<std::size_t>(k % 2)]; }
  std::unique_ptr<Request> offer(std::int64_t k, std::int64_t count, int root);
  std::unique_ptr<Request> by_host(std::int64_t k, std::int64_t count, int root);

  Comm& row_;
  const Device& device_;
  Engine& engine_;
  /// Of ranks that say that they have a panel.
  const std::unique_ptr<Comm> receipts_;
  const std::vector<std::int64_t> counts_;
  std::array<Slot, 2> slots_;
};

}  // namespace fleet::lu

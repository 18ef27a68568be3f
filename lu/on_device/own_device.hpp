// SPDX-License-Identifier: BSD-3-Clause
// own_device.hpp: the device of a rank that computes on it now and then. It knows no matrices.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "comm_nccl/device_row.hpp"
#include "dist/grid.hpp"
#include "on_device/device.hpp"

namespace fleet::lu {

/// Started when it is first asked for: programs whose matrices are small never touch a driver.
class OwnDevice {
 public:
  enum class Use { never, where_it_pays, always };
  struct Means {
    Use use = Use::where_it_pays;
    /// Of this rank, among those of the grid on its node, which may have to share devices.
    int place_on_node = 0;
    double patience_s = kForever;  ///< as of a Comm
    /// Threads of the process may call MPI in turn: blocks on a device have one that waits for
    /// rows.
    bool has_threads = true;
  };
  /// Of a rank of a grid, which outlives it.
  OwnDevice(const Grid& grid, const Means& means) : grid_(grid), means_(means) {}

  /// Whether a device pays for so many multiply-adds, if so many numbers are copied for them.
  /// Starts nothing, and depends on nothing else.
  bool is_worth(double multiply_adds, double numbers) const;
  /// nullptr where there is none, or it cannot be started. By one thread at a time.
  const Device* start();

  /// For panels that go from process to process along the row of the grid: its ranks are numbered
  /// from column `first` on. Sought once; nothing where there is none. All ranks of the row call it
  /// together. Throws Failure.
  std::unique_ptr<DeviceRow> row(int first, const DeviceRow::Place& place);
  /// Cores do what a device was to do: says so, and why, once, where the log level is 1 or more.
  void say_why_not(const std::string& why);
  /// After a failure: messages under way end.
  void drop_row() { row_.reset(); }

 private:
  const Grid& grid_;
  const Means means_;
  bool is_started_ = false, row_is_sought_ = false, has_said_why_ = false;
  std::optional<Device> device_;
  std::shared_ptr<DeviceRow> row_;
};

}  // namespace fleet::lu

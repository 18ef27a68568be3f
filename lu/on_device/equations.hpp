// SPDX-License-Identifier: BSD-3-Clause
// equations.hpp: a system of equations in the memory of a rank's device, with all that its grid
// needs to factor it there. It does not know whose numbers they are.
#pragma once
#include <functional>
#include <optional>

#include "on_device/grid_factor.hpp"
#include "on_device/mail.hpp"

namespace fleet::lu {

/// Whole columns (P = 1) have their rows exchanged on the device, which makes their panels too and
/// sends them by Mail. Blocks have their panels and messages on the host. All ranks of the grid
/// make the same calls.
class DeviceEquations {
 public:
  /// Takes nothing yet. Grid and device outlive it.
  DeviceEquations(const Grid& grid, std::int64_t n, std::int64_t nb, const Device& device,
                  Overlap overlap);

  bool has_whole_columns() const { return grid_.rows == 1; }
  /// Of a device: this rank's part, and panels; beside blocks also the rows that move, and those of
  /// U that another rank has.
  double bytes() const;
  /// Panels and rows on their way, where columns are not whole.
  double host_bytes() const;
  /// All of the device's that is large. False where it has no room. Throws Failure, as do all
  /// below.
  bool take_memory();
  /// Before there is anything in the system: the device has room for what it works on panels with.
  bool has_room_for_panels() const;
  const DeviceSystem& system() const { return *system_; }

  /// Panels go from one process to another: over the host, unless there is a DeviceRow.
  bool sends_panels_between_processes() const {
    return has_whole_columns() && Mail::is_between_processes(grid_);
  }
  /// That such a row may try its messages in.
  DeviceRow::Place place() const;
  /// All of the host's that is large. `between`: of the grid's row, or nothing.
  void take_host_memory(const DeviceRow* between);
  /// Once that is done: ranks can send panels.
  void connect(const Rank& rank, std::unique_ptr<DeviceRow> between);
  /// Has the device do once what it does in each step, so that it has started. Changes some of the
  /// matrix. `first`: a square of nb columns, with numbers.
  void warm_up(const Device::Part& first);

  /// As factor() of a System.
  Factored factor(const Rank& rank, Kept kept,
                  const std::function<void(std::int64_t, std::int64_t)>& after_step = {});
  /// After a failure, where the memory has to stay: other ranks fetch nothing from it any more.
  void withdraw();

 private:
  std::int64_t width() const { return std::min(nb_, n_); }
  std::int64_t panel_size() const { return Device::panel_size(n_, width()); }

  const Grid& grid_;
  const std::int64_t n_, nb_;
  const Device& device_;
  const Overlap overlap_;
  std::optional<DeviceSystem> system_;
  std::optional<Mail::Places> places_;        ///< until the mail has them
  std::optional<Mail> mail_;                  ///< of whole columns
  std::optional<DeviceWorkspace> workspace_;  ///< of blocks
  std::optional<Pinned> pinned_;
};

}  // namespace fleet::lu

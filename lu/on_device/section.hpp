// SPDX-License-Identifier: BSD-3-Clause
// section.hpp: columns of a device to the right of a panel: their rows are exchanged over host
// memory, then they are updated. It knows no schedule.
#pragma once
#include "factor/exchange.hpp"
#include "on_device/system.hpp"

namespace fleet::lu {

/// The memory of a section.
struct DeviceSectionMemory {
  ExchangeBuffers rows;    ///< on the host
  Device::Memory packed;   ///< as many
  Device::Memory numbers;  ///< of rows that leave, and of those that arrive
  /// For panels of that width and so many columns; nothing where the device has no room.
  static std::optional<DeviceSectionMemory> make(const Device& device, std::int64_t width,
                                                 std::int64_t columns);
};

/// As Section, of a system on a device. U takes the place of the rows that come into the square: on
/// the ranks that have these in the matrix, on others below it.
class DeviceSection {
 public:
  DeviceSection(const Grid& grid, const DeviceSystem& system, const Device& device,
                const Rank& rank, const Panel& panel, const RowMoves& moves, std::int64_t begin,
                std::int64_t end, DeviceSectionMemory& memory);

  /// Waits for the rows, and updates. May be called by another thread than the one that factors.
  void update(const Device::Part& panel);

 private:
  /// All of the section's columns, from a row on.
  Device::Part part(std::int64_t row, std::int64_t rows) const {
    return system_.part(row, begin_, rows, end_ - begin_);
  }
  /// The numbers of the rows that leave and of those that arrive, in the order of messages.
  void tell_numbers();

  const DeviceSystem& system_;
  const Device& device_;
  const Rank& rank_;
  const Panel& panel_;
  const std::int64_t begin_, end_;
  const std::int64_t upper_row_;  ///< where U begins
  DeviceSectionMemory& memory_;
  Device::Rows leaving_{}, arriving_{};
  std::optional<RowExchange> exchange_;  ///< none where there are no columns
};

}  // namespace fleet::lu

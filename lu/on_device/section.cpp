// SPDX-License-Identifier: BSD-3-Clause
// section.cpp: for each section one kernel and one copy for the rows that leave, the same for those
// that arrive, one solution and one product.
#include "on_device/section.hpp"

#include <algorithm>

namespace fleet::lu {

std::optional<DeviceSectionMemory> DeviceSectionMemory::make(const Device& device,
                                                             std::int64_t width,
                                                             std::int64_t columns) {
  auto packed = device.take(2 * width * columns), numbers = device.take(4 * width);
  if (!packed || !numbers) return {};
  return DeviceSectionMemory{{}, std::move(*packed), std::move(*numbers)};
}

DeviceSection::DeviceSection(const Grid& grid, const DeviceSystem& system, const Device& device,
                             const Rank& rank, const Panel& panel, const RowMoves& moves,
                             std::int64_t begin, std::int64_t end, DeviceSectionMemory& memory)
    : system_(system),
      device_(device),
      rank_(rank),
      panel_(panel),
      begin_(begin),
      end_(std::max(begin, end)),
      upper_row_(grid.row == panel.owner_row ? panel.local_begin : system.spare_row),
      memory_(memory) {
  if (begin_ == end_) return;
  rank_.recorder.time(What::pack, panel.step, [&] {
    exchange_.emplace(grid, rank, panel, moves, end_ - begin_, memory.rows);
    tell_numbers();
    device.pack_rows(leaving_, part(0, system.ld), memory.packed.data(),
                     exchange_->leaving().data());
  });
  exchange_->send();
}

void DeviceSection::tell_numbers() {
  const std::int64_t leaving =
      std::ssize(exchange_->into_square()) + std::ssize(exchange_->out_of_square());
  const std::int64_t arriving = std::ssize(exchange_->below()) + std::ssize(exchange_->square());
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(leaving + arriving));
  const auto note = [&](std::int64_t first, std::int64_t row, std::span<const RowPlace> places) {
    for (const RowPlace& place : places)
      numbers[static_cast<std::size_t>(first + place.packed)] = row + place.row;
  };
  note(0, 1, exchange_->into_square());
  note(0, 1, exchange_->out_of_square());
  note(leaving, 1, exchange_->below());
  note(leaving, 1 + upper_row_, exchange_->square());
  void* const memory = memory_.numbers.data();
  auto* const there = static_cast<std::int64_t*>(memory);
  device_.copy_numbers(there, numbers);
  leaving_ = {there, leaving};
  arriving_ = {there + leaving, arriving};
}

void DeviceSection::update(const Device::Part& panel) {
  if (!exchange_) return;
  exchange_->arrive();
  rank_.recorder.time(What::pack, panel_.step, [&] {
    device_.unpack_rows(arriving_, exchange_->arriving().data(), memory_.packed.data(),
                        part(0, system_.ld));
  });
  rank_.recorder.time(What::product, panel_.step, [&] {
    device_.update(panel, part(upper_row_, panel_.width),
                   part(panel_.local_below, panel_.rows_below));
  });
}

}  // namespace fleet::lu

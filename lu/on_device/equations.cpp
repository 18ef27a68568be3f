// SPDX-License-Identifier: BSD-3-Clause
// equations.cpp: the two ways to factor on devices behind one name.
#include "on_device/equations.hpp"

#include <algorithm>
#include <vector>

#include "on_device/factor.hpp"

namespace fleet::lu {
namespace {

/// Pivots of a panel on a device have 32 bits.
constexpr std::int64_t kMostRows = INT32_MAX;

}  // namespace

DeviceEquations::DeviceEquations(const Grid& grid, std::int64_t n, std::int64_t nb,
                                 const Device& device, Overlap overlap)
    : grid_(grid), n_(n), nb_(nb), device_(device), overlap_(overlap) {}

double DeviceEquations::bytes() const {
  const auto rows = static_cast<double>(Blocks{n_, nb_, grid_.rows}.local_size(grid_.row));
  const auto cols = static_cast<double>(Blocks{n_ + 1, nb_, grid_.cols}.local_size(grid_.col));
  const auto wide = static_cast<double>(width());
  const double beside =
      has_whole_columns()
          ? 2 * static_cast<double>(Device::panel_size(std::min(n_, kMostRows), width()))
          : 2 * wide * (rows + wide) + 3 * wide * cols;
  return sizeof(double) * (rows * cols + beside);
}

double DeviceEquations::host_bytes() const {
  const auto rows = static_cast<double>(Blocks{n_, nb_, grid_.rows}.local_size(grid_.row));
  const auto cols = static_cast<double>(Blocks{n_ + 1, nb_, grid_.cols}.local_size(grid_.col));
  return sizeof(double) * static_cast<double>(width()) * (3 * rows + 4 * cols);
}

bool DeviceEquations::take_memory() {
  if (has_whole_columns() && n_ > kMostRows) return false;
  if (auto made = DeviceSystem::make(grid_, n_, nb_, device_)) system_.emplace(std::move(*made));
  if (!system_) return false;
  if (has_whole_columns())
    places_ = Mail::places(device_, panel_size());
  else if (auto made = DeviceWorkspace::make(grid_, *system_, device_, overlap_))
    workspace_.emplace(std::move(*made));
  return places_ || workspace_;
}

bool DeviceEquations::has_room_for_panels() const {
  if (!has_whole_columns() || system_->local_cols == 0) return true;
  const std::vector<double> zeros(static_cast<std::size_t>(n_));
  const Device::Part column = system_->part(0, 0, n_, 1);
  device_.copy(column.data, zeros.data(), n_);
  try {
    device_.factor(column, places_->panels.front().data());
  } catch (const Failure&) {
    return false;
  }
  return true;
}

DeviceRow::Place DeviceEquations::place() const {
  return {device_.number(), places_->panels.front().data(), panel_size()};
}

void DeviceEquations::take_host_memory(const DeviceRow* between) {
  if (workspace_)
    pinned_.emplace(workspace_->touch(grid_, *system_, device_, overlap_));
  else if (sends_panels_between_processes() && between == nullptr)
    Mail::take_ways(device_, panel_size(), *places_);
}

void DeviceEquations::connect(const Rank& rank, std::unique_ptr<DeviceRow> between) {
  if (places_) mail_.emplace(grid_, device_, rank.engine, std::move(*places_), std::move(between));
}

void DeviceEquations::warm_up(const Device::Part& first) {
  if (workspace_) return workspace_->warm_up(*system_, device_);
  double* const panel = mail_->place(0);
  device_.factor(first, panel);
  device_.apply(panel, first.cols, system_->part(0, 0, first.cols, system_->local_cols));
  if (grid_.cols > 1 && grid_.all.shares_memory())
    device_.fetch(system_->part(0, 0, 1, 1).data, panel, 1);
}

Factored DeviceEquations::factor(
    const Rank& rank, Kept kept,
    const std::function<void(std::int64_t, std::int64_t)>& after_step) {
  if (workspace_)
    return lu::factor(grid_, *system_, *workspace_, device_, rank, {overlap_, kept}, after_step);
  return lu::factor(grid_, *system_, *mail_, device_, rank, overlap_, after_step);
}

void DeviceEquations::withdraw() {
  if (mail_) mail_->withdraw();
}

}  // namespace fleet::lu

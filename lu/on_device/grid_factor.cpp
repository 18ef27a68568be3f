// SPDX-License-Identifier: BSD-3-Clause
// grid_factor.cpp: the tasks of the schedule: the device updates, and the thread that factors has
// panels and messages meanwhile.
#include "on_device/grid_factor.hpp"

#include <algorithm>
#include <future>

#include "on_device/beside.hpp"

namespace fleet::lu {
namespace {

/// Of the host's copy of a panel's columns: they do not all begin in the same places of caches.
std::int64_t ld_of_columns(std::int64_t rows) { return (rows + 7) / 8 * 8 + 8; }

struct DeviceStep : PanelStep {
  std::array<std::optional<DeviceSection>, 3> sections;  ///< by Part
};

class GridFactoring {
 public:
  GridFactoring(const Grid& grid, const DeviceSystem& system, DeviceWorkspace& workspace,
                const Device& device, const Rank& rank, const DeviceSchedule& schedule)
      : grid_(grid),
        system_(system),
        workspace_(workspace),
        device_(device),
        rank_(rank),
        overlap_(schedule.overlap),
        kept_(schedule.kept),
        shape_{system.rows.n, system.rows.nb, grid.rows, grid.cols} {}

  Factored run(const std::function<void(std::int64_t, std::int64_t)>& after_step) {
    for (const Task& task : first_tasks(shape_, grid_.col, overlap_)) run(task);
    for (std::int64_t k = 0; k < shape_.steps(); ++k) {
      run_step(step_tasks(shape_, grid_.col, overlap_, k));
      of(k).reset();
      if (after_step) after_step(k + 1, shape_.steps());
    }
    return std::move(result_);
  }

 private:
  static std::size_t slot(std::int64_t k) { return static_cast<std::size_t>(k % 2); }
  /// Of a step and the one after it: no more are known at a time.
  std::optional<DeviceStep>& of(std::int64_t k) { return steps_[slot(k)]; }

  /// With look-ahead, the device updates the columns that do not belong to the next panel while the
  /// thread that factors has other things to do: it sends the left columns' rows and, while the
  /// right ones are updated and then the left ones, has the next panel and, once the right ones are
  /// done, their rows of the next step.
  void run_step(const std::vector<Task>& tasks) {
    const auto is_beside = [](const Task& task) {
      return task.part != Part::ahead && task.act == Act::update;
    };
    const auto is_of_left = [](const Task& task) {
      return task.part == Part::left && task.act == Act::exchange;
    };
    if (overlap_ == Overlap::none ||
        std::ranges::find(tasks, Act::factor, &Task::act) == tasks.end()) {
      for (const Task& task : tasks) run(task);
      return;
    }
    std::vector<Task> updates, rows;
    std::ranges::copy_if(tasks, std::back_inserter(updates), is_beside);
    std::ranges::copy_if(tasks, std::back_inserter(rows), is_of_left);
    std::shared_future<void> right, left;
    for (const Task& task : tasks) {
      if (is_beside(task) || is_of_left(task)) continue;
      if (task.act == Act::factor) {
        right = begin(updates.front(), {});
        for (const Task& of_left : rows) run(of_left);
        left = begin(updates.back(), right);
      }
      if (task.act == Act::exchange && task.part == Part::right) right.get();
      run(task);
    }
    left.get();
  }

  std::shared_future<void> begin(const Task& update, const std::shared_future<void>& before) {
    return beside_this_thread([this, update, before] {
             if (before.valid()) before.get();
             run(update);
           })
        .share();
  }

  void run(const Task& task) {
    if (task.act == Act::factor) of(task.step).emplace();
    DeviceStep& step = *of(task.step);
    auto& section = step.sections[static_cast<std::size_t>(task.part)];
    switch (task.act) {
      case Act::factor:
        step.panel = std::make_unique<Panel>(grid_, system_.rows, system_.cols, task.step,
                                             workspace_.messages[slot(task.step)]);
        return factor(*step.panel);
      case Act::send:
        return step.send(grid_, rank_);
      case Act::arrive:
        step.arrive(rank_, result_);
        return put(*step.panel);
      case Act::exchange:
        section.emplace(grid_, system_, device_, rank_, *step.panel, *step.moves, task.begin,
                        task.end, workspace_.sections[static_cast<std::size_t>(task.part)]);
        return;
      case Act::update:
        section->update(panel_of(*step.panel));
        section.reset();
        return;
    }
  }

  Device::Part columns_of(const Panel& panel, std::int64_t rows) const {
    return system_.part(panel.local_begin, system_.cols.local(panel.begin), rows, panel.width);
  }

  /// On the device: its square, and what is below it there.
  Device::Part panel_of(const Panel& panel) const {
    const std::int64_t rows = panel.width + panel.rows_below;
    return {workspace_.panels[slot(panel.step)].data(), rows, panel.width, Device::aligned(rows)};
  }

  void factor(Panel& panel) {
    if (!panel.is_of(grid_)) return;
    const std::int64_t rows = panel.local_rows(), ld = ld_of_columns(rows);
    const std::span<double> columns = workspace_.columns.take(ld * panel.width);
    rank_.recorder.time(What::pack, panel.step,
                        [&] { device_.fetch_part(columns_of(panel, rows), columns.data(), ld); });
    panel.factor(grid_, columns.data(), ld, rank_, Pivoting::partial);
  }

  /// On the device.
  void put(const Panel& panel) {
    const std::int64_t width = panel.width, rows = panel.rows_below;
    const Device::Part there = panel_of(panel);
    rank_.recorder.time(What::pack, panel.step, [&] {
      device_.put_part(panel.square(), width, {there.data, width, width, there.ld});
      if (rows > 0)
        device_.put_part(panel.below(), rows, {there.data + width, rows, width, there.ld});
      if (!panel.is_of(grid_)) return;
      if (grid_.row == panel.owner_row)
        device_.put_part(panel.square(), width, columns_of(panel, width));
      if (kept_ == Kept::both && rows > 0)
        device_.put_part(
            there.data + width, there.ld,
            system_.part(panel.local_below, system_.cols.local(panel.begin), rows, width));
    });
  }

  const Grid& grid_;
  const DeviceSystem& system_;
  DeviceWorkspace& workspace_;
  const Device& device_;
  const Rank& rank_;
  const Overlap overlap_;
  const Kept kept_;
  const Shape shape_;
  std::array<std::optional<DeviceStep>, 2> steps_;
  Factored result_;
};

}  // namespace

std::optional<DeviceWorkspace> DeviceWorkspace::make(const Grid& grid, const DeviceSystem& system,
                                                     const Device& device, Overlap overlap) {
  const Shape shape{system.rows.n, system.rows.nb, grid.rows, grid.cols};
  const std::int64_t width = std::min(shape.nb, shape.n);
  DeviceWorkspace made;
  for (Device::Memory& panel : made.panels) {
    auto memory = device.take(Device::aligned(width + system.local_rows) * width);
    if (!memory) return {};
    panel = std::move(*memory);
  }
  const auto longest = longest_sections(shape, grid.col, overlap);
  for (std::size_t part = 0; part < longest.size(); ++part) {
    auto section = DeviceSectionMemory::make(device, width, longest[part]);
    if (!section) return {};
    made.sections[part] = std::move(*section);
  }
  return made;
}

Pinned DeviceWorkspace::touch(const Grid& grid, const DeviceSystem& system, const Device& device,
                              Overlap overlap) {
  const Shape shape{system.rows.n, system.rows.nb, grid.rows, grid.cols};
  const std::int64_t width = std::min(shape.nb, shape.n);
  lu::touch(messages, grid, system.rows, system.cols);
  columns.touch(ld_of_columns(system.local_rows) * width);
  const auto longest = longest_sections(shape, grid.col, overlap);
  for (std::size_t part = 0; part < longest.size(); ++part)
    sections[part].rows.touch(width, longest[part]);
  std::vector<Pinned::Memory> memory;
  const auto add = [&](const Buffer& buffer) { memory.push_back({buffer.data(), buffer.bytes()}); };
  std::ranges::for_each(messages, add);
  add(columns);
  for (const DeviceSectionMemory& section : sections) {
    add(section.rows.leaving);
    add(section.rows.arriving);
  }
  return device.pin(memory);
}

void DeviceWorkspace::warm_up(const DeviceSystem& system, const Device& device) {
  const std::int64_t width = std::min(system.rows.nb, system.rows.n);
  std::vector<double> numbers(static_cast<std::size_t>(width * width));
  const Device::Part square{panels[0].data(), width, width, width};
  device.put_part(numbers.data(), width, square);
  device.fetch_part(square, numbers.data(), width);
  const std::int64_t height = std::min(width, system.local_rows);
  const Device::Part spare = system.part(system.spare_row, 0, width, system.local_cols);
  if (spare.cols == 0) return;
  const std::int64_t rows = width + height;
  device.update({panels[0].data(), rows, width, Device::aligned(rows)}, spare,
                system.part(0, 0, height, spare.cols));
  for (const DeviceSectionMemory& section : sections) {
    if (section.packed.data() == nullptr) continue;
    void* const memory = section.numbers.data();
    auto* const number = static_cast<std::int64_t*>(memory);
    device.copy_numbers(number, {1});
    const Device::Part one{spare.data, 1, 1, spare.ld};
    device.pack_rows({number, 1}, one, section.packed.data(), numbers.data());
    device.unpack_rows({number, 1}, numbers.data(), section.packed.data(), one);
    break;
  }
}

Factored factor(const Grid& grid, const DeviceSystem& system, DeviceWorkspace& workspace,
                const Device& device, const Rank& rank, const DeviceSchedule& schedule,
                const std::function<void(std::int64_t, std::int64_t)>& after_step) {
  return GridFactoring(grid, system, workspace, device, rank, schedule).run(after_step);
}

}  // namespace fleet::lu

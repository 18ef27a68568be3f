// SPDX-License-Identifier: BSD-3-Clause
// factor.cpp: the tasks of the schedule, one after another, on a rank's data.
#include "factor/factor.hpp"

#include <array>
#include <optional>
#include <utility>

#include "factor/section.hpp"

namespace fleet::lu {
namespace {

/// And the columns that the panel is applied to.
struct Step : PanelStep {
  std::array<std::optional<Section>, 3> sections;  ///< by Part
};

class Factoring {
 public:
  Factoring(const Grid& grid, System& system, Workspace& workspace, const Rank& rank,
            const Schedule& schedule)
      : grid_(grid),
        system_(system),
        workspace_(workspace),
        rank_(rank),
        schedule_(schedule),
        shape_{system.rows.n, system.rows.nb, grid.rows, grid.cols} {}

  Factored run(const std::function<void(std::int64_t, std::int64_t)>& after_step) {
    for (const Task& task : first_tasks(shape_, grid_.col, schedule_.overlap)) run(task);
    for (std::int64_t k = 0; k < shape_.steps(); ++k) {
      for (const Task& task : step_tasks(shape_, grid_.col, schedule_.overlap, k)) run(task);
      of(k).reset();
      if (after_step) after_step(k + 1, shape_.steps());
    }
    return std::move(result_);
  }

 private:
  /// Of a step and the one after it: no more are known at a time.
  std::optional<Step>& of(std::int64_t k) { return steps_[static_cast<std::size_t>(k % 2)]; }

  void run(const Task& task) {
    if (task.act == Act::factor) of(task.step).emplace();
    Step& step = *of(task.step);
    auto& section = step.sections[static_cast<std::size_t>(task.part)];
    switch (task.act) {
      case Act::factor:
        step.panel =
            std::make_unique<Panel>(grid_, system_.rows, system_.cols, task.step,
                                    workspace_.panels[static_cast<std::size_t>(task.step % 2)]);
        return factor(*step.panel);
      case Act::send:
        return step.send(grid_, rank_);
      case Act::arrive:
        if (is_late(step)) return postpone(task);
        return step.arrive(rank_, result_);
      case Act::exchange:
        if (!late_.empty() && late_.front().step == task.step) return postpone(task);
        section.emplace(grid_, system_, rank_, *step.panel, *step.moves, task.begin, task.end,
                        workspace_.sections[static_cast<std::size_t>(task.part)]);
        if (schedule_.overlap == Overlap::none) section->arrive();
        return;
      case Act::update:
        if (schedule_.overlap != Overlap::none) section->arrive();
        section->update(
            kind_of(task), late_.empty() ? std::function<void()>() : [this] { run_late(); });
        section.reset();
        run_late_at_last();
        return;
    }
  }

  void factor(Panel& panel) {
    if (!panel.is_of(grid_)) return;
    panel.factor(grid_, system_.at(panel.local_begin, system_.cols.local(panel.begin)), system_.ld,
                 rank_, schedule_.pivoting);
  }

  /// With look-ahead, a panel that is not there yet is waited for during the next update, which
  /// does not need it.
  bool is_late(Step& step) const {
    return schedule_.overlap != Overlap::none && step.panel->step > 0 && !step.sent->test();
  }
  void postpone(const Task& task) { late_.push_back(task); }
  void run_late() {
    if (late_.empty() || !of(late_.front().step)->sent->test()) return;
    run_late_at_last();
  }
  void run_late_at_last() {
    for (const Task& task : std::exchange(late_, {}))
      task.act == Act::arrive ? of(task.step)->arrive(rank_, result_) : run(task);
  }

  Work kind_of(const Task& task) const {
    if (task.part == Part::ahead) return Work::ahead;
    return rank_.engine.is_busy() ? Work::overlapped : Work::alone;
  }

  const Grid& grid_;
  System& system_;
  Workspace& workspace_;
  const Rank& rank_;
  const Schedule schedule_;
  const Shape shape_;
  std::vector<Task> late_;  ///< that come during the next update
  std::array<std::optional<Step>, 2> steps_;
  Factored result_;
};

}  // namespace

void PanelStep::send(const Grid& grid, const Rank& rank) {
  sent = rank.engine.drive(panel->broadcast(grid), {What::panel_way, panel->step});
}

void PanelStep::arrive(const Rank& rank, Factored& factored) {
  rank.recorder.time(What::wait, panel->step, [&] { sent->wait(); });
  moves = std::make_unique<RowMoves>(*panel);
  for (std::int64_t c = 0; c < panel->width; ++c) factored.pivots.push_back(panel->pivot(c) + 1);
  if (factored.info == 0) factored.info = panel->info();
}

void touch(PanelBuffers& buffers, const Grid& grid, const Blocks& rows, const Blocks& cols) {
  const std::int64_t steps = std::min(rows.count(), std::ssize(buffers));
  for (std::int64_t k = 0; k < steps; ++k) {
    Buffer& buffer = buffers[static_cast<std::size_t>(k)];
    buffer.touch(Panel(grid, rows, cols, k, buffer).size());
  }
}

std::array<std::int64_t, 3> longest_sections(const Shape& shape, int col, Overlap overlap) {
  std::array<std::int64_t, 3> longest{};
  const auto look_at = [&](const std::vector<Task>& tasks) {
    for (const Task& task : tasks)
      if (task.act == Act::exchange) {
        std::int64_t& columns = longest[static_cast<std::size_t>(task.part)];
        columns = std::max(columns, task.end - task.begin);
      }
  };
  look_at(first_tasks(shape, col, overlap));
  // Sections of later steps are no longer; that of the next panel is empty in some of these.
  for (std::int64_t k = 0; k < std::min<std::int64_t>(shape.steps(), shape.cols); ++k)
    look_at(step_tasks(shape, col, overlap, k));
  return longest;
}

void Workspace::touch(const Grid& grid, const System& system, Overlap overlap) {
  const Shape shape{system.rows.n, system.rows.nb, grid.rows, grid.cols};
  lu::touch(panels, grid, system.rows, system.cols);
  const auto longest = longest_sections(shape, grid.col, overlap);
  for (std::size_t part = 0; part < sections.size(); ++part)
    sections[part].touch(grid.rows, std::min(shape.nb, shape.n), longest[part]);
}

Pinned Workspace::pin(System& system, const Devices& devices) {
  std::vector<Pinned::Memory> memory = {{system.at(0, 0), system.bytes()}};
  for (const Buffer& panel : panels) memory.push_back({panel.data(), panel.bytes()});
  for (const SectionBuffers& section : sections)
    memory.push_back({section.upper.data(), section.upper.bytes()});
  return devices.pin(memory);
}

Factored factor(const Grid& grid, System& system, Workspace& workspace, const Rank& rank,
                const Schedule& schedule,
                const std::function<void(std::int64_t, std::int64_t)>& after_step) {
  return Factoring(grid, system, workspace, rank, schedule).run(after_step);
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// factor.cpp: the tasks of the schedule by a device that has whole columns.
#include "on_device/factor.hpp"

#include <algorithm>
#include <future>
#include <iterator>

#include "on_device/beside.hpp"

namespace fleet::lu {
namespace {

class DeviceFactoring {
 public:
  DeviceFactoring(const Grid& grid, const DeviceSystem& system, Mail& mail, const Device& device,
                  const Rank& rank, Overlap overlap)
      : grid_(grid),
        system_(system),
        mail_(mail),
        device_(device),
        rank_(rank),
        overlap_(overlap),
        shape_{system.rows.n, system.cols.nb, 1, grid.cols} {}

  Factored run(const std::function<void(std::int64_t, std::int64_t)>& after_step) {
    for (const Task& task : first_tasks(shape_, grid_.col, overlap_)) run(task);
    for (std::int64_t k = 0; k < shape_.steps(); ++k) {
      run_step(step_tasks(shape_, grid_.col, overlap_, k));
      if (after_step) after_step(k + 1, shape_.steps());
    }
    mail_.settle();
    return std::move(result_);
  }

 private:
  std::int64_t begin(std::int64_t k) const { return k * shape_.nb; }
  std::int64_t width(std::int64_t k) const { return std::min(shape_.nb, shape_.n - begin(k)); }
  std::int64_t rows(std::int64_t k) const { return shape_.n - begin(k); }
  int owner(std::int64_t k) const { return system_.cols.owner(begin(k)); }

  /// With look-ahead, the next panel is factored, sent and waited for while the device updates the
  /// columns that do not belong to it. Near the end panels go first.
  void run_step(const std::vector<Task>& tasks) {
    const auto is_beside = [this](const Task& task) {
      return overlap_ != Overlap::none && task.act == Act::update && task.part != Part::ahead;
    };
    std::vector<Task> beside;
    std::ranges::copy_if(tasks, std::back_inserter(beside), is_beside);
    std::ranges::sort(beside, {}, &Task::begin);
    std::future<void> updated;
    for (const Task& task : tasks) {
      if (is_beside(task)) continue;
      const bool is_first = task.act == Act::factor && panel_goes_first(task.step);
      if (is_first) run(task);
      if (task.act == Act::factor && !beside.empty())
        updated = beside_this_thread([this, beside] { update_all(beside); });
      if (!is_first) run(task);
    }
    updated.valid() ? updated.get() : update_all(beside);
  }

  /// Whether all would wait for the next panel if it were factored beside products, which doubles
  /// its time p: each of its kernels waits for a multiprocessor. By itself it delays the update u
  /// of its own rank, which has as many steps as there are columns of ranks to catch up: u +
  /// p/columns, where all others would wait for 2p.
  bool panel_goes_first(std::int64_t k) {
    if (owner(k) != grid_.col || grid_.cols == 1 || update_s_ == 0) return false;
    const double beside_s = went_first_ ? 2 * panel_s_ : panel_s_;
    went_first_ = update_s_ < beside_s * (1 - 0.5 / grid_.cols);
    return went_first_;
  }

  /// Of one step. Columns that follow each other are one task for a device, which no message
  /// interrupts.
  void update_all(const std::vector<Task>& tasks) {
    double seconds = 0;
    for (std::size_t i = 0; i < tasks.size();) {
      Task task = tasks[i++];
      for (; i < tasks.size() && tasks[i].begin == task.end; ++i) task.end = tasks[i].end;
      seconds += update(task);
    }
    update_s_ = seconds;
  }

  void run(const Task& task) {
    switch (task.act) {
      case Act::factor:
        return factor(task.step);
      case Act::send:
        rank_.recorder.time(What::wait, task.step, [&] {
          mail_.send(task.step, Device::panel_size(rows(task.step), width(task.step)),
                     owner(task.step));
        });
        return;
      case Act::arrive:
        return arrive(task.step);
      case Act::exchange:  // as part of the update
        return;
      case Act::update:
        update(task);
        return;
    }
  }

  void factor(std::int64_t k) {
    if (owner(k) != grid_.col) return;
    double* panel = nullptr;
    rank_.recorder.time(What::wait, k, [&] { panel = mail_.place(k); });
    panel_s_ = rank_.recorder.time(What::panel, k, [&] {
      device_.factor(system_.part(begin(k), system_.cols.local(begin(k)), rows(k), width(k)),
                     panel);
    });
  }

  /// Its panel is there. Returns the seconds that it took.
  double update(const Task& task) {
    const std::int64_t k = task.step;
    if (task.begin >= task.end) return 0;
    return rank_.recorder.time(What::product, k, [&] {
      device_.apply(mail_.panel(k), width(k),
                    system_.part(begin(k), task.begin, rows(k), task.end - task.begin));
    });
  }

  void arrive(std::int64_t k) {
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(width(k)));
    std::int64_t info = 0;
    rank_.recorder.time(What::wait, k, [&] {
      mail_.arrive(k);
      info = device_.pivots(rows(k), width(k), mail_.panel(k), pivots.data());
    });
    if (result_.info == 0 && info > 0) result_.info = begin(k) + info;
    for (const std::int64_t pivot : pivots) result_.pivots.push_back(begin(k) + pivot);
  }

  const Grid& grid_;
  const DeviceSystem& system_;
  Mail& mail_;
  const Device& device_;
  const Rank& rank_;
  const Overlap overlap_;
  const Shape shape_;
  double update_s_ = 0, panel_s_ = 0;  ///< of the last ones of this rank
  bool went_first_ = false;            ///< the last panel of this rank
  Factored result_;
};

}  // namespace

Factored factor(const Grid& grid, const DeviceSystem& system, Mail& mail, const Device& device,
                const Rank& rank, Overlap overlap,
                const std::function<void(std::int64_t, std::int64_t)>& after_step) {
  return DeviceFactoring(grid, system, mail, device, rank, overlap).run(after_step);
}

}  // namespace fleet::lu

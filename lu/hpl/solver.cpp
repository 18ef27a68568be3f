// SPDX-License-Identifier: BSD-3-Clause
// solver.cpp: matrices in host memory, and on devices.
#include "hpl/solver.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "factor/residual.hpp"
#include "on_device/equations.hpp"
#include "on_device/solve.hpp"

namespace fleet::lu {
namespace {

/// Of the rank that needs most, if one has less.
std::string refusal_of(const Trial& trial, const Grid& grid, double needs_bytes, bool has_room,
                       const char* who, const char* whose) {
  double found[2] = {needs_bytes, has_room ? 0.0 : 1.0};
  grid.all.reduce(found, Reduction::largest);
  if (found[1] == 0) return {};
  constexpr double kGiB = 1 << 30;
  return "N = " + std::to_string(trial.n) + " takes " +
         std::to_string(static_cast<std::int64_t>(std::ceil(found[0] / kGiB))) + " GiB " + who +
         ", more than " + whose;
}

class HostSolver final : public Solver {
 public:
  HostSolver(const Trial& trial, const Grid& grid, const Means& means, const Rank& rank)
      : trial_(trial),
        grid_(grid),
        rank_(rank),
        refusal_(refusal_of(trial, grid, bytes(),
                            means.memory_bytes <= 0 || bytes() <= means.memory_bytes, "for a rank",
                            "its node has for each of its ranks")) {}

  std::string refusal() const override { return refusal_; }
  void prepare() override {
    system_.emplace(grid_, trial_.n, trial_.nb);
    make();
    workspace_.touch(grid_, *system_, trial_.schedule.overlap);
    if (rank_.devices != nullptr) pinned_.emplace(workspace_.pin(*system_, *rank_.devices));
  }
  Factored factor(const std::function<void(std::int64_t, std::int64_t)>& after_step) override {
    return lu::factor(grid_, *system_, workspace_, rank_, trial_.schedule, after_step);
  }
  std::vector<double> solve() override { return lu::solve(grid_, *system_, rank_); }
  double residual(const std::vector<double>& x) override {
    make();
    return lu::residual(grid_, *system_, x, rank_);
  }

 private:
  void make() {
    System& system = *system_;
    rank_.crew.share(system.local_cols, [&](std::int64_t begin, std::int64_t end) {
      fill({system.rows, grid_.row, system.cols, grid_.col}, begin, end, system.at(0, begin),
           system.ld);
    });
  }
  /// A rank's part, two panels, and the rows that move.
  double bytes() const {
    const Blocks rows{trial_.n, trial_.nb, grid_.rows}, cols{trial_.n + 1, trial_.nb, grid_.cols};
    const auto local_rows = static_cast<double>(rows.local_size(grid_.row) + 16);
    const auto local_cols = static_cast<double>(cols.local_size(grid_.col) + 1);
    const auto width = static_cast<double>(std::min(trial_.nb, trial_.n));
    return sizeof(double) *
           (local_rows * local_cols + 3 * width * (local_rows + width) + 5 * width * local_cols);
  }

  const Trial trial_;
  const Grid& grid_;
  const Rank& rank_;
  const std::string refusal_;
  std::optional<System> system_;
  Workspace workspace_;
  std::optional<Pinned> pinned_;
};

class DeviceSolver final : public Solver {
 public:
  DeviceSolver(const Trial& trial, const Grid& grid, const Means& means, const Rank& rank)
      : trial_(trial),
        grid_(grid),
        rank_(rank),
        device_comm_(means.device_comm),
        patience_s_(means.patience_s),
        share_{{trial.n, trial.nb, grid.rows},
               grid.row,
               {trial.n + 1, trial.nb, grid.cols},
               grid.col} {
    if (trial.schedule.pivoting == Pivoting::none) refusal_ = "devices factor with pivots only";
    if (!refusal_.empty()) return;
    device_.emplace(means.matrix_devices.front());
    equations_.emplace(grid, trial.n, trial.nb, *device_, trial.schedule.overlap);
    refusal_ = refusal_of(trial, grid, equations_->bytes(), take_memory(), "of a rank's device",
                          "it has left");
    const double host_bytes = equations_->host_bytes();
    if (refusal_.empty() && !equations_->has_whole_columns())
      refusal_ = refusal_of(trial, grid, host_bytes,
                            means.memory_bytes <= 0 || host_bytes <= means.memory_bytes,
                            "for a rank", "its node has for each of its ranks");
    if (refusal_.empty()) find_way();
  }

  std::string refusal() const override { return refusal_; }
  std::string panel_way() const override { return panel_way_; }
  void prepare() override {
    equations_->take_host_memory(between_.get());
    equations_->connect(rank_, std::move(between_));
    warm_up();
    lu::fill(grid_, equations_->system(), *device_, rank_);
  }
  Factored factor(const std::function<void(std::int64_t, std::int64_t)>& after_step) override {
    return equations_->factor(rank_, Kept::upper, after_step);
  }
  std::vector<double> solve() override {
    return lu::solve(grid_, equations_->system(), *device_, *solution_);
  }
  /// The system is made once more, a few columns at a time.
  double residual(const std::vector<double>& x) override {
    constexpr std::int64_t kColumns = 64;
    Buffer some;
    const std::int64_t ld = std::max<std::int64_t>(1, share_.rows.local_size(share_.row));
    some.take(ld * kColumns);
    return lu::residual(
        grid_, share_, x, kColumns,
        [&](std::int64_t begin, std::int64_t end) {
          rank_.crew.share(end - begin, [&](std::int64_t first, std::int64_t last) {
            fill(share_, begin + first, begin + last, some.data() + first * ld, ld);
          });
          return ColumnsOfA{some.data(), ld};
        },
        rank_);
  }

 private:
  std::int64_t width() const { return std::min(trial_.nb, trial_.n); }

  /// All that is large. False where the device has no room.
  bool take_memory() {
    if (!equations_->take_memory()) return false;
    solution_ = SolutionPlace::make(equations_->system(), *device_);
    return solution_.has_value();
  }

  /// For panels, the same on all ranks of the row.
  void find_way() {
    if (!equations_->has_whole_columns()) {
      if (device_comm_ == DeviceComm::nccl)
        refusal_ = "--device-comm=nccl is for grids of one row (P = 1)";
      else if (grid_.cols > 1)
        panel_way_ = "over host memory";
      return;
    }
    if (grid_.cols == 1) return;
    if (grid_.all.shares_memory()) {
      panel_way_ = "from device to device";
      return;
    }
    panel_way_ = "over host memory";
    if (device_comm_ == DeviceComm::host) return;
    std::string why;
    between_ = DeviceRow::make(*grid_.row_ranks, equations_->place(), patience_s_, why);
    if (between_ != nullptr)
      panel_way_ = "by " + between_->name();
    else if (device_comm_ == DeviceComm::nccl)
      refusal_ = "--device-comm=nccl: " + why;
    else
      panel_way_ += ": " + why;
  }

  /// Devices start with their first kernels and take memory for them outside of the time that
  /// counts. What the system holds until it is filled does not matter.
  void warm_up() {
    const std::int64_t nb = width();
    const Blocks square{nb, nb, 1};
    std::vector<double> numbers(static_cast<std::size_t>(nb * nb));
    fill({square, 0, square, 0}, 0, nb, numbers.data(), nb);
    const auto memory = device_->take(nb * nb);
    if (!memory) throw Failure("a device has no memory for its first kernels");
    const Device::Part first{memory->data(), nb, nb, nb};
    device_->copy(first.data, numbers.data(), nb * nb);
    device_->copy(solution_->solved.data(), numbers.data(), nb);
    const std::int64_t height = std::min(nb, equations_->system().local_rows);
    device_->copy(solution_->left.data(), numbers.data(), height);
    equations_->warm_up(first);
    device_->solve_upper(first, solution_->solved.data());
    device_->subtract_product({first.data, height, nb, nb}, solution_->solved.data(),
                              solution_->left.data());
  }

  const Trial trial_;
  const Grid& grid_;
  const Rank& rank_;
  const DeviceComm device_comm_;
  const double patience_s_;
  const Share share_;
  std::string panel_way_;
  std::string refusal_;
  std::optional<Device> device_;
  std::optional<SolutionPlace> solution_;
  std::unique_ptr<DeviceRow> between_;  ///< until the equations have it
  std::optional<DeviceEquations> equations_;
};

}  // namespace

std::unique_ptr<Solver> make_solver(const Trial& trial, const Grid& grid, const Means& means,
                                    const Rank& rank) {
  if (!means.matrix_devices.empty())
    return std::make_unique<DeviceSolver>(trial, grid, means, rank);
  return std::make_unique<HostSolver>(trial, grid, means, rank);
}

}  // namespace fleet::lu

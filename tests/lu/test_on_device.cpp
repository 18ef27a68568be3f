// SPDX-License-Identifier: BSD-3-Clause
// test_on_device.cpp: systems in the memory of virtual devices, beside LAPACK's pivots.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "../support/scale.hpp"
#include "comm/inproc.hpp"
#include "comm/self.hpp"
#include "dist/generator.hpp"
#include "factor/residual.hpp"
#include "hpl/trial.hpp"
#include "on_device/factor.hpp"
#include "on_device/grid_factor.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {
namespace {

constexpr int kDevices = 2;

/// Before the default context is made.
class VirtualDevices : public testing::Environment {
 public:
  void SetUp() override {
    setenv("FLEETBLAS_BACKEND", "host", 1);
    setenv("FLEETBLAS_DEVICES", std::to_string(kDevices).c_str(), 1);
  }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new VirtualDevices);

std::vector<std::int64_t> pivots_of_lapack(std::int64_t n) {
  const CpuContext context(1);
  std::vector<double> a(static_cast<std::size_t>(n * n));
  Sequence numbers;
  for (double& element : a) element = numbers.next();
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  std::int64_t info = -1;
  EXPECT_EQ(fleet_dgetrf(context.get(), n, n, a.data(), n, pivots.data(), &info), FLEET_OK);
  return pivots;
}

TEST(Devices, AreThoseOfTheLibrary) { EXPECT_EQ(Device::numbers(), (std::vector<int>{0, 1})); }

TEST(Devices, HaveThePivotsOfLapack) {
  unsigned turn = 0;
  for (const int ranks : {1, 2, 3, 5})
    for (const auto& [n, nb] : {std::pair{1, 4}, {40, 64}, {100, 16}, {257, 32}})
      for (const Overlap overlap : {Overlap::none, Overlap::lookahead, Overlap::full}) {
        if (!test::has_turn(turn++)) continue;
        const auto expected = pivots_of_lapack(n);
        run_ranks(ranks, {}, [&, n = n, nb = nb](Comm& comm) {
          const Grid grid(comm, 1, ranks);
          const Workshop workshop({.cores = 1, .progress_thread = overlap == Overlap::full},
                                  overlap);
          const Device device(comm.rank() % kDevices);
          const auto system = DeviceSystem::make(grid, n, nb, device);
          ASSERT_TRUE(system.has_value());
          const std::int64_t size = Device::panel_size(n, std::min(nb, n));
          Mail mail(grid, device, workshop.rank().engine, Mail::places(device, size).value());
          fill(grid, *system, device, workshop.rank());
          const Factored found = factor(grid, *system, mail, device, workshop.rank(), overlap);
          EXPECT_EQ(found.info, 0);
          EXPECT_EQ(found.pivots, expected) << ranks << " ranks, n = " << n << ", nb = " << nb
                                            << ", " << static_cast<int>(overlap);
        });
      }
}

/// A system in blocks on the devices of a grid of several rows.
class Blocked {
 public:
  Blocked(Comm& comm, int rows, int cols, std::int64_t n, std::int64_t nb, Overlap overlap)
      : overlap_(overlap),
        grid(comm, rows, cols),
        workshop({.cores = 1, .progress_thread = overlap >= Overlap::dedicated}, overlap),
        device(comm.rank() % kDevices),
        system(DeviceSystem::make(grid, n, nb, device).value()),
        workspace_(DeviceWorkspace::make(grid, system, device, overlap).value()),
        pinned_(workspace_.touch(grid, system, device, overlap)) {
    fill(grid, system, device, workshop.rank());
  }
  Factored factor(const std::function<void(std::int64_t, std::int64_t)>& after_step = {}) {
    return lu::factor(grid, system, workspace_, device, workshop.rank(), {overlap_}, after_step);
  }
  /// Makes column `col` of the matrix zero.
  void clear(std::int64_t col) {
    if (system.cols.owner(col) != grid.col) return;
    const std::vector<double> zeros(static_cast<std::size_t>(system.local_rows));
    device.copy(system.part(0, system.cols.local(col), system.local_rows, 1).data, zeros.data(),
                system.local_rows);
  }

 private:
  const Overlap overlap_;

 public:
  const Grid grid;
  const Workshop workshop;
  const Device device;
  const DeviceSystem system;

 private:
  DeviceWorkspace workspace_;
  const Pinned pinned_;
};

constexpr std::array kOverlaps = {Overlap::none, Overlap::lookahead, Overlap::dedicated,
                                  Overlap::full};

std::vector<std::int64_t> pivots_of_host(const Grid& grid, std::int64_t n, std::int64_t nb,
                                         const Rank& rank, Overlap overlap) {
  System system(grid, n, nb);
  fill(grid, system);
  Workspace workspace;
  return factor(grid, system, workspace, rank, {.overlap = overlap}).pivots;
}

TEST(Blocks, HaveThePivotsOfTheHostAndOfLapack) {
  unsigned turn = 0;
  for (const auto& [rows, cols] : {std::pair{2, 1}, {2, 2}, {3, 2}, {3, 3}, {2, 3}})
    for (const auto& [n, nb] : {std::pair{1, 4}, {40, 64}, {100, 16}, {203, 24}})
      for (const Overlap overlap : kOverlaps) {
        // Threads of messages that never rest are slow where cores are few.
        if (overlap == Overlap::dedicated && rows * cols > 4) continue;
        if (!test::has_turn(turn++)) continue;
        const auto expected = pivots_of_lapack(n);
        run_ranks(rows * cols, {}, [&, n = n, nb = nb, rows = rows, cols = cols](Comm& comm) {
          Blocked blocked(comm, rows, cols, n, nb, overlap);
          const Factored found = blocked.factor();
          EXPECT_EQ(found.info, 0);
          EXPECT_EQ(found.pivots, expected) << rows << " x " << cols << ", n = " << n
                                            << ", nb = " << nb << ", " << static_cast<int>(overlap);
          EXPECT_EQ(pivots_of_host(blocked.grid, n, nb, blocked.workshop.rank(), overlap),
                    expected);
        });
      }
}

TEST(Blocks, OfSingularMatricesNameTheFirstPivotThatIsZero) {
  for (const auto& [rows, cols] : {std::pair{2, 1}, {2, 2}, {3, 2}})
    for (const Overlap overlap : {Overlap::none, Overlap::full})
      run_ranks(rows * cols, {}, [&, rows = rows, cols = cols](Comm& comm) {
        Blocked blocked(comm, rows, cols, 70, 8, overlap);
        blocked.clear(21);
        blocked.clear(50);
        EXPECT_EQ(blocked.factor().info, 22);
      });
}

TEST(Blocks, OfARankThatFailsEndAll) {
  for (const Overlap overlap : kOverlaps)
    for (const int last : {0, 2})
      EXPECT_THROW(run_ranks(6, {},
                             [&](Comm& comm) {
                               Blocked blocked(comm, 3, 2, 90, 8, overlap);
                               blocked.factor([&](std::int64_t done, std::int64_t) {
                                 if (comm.rank() == 4 && done > last) throw Failure("on purpose");
                               });
                             }),
                   Failure);
}

Outcome outcome_of(const Trial& trial, int device) {
  Outcome outcome;
  run_ranks(trial.rows * trial.cols, {}, [&](Comm& comm) {
    Means means;
    if (device >= 0) means.matrix_devices = {(device + comm.rank()) % kDevices};
    const Outcome mine = run_trial(comm, trial, means);
    if (comm.rank() == 0) outcome = mine;
  });
  return outcome;
}

TEST(Devices, SolveWhatTheHostSolves) {
  unsigned turn = 0;
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {3, 3}})
    for (const Overlap overlap : {Overlap::none, Overlap::full}) {
      if (!test::has_turn(turn++)) continue;
      const Trial trial{
          .n = 301, .nb = 24, .rows = rows, .cols = cols, .schedule = {.overlap = overlap}};
      const Outcome there = outcome_of(trial, 0), here = outcome_of(trial, -1);
      EXPECT_EQ(there.refusal, "");
      EXPECT_EQ(there.info, 0);
      EXPECT_GT(there.residual, 0);
      EXPECT_LT(there.residual, 4 * here.residual);
    }
}

/// Faults of the contexts that are made meanwhile.
class Injected {
 public:
  explicit Injected(const char* faults) { setenv("FLEETBLAS_INJECT", faults, 1); }
  ~Injected() { unsetenv("FLEETBLAS_INJECT"); }
};

TEST(Blocks, ReadNoMemoryThatNobodyHasSet) {
  const Injected faults("poison");
  const Trial trial{.n = 203, .nb = 24, .rows = 3, .cols = 2, .schedule = {}};
  const Outcome found = outcome_of(trial, 0);
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.info, 0);
  EXPECT_GT(found.residual, 0);
  EXPECT_LT(found.residual, 1);
}

TEST(Blocks, OnADeviceThatFailsEndAll) {
  for (const char* const when : {"launch:1", "launch:20"}) {
    const Injected faults(when);
    for (const Overlap overlap : {Overlap::none, Overlap::full})
      EXPECT_THROW(run_ranks(6, {},
                             [&](Comm& comm) {
                               Blocked blocked(comm, 3, 2, 90, 8, overlap);
                               blocked.factor();
                             }),
                   Failure)
          << when;
  }
}

TEST(Devices, OfOneRankShareItsMatrix) {
  const Trial trial{.n = 150, .nb = 16, .rows = 1, .cols = 1, .schedule = {}};
  const std::unique_ptr<Comm> comm = only_this_rank();
  const Outcome found = run_trial(*comm, trial, {.cores = 2, .matrix_devices = {0, 1}});
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.info, 0);
  EXPECT_GT(found.residual, 0);
  EXPECT_LT(found.residual, 1);
}

TEST(Devices, RefuseWhatTheyCannotDo) {
  Trial trial{.n = 30, .nb = 8, .rows = 1, .cols = 1, .schedule = {.pivoting = Pivoting::none}};
  EXPECT_EQ(outcome_of(trial, 0).refusal, "devices factor with pivots only");
  // More than any address space has.
  for (const int rows : {1, 2}) {
    trial = {.n = std::int64_t{1} << 24, .nb = 8, .rows = rows, .cols = 1, .schedule = {}};
    EXPECT_NE(outcome_of(trial, 0).refusal.find("GiB of a rank's device, more than it has left"),
              std::string::npos);
  }
}

TEST(Devices, NameTheLibrarysReason) {
  const Device device(0);
  std::vector<double> host(16, 1.0);
  EXPECT_THROW(device.factor({host.data(), 2, 4, 4}, host.data()), Failure);
}

TEST(Devices, OfARankThatFailsAreNotReadByOthers) {
  constexpr std::int64_t kSize = 100000;
  for (int seed = 0; seed < 20; ++seed)
    EXPECT_THROW(run_ranks(3, {},
                           [&](Comm& comm) {
                             const Grid grid(comm, 1, 3);
                             const Workshop workshop({.cores = 1}, Overlap::none);
                             const Device device(comm.rank() % kDevices);
                             Mail mail(grid, device, workshop.rank().engine,
                                       Mail::places(device, kSize).value());
                             mail.place(0);
                             mail.send(0, kSize, 0);
                             if (comm.rank() == 0) throw Failure("on purpose");
                             mail.arrive(0);
                             comm.barrier();
                           }),
                 Failure);
}

}  // namespace
}  // namespace fleet::lu

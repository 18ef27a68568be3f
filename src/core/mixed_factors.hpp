// SPDX-License-Identifier: BSD-3-Clause
// mixed_factors.hpp: a square matrix in double precision on devices, and its factors in single
// precision beside it, strip by strip. It knows no rule of refinement.
#pragma once
#include <memory>
#include <vector>

#include "core/held_factors.hpp"

namespace fleet {

/// For the thread that has the turn, which it keeps. Memory of right sides is on the host. What
/// throws Error(no_memory, device_failed) has changed nothing but the vectors that it was given.
class MixedFactors {
 public:
  /// Brings the matrix, which lies at `home`, to the devices that `planned` is for, and narrows it
  /// there. `own_copies`: also where it lies on one of them.
  MixedFactors(HeldFactors::On on, const HeldCall& call, DeviceId home, bool own_copies,
               std::shared_ptr<const PlannedFactors> planned);

  /// Has single precision numbers for all elements?
  bool fits() const;
  /// The largest sum of sizes in a row, or a NaN.
  double norm() const;
  /// False, with the reason in the record: there are no factors.
  bool factor(CallRecord& record);
  std::int64_t info() const { return factors_.info(); }
  /// right := the solution for right, whose rows have been exchanged; in single precision.
  void solve(const View& right) { factors_.solve(Op::none, right); }
  /// target -= a*x, in double precision.
  void subtract_product(const View& x, const View& target);
  void keep(std::unique_lock<std::mutex> turn) { factors_.keep(std::move(turn)); }
  void note_failure(const Error& error) const { factors_.note_failure(error); }

 private:
  using Strip = HeldFactors::Strip;
  /// What one device has beside its strips.
  struct Share {
    View x = {}, product = {};
    View sizes = {};  ///< RowSizes
  };
  using Launches = std::vector<DeviceLaunch>;

  double scale_of_halves() const;
  void take_memory(DeviceId home, bool own_copies);
  void bring(DeviceId home);
  void narrow();
  DeviceId device_of(const Strip& strip) const { return factors_.devices()[strip.share]; }
  Backend& backend() { return *on_.offloader.engine().backend; }

  const HeldFactors::On on_;
  const HeldCall call_;
  const std::int64_t n_;
  HeldFactors factors_;
  TakenMemory memory_;
  std::vector<Share> shares_;           ///< by device of the factors
  std::vector<View> wide_;              ///< by strip
  std::vector<double> sums_, largest_;  ///< by row
  std::vector<char> products_;          ///< of one device, on the host
};

}  // namespace fleet

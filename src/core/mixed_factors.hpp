// SPDX-License-Identifier: BSD-3-Clause
// mixed_factors.hpp: a square matrix in double precision on devices, and its factors in single
// precision beside it, strip by strip. It knows no rule of refinement.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "core/taken_memory.hpp"

namespace fleet {

/// A system whose solution is to be refined. Its matrix may lie anywhere.
struct MixedCall {
  const char* symbol = "";  ///< the name that was called; never freed: the books keep it
  Storage storage = Storage::f64;
  View a = {};
  std::int64_t columns = 0;        ///< of the right sides
  std::int64_t* pivots = nullptr;  ///< 1-based
  bool own_copies = false;         ///< the matrix is copied where it lies on a device too
};

/// For the thread that has the turn, which it keeps. Memory of right sides is on the host. What
/// throws Error(no_memory, device_failed) has changed nothing but the vectors that it was given.
class MixedFactors {
 public:
  struct On {
    Offloader& offloader;
    TileMemory& memory;
    Journal& journal;
    const Log& log;
  };
  /// Brings the matrix, which lies at `home`, to the devices that `planned` is for, and narrows it
  /// there.
  MixedFactors(On on, const MixedCall& call, DeviceId home,
               std::shared_ptr<const PlannedFactors> planned);

  /// Has single precision numbers for all elements?
  bool fits() const;
  /// The largest sum of sizes in a row, or a NaN.
  double norm() const;
  /// False, with the reason in the record: there are no factors.
  bool factor(CallRecord& record);
  /// LAPACK's info; 0 before there are factors.
  std::int64_t info() const { return info_; }
  /// right := the solution for right, whose rows have been exchanged; in single precision.
  void solve(const View& right);
  /// target -= a*x, in double precision.
  void subtract_product(const View& x, const View& target);
  /// The devices are this thread's as long as this lives.
  void keep(std::unique_lock<std::mutex> turn) { turn_ = std::move(turn); }
  /// For the log: what was thrown, and that the host goes on.
  void note_failure(const Error& error) const;

 private:
  /// What one device has beside its strips.
  struct Share {
    DeviceId device = kHost;
    View right = {};            ///< in single precision
    View x = {}, product = {};  ///< in double
    View sizes = {};            ///< RowSizes
  };
  struct Strip {
    std::size_t share = 0;
    std::int64_t begin = 0, width = 0;
    View wide = {}, narrow = {};
    View lower_inverses = {}, upper_inverses = {};  ///< empty where the device prepares none
  };
  using Launches = std::vector<DeviceLaunch>;

  double scale_of_halves() const;
  void take_memory(DeviceId home);
  void bring(DeviceId home);
  void narrow();
  void prepare();
  void update(Launches& launches, const Strip& strip, std::int64_t row, std::int64_t rows) const;
  Launch solution(const Strip& strip, Fill triangle) const;
  void sweep(const View& right, Fill triangle, std::size_t& at);
  Share& share_of(const Strip& strip) { return shares_[strip.share]; }
  const Share& share_of(const Strip& strip) const { return shares_[strip.share]; }
  Backend& backend() { return *on_.offloader.engine().backend; }

  /// Given back after the memory.
  std::unique_lock<std::mutex> turn_;
  const On on_;
  const MixedCall call_;
  const std::int64_t n_;
  const Storage narrow_storage_;
  const std::shared_ptr<const PlannedFactors> planned_;
  const Factorization what_;
  TakenMemory memory_;
  std::vector<Share> shares_;
  std::vector<Strip> strips_;
  std::vector<double> sums_, largest_;  ///< by row
  std::vector<char> products_;          ///< of one device, on the host
  std::int64_t info_ = 0;
};

}  // namespace fleet

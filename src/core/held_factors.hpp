// SPDX-License-Identifier: BSD-3-Clause
// held_factors.hpp: LU factors of a square matrix on devices, strip by strip, and the equations
// that are solved with them there. It knows no rule of refinement.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "core/taken_memory.hpp"

namespace fleet {

/// A system whose matrix is only read.
struct HeldCall {
  const char* symbol = "";  ///< the name that was called; never freed: the books keep it
  Storage storage = Storage::f64;
  View a = {};
  std::int64_t columns = 0;        ///< of the right sides
  std::int64_t* pivots = nullptr;  ///< 1-based
};

/// For the thread that has the turn, which it keeps. Memory of right sides is on the host. What
/// throws Error(no_memory, device_failed) has changed nothing but the vectors that it was given.
///
/// Few right sides go from strip to strip, each on one device, so that devices solve one after
/// another. For many of them every device gets all strips, and solves for its share of the columns.
class HeldFactors {
 public:
  struct On {
    Offloader& offloader;
    TileMemory& memory;
    Journal& journal;
    const Log& log;
  };
  struct Strip {
    std::size_t share = 0;  ///< of which device: index in devices()
    std::int64_t begin = 0, width = 0;
    View elements = {};
    View lower_inverses = {}, upper_inverses = {};  ///< empty where the device prepares none
  };
  /// Takes the memory of the strips that `planned` makes, and of so many right sides.
  HeldFactors(On on, const char* symbol, std::int64_t columns,
              std::shared_ptr<const PlannedFactors> planned);

  const std::vector<DeviceId>& devices() const { return devices_; }
  const std::vector<Strip>& strips() const { return strips_; }
  /// Factors the matrix that `factored` names or, of one that is dealt, what is in the strips.
  /// False, with the reason in the record: there are no factors.
  bool factor(Offloader::Factored factored, CallRecord& record);
  /// LAPACK's info; 0 before there are factors.
  std::int64_t info() const { return info_; }
  /// right := op(L*U)^-1 * right. The pivots are the caller's: before it, or behind it where `op`
  /// turns the factors round.
  void solve(Op op, const View& right);
  /// The diagonal of U, to memory of n elements on the host.
  void diagonal(void* to);
  /// Whether solve() has each device solve for some of the columns.
  bool is_by_columns() const { return by_columns_; }
  /// The devices are this thread's as long as this lives.
  void keep(std::unique_lock<std::mutex> turn) { turn_ = std::move(turn); }
  /// For the log: what was thrown, and that the host goes on.
  void note_failure(const Error& error) const;

 private:
  using Launches = std::vector<DeviceLaunch>;

  bool deals_columns() const;
  std::vector<std::int64_t> columns_of_shares() const;
  void take_memory();
  void take_inverses(Strip& strip);
  void prepare();
  void collect();
  Launch solution(const Strip& strip, Fill triangle, Op op) const;
  void solve_by_strips(Op op, const View& right);
  void solve_by_columns(Op op, const View& right);
  void sweep(const View& right, Fill triangle, Op op, std::size_t& at);
  void eliminate(Launches& launches, const Strip& strip, Op op, std::int64_t row,
                 std::int64_t rows) const;
  DeviceId device_of(const Strip& strip) const { return devices_[strip.share]; }
  View right_of(const Strip& strip, std::int64_t row, std::int64_t rows) const;
  Backend& backend() { return *on_.offloader.engine().backend; }
  const Plan& plan() const { return planned_->stages.front()->tuned.plan; }
  DeviceId place_of(int strip) const;

  /// Given back after the memory.
  std::unique_lock<std::mutex> turn_;
  const On on_;
  const char* const symbol_;
  const std::shared_ptr<const PlannedFactors> planned_;
  const Strips& all_;
  const Storage storage_;
  const std::int64_t n_, columns_;
  const bool by_columns_;
  TakenMemory memory_;
  std::vector<DeviceId> devices_;
  std::vector<View> right_;  ///< on each of them; by columns: its share of them
  std::vector<View> whole_;  ///< by columns, on each of them: all strips side by side
  std::vector<Strip> strips_;
  std::int64_t info_ = 0;
};

/// c = alpha*op(a)*b + beta*c, by the kernel for vectors where c is one.
Launch product_of(Storage storage, double alpha, Op op, const View& a, const View& b, double beta,
                  const View& c);

}  // namespace fleet

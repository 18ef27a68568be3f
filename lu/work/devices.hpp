// SPDX-License-Identifier: BSD-3-Clause
// devices.hpp: the devices of a rank beside its cores: one product at a time, which they share as
// FleetBLAS plans it. They know no matrices.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "schedule/balance.hpp"
#include "work/blas.hpp"
#include "work/context.hpp"

namespace fleet::lu {

/// Devices that a rank computes with, and how.
struct DeviceMeans {
  std::string which = "auto";  ///< the setting `devices` of the library
  /// Copies go on during products. Else operands are copied, computed with and copied back in turn
  /// (paper 3, 4.6).
  bool overlaps_transfers = true;
  std::optional<double> cpu_share;  ///< R; nothing: Balance finds it
  double most_flops_per_s = 0;      ///< of all together, for tests; 0: as fast as they are
};

class Devices {
 public:
  /// Beside so many cores. Throws Failure: there are no devices, or the system gives no thread.
  Devices(const DeviceMeans& means, int cores);
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  const Blas& blas() const { return blas_; }
  /// `work` by a thread of its own, which waits for the devices. One at a time.
  void begin(std::function<void()> work);
  /// Until that has ended: the seconds that it took. Throws what it threw. `meanwhile` is called
  /// again and again.
  double finish(const std::function<void()>& meanwhile = {});

  Pinned pin(const std::vector<Pinned::Memory>& memory) const { return {context_.get(), memory}; }

  Balance balance;

 private:
  void run();

  const Context context_;
  Blas blas_;
  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  std::function<void()> work_;  // guarded by mutex_; empty: nothing to do
  std::exception_ptr error_;    // guarded by mutex_
  double seconds_ = 0;          // guarded by mutex_
  bool stops_ = false;          // guarded by mutex_
  std::thread thread_;
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// preload.hpp: shared by every entry: when a call is offered to the core, and how a call is kept
// from being taken twice. It knows nothing of symbol names or of the BLAS behind.
//
// The library is process-wide by nature, so its state is too: all of it is atomic, constant before
// the first call, and never destroyed (calls may come while the process exits).
#pragma once
#include <atomic>
#include <cstdint>

#include "api/dropin.h"

namespace fleet::preload {

/// Calls with fewer flops than this go straight to the BLAS behind. 0 until the first call has read
/// the settings, infinite in a forked child, else the core's value.
extern constinit std::atomic<double> min_flops;

/// The same for LAPACK; infinite where FLEETBLAS_LINALG=0.
extern constinit std::atomic<double> lapack_min_flops;

/// True while this thread is inside a call of ours: Netlib's cblas_dgemm calls dgemm_, and the core
/// calls a BLAS, and neither must be taken again.
extern constinit thread_local bool inside [[gnu::tls_model("initial-exec")]];

class Inside {
 public:
  Inside() : before_(inside) { inside = true; }
  ~Inside() { inside = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool before_;
};

/// One call that may be worth the core's attention. While it lives, calls of this thread go to the
/// BLAS behind; when it ends, the core is told the seconds, if it wants them.
class Offer {
 public:
  Offer(const fleet_dropin_call& call, double flops);
  /// A call of LAPACK, whose `info` the core sets if it takes the call.
  Offer(const fleet_dropin_lapack_call& call, std::int64_t& info);
  ~Offer();
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  /// True when the core has done the call. False: the BLAS behind has to.
  bool taken() const { return taken_; }

 private:
  const fleet_dropin_core* core_for_call(double flops);
  void note_later(bool worth_a_look);

  Inside inside_;
  const fleet_dropin_call* call_ = nullptr;  ///< one of the two
  const fleet_dropin_lapack_call* lapack_call_ = nullptr;
  const fleet_dropin_core* core_ = nullptr;
  double start_s_ = 0;
  bool taken_ = false;
  bool noted_ = false;
};

/// False where calls of LAPACK are left alone, which may be known only when the core is loaded.
bool serves_lapack(double flops);

/// Has the core do a call that no BLAS behind can do, the core loaded if it may be. False: it
/// could not, and nothing was touched.
bool compute_in_core(const fleet_dropin_call& call);
bool compute_in_core(const fleet_dropin_lapack_call& call, std::int64_t& info);

/// The core's block_size; 0 where LAPACK is left alone, or the core is not loaded, which this does
/// not change.
std::int64_t block_size_in_core(char type, std::int64_t m, std::int64_t n, std::int64_t above,
                                std::int64_t most);

/// Takes the current min_flops and lapack_min_flops of the core.
void refresh_min_flops();

/// The value of FLEETBLAS_<name> in the environment; nullptr when unset, empty or "0".
const char* setting(const char* name);

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// gate.hpp: what a fork must wait for. Process-wide state on purpose, since a process forks as a
// whole; it knows nothing of contexts, devices or calls.
#pragma once
namespace fleet::gate {

/// Installs the fork handlers, and keeps this library loaded for good, because its threads outlive
/// a dlclose. Called once the CPU BLAS is loaded: handlers run in reverse order, and OpenBLAS stops
/// its threads in its own, which must find no product under way. Any number of calls.
void install();

/// This process was forked from one in which install() had run.
bool in_forked_child();

/// True in a forked child, and once the process has begun to exit: nothing may wait for another
/// thread, which may not exist or never continue. Only the CPU is left.
bool only_cpu_left();

/// A short stretch that fork waits for: one kernel of the CPU BLAS, or a change of its number of
/// threads, either of which may start threads that a forked child would not have. Passes must not
/// nest.
class Pass {
 public:
  Pass();
  ~Pass();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
};

/// The lock on all state that a forked child may use too: short stretches. Fork takes it, so the
/// child finds it free and the state whole; hence one for the process. Locks must not nest.
class StateLock {
 public:
  StateLock();
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
};

}  // namespace fleet::gate

// SPDX-License-Identifier: BSD-3-Clause
// exit_guard.hpp: keeps threads out of libraries that are being torn down at exit. Its state is
// process-wide, as exit is. It must not know what is computed.
#pragma once

namespace fleet {

/// Lives while this thread is inside a library whose exit handlers free memory that its calls use
/// (OpenBLAS crashes then). Once the process has begun to exit, every thread but the exiting one
/// blocks here until the process ends. A thread that is already inside may nest further guards.
/// Made and destroyed by the same thread.
class ExitGuard {
 public:
  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

  /// From the first call on, exit waits (at most two seconds) for the threads inside. Call it after
  /// loading such a library.
  static void install();
  /// Exit handlers run in the reverse order of their installation, and a library may install some
  /// as late as in its first call. To run before those too, call this after the library's first
  /// call.
  static void install_again();
  /// Has exit() begun? Locks and memory held by other threads may then never be released.
  static bool exiting();
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// exit_guard.hpp: keeps threads out of libraries that the end of the process takes down.
// Process-wide state, since the end of the process is. It must not know what is computed.
#pragma once

namespace fleet {

/// Lives while this thread is inside a library whose exit handlers free what it works with
/// (OpenBLAS crashes then). Once the process has begun to exit, threads other than the exiting one
/// never get in: they wait here for the end. One that is inside already may go further in. Made and
/// destroyed by the same thread.
class ExitGuard {
 public:
  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

  /// From the first call on, exit waits (at most two seconds) for those inside. Call it after
  /// loading such a library.
  static void install();
  /// Handlers run in the reverse order of their installation, and libraries install some as late as
  /// in their first calls: to be before those too, call it after such a call.
  static void install_again();
  /// Has exit() begun? What other threads hold may then never be given back.
  static bool exiting();
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// abort.hpp: how a rank of MPI that cannot go on ends all of them. It needs no other file.
#pragma once
#include <mpi.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace fleet::lu {

/// Whether the reader of this pipe has taken all that was written to it. True of what is no pipe.
inline bool is_read(int file) noexcept {
  struct stat kind {};
  int unread = 0;
  return fstat(file, &kind) != 0 || !S_ISFIFO(kind.st_mode) ||
         ioctl(file, FIONREAD, &unread) != 0 || unread == 0;
}

/// Ends all ranks, which may wait for this one. When a rank aborts, MPICH's launcher drops what it
/// has not read yet, so this rank first waits, for about a second at most, until what it said is
/// read.
[[noreturn]] inline void end_all_ranks(int status) noexcept {
  constexpr int kLooks = 1000;
  constexpr std::chrono::milliseconds kBetween{1};
  for (int i = 0; i < kLooks && !(is_read(STDOUT_FILENO) && is_read(STDERR_FILENO)); ++i)
    std::this_thread::sleep_for(kBetween);
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// mpi.hpp: ranks that are processes. The only header of lu that a program without MPI cannot use.
#pragma once
#include <memory>
#include <string>

#include "comm/comm.hpp"

namespace fleet::lu {

/// MPI, from its start to its end. One per process.
class Mpi {
 public:
  /// Starts it, unless the program has. Throws Failure where the library is not the one whose
  /// header this was compiled with, where threads may not call it in turn
  /// (MPI_THREAD_SERIALIZED), or where the launcher is another MPI's: NothingToRun then on all
  /// ranks but the first.
  Mpi(int* argc, char*** argv);
  /// Ends it if it was started here, and if no failure is under way.
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  /// All ranks.
  std::unique_ptr<Comm> world() const;
  int rank() const;
  int size() const;
  /// The ranks of this rank's node, and those of them that may use a core that this one may use:
  /// itself among them. All ranks call it at once.
  struct OnNode {
    int rank = 0;  ///< of this rank among them
    int size = 1, on_its_cores = 0;
  };
  OnNode on_node() const;
  /// "Open MPI v4.1.4", as the library says it.
  std::string library() const;

  /// Ends all ranks, which may wait for this one.
  [[noreturn]] void abandon(int status) const noexcept;

 private:
  bool is_ours_ = false;
};

}  // namespace fleet::lu

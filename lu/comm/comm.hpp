// SPDX-License-Identifier: BSD-3-Clause
// comm.hpp: what the ranks of a group say to each other. It knows no matrices.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace fleet::lu {

/// A run that cannot go on: a rank has failed or no longer answers, or the input is of no use.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Messages cannot go on: a rank has failed or does not answer, or MPI fails. Others may be
/// elsewhere, so this group is of no more use.
class BrokenMessages : public Failure {
 public:
  using Failure::Failure;
};

/// There is nothing to run, and all ranks leave together. The first of them says why.
class NothingToRun : public Failure {
 public:
  using Failure::Failure;
};

/// A rank has not answered for so long.
BrokenMessages no_answer(double seconds);

/// A message under way. Its buffers are the caller's and must outlive it.
class Request {
 public:
  virtual ~Request() = default;
  /// Drives the message; true once this rank's part is done, and from then on. Throws Failure.
  virtual bool test() = 0;
  /// Until test() would be true. Throws Failure.
  virtual void wait() = 0;
};

/// Memory of a message that a failure leaves under way: collectives cannot be cancelled, so the
/// message may still come, or be read, and the process may go on.
void keep_for_ever(std::shared_ptr<const void> memory) noexcept;

/// Of a patience, in seconds: longer than any run.
constexpr double kForever = 1e9;

enum class Reduction { sum, largest };

/// A group of ranks. All of them make the same calls in the same order; one thread of a rank at a
/// time. Counts are of doubles.
class Comm {
 public:
  virtual ~Comm() = default;
  /// The longest that a rank waits for another one, from now on; groups split off later begin with
  /// it. kForever to begin with, or what made the group.
  virtual void set_patience(double seconds) = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Are all ranks threads of one process?
  virtual bool shares_memory() const { return false; }
  /// Numbers of the longest message.
  virtual std::int64_t longest_message() const { return INT64_MAX; }

  /// All ranks get what the root has.
  virtual std::unique_ptr<Request> broadcast(std::span<double> data, int root) = 0;
  /// Rank r gets counts[r] elements of the root's `from`, where they lie in the order of ranks.
  virtual std::unique_ptr<Request> scatter(std::span<const double> from,
                                           std::span<const std::int64_t> counts,
                                           std::span<double> to, int root) = 0;
  /// All ranks get the counts[r] elements of each rank r, in the order of ranks.
  virtual std::unique_ptr<Request> gather(std::span<const double> from,
                                          std::span<const std::int64_t> counts,
                                          std::span<double> to) = 0;
  /// Rank r gets from_counts[r] elements of this rank's `from`, where they lie in the order of
  /// ranks; `to` has to_counts[r] of each rank r then, in that order.
  virtual std::unique_ptr<Request> exchange(std::span<const double> from,
                                            std::span<const std::int64_t> from_counts,
                                            std::span<double> to,
                                            std::span<const std::int64_t> to_counts) = 0;
  /// The ranks of one `color`, ordered by `key` and then by rank.
  virtual std::unique_ptr<Comm> split(int color, int key) = 0;

  /// The elements of each rank, of which all have as many, in the order of ranks. Waits; a failure
  /// keeps the memory that the message may still use.
  std::vector<double> gathered(std::span<const double> mine);
  /// Element by element over all ranks, in the order of ranks, so that all get the same bits. The
  /// largest of numbers with a NaN is a NaN. Waits, as barrier() does.
  void reduce(std::span<double> data, Reduction how);
  void barrier();
  /// Does `work`, which sends no messages of this group. On all ranks alike: "" where it works on
  /// each, else why it failed here, or `elsewhere`. Waits, and throws for messages alone.
  std::string try_on_all(const std::function<void()>& work, const std::string& elsewhere);
};

}  // namespace fleet::lu

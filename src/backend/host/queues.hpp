// SPDX-License-Identifier: BSD-3-Clause
// queues.hpp: which piece is next in some of a run's queues. It must not know what pieces do.
#pragma once
#include <optional>
#include <random>
#include <vector>

#include "backend/host/run.hpp"

namespace fleet::host {

/// The queues of one worker (or all of them), filled from the run as tasks come. For one thread.
class QueueReader {
 public:
  explicit QueueReader(Run& run) : run_(run) {}

  /// Starts on what the run has been opened for. tasks[q] will come to queue q, which is another
  /// worker's where that is 0. Makes room for all of them: a run takes no memory once it has begun.
  void open(const std::vector<std::size_t>& tasks);

  /// The runnable piece of the lowest task: plan order is priority.
  std::optional<Piece> lowest();
  /// Any runnable piece, all equally likely.
  std::optional<Piece> any(std::mt19937_64& random);
  /// The piece has been run.
  void pass(const Piece& piece);
  /// Whether nothing is left to do here, now or later. Asked when there was no runnable piece.
  bool finished() const;

 private:
  struct Reading {
    bool mine = false;
    std::vector<TaskId> tasks;
    std::size_t head = 0;
    int next_piece = 0;
    bool empty() const { return head == tasks.size(); }
  };

  void absorb();
  /// The head of a queue, if it can run now.
  std::optional<Piece> candidate(const Reading& queue) const;

  Run& run_;
  std::vector<Reading> queues_;
  std::vector<Piece> runnable_;  ///< of any()
  TaskId seen_ = 0;
  std::size_t left_ = 0;  ///< tasks seen and not yet done
};

}  // namespace fleet::host

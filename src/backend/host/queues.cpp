// SPDX-License-Identifier: BSD-3-Clause
// queues.cpp: first in, first out per queue; across queues by readiness. It must not know
// what pieces do.
#include "backend/host/queues.hpp"

namespace fleet::host {

void QueueReader::open(const std::vector<std::size_t>& tasks) {
  queues_.resize(tasks.size());
  for (std::size_t q = 0; q < tasks.size(); ++q) {
    Reading& queue = queues_[q];
    queue.mine = tasks[q] > 0;
    queue.tasks.clear();
    queue.tasks.reserve(tasks[q]);
    queue.head = 0;
    queue.next_piece = 0;
  }
  runnable_.reserve(tasks.size());
  seen_ = 0;
  left_ = 0;
}

void QueueReader::absorb() {
  for (const TaskId end = run_.enqueued(); seen_ < end; ++seen_) {
    Reading& queue = queues_[static_cast<std::size_t>(run_.task(seen_).queue)];
    if (!queue.mine) continue;
    queue.tasks.push_back(seen_);
    ++left_;
  }
}

std::optional<Piece> QueueReader::candidate(const Reading& queue) const {
  if (queue.empty()) return std::nullopt;
  const Piece piece{.task = queue.tasks[queue.head], .index = queue.next_piece};
  // After a failure nothing new is begun, but a tile that is half written is completed.
  if (run_.failed() && piece.index == 0) return std::nullopt;
  return run_.runnable(piece) ? std::optional(piece) : std::nullopt;
}

std::optional<Piece> QueueReader::lowest() {
  absorb();
  std::optional<Piece> best;
  for (const Reading& queue : queues_) {
    if (queue.empty() || (best && queue.tasks[queue.head] > best->task)) continue;
    if (const auto piece = candidate(queue)) best = piece;
  }
  return best;
}

std::optional<Piece> QueueReader::any(std::mt19937_64& random) {
  absorb();
  runnable_.clear();
  for (const Reading& queue : queues_)
    if (const auto piece = candidate(queue)) runnable_.push_back(*piece);
  if (runnable_.empty()) return std::nullopt;
  return runnable_[random() % runnable_.size()];
}

void QueueReader::pass(const Piece& piece) {
  const Task& task = run_.task(piece.task);
  Reading& queue = queues_[static_cast<std::size_t>(task.queue)];
  if (++queue.next_piece < task.chunks) return;
  queue.next_piece = 0;
  ++queue.head;
  --left_;
}

bool QueueReader::finished() const {
  if (run_.failed()) return true;
  // In this order: tasks that were enqueued before closing are surely seen.
  return run_.closed() && seen_ == run_.enqueued() && left_ == 0;
}

}  // namespace fleet::host

// SPDX-License-Identifier: BSD-3-Clause
// run.cpp: readiness, kernels and copies of one run. It must not know threads.
#include "backend/host/run.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "cpu/copies.hpp"
#include "cpu/kernels.hpp"

namespace fleet::host {
namespace {

// Waking a sleeper costs as much as enqueueing dozens of tasks.
constexpr TaskId kTasksPerRing = 64;

}  // namespace

Run::Run(std::shared_ptr<CpuBlas> blas, std::shared_ptr<Faults> faults)
    : blas_(std::move(blas)), faults_(std::move(faults)) {}

void Run::open(const Plan& plan) {
  const std::size_t tasks = plan.tasks.size();
  plan_ = &plan;
  if (tasks > capacity_) {
    pieces_done_ = std::make_unique<std::atomic<std::uint8_t>[]>(tasks);
    work_.resize(tasks);
    capacity_ = tasks;
  }
  for (std::size_t t = 0; t < tasks; ++t) pieces_done_[t].store(0, std::memory_order_relaxed);
  doomed_.assign(tasks, 0);
  spans_.assign(tasks, Span{});
  enqueued_ = 0;
  closed_ = false;
  failed_ = false;
  failure_ = Trace{};
  start_s_ = now_s();
}

void Run::enqueue(TaskId id, const Launch& work) {
  if (id != enqueued_.load(std::memory_order_relaxed) || id >= std::ssize(spans_))
    throw Error(Status::internal, "task " + std::to_string(id) + " was enqueued out of order");
  const std::size_t t = static_cast<std::size_t>(id);
  work_[t] = work;
  const bool computes = task(id).kind == TaskKind::compute;
  doomed_[t] = computes ? faults_->next_launch_fails() : faults_->next_copy_fails();
  enqueued_.store(id + 1, std::memory_order_release);
  if (id % kTasksPerRing == 0) ring();
}

void Run::close() {
  closed_ = true;
  ring();
}

void Run::ring() {
  bell_.fetch_add(1);
  bell_.notify_all();
}

bool Run::runnable(const Piece& piece) const {
  const Task& task = this->task(piece.task);
  if (piece.index == 0)
    for (TaskId earlier : plan_->after(task))
      if (!done(earlier)) return false;
  if (task.upstream == kNoTask) return true;
  const auto& upstream = pieces_done_[static_cast<std::size_t>(task.upstream)];
  return upstream.load(std::memory_order_acquire) > piece.index;
}

const char* Run::fault_of(const Task& task, bool doomed) const {
  const bool computes = task.kind == TaskKind::compute;
  if (faults_->is_lost(task.to.device) || (!computes && faults_->is_lost(task.from.device)))
    return "the device was lost";
  if (!doomed) return nullptr;
  return computes ? "a kernel failed" : "a copy failed";
}

void Run::do_piece(const Piece& piece) {
  const Task& task = this->task(piece.task);
  const std::size_t t = static_cast<std::size_t>(piece.task);
  if (const char* fault = fault_of(task, doomed_[t] != 0))
    return fail(Status::device_failed, piece.task, fault);
  if (piece.index == 0) spans_[t].start_s = elapsed_s();
  try {
    if (task.kind == TaskKind::compute) {
      run_kernel(work_[t], *blas_);
      faults_->note_kernel(task.to.device);
    } else {
      copy_piece(piece);
    }
  } catch (const std::exception& error) {
    return fail(Status::device_failed, piece.task, error.what());
  }
  if (piece.index + 1 == task.chunks) spans_[t].stop_s = elapsed_s();
  pieces_done_[t].store(static_cast<std::uint8_t>(piece.index + 1), std::memory_order_release);
  ring();
}

void Run::copy_piece(const Piece& piece) {
  const Task& task = this->task(piece.task);
  const Launch& work = work_[static_cast<std::size_t>(piece.task)];
  const double slow = task.link < 0 ? 1.0 : faults_->slow_factor(task.link);
  if (piece.index == 0 && task.link >= 0) pause(faults_->delay_s(task.link));
  const double start_s = slow > 1 ? now_s() : 0;
  copy_columns(work.a, work.c, plan_->program->element_bytes_of(task.tile),
               work.a.cols * piece.index / task.chunks,
               work.a.cols * (piece.index + 1) / task.chunks);
  if (slow > 1) pause((slow - 1) * (now_s() - start_s));
}

// In short naps, since a run that has failed elsewhere is to end promptly.
void Run::pause(double seconds) const {
  constexpr double kNap_s = 2e-3;
  const double end_s = now_s() + seconds;
  for (double left_s = seconds; left_s > 0 && !failed(); left_s = end_s - now_s())
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s, kNap_s)));
}

void Run::fail(Status status, TaskId id, const char* message) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.status != Status::ok) return;
    failure_.status = status;
    failure_.failed = id;
    failed_ = true;
    try {
      failure_.message = "task " + std::to_string(id) + ": " + message;
    } catch (const std::bad_alloc&) {
      failure_.message.clear();  // a worker that has no memory for words still has to go on
    }
  }
  ring();
}

Trace Run::trace() {
  Trace trace = std::move(failure_);
  trace.lost = faults_->lost();
  trace.seconds = elapsed_s();
  trace.spans = std::move(spans_);
  plan_ = nullptr;
  return trace;
}

}  // namespace fleet::host

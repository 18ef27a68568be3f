// SPDX-License-Identifier: BSD-3-Clause
// helpers.cpp: one queue, from which helpers take; whoever asks for a job that waits does it.
#include "base/helpers.hpp"

#include <exception>
#include <numeric>
#include <utility>
#include <vector>

namespace fleet {

Helpers::~Helpers() {
  withdraw();
  if (crew_ != nullptr) crew_->wait();
}

void Helpers::offer(const std::shared_ptr<Job>& job) {
  if (threads_ <= 0) return;
  if (crew_ == nullptr) {
    std::vector<int> all(static_cast<std::size_t>(threads_));
    std::iota(all.begin(), all.end(), 0);
    auto crew = std::make_unique<WorkerCrew>(threads_, [this](int helper) { serve(helper); });
    if (!crew->hire(all)) {
      threads_ = 0;
      return;
    }
    resting_ = std::move(all);
    crew_ = std::move(crew);
  }
  std::vector<int> woken;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(job);
    if (resting_.empty()) return;  // those at work look for more when they are done
    woken.push_back(resting_.back());
    resting_.pop_back();
  }
  crew_->invite(woken);
}

/// With the mutex held: what is to be done next, null if nothing waits.
std::shared_ptr<Helpers::Job> Helpers::next() {
  while (!waiting_.empty()) {
    const std::shared_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    if (job->state_ == Job::State::waits) return job;
  }
  return nullptr;
}

/// With the mutex held, but for the work.
void Helpers::run(Job& job, std::unique_lock<std::mutex>& lock) {
  job.state_ = Job::State::begun;
  lock.unlock();
  job.work_();
  lock.lock();
  job.state_ = Job::State::done;
  is_done_.notify_all();
}

void Helpers::serve(int helper) {
  std::unique_lock lock(mutex_);
  while (const std::shared_ptr<Job> job = next()) run(*job, lock);
  resting_.push_back(helper);  // it has room for all: they all rested at first
}

void Helpers::finish(Job& job) {
  std::unique_lock lock(mutex_);
  while (job.state_ != Job::State::done) {
    if (job.state_ == Job::State::waits)
      run(job, lock);
    else if (const std::shared_ptr<Job> other = next())
      run(*other, lock);
    else
      is_done_.wait(lock);
  }
}

void Helpers::withdraw() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

void Helpers::for_each(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (!any() || count < 2) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  withdraw();
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::shared_ptr<Job>> jobs(count);
  for (std::size_t i = 0; i < count; ++i)
    jobs[i] = std::make_shared<Job>([&work, &failures, i] {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  try {
    for (std::size_t i = 1; i < count; ++i) offer(jobs[i]);
  } catch (...) {  // no memory for the queue: this thread does what is not in it
  }
  for (const auto& job : jobs) finish(*job);
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace fleet

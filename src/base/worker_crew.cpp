// SPDX-License-Identifier: BSD-3-Clause
// worker_crew.cpp: starting, calling and dismissing threads. It must not know what their work is.
#include "base/worker_crew.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace fleet {
namespace {

constexpr auto kLongestFarewell = std::chrono::seconds(2);

}  // namespace

WorkerCrew::WorkerCrew(int workers, std::function<void(int)> work, std::size_t stack_bytes)
    : shared_(std::make_shared<Shared>(workers, std::move(work))),
      threads_(static_cast<std::size_t>(workers)),
      hired_(static_cast<std::size_t>(workers), 0),
      stack_bytes_(stack_bytes),
      process_(getpid()) {}

WorkerCrew::~WorkerCrew() {
  if (!present()) return;
  shared_->dismissed = true;
  for (std::atomic<int>& invitations : shared_->invitations) call(invitations);
  const auto limit = std::chrono::steady_clock::now() + kLongestFarewell;
  while (shared_->alive > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  const bool all_gone = shared_->alive == 0;
  for (std::size_t w = 0; w < threads_.size(); ++w)
    if (hired_[w]) all_gone ? pthread_join(threads_[w], nullptr) : pthread_detach(threads_[w]);
}

bool WorkerCrew::present() const { return process_ == getpid(); }

bool WorkerCrew::hire(const std::vector<int>& workers) {
  for (int worker : workers)
    if (!hired_[static_cast<std::size_t>(worker)] && !start(worker)) return false;
  return true;
}

bool WorkerCrew::start(int worker) {
  const std::size_t w = static_cast<std::size_t>(worker);
  auto contract = std::make_unique<Contract>(Contract{shared_, worker});
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes_);
  ++shared_->alive;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&threads_[w], &attributes, thread_main, contract.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    --shared_->alive;
    return false;
  }
  contract.release();
  pthread_setname_np(threads_[w], ("fleet-" + std::to_string(worker)).c_str());
  hired_[w] = 1;
  return true;
}

void WorkerCrew::invite(const std::vector<int>& workers, std::size_t most) {
  for (std::size_t i = 0; i < std::min(most, workers.size()); ++i)
    call(shared_->invitations[static_cast<std::size_t>(workers[i])]);
}

void WorkerCrew::call(std::atomic<int>& invitations) {
  ++invitations;
  invitations.notify_one();
}

void WorkerCrew::wait(const std::vector<int>& workers) const {
  for (int worker : workers) wait_for(static_cast<std::size_t>(worker));
}

void WorkerCrew::wait() const {
  for (std::size_t w = 0; w < threads_.size(); ++w) wait_for(w);
}

void WorkerCrew::wait_for(std::size_t worker) const {
  const std::atomic<int>& answers = shared_->answers[worker];
  const int invited = shared_->invitations[worker];
  for (int done = answers; done != invited; done = answers) answers.wait(done);
}

void* WorkerCrew::thread_main(void* argument) {
  const std::unique_ptr<Contract> contract(static_cast<Contract*>(argument));
  serve(*contract->shared, contract->worker);
  --contract->shared->alive;
  return nullptr;
}

void WorkerCrew::serve(Shared& shared, int worker) {
  const std::atomic<int>& invited = shared.invitations[static_cast<std::size_t>(worker)];
  std::atomic<int>& answers = shared.answers[static_cast<std::size_t>(worker)];
  for (;;) {
    const int called = invited;
    if (shared.dismissed) return;
    if (called == answers) {
      invited.wait(called);
      continue;
    }
    shared.work(worker);
    answers = called;
    answers.notify_all();
  }
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// crew.cpp: guided self-scheduling: whoever is free takes a part of what is left.
#include "work/crew.hpp"

#include <algorithm>
#include <system_error>

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

/// The smallest part, and what parts are multiples of: a product's kernel works on so many columns
/// at a time.
constexpr std::int64_t kLeastPart = 32;
/// Whoever is free takes this share of what each core would have of the rest.
constexpr double kShare = 0.5;
/// The most of a core without others that looks after something between its parts.
constexpr std::int64_t kMostBetween = 256;

}  // namespace

Crew::Crew(int threads, bool has_helpers)
    : has_helpers_(has_helpers), lockstep_(std::max(1, threads)) {
  try {
    for (int other = 1; other < threads; ++other)
      others_.emplace_back([this, other] { run(other); });
  } catch (const std::system_error&) {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    begins_.notify_all();
    for (std::thread& other : others_) other.join();
    throw Failure("the system gives no " + std::to_string(threads) + " threads");
  }
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begins_.notify_all();
  for (std::thread& other : others_) other.join();
}

void Crew::fail(const std::exception_ptr& error) {
  if (share_.error == nullptr) share_.error = error;
  share_.next = share_.count;
}

bool Crew::take_part(std::unique_lock<std::mutex>& lock) {
  const std::int64_t left = share_.count - share_.next;
  if (share_.work == nullptr || left <= 0) return false;
  const int hands = threads() + (has_helpers_ ? 1 : 0);
  std::int64_t wanted = left;
  if (hands > 1)
    wanted = static_cast<std::int64_t>(kShare * static_cast<double>(left) / hands) / kLeastPart *
             kLeastPart;
  const std::int64_t begin = share_.next;
  const std::int64_t end = begin + std::min(left, std::max(kLeastPart, wanted));
  share_.next = end;
  ++share_.busy;
  const auto& work = *share_.work;
  lock.unlock();
  std::exception_ptr error;
  try {
    work(begin, end);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error != nullptr) fail(error);
  if (--share_.busy == 0 && share_.next >= share_.count) ends_.notify_all();
  return true;
}

void Crew::share(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& work,
                 const std::function<void()>& between) {
  if (count <= 0) return;
  if (threads() == 1 && !has_helpers_) {
    const std::int64_t most = between ? kMostBetween : count;
    for (std::int64_t begin = 0; begin < count; begin += most) {
      if (between) between();
      work(begin, std::min(count, begin + most));
    }
    return;
  }
  std::unique_lock lock(mutex_);
  if (share_.work != nullptr) {
    lock.unlock();
    return work(0, count);
  }
  share_ = {.count = count, .work = &work};
  begins_.notify_all();
  if (on_work) on_work();
  do {
    if (!between) continue;
    lock.unlock();
    std::exception_ptr error;
    try {
      between();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr) fail(error);
  } while (take_part(lock));
  ends_.wait(lock, [this] { return share_.busy == 0; });
  share_.work = nullptr;
  if (share_.error != nullptr) std::rethrow_exception(share_.error);
}

bool Crew::help() {
  std::unique_lock lock(mutex_);
  return take_part(lock);
}

void Crew::in_lockstep(const std::function<void(Lockstep&)>& body) {
  struct On {
    explicit On(Lockstep& of) : lockstep(of) { lockstep.begin(); }
    ~On() { lockstep.end(); }
    Lockstep& lockstep;
  };
  std::unique_lock lock(mutex_);
  const On on(lockstep_);
  lock.unlock();
  begins_.notify_all();
  body(lockstep_);
}

void Crew::run(int number) {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] {
    return lockstep_.is_on() || (share_.work != nullptr && share_.next < share_.count);
  };
  for (;;) {
    begins_.wait(lock, [&] { return stops_ || has_work(); });
    if (stops_) return;
    if (lockstep_.is_on()) {
      lock.unlock();
      lockstep_.follow(number);
      lock.lock();
    }
    while (take_part(lock)) {
    }
  }
}

}  // namespace fleet::lu

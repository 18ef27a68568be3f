// SPDX-License-Identifier: BSD-3-Clause
// event.cpp: finished once, told to everyone who asked. It knows no calls.
#include "core/event.hpp"

#include <new>
#include <utility>

#include "base/gate.hpp"

namespace fleet {

void Event::wait() const {
  if (!done()) {
    if (gate::only_cpu_left())
      throw Error(Status::unsupported, gate::in_forked_child()
                                           ? "the event is one of the parent of this process"
                                           : "the process ends before the event");
    done_.wait(false, std::memory_order_acquire);
  }
  require_ok();
}

void Event::require_ok() const {
  if (status_ != Status::ok) throw Error(status_, std::string(why()));
}

std::string_view Event::why() const {
  return message_.empty() ? std::string_view("a queued call failed") : message_;
}

bool Event::finish(Status status, std::string_view message) noexcept {
  if (finishing_.test_and_set()) return false;
  status_ = status;
  try {
    message_ = message;
  } catch (const std::bad_alloc&) {
    message_.clear();
  }
  done_.store(true, std::memory_order_release);
  done_.notify_all();
  if (gate::in_forked_child()) return true;  // those who have asked are the parent's
  std::vector<std::function<void()>> then;
  {
    const gate::StateLock lock;
    then.swap(then_);
  }
  for (const auto& act : then) act();
  return true;
}

void Event::when_done(const std::function<void()>& then) {
  {
    const gate::StateLock lock;
    if (!done()) return then_.push_back(then);
  }
  then();
}

}  // namespace fleet

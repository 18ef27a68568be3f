// SPDX-License-Identifier: BSD-3-Clause
// engine.cpp: one list of messages, looked at by whoever has the time.
#include "work/engine.hpp"

#include <exception>
#include <system_error>

#include "comm/backoff.hpp"

namespace fleet::lu {

struct Engine::Message {
  std::unique_ptr<Request> request;
  Label label;
  Recorder::Clock::time_point begin;
  std::exception_ptr error;  ///< set before is_done
  std::atomic<bool> is_done{false};
};

class Engine::Driven final : public Request {
 public:
  Driven(Engine& engine, std::shared_ptr<Message> message)
      : engine_(engine), message_(std::move(message)) {}
  /// Its buffers go, so the message has to be done with them. A rank that fails ends all messages.
  ~Driven() override {
    const std::lock_guard lock(engine_.mutex_);
    std::erase(engine_.under_way_, message_);
  }

  bool test() override {
    if (!message_->is_done.load(std::memory_order_acquire)) engine_.poll();
    return is_done();
  }

  void wait() override {
    const auto limit = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(engine_.options_.patience_s);
    if (engine_.options_.has_thread) {
      std::unique_lock lock(engine_.mutex_);
      ++engine_.waiting_;
      const bool ends =
          engine_.ended_.wait_until(lock, limit, [this] { return message_->is_done.load(); });
      --engine_.waiting_;
      if (!ends) throw no_answer(engine_.options_.patience_s);
    }
    for (Backoff backoff; !test(); backoff.pause())
      if (std::chrono::steady_clock::now() > limit) throw no_answer(engine_.options_.patience_s);
  }

 private:
  bool is_done() {
    if (!message_->is_done.load(std::memory_order_acquire)) return false;
    if (message_->error != nullptr) std::rethrow_exception(message_->error);
    return true;
  }

  Engine& engine_;
  const std::shared_ptr<Message> message_;
};

Engine::Engine(Options options, Recorder& recorder)
    : options_(std::move(options)), recorder_(recorder) {
  if (!options_.has_thread) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    throw Failure("the system gives no thread for messages");
  }
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<Request> Engine::drive(std::unique_ptr<Request> request, Label label) {
  auto message = std::make_shared<Message>();
  message->request = std::move(request);
  message->label = label;
  message->begin = Recorder::Clock::now();
  auto driven = std::make_unique<Driven>(*this, message);
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(std::move(message));
  }
  changed_.notify_one();
  return driven;
}

void Engine::poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) poll_locked();
}

bool Engine::is_busy() {
  const std::lock_guard lock(mutex_);
  return !under_way_.empty();
}

void Engine::poll_locked() {
  bool has_ended = false;
  std::erase_if(under_way_, [&](const std::shared_ptr<Message>& message) {
    bool ends = true;
    try {
      ends = message->request->test();
    } catch (...) {
      message->error = std::current_exception();
    }
    if (!ends) return false;
    const auto& [what, step] = message->label;
    recorder_.note(what, step, message->begin, Recorder::Clock::now());
    message->is_done.store(true, std::memory_order_release);
    has_ended = true;
    return true;
  });
  if (has_ended) ended_.notify_all();
}

void Engine::run() {
  // Work of others may have come without a call of wake() being seen.
  constexpr std::chrono::milliseconds kIdle{1};
  while (!stops_) {
    bool is_busy = false;
    {
      std::unique_lock lock(mutex_);
      if (under_way_.empty() && !options_.meanwhile)
        changed_.wait(lock, [this] { return stops_ || !under_way_.empty(); });
      poll_locked();
      is_busy = !under_way_.empty();
    }
    if (is_busy) {
      if (options_.spins || waiting_ > 0)
        std::this_thread::yield();
      else
        nap();
    } else if (options_.meanwhile && !options_.meanwhile()) {
      std::unique_lock lock(mutex_);
      if (under_way_.empty() && !stops_) changed_.wait_for(lock, kIdle);
    }
  }
}

}  // namespace fleet::lu

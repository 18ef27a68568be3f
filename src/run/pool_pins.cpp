// SPDX-License-Identifier: BSD-3-Clause
// pool_pins.cpp: a thread that pins piece by piece, and looks for idle blocks while there are pins.
// It knows no calls.
#include "run/pool_pins.hpp"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/gate.hpp"

namespace fleet {
namespace {

constexpr const char* kPoolLibrary = "libfleetblas_preload.so";
/// An operand below it says nothing about large blocks: the pool is not worth looking for.
constexpr std::int64_t kWorthLooking = std::int64_t{64} << 20;
/// The library with the pool may be loaded later. Asking the loader takes microseconds, and a call
/// has three operands.
constexpr double kBetweenLooksS = 1;
/// Longer than the pause between two products of a program that is at work; pinning again takes an
/// eighth of a second for each GB.
constexpr std::int64_t kIdle_ns = 10'000'000'000;
constexpr auto kBetweenTries = std::chrono::microseconds(200);
constexpr auto kLookEvery = std::chrono::milliseconds(500);

/// Of a block that was taken: unpins it, and returns it unless the program has it.
void let_go(const Pool& pool, Backend& backend, void* block) {
  PoolPiece piece;
  while (pool.take_pinned(block, &piece)) {
    // The pool's own thread has time, and no call waits for this one.
    while (!backend.unpin(piece.data) && !gate::only_cpu_left())
      std::this_thread::sleep_for(kBetweenTries);
    pool.note(&piece, PoolState::plain);
  }
  pool.give_back(block);
}

}  // namespace

const Pool* find_pool() {
  Dl_info us{};
  if (dladdr(reinterpret_cast<void*>(&find_pool), &us) == 0 || us.dli_fname == nullptr)
    return nullptr;
  std::string path = us.dli_fname;
  const std::size_t folder = path.rfind('/');
  path = folder == std::string::npos ? kPoolLibrary : path.substr(0, folder + 1) + kPoolLibrary;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    dlerror();  // the program's next question is not about this
    return nullptr;
  }
  auto* const function = reinterpret_cast<PoolFunction*>(dlsym(library, kPoolFunction));
  dlclose(library);  // it stays loaded whatever anybody closes
  const Pool* const pool = function != nullptr ? function() : nullptr;
  return pool != nullptr && pool->version == Pool::kVersion ? pool : nullptr;
}

PoolCounters pool_counters() {
  const Pool* const pool = find_pool();
  return pool != nullptr ? pool->counters() : PoolCounters{};
}

struct PoolPins::Desk {
  struct Wish {
    const void* data;
    std::int64_t bytes;
  };
  std::mutex mutex;
  std::condition_variable bell;
  std::deque<Wish> wishes;
  bool is_hired = false, is_closed = false;
  const Pool* pool = nullptr;
  Backend* backend = nullptr;

  void serve();
  void pin(const Wish& wish) const;
  void give_back(std::int64_t least_age_ns) const;
};

void PoolPins::Desk::serve() {
  std::unique_lock lock(mutex);
  const auto has_work = [&] { return is_closed || !wishes.empty(); };
  for (;;) {
    if (pool->has_pinned())
      bell.wait_for(lock, kLookEvery, has_work);
    else
      bell.wait(lock, has_work);
    if (is_closed || gate::only_cpu_left()) return;
    if (wishes.empty()) {
      lock.unlock();
      give_back(kIdle_ns);
    } else {
      const Wish wish = wishes.front();
      wishes.pop_front();
      lock.unlock();
      pin(wish);
    }
    lock.lock();
  }
}

void PoolPins::Desk::pin(const Wish& wish) const {
  PoolPiece piece;
  while (pool->take_plain(wish.data, wish.bytes, &piece)) {
    auto now = PoolState::plain;
    if (!gate::only_cpu_left()) {
      pool->touch(&piece);
      const bool pinned = backend->pin_piece(piece.data, static_cast<std::int64_t>(piece.bytes));
      now = pinned ? PoolState::pinned : PoolState::refused;
    }
    pool->note(&piece, now);
    if (now == PoolState::plain) return;
  }
}

void PoolPins::Desk::give_back(std::int64_t least_age_ns) const {
  void* block = nullptr;
  while (!gate::only_cpu_left() && backend->may_unpin() && pool->take_idle(least_age_ns, &block))
    let_go(*pool, *backend, block);
}

PoolPins::PoolPins(Find* find)
    : find_(find),
      desk_(std::make_shared<Desk>()),
      crew_(1, [desk = desk_](int) { desk->serve(); }) {}

PoolPins::~PoolPins() {
  // In a forked child the thread is missing, and may have had the lock. The pins are the parent's.
  if (!crew_.present()) return;
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->is_closed = true;
  }
  desk_->bell.notify_all();
  if (gate::only_cpu_left()) return;  // the thread may be held back in the driver
  if (desk_->is_hired) crew_.wait();
  if (!is_owner()) return;
  void* block = nullptr;
  while (desk_->pool->take_any(&block)) let_go(*desk_->pool, *desk_->backend, block);
  desk_->pool->owner->store(nullptr);
}

/// The pool, looked for when so many bytes are worth it.
const Pool* PoolPins::pool(std::int64_t bytes) {
  const Pool* known = pool_.load(std::memory_order_acquire);
  if (known != nullptr || bytes < kWorthLooking) return known;
  const double now = now_s();
  if (now < next_look_s_.load(std::memory_order_relaxed)) return nullptr;
  next_look_s_.store(now + kBetweenLooksS, std::memory_order_relaxed);
  known = find_();
  pool_.store(known, std::memory_order_release);
  return known;
}

bool PoolPins::is_owner() {
  const Pool* const known = pool_.load(std::memory_order_acquire);
  return known != nullptr && known->owner->load() == this;
}

PoolState PoolPins::state(const void* data, std::int64_t bytes) {
  const Pool* const known = pool(bytes);
  if (known == nullptr) return PoolState::elsewhere;
  const void* const owner = known->owner->load(std::memory_order_relaxed);
  if (owner != nullptr && owner != this) return PoolState::elsewhere;
  return known->state(data, bytes);
}

void PoolPins::pin_soon(Backend& backend, const void* data, std::int64_t bytes) {
  if (state(data, bytes) != PoolState::plain) return;
  const Pool* const known = pool_.load();
  const void* none = nullptr;
  if (!known->owner->compare_exchange_strong(none, this) && none != this) return;
  {
    const std::lock_guard lock(desk_->mutex);
    if (!desk_->is_hired) {
      if (!crew_.hire({0})) return;
      desk_->pool = known;
      desk_->backend = &backend;
      desk_->is_hired = true;
      crew_.invite({0});
    }
    // The same operand again and again, while its pieces wait.
    for (const Desk::Wish& wish : desk_->wishes)
      if (wish.data == data && wish.bytes == bytes) return;
    desk_->wishes.push_back({data, bytes});
  }
  desk_->bell.notify_one();
}

void PoolPins::trim() {
  if (is_owner() && !gate::only_cpu_left()) desk_->give_back(0);
}

}  // namespace fleet

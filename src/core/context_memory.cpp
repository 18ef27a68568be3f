// SPDX-License-Identifier: BSD-3-Clause
// context_memory.cpp: memory by location: given, found again by address, copied, taken back. It
// knows no calls.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "backend/device_library.hpp"
#include "base/error.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/context.hpp"
#include "core/readable.hpp"

namespace fleet {
namespace {

void* from_heap(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* data = size > SIZE_MAX - kAlignmentBytes
                   ? nullptr
                   : std::aligned_alloc(kAlignmentBytes, round_up(size, kAlignmentBytes));
  if (data == nullptr)
    throw Error(Status::no_memory, "the host has no " + std::to_string(bytes) + " bytes left");
  return data;
}

View bytes_view(const void* data, std::int64_t bytes) {
  return {.data = const_cast<void*>(data), .rows = bytes, .cols = 1, .ld = bytes};
}

DeviceTurn::Range range_at(const void* data, std::int64_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(data), bytes};
}

}  // namespace

void Context::start_for_memory_of_program() {
  if (offloader_.backend_if_started() != nullptr || !offloader_.has_backend() ||
      !program_uses_gpus())
    return;
  const auto turn = take_turn();
  start_devices();
}

DeviceId Context::locate(const void* data, std::int64_t bytes) {
  if (why_no_devices() == nullptr) start_for_memory_of_program();
  return locate_with_pool(data, bytes).first;
}

DeviceId Context::located_by(Backend& backend, const void* data, std::int64_t bytes) {
  if (const auto found = backend.locate(data, bytes)) return *found;
  require_readable(data, bytes, "no GPU of the program answers");
  return kPageable;
}

std::pair<DeviceId, PoolState> Context::locate_with_pool(const void* data, std::int64_t bytes) {
  {
    const gate::StateLock lock;
    const DeviceId known = registry_.locate(data, bytes);
    if (known != kPageable) return {known, PoolState::elsewhere};
  }
  if (gate::only_cpu_left()) return {kPageable, PoolState::elsewhere};
  const PoolState pooled = pins_.state(data, bytes);
  if (pooled == PoolState::pinned) return {kHost, pooled};
  if (pooled == PoolState::plain) return {kPageable, pooled};
  const bool is_suspect =
      offloader_.backend_if_started() == nullptr && bytes > 0 && !system_can_read(data);
  if (is_suspect) start_for_memory_of_program();
  if (Backend* const backend = offloader_.backend_if_started(); backend != nullptr)
    return {located_by(*backend, data, bytes), pooled};
  if (is_suspect && program_uses_gpus())
    require_readable(data, bytes, "no GPU of the program can be used here");
  return {kPageable, pooled};
}

void* Context::allocate(int location, std::int64_t bytes) {
  const User inside(users_);
  release_left();
  DeviceId device = location;
  if (!on_host(location)) {
    const DeviceUse turn = take_lock();
    // Which devices there are is known once they have started.
    if (offloader_.has_backend() && !gate::only_cpu_left()) offloader_.engine();
    device = offloader_.device_of(location - kFirstDevice);
  }
  const bool no_backend = !offloader_.has_backend() || gate::only_cpu_left();
  if (no_backend && !on_host(device)) {
    const std::string failure = offloader_.why_not_started();
    throw Error(Status::unsupported, "no backend runs here" +
                                         (failure.empty() ? "" : " (" + failure + ")") +
                                         ": there is no memory on a device");
  }
  if (bytes == 0) return nullptr;

  Range range{.bytes = bytes, .location = device};
  if (no_backend || device == kPageable) {
    range.data = from_heap(bytes);
  } else {
    const DeviceUse turn = take_lock();
    Backend* backend = offloader_.engine().backend.get();
    if (backend != nullptr) {
      range.origin = Range::Origin::backend;
      range.data = backend->allocate(device, bytes);
    } else {  // there was no usable GPU after all
      range.data = from_heap(bytes);
    }
  }
  try {
    const gate::StateLock lock;
    registry_.add(range);
  } catch (...) {
    give_back(range);
    throw;
  }
  return range.data;
}

void Context::give_back(const Range& range) {
  if (range.origin == Range::Origin::heap) return std::free(range.data);
  // Memory of the backend is then freed with the process.
  if (gate::only_cpu_left()) return;
  if (range.origin == Range::Origin::registered) return unpin(range);
  DeviceUse turn = take_lock();
  turn.wait_for(range_at(range.data, range.bytes));
  offloader_.engine().backend->release(range.location, range.data);
}

void Context::release_later(void* data) {
  const std::lock_guard lock(left_mutex_);
  left_.push_back(data);
}

void Context::release_left() {
  std::vector<void*> left;
  {
    const std::lock_guard lock(left_mutex_);
    left.swap(left_);
  }
  for (void* const data : left) {
    try {
      release(data);
    } catch (const Error&) {
      // Whoever gave it has gone.
    }
  }
}

void Context::release(void* data) {
  const User inside(users_);
  if (data == nullptr) return;
  const auto refuse = [] {
    throw Error(Status::bad_argument, "the address is not one that fleet_alloc gave");
  };
  std::int64_t bytes = 0;
  {
    const gate::StateLock lock;
    if (!registry_.has(data, Registry::Kind::allocated)) refuse();
    bytes = registry_.bytes_at(data);
  }
  const Block block = range_of(data, bytes);
  queue_.wait_for(block, CallQueue::Use::any);
  discard(block);
  std::optional<Range> range;
  {
    const gate::StateLock lock;
    range = registry_.remove(data, Registry::Kind::allocated);
  }
  if (!range) refuse();  // another thread was first
  give_back(*range);
}

void Context::copy(void* to, const void* from, std::int64_t bytes) {
  const User inside(users_);
  if (bytes == 0) return;
  settle(to, bytes, true);
  settle(from, bytes, false);
  const DeviceId target = locate(to, bytes), source = locate(from, bytes);
  if (gate::only_cpu_left()) {
    require_readable(from, bytes);
    require_readable(to, bytes);
  }
  if ((on_host(target) && on_host(source)) || gate::only_cpu_left()) {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  } else {
    transfer_alone({target, bytes_view(to, bytes)}, {source, bytes_view(from, bytes)}, 1);
  }
  queue_.note_written(range_of(to, bytes));
}

/// Copies between places of which one is a device, while no call uses them.
void Context::transfer_alone(const Placed& to, const Placed& from, std::int64_t element) {
  const auto range_of_view = [&](const View& view) {
    return range_at(view.data, ((view.cols - 1) * view.ld + view.rows) * element);
  };
  DeviceUse use = take_lock();
  Places places;
  for (const DeviceId end : {to.home, from.home})
    if (!on_host(end)) places.add(end);
  use.take_when_free(places, {range_of_view(to.view), range_of_view(from.view)});
  Backend& backend = *offloader_.engine().backend;
  Computing::note_other();  // no run beside it says what its links can do
  const DeviceUse::Pause pause(&use);
  backend.transfer(to.home, to.view, from.home, from.view, element);
}

void Context::trim() {
  const User inside(users_);
  if (gate::only_cpu_left()) return;
  release_left();
  pins_.trim();  // idle blocks, which no call uses: it may have to wait for streams
  const auto turn = take_turn();
  if (Backend* const backend = offloader_.backend_if_started()) residents_.trim(*backend);
  offloader_.trim();
}

void Context::register_host(void* data, std::int64_t bytes) {
  const User inside(users_);
  Range range{.data = data, .bytes = bytes, .location = kHost, .origin = Range::Origin::registered};
  std::unique_lock<std::mutex> turn;
  Backend* backend = nullptr;
  if (offloader_.has_backend() && !gate::only_cpu_left()) {
    turn = take_turn();
    backend = offloader_.engine().backend.get();
  }
  // If refused, the memory stays pageable and works as such.
  const bool pinned = backend != nullptr && backend->pin(data, bytes);
  if (backend != nullptr && !pinned) range.location = kPageable;
  try {
    const gate::StateLock lock;
    registry_.add(range);
  } catch (...) {
    if (turn) turn.unlock();
    if (pinned) unpin(range);
    throw;
  }
}

std::int64_t Context::bytes_at(const void* data) {
  const gate::StateLock lock;
  return registry_.bytes_at(data);
}

void Context::unregister_host(void* data) {
  const User inside(users_);
  settle(data, bytes_at(data), false);
  std::optional<Range> range;
  {
    const gate::StateLock lock;
    range = registry_.remove(data, Registry::Kind::registered);
  }
  if (!range) throw Error(Status::bad_argument, "no registered memory begins at this address");
  unpin(*range);
}

/// Of what was registered: it is the program's again. While the backend has to wait for streams,
/// calls have their turn: they let streams go.
void Context::unpin(const Range& range) {
  constexpr std::chrono::microseconds kBetweenTries{200};
  Backend* backend = offloader_.backend_if_started();
  if (backend == nullptr || range.location != kHost) return;
  for (; !gate::only_cpu_left(); std::this_thread::sleep_for(kBetweenTries)) {
    const auto turn = take_turn();
    if (backend->unpin(range.data)) return;
  }
}

}  // namespace fleet

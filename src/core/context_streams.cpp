// SPDX-License-Identifier: BSD-3-Clause
// context_streams.cpp: the program's streams: what calls wait for, and what waits for calls. It
// knows no calls.
#include <chrono>

#include "base/gate.hpp"
#include "core/context.hpp"

namespace fleet {

/// Takes the turn only to start the devices: a stream may wait for the run that has it.
std::pair<Backend&, DeviceId> Context::owner_of_streams(int device) {
  const auto none = [] {
    return Error(Status::unsupported, "no backend runs here: there are no streams to wait for");
  };
  if (!offloader_.has_backend() || gate::only_cpu_left()) throw none();
  if (offloader_.backend_if_started() == nullptr) {
    const auto turn = take_turn();
    static_cast<void>(offloader_.device_of(device));
    offloader_.engine();
  }
  Backend* const backend = offloader_.backend_if_started();
  if (backend == nullptr) throw none();
  return {*backend, offloader_.device_of(device)};
}

void Context::tell_why_not_all() {
  has_told_why_ = true;
  const std::string why = offloader_.why_not_started();
  if (!why.empty()) log_.line(Log::kWarning, {why});
}

void Context::start() {
  const User inside(users_);
  if (!offloader_.has_backend() || gate::only_cpu_left() ||
      offloader_.backend_if_started() != nullptr)
    return;
  const auto turn = take_turn();
  start_devices();
}

void Context::wait_for_first_calls() {
  constexpr std::chrono::seconds kMost{1};
  const User inside(users_);
  const Backend* const backend = offloader_.backend_if_started();
  if (backend != nullptr && backend->loads_kernels()) queue_.wait_for_first_calls(kMost);
}

void Context::wait_for_stream(int device, void* stream) {
  const User inside(users_);
  const auto [backend, location] = owner_of_streams(device);
  backend.wait_for_stream(location, stream);
}

std::shared_ptr<Event> Context::record(int device, void* stream) {
  const User inside(users_);
  const auto [backend, location] = owner_of_streams(device);
  auto event = std::make_shared<Event>();
  backend.when_stream_done(location, stream, [event](const char* failure) {
    if (failure == nullptr)
      event->finish(Status::ok, {});
    else
      event->finish(Status::device_failed, failure);
  });
  return event;
}

void Context::hold_stream(int device, void* stream, Event& event) {
  const User inside(users_);
  const auto [backend, location] = owner_of_streams(device);
  if (event.done()) return;
  const std::function<void()> let_go = backend.hold_stream(location, stream);
  if (!let_go) return;
  try {
    event.when_done(let_go);
  } catch (const std::bad_alloc&) {
    let_go();
    throw;
  }
}

}  // namespace fleet

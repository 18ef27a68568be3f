// SPDX-License-Identifier: BSD-3-Clause
// context.cpp: contexts, memory and messages of the C API. It decides nothing.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "api/boundary.hpp"
#include "base/gate.hpp"
#include "core/cpu_path.hpp"
#include "core/version.hpp"

namespace fleet::capi {
namespace {

constexpr std::size_t kMessageBytes = 512;
thread_local char this_message[kMessageBytes] = "";
thread_local bool asks_objective = false;  ///< this thread is in a function of the program

/// -1 and -2 are the host's two places, devices count from 0: DeviceId with the same meaning.
int location_of(int location) {
  if (location == FLEET_HOST) return kHost;
  if (location == FLEET_HOST_PAGEABLE) return kPageable;
  if (location < 0 || location > std::numeric_limits<int>::max() - kFirstDevice)
    throw Error(Status::bad_argument, "location " + std::to_string(location) +
                                          ": expected a device, FLEET_HOST or FLEET_HOST_PAGEABLE");
  return kFirstDevice + location;
}

std::int64_t bytes_of(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
    throw Error(Status::no_memory, "no place has " + std::to_string(bytes) + " bytes");
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

Options options_from(const char* text) {
  std::vector<std::string> complaints;
  Options options = read_options(complaints);
  if (!complaints.empty()) throw Error(Status::bad_option, complaints.front());
  if (text != nullptr) set_options(options, text);
  return options;
}

void set_message(const char* text) noexcept {
  const std::size_t length = std::min(std::strlen(text), kMessageBytes - 1);
  std::memcpy(this_message, text, length);
  this_message[length] = '\0';
  std::replace(this_message, this_message + length, '\n', ' ');
}

const char* message() noexcept { return this_message; }

fleet_status compute(fleet_context* handle, const RawCall& raw) noexcept {
  return guarded([&] {
    const Call call = parse(raw);
    Context* context = nullptr;
    try {
      context = &context_of(handle);
    } catch (const std::bad_alloc&) {
      // Without memory for the default context plain loops do the call.
      return call.changes_nothing() ? void() : multiply_plainly(call);
    }
    context->compute(call);
  });
}

}  // namespace fleet::capi

using namespace fleet;  // NOLINT: this file is the border between the two languages

const char* fleet_version(void) { return kVersion; }

const char* fleet_status_string(fleet_status status) {
  return to_string(static_cast<Status>(status));
}

const char* fleet_message(void) { return capi::message(); }

fleet_status fleet_context_create(const char* options, fleet_context** context) {
  if (context != nullptr) *context = nullptr;
  return capi::guarded([&] {
    capi::required(context, "context");
    auto made = std::make_unique<Context>(capi::options_from(options));
    made->open_books({});
    *context = reinterpret_cast<fleet_context*>(made.release());
  });
}

fleet_status fleet_context_destroy(fleet_context* context) {
  return capi::guarded([&] {
    // Calls in progress would never end, and the memory goes with the process.
    if (!gate::only_cpu_left()) delete reinterpret_cast<Context*>(context);
  });
}

fleet_status fleet_alloc(fleet_context* context, int location, size_t bytes, void** data) {
  if (data != nullptr) *data = nullptr;
  return capi::guarded([&] {
    capi::required(data, "data");
    *data = capi::context_of(context).allocate(capi::location_of(location), capi::bytes_of(bytes));
  });
}

fleet_status fleet_free(fleet_context* context, void* data) {
  return capi::guarded([&] {
    Context& known = capi::context_of(context);
    // A collector of garbage may free something there, and the call waits for the objective.
    capi::asks_objective ? known.release_later(data) : known.release(data);
  });
}

fleet_status fleet_copy(fleet_context* context, void* to, const void* from, size_t bytes) {
  return capi::guarded([&] {
    if (bytes == 0) return;
    capi::context_of(context).copy(capi::required(to, "to"), capi::required(from, "from"),
                                   capi::bytes_of(bytes));
  });
}

fleet_status fleet_wait_stream(fleet_context* context, int device, void* stream) {
  return capi::guarded([&] {
    if (device < 0)
      throw Error(Status::bad_argument, "device " + std::to_string(device) + " is no device");
    capi::context_of(context).wait_for_stream(device, stream);
  });
}

fleet_status fleet_set_objective(fleet_context* context, fleet_objective objective, void* user) {
  return capi::guarded([&] {
    std::function<double(const Cost&)> own;
    if (objective != nullptr)
      own = [objective, user](const Cost& cost) {
        const auto known = [](double joules) { return joules > 0 ? joules : std::nan(""); };
        const fleet_cost told{cost.seconds, known(cost.joules), known(cost.joules_node),
                              cost.devices};
        const bool before = std::exchange(capi::asks_objective, true);
        const double value = objective(user, &told);
        capi::asks_objective = before;
        return value;
      };
    capi::context_of(context).set_objective(std::move(own));
  });
}

fleet_status fleet_trim(fleet_context* context) {
  return capi::guarded([&] { capi::context_of(context).trim(); });
}

fleet_status fleet_host_register(fleet_context* context, void* data, size_t bytes) {
  return capi::guarded([&] {
    capi::required(data, "data");
    if (bytes == 0) throw Error(Status::bad_argument, "bytes is 0");
    capi::context_of(context).register_host(data, capi::bytes_of(bytes));
  });
}

fleet_status fleet_host_unregister(fleet_context* context, void* data) {
  return capi::guarded(
      [&] { capi::context_of(context).unregister_host(capi::required(data, "data")); });
}

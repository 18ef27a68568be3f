// SPDX-License-Identifier: BSD-3-Clause
// boundary.hpp: shared by the files of the C API: the context behind a handle, exceptions as a
// status and a message, and the computation of a call. It knows no routine.
#pragma once
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "core/context.hpp"
#include "fleetblas/fleetblas.h"

namespace fleet::capi {

/// This thread's message, cut to one line. Never allocates.
void set_message(const char* text) noexcept;
const char* message() noexcept;

inline Context& context_of(fleet_context* handle) {
  return handle == nullptr ? default_context() : *reinterpret_cast<Context*>(handle);
}

/// The settings of the environment, overridden by those of the text. Throws for a bad value in
/// either, unless the text replaces it.
Options options_from(const char* text);

/// Runs `body`; no exception leaves.
template <typename Body>
fleet_status guarded(Body&& body) noexcept {
  set_message("");
  try {
    body();
    return FLEET_OK;
  } catch (const Error& error) {
    set_message(error.what());
    return static_cast<fleet_status>(error.status());
  } catch (const std::bad_alloc&) {
    set_message("the host has no memory left");
    return FLEET_NO_MEMORY;
  } catch (const std::exception& error) {
    set_message(error.what());
    return FLEET_INTERNAL;
  } catch (...) {
    set_message("an unknown error");
    return FLEET_INTERNAL;
  }
}

/// Checks the call and computes it; without memory for the default context, by plain loops.
fleet_status compute(fleet_context* handle, const RawCall& raw) noexcept;

/// Throws Error(bad_argument) for NULL.
template <typename T>
T* required(T* pointer, const char* name) {
  if (pointer == nullptr) throw Error(Status::bad_argument, std::string(name) + " is NULL");
  return pointer;
}

}  // namespace fleet::capi

// SPDX-License-Identifier: BSD-3-Clause
// error.cpp: the word for each status, and the errors that say that C is undefined.
#include "base/error.hpp"

#include <new>
#include <string_view>

namespace fleet {
namespace {

constexpr std::string_view kUndefined = "C is undefined";

Error out_of_memory() {
  return {Status::device_failed, "memory ran out after C was changed: C is undefined"};
}

/// With the reason in the message, if there is memory to build one.
Error undefined_because(const char* reason) {
  try {
    std::string message = reason;
    if (message.find(kUndefined) == std::string::npos) message.append(": ").append(kUndefined);
    return {Status::device_failed, message};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace

const char* to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::bad_argument:
      return "bad_argument";
    case Status::no_memory:
      return "no_memory";
    case Status::device_failed:
      return "device_failed";
    case Status::unreachable:
      return "unreachable";
    case Status::bad_option:
      return "bad_option";
    case Status::bad_file:
      return "bad_file";
    case Status::unsupported:
      return "unsupported";
    case Status::internal:
      return "internal";
  }
  return "unknown";
}

void refuse_argument(const std::string& message) { throw Error(Status::bad_argument, message); }

std::string message_of(const std::exception& error) noexcept {
  try {
    return error.what();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void throw_undefined() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw out_of_memory();
  } catch (const std::exception& error) {
    throw undefined_because(error.what());
  } catch (...) {
    throw undefined_because("an unknown error");
  }
}

}  // namespace fleet

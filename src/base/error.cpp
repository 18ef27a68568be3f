// SPDX-License-Identifier: BSD-3-Clause
// error.cpp: the words for each status.
#include "base/error.hpp"

namespace fleet {

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

}  // namespace fleet

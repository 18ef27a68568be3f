// SPDX-License-Identifier: BSD-3-Clause
// error.hpp: the one exception type of the core. It knows nothing of devices or of the C API.
#pragma once
#include <stdexcept>
#include <string>

namespace fleet {

/// Why something could not be done. The values are those of `fleet_status` in fleetblas.h.
enum class Status {
  ok = 0,
  bad_argument = 1,   ///< a size, flag or pointer of the caller is illegal; nothing was touched
  no_memory = 2,      ///< memory ran out where nothing smaller helps; C untouched
  device_failed = 3,  ///< a device was lost or a task failed, and C could not be completed
  unreachable = 4,    ///< no route between two places that must exchange data
  bad_option = 5,     ///< an option or environment variable has a value that means nothing
  bad_file = 6,       ///< a machine or cache file is damaged, missing or of another schema
  unsupported = 7,    ///< a combination that this version does not do
  internal = 8,       ///< a bug in the library: `check` failed, or an invariant broke
};

/// "ok", "bad_argument", ...: the words used in JSON and in messages.
const char* to_string(Status status);

/// Thrown inside the core; the fronts (capi, fortran, cblas) turn it into a status and a message.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

}  // namespace fleet

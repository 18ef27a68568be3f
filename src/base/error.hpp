// SPDX-License-Identifier: BSD-3-Clause
// error.hpp: the one exception type of the core. It knows nothing of devices or of the C API.
#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <string>

namespace fleet {

/// Why something could not be done. The values are those of `fleet_status` in fleetblas.h. C is
/// undefined after device_failed and untouched after every other status, so whoever catches one of
/// the others may compute C from its present values.
enum class Status {
  ok = 0,
  bad_argument = 1,   ///< a size, flag or pointer of the caller is illegal; nothing was touched
  no_memory = 2,      ///< memory ran out where nothing smaller helps; C untouched
  device_failed = 3,  ///< a run changed C and nobody could complete it; an operand's device is lost
  unreachable = 4,    ///< no route between two places that must exchange data
  bad_option = 5,     ///< an option or environment variable has an invalid value
  bad_file = 6,       ///< a machine or cache file is damaged, missing or of another schema
  unsupported = 7,    ///< a combination that this version does not support
  internal = 8,       ///< a bug in the library: `check` failed, or an invariant broke
};

/// "ok", "bad_argument", ...: the words used in JSON and in messages.
const char* to_string(Status status);

/// Thrown inside the core; the outer layers (C API, BLAS entry points) make a status and a message.
class Error : public std::exception {
 public:
  Error(Status status, const std::string& message)
      : status_(status), message_(std::make_shared<const std::string>(message)) {}
  /// For literals, which are not copied: such an Error can be thrown without free memory.
  template <std::size_t N>
  Error(Status status, const char (&literal)[N]) noexcept : status_(status), literal_(literal) {}

  Status status() const noexcept { return status_; }
  const char* what() const noexcept override {
    return message_ != nullptr ? message_->c_str() : literal_;
  }

 private:
  Status status_;
  std::shared_ptr<const std::string> message_;
  const char* literal_ = "";
};

/// Throws Error(bad_argument).
[[noreturn]] void refuse_argument(const std::string& message);

/// The message of an exception; empty if there is no memory to copy it.
std::string message_of(const std::exception& error) noexcept;

/// Inside a `catch`: rethrows the current exception as Error(device_failed), as C is undefined.
[[noreturn]] void throw_undefined();

/// Does `work`, before or during which C may have been changed. Every exception becomes
/// Error(device_failed): no_memory, unsupported or bad_alloc would claim that C is untouched, and
/// the CPU would apply beta a second time.
template <typename Work>
decltype(auto) past_first_write(Work&& work) {
  try {
    return work();
  } catch (...) {
    throw_undefined();
  }
}

}  // namespace fleet

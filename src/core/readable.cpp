// SPDX-License-Identifier: BSD-3-Clause
// readable.cpp: lets a system call fail instead of a load.
#include "core/readable.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.hpp"

namespace fleet {
namespace {

bool word_is_readable(std::uintptr_t address) {
  // The kernel copies the signal set before it looks at what is to be done with it, and this is
  // nothing that it knows: no mask changes. A set has 8 bytes; aligned ones are in one page.
  constexpr std::uintptr_t kSetBytes = 8;
  const int error = errno;
  const long done = syscall(SYS_rt_sigprocmask, ~0, address & ~(kSetBytes - 1), nullptr, kSetBytes);
  const bool readable = done == 0 || errno != EFAULT;
  errno = error;
  return readable;
}

}  // namespace

bool is_readable(const void* data, std::int64_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const auto last = first + static_cast<std::uintptr_t>(bytes) - 1;
  return bytes <= 0 || (word_is_readable(first) && word_is_readable(last));
}

void require_readable(const void* data, std::int64_t bytes, std::string_view why) {
  if (!is_readable(data, bytes))
    throw Error(Status::unsupported, "the CPU cannot reach an operand, and " + std::string(why));
}

}  // namespace fleet

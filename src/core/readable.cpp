// SPDX-License-Identifier: BSD-3-Clause
// readable.cpp: lets a system call fail instead of a load.
#include "core/readable.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
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

bool system_can_read(const void* data) {
  char byte = 0;
  const iovec here{&byte, 1}, there{const_cast<void*>(data), 1};
  const int error = errno;
  const bool is_read = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
  errno = error;
  return is_read;
}

void require_readable(const void* data, std::int64_t bytes, std::string_view why) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const auto last = first + static_cast<std::uintptr_t>(bytes) - 1;
  if (bytes > 0 && !(word_is_readable(first) && word_is_readable(last)))
    throw Error(Status::unsupported, "the CPU cannot reach an operand, and " + std::string(why));
}

}  // namespace fleet

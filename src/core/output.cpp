// SPDX-License-Identifier: BSD-3-Clause
// output.cpp: numbers to text, text to descriptors. It does not know what the text says.
#include "core/output.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <new>
#include <system_error>

namespace fleet {
namespace {

/// Blocks SIGPIPE in this thread for a while, and removes one that it caused.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    if (!was_pending_)
      while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

bool write_all(int descriptor, const std::string& text) {
  const int kept_errno = errno;
  const NoPipeSignal guard;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = write(descriptor, text.data() + written, text.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    written += static_cast<std::size_t>(now);
  }
  errno = kept_errno;
  return written == text.size();
}

/// Above the standard streams: a program that closed one of them would write into our file.
int above_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(descriptor);
  return higher;
}

bool write_new_file(const std::string& path, int flags, const std::string& text) {
  constexpr mode_t kMode = 0644;
  const int descriptor = above_standard_streams(open(path.c_str(), flags | O_CLOEXEC, kMode));
  if (descriptor < 0) return false;
  const bool whole = write_all(descriptor, text);
  return close(descriptor) == 0 && whole;
}

std::string scaled(double value, double unit, const char* name) {
  return number(value / unit) + name;
}

}  // namespace

std::string number(double value, int digits) {
  std::array<char, 64> text;
  // Whole numbers are never worth an exponent below a million.
  const bool plain = std::abs(value) < 1e6 && std::abs(value) >= 1e-3;
  if (plain) {
    const int whole =
        value == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
    const int decimals = std::max(0, digits - whole);
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                            std::chars_format::fixed, decimals);
    return std::string(text.data(), end);
  }
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::general, digits);
  return std::string(text.data(), end);
}

std::string exact(double value) {
  std::array<char, 64> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end);
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return scaled(seconds, 1e-6, "us");
  if (seconds < 1) return scaled(seconds, 1e-3, "ms");
  return scaled(seconds, 1, "s");
}

std::string byte_count(double bytes) {
  if (bytes < 1e3) return scaled(bytes, 1, " B");
  if (bytes < 1e6) return scaled(bytes, 1e3, " kB");
  if (bytes < 1e9) return scaled(bytes, 1e6, " MB");
  return scaled(bytes, 1e9, " GB");
}

void write_quietly(int descriptor, const std::string& text) { write_all(descriptor, text); }

bool write_file(const std::string& path, const std::string& text) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return write_new_file(path, O_WRONLY, text);
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new";
  if (write_new_file(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, text) &&
      std::rename(fresh.c_str(), path.c_str()) == 0)
    return true;
  unlink(fresh.c_str());
  return false;
}

std::string path_of_process(std::string path) {
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at))
    path.replace(at, 2, std::to_string(getpid()));
  return path;
}

Log::Log(int level, const std::string& file) : level_(level), descriptor_(STDERR_FILENO) {
  if (file.empty()) return;
  constexpr mode_t kMode = 0644;
  descriptor_ =
      above_standard_streams(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (descriptor_ >= 0) return;
  const std::string why = std::generic_category().message(errno);
  complaint_ = "log_file=" + file + " cannot be opened (" + why + "): the log is written to stderr";
  descriptor_ = STDERR_FILENO;
}

Log::~Log() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

void Log::line(Level level, std::initializer_list<std::string_view> parts) const noexcept {
  if (!wants(level)) return;
  try {
    std::string text = "fleetblas: ";
    for (const std::string_view part : parts) text += part;
    write_quietly(descriptor_, text += '\n');
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Log::say(const std::string& text) const { write_quietly(STDERR_FILENO, text + "\n"); }

}  // namespace fleet

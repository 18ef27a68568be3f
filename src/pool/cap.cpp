// SPDX-License-Identifier: BSD-3-Clause
// cap.cpp: words and small files, read without the help of a library that allocates. It knows no
// blocks.
#include "pool/cap.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace fleet::pool {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

bool is_one_of(const char* text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (strcmp(text, word) == 0) return true;
  return false;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number at `text`, which is moved past it; -1: there is none, or it is too large.
std::int64_t integer_at(const char*& text) {
  if (!is_digit(*text)) return -1;
  std::int64_t number = 0;
  for (; is_digit(*text); ++text) {
    if (number > (kUnlimited - 9) / 10) return -1;
    number = 10 * number + (*text - '0');
  }
  return number;
}

/// "0.25" and ".25": decimals are read here, since strtod follows the program's locale.
bool parse_share(const char* text, double& share) {
  if (*text == '0') ++text;
  if (*text++ != '.' || !is_digit(*text)) return false;
  double digits = 0, unit = 1;
  for (; is_digit(*text); ++text, unit *= 10) digits = 10 * digits + (*text - '0');
  share = digits / unit;
  return *text == '\0' && share > 0;
}

bool parse_bytes(const char* text, std::int64_t& bytes) {
  bytes = integer_at(text);
  int shift = 0;
  if (*text == 'K' || *text == 'k') shift = 10;
  if (*text == 'M' || *text == 'm') shift = 20;
  if (*text == 'G' || *text == 'g') shift = 30;
  if (shift > 0) ++text;
  if (bytes < 0 || *text != '\0' || bytes > (kUnlimited >> shift)) return false;
  bytes <<= shift;
  return true;
}

/// The first bytes of a file as text; false: it cannot be read.
template <std::size_t N>
bool read_text(const char* path, char (&text)[N]) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = read(file, text, N - 1);
  close(file);
  text[got > 0 ? got : 0] = '\0';
  return got > 0;
}

/// The number in FOLDER/GROUP/NAME and in all groups around it; "max" is none.
std::int64_t least_limit(const char* folder, const char* group, const char* name) {
  char path[PATH_MAX], text[64];
  std::int64_t least = kUnlimited;
  for (std::size_t length = strlen(group);; --length) {
    const bool is_group = length == 0 || length == strlen(group) || group[length] == '/';
    const std::size_t folder_length = strlen(folder);
    if (is_group && folder_length + length + strlen(name) + 2 < sizeof path) {
      memcpy(path, folder, folder_length);
      memcpy(path + folder_length, group, length);
      path[folder_length + length] = '/';
      strcpy(path + folder_length + length + 1, name);
      if (read_text(path, text)) {
        const char* at = text;
        const std::int64_t limit = integer_at(at);
        if (limit > 0) least = std::min(least, limit);
      }
    }
    if (length == 0) return least;
  }
}

/// Of this process in the hierarchy whose line in /proc/self/cgroup has `:controller:`.
std::int64_t group_limit(const char* controller, const char* folder, const char* name) {
  char groups[4096];
  if (!read_text("/proc/self/cgroup", groups)) return kUnlimited;
  char* group = strstr(groups, controller);
  if (group == nullptr) return kUnlimited;
  group += strlen(controller);
  if (char* end = strchr(group, '\n')) *end = '\0';
  return least_limit(folder, group, name);
}

}  // namespace

bool parse_cap(const char* text, Cap& cap) {
  cap = {};
  if (text == nullptr || is_one_of(text, {"", "1", "on", "true", "yes"})) return true;
  cap = {.share = 0};
  if (is_one_of(text, {"0", "off", "false", "no"})) return true;
  Cap wanted{.share = 0};
  if (!parse_share(text, wanted.share)) {
    wanted.share = 0;
    if (!parse_bytes(text, wanted.bytes)) return false;
  }
  cap = wanted;
  return true;
}

std::int64_t memory_bytes() {
  const std::int64_t all = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t newer = group_limit("0::", "/sys/fs/cgroup", "memory.max");
  const std::int64_t older =
      group_limit(":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes");
  return std::min({all, newer, older});
}

}  // namespace fleet::pool

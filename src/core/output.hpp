// SPDX-License-Identifier: BSD-3-Clause
// output.hpp: writes text independently of the program's streams and locale. It does not know what
// the text says.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

namespace fleet {

/// `value` with `digits` significant digits, the same in every locale.
std::string number(double value, int digits = 3);
/// The shortest text that reads back as `value`.
std::string exact(double value);
/// "4.7ms", "12.1us", "3.2s".
std::string duration(double seconds);
/// "1.2 GB" (1e9 bytes), "300 MB", ...
std::string byte_count(double bytes);

/// Writes all of `text`; gives up quietly on any error. A reader that has gone away raises no
/// SIGPIPE, and errno is left as it was.
void write_quietly(int descriptor, const std::string& text);
/// Replaces a regular file in one step; writes into anything else (a pipe, a terminal). False if it
/// cannot.
bool write_file(const std::string& path, const std::string& text);
/// `path` with %p turned into the number of this process, so that processes do not write over each
/// other.
std::string path_of_process(std::string path);

/// The log: lines up to a level, to stderr or a file. Thread-safe.
class Log {
 public:
  enum Level { kError = 1, kWarning = 2, kHint = 3, kInfo = 4, kEverything = 5 };

  /// To stderr if the file cannot be opened.
  Log(int level, const std::string& file);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool wants(Level level) const { return level <= level_; }
  /// Why the file is not used; empty: it is, or there is none.
  const std::string& complaint() const { return complaint_; }
  /// One line of these parts, if the level is wanted. Without memory for it the line is dropped: no
  /// call fails for its log.
  void line(Level level, std::initializer_list<std::string_view> parts) const noexcept;
  /// One line for certain.
  void say(const std::string& text) const;

 private:
  int level_;
  int descriptor_;
  std::string complaint_;
};

}  // namespace fleet

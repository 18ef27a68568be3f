// SPDX-License-Identifier: BSD-3-Clause
// output.hpp: text out of the library, whatever the state of the program's streams and locale. It
// knows nothing of what the text says.
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
/// Replaces a regular file in one step, or writes into what else is there (a pipe, a terminal).
/// False when that cannot be done.
bool write_file(const std::string& path, const std::string& text);

/// The log: lines up to a level, to stderr or a file. Thread-safe.
class Log {
 public:
  enum Level { kError = 1, kWarning = 2, kHint = 3, kInfo = 4, kEverything = 5 };

  /// A file that cannot be opened: nothing is logged but what goes to stderr by `say`.
  Log(int level, const std::string& file);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool wants(Level level) const { return level <= level_; }
  /// One line of these parts, if the level is wanted. Nothing fails for a line of log: it is left
  /// out where there is no memory for it.
  void line(Level level, std::initializer_list<std::string_view> parts) const noexcept;
  /// One line for certain.
  void say(const std::string& text) const;

 private:
  int level_;
  int descriptor_;
};

}  // namespace fleet

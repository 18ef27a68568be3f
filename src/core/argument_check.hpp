// SPDX-License-Identifier: BSD-3-Clause
// argument_check.hpp: the arguments of a routine of LAPACK, looked at one after another as the
// reference does. It knows no routine.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace fleet {

/// Each member function looks at the next argument, or the next ones; the first that is illegal
/// ends it: Error(bad_argument), "fleet_dpotrf: argument 3 (n) is -1, expected at least 0".
class ArgumentCheck {
 public:
  /// `first`: the position of the first argument that is looked at.
  ArgumentCheck(const char* symbol, int first) : symbol_(symbol), next_(first) {}

  /// A flag that is one of these letters.
  ArgumentCheck& flag(const char* name, int value, std::string_view letters);
  ArgumentCheck& at_least(const char* name, std::int64_t value, std::int64_t least);
  ArgumentCheck& within(const char* name, std::int64_t value, std::int64_t least,
                        std::int64_t most);
  /// The address of a matrix, and its leading dimension behind it.
  ArgumentCheck& matrix(const char* name, const void* data, const char* ld_name, std::int64_t ld,
                        std::int64_t rows, std::int64_t cols, Storage storage);
  /// An address that is needed where `elements` are more than 0.
  ArgumentCheck& array(const char* name, const void* data, std::int64_t elements);
  /// `count` pivots, each between 1 and `rows`.
  ArgumentCheck& pivots(const char* name, const std::int64_t* data, std::int64_t count,
                        std::int64_t rows);

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& why, int back = 1) const;

  const char* symbol_;
  int next_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// argument_check.cpp: what makes an argument illegal, and the words for it. It knows no routine.
#include "core/argument_check.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fleet {
namespace {

/// "'n', 't' or 'c'".
std::string list_of(std::string_view letters) {
  std::string text;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (i > 0) text += i + 1 == letters.size() ? " or " : ", ";
    text += "'" + std::string(1, letters[i]) + "'";
  }
  return text;
}

bool is_addressable(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t element) {
  std::int64_t elements = 0, bytes = 0;
  return !__builtin_mul_overflow(cols - 1, ld, &elements) &&
         !__builtin_add_overflow(elements, rows, &elements) &&
         !__builtin_mul_overflow(elements, element, &bytes);
}

}  // namespace

void ArgumentCheck::refuse(const std::string& name, const std::string& why, int back) const {
  refuse_argument(std::string(symbol_) + ": argument " + std::to_string(next_ - back) + " (" +
                  name + ") " + why);
}

ArgumentCheck& ArgumentCheck::flag(const char* name, int value, std::string_view letters) {
  ++next_;
  if (value > 0 && value < 128 && letters.find(static_cast<char>(value)) != letters.npos)
    return *this;
  refuse(name, "is " + std::to_string(value) + ", expected " + list_of(letters));
}

ArgumentCheck& ArgumentCheck::at_least(const char* name, std::int64_t value, std::int64_t least) {
  ++next_;
  if (value >= least) return *this;
  refuse(name, "is " + std::to_string(value) + ", expected at least " + std::to_string(least));
}

ArgumentCheck& ArgumentCheck::within(const char* name, std::int64_t value, std::int64_t least,
                                     std::int64_t most) {
  ++next_;
  if (value >= least && value <= most) return *this;
  refuse(name, "is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " +
                   std::to_string(most));
}

ArgumentCheck& ArgumentCheck::matrix(const char* name, const void* data, const char* ld_name,
                                     std::int64_t ld, std::int64_t rows, std::int64_t cols,
                                     Storage storage) {
  next_ += 2;
  const std::int64_t least = std::max<std::int64_t>(1, rows);
  if (ld < least)
    refuse(ld_name, "is " + std::to_string(ld) + ", expected at least " + std::to_string(least));
  if (rows == 0 || cols == 0) return *this;
  if (!is_addressable(rows, cols, ld, bytes_of(storage)))
    refuse(ld_name, "puts the matrix beyond any address space");
  if (data == nullptr) refuse(name, "is NULL", 2);
  return *this;
}

ArgumentCheck& ArgumentCheck::array(const char* name, const void* data, std::int64_t elements) {
  ++next_;
  if (elements > 0 && data == nullptr) refuse(name, "is NULL");
  return *this;
}

ArgumentCheck& ArgumentCheck::pivots(const char* name, const std::int64_t* data, std::int64_t count,
                                     std::int64_t rows) {
  array(name, data, count);
  for (std::int64_t i = 0; i < count; ++i)
    if (data[i] < 1 || data[i] > rows)
      refuse(std::string(name) + "[" + std::to_string(i) + "]",
             "is " + std::to_string(data[i]) + ", expected 1 to " + std::to_string(rows));
  return *this;
}

}  // namespace fleet

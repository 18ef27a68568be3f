// SPDX-License-Identifier: BSD-3-Clause
// json_text.hpp: writes JSON into a string, front to back. Unlike a document tree it can be
// destroyed when memory has run out. It knows nothing of what it writes.
#pragma once
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace fleet {

/// Appends values and members in turn, and adds commas and quotes itself.
///
///   JsonText json;
///   json.open('{').member("calls", 3).key("devices").open('[').value(0).value(1).close(']');
///   json.close('}');
class JsonText {
 public:
  JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonText& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonText& key(std::string_view name) {
    value(name);
    text_ += ':';
    first_ = true;  // its value needs no comma
    return *this;
  }

  JsonText& value(std::string_view text) {
    separate();
    text_ += '"';
    while (!text.empty()) text.remove_prefix(write_character(text));
    text_ += '"';
    return *this;
  }
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  JsonText& value(bool flag) { return raw(flag ? "true" : "false"); }
  /// The shortest text that reads back as the same number, in any locale; null if it is not finite,
  /// since JSON has no infinity.
  JsonText& value(double number) { return std::isfinite(number) ? digits(number) : null(); }
  template <std::integral Number>
  requires(!std::same_as<Number, bool> &&
           !std::same_as<Number, char>) JsonText& value(Number number) {
    return digits(number);
  }
  JsonText& null() { return raw("null"); }
  /// Text that is already JSON.
  JsonText& raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
  }

  template <typename Value>
  JsonText& member(std::string_view name, const Value& value_of_member) {
    return key(name).value(value_of_member);
  }

  const std::string& text() const { return text_; }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  template <typename Number>
  JsonText& digits(Number number) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return raw(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }

  /// Writes the first character of `text` and returns its length in bytes.
  std::size_t write_character(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20) {
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15];
    } else if (byte < 0x80) {
      text_ += c;
    } else {
      return write_beyond_ascii(text);
    }
    return 1;
  }

  /// File names may hold any bytes, JSON only UTF-8.
  std::size_t write_beyond_ascii(std::string_view text) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    bool whole = byte >= 0xc2 && byte <= 0xf4 && length <= text.size();
    for (std::size_t i = 1; whole && i < length; ++i)
      whole = (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
    if (!whole) {
      text_ += '?';
      return 1;
    }
    text_ += text.substr(0, length);
    return length;
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace fleet

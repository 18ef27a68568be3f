// SPDX-License-Identifier: BSD-3-Clause
// problem.cpp: building problems, and their text form both ways. It must not know machines.
#include "problem/problem.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::bad_argument, message); }

std::string quoted(std::string_view word) { return "'" + std::string(word) + "'"; }

/// A plain decimal number and nothing else. `word` is what the message shows.
std::int64_t parse_count(std::string_view digits, std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    refuse("problem text: " + quoted(word) + " needs a whole number");
  return value;
}

Op parse_op(std::string_view letter, std::string_view word) {
  for (const Op op : {Op::none, Op::transpose, Op::conjugate})
    if (letter.size() == 1 && letter[0] == letter_of(op)) return op;
  refuse("problem text: " + quoted(word) + " needs n, t or c");
}

DataType parse_routine(std::string_view word) {
  for (int i = 0; i < kDataTypes; ++i)
    if (word == std::string(word_of(static_cast<DataType>(i))) + "gemm")
      return static_cast<DataType>(i);
  refuse("problem text begins with " + quoted(word) +
         "; the routines are sgemm, dgemm, cgemm, zgemm, hgemm, bf16gemm and tf32gemm");
}

std::vector<std::string_view> split(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  for (auto begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

/// "a@0", "b@h*". False when the word is something else.
bool parse_placement(std::string_view word, GemmShape& shape) {
  if (word.size() < 2 || word[1] != '@') return false;
  const int operand = word[0] - 'a';
  if (operand < kA || operand > kC) return false;
  std::string_view place = word.substr(2);
  if (place.ends_with('*')) {
    place.remove_suffix(1);
    if (operand == kC) refuse("problem text: " + quoted(word) + ": C cannot be shared by a batch");
    (operand == kA ? shape.share_a : shape.share_b) = true;
  }
  shape.homes[static_cast<std::size_t>(operand)] = parse_place(place);
  return true;
}

/// "m=8192", "transa=t", "beta=0", "batch=16". Refuses any other word.
void parse_setting(std::string_view word, GemmShape& shape) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) refuse("problem text: does not understand " + quoted(word));
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (name == "transa") {
    shape.op_a = parse_op(value, word);
  } else if (name == "transb") {
    shape.op_b = parse_op(value, word);
  } else if (name == "beta") {
    // Only whether it is zero matters to a plan, so that is all the text says.
    if (value != "0" && value != "1") refuse("problem text: " + quoted(word) + " needs 0 or 1");
    shape.beta_is_zero = value == "0";
  } else if (name == "m") {
    shape.m = parse_count(value, word);
  } else if (name == "n") {
    shape.n = parse_count(value, word);
  } else if (name == "k") {
    shape.k = parse_count(value, word);
  } else if (name == "size") {
    shape.m = shape.n = shape.k = parse_count(value, word);
  } else if (name == "batch") {
    shape.batch = parse_count(value, word);
  } else {
    refuse("problem text: does not understand " + quoted(word));
  }
}

/// A size left out is a slip, not a zero.
void require_sizes(const std::vector<std::string_view>& words, std::string_view text) {
  const auto given = [&](std::string_view name) {
    return std::ranges::any_of(words, [&](std::string_view w) { return w.starts_with(name); });
  };
  if (given("size=") || (given("m=") && given("n=") && given("k="))) return;
  const bool none = !given("m=") && !given("n=") && !given("k=");
  const char* missing = none ? "sizes" : !given("m=") ? "m" : !given("n=") ? "n" : "k";
  refuse("problem text " + quoted(text) + " gives no " + missing);
}

void require_size(std::int64_t size, const char* name) {
  if (size < 0)
    refuse("gemm: " + std::string(name) + " = " + std::to_string(size) + " is negative");
}

/// Offsets inside an operand are computed in int64, so its bytes must fit in one.
void require_addressable(const Operand& operand, const GemmShape& shape, const char* name) {
  const std::array factors{operand.rows, operand.cols, operand.shared ? 1 : shape.batch};
  if (std::ranges::count(factors, 0) > 0) return;
  std::int64_t bytes = bytes_of(shape.type);
  for (const std::int64_t factor : factors) {
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor)
      refuse("gemm: " + std::string(name) + " has more bytes than 64 bits can count");
    bytes *= factor;
  }
}

}  // namespace

std::string place_word(DeviceId location) {
  if (location == kHost) return "h";
  if (location == kPageable) return "p";
  return std::to_string(location - kFirstDevice);
}

DeviceId parse_place(std::string_view word) {
  if (word == "h") return kHost;
  if (word == "p") return kPageable;
  constexpr int kMostDevices = 4096;
  int device = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), device);
  const bool canonical = word == std::to_string(device);  // no sign, no leading zeros
  if (error != std::errc() || end != word.data() + word.size() || !canonical || device < 0 ||
      device >= kMostDevices)
    refuse("place " + quoted(word) + " is none of h, p, or a device number");
  return kFirstDevice + device;
}

const char* word_of(DataType type) {
  constexpr std::array<const char*, kDataTypes> kWords{"s", "d", "c", "z", "h", "bf16", "tf32"};
  return kWords[static_cast<std::size_t>(type)];
}

std::int64_t bytes_of(DataType type) {
  constexpr std::array<std::int64_t, kDataTypes> kBytes{4, 8, 8, 16, 2, 2, 4};
  return kBytes[static_cast<std::size_t>(type)];
}

bool is_complex(DataType type) { return type == DataType::c32 || type == DataType::c64; }

bool is_half(DataType type) { return type == DataType::f16 || type == DataType::bf16; }

char letter_of(Op op) { return "ntc"[static_cast<int>(op)]; }

Problem make_gemm(const GemmShape& shape) {
  require_size(shape.m, "m");
  require_size(shape.n, "n");
  require_size(shape.k, "k");
  require_size(shape.batch, "batch");
  for (const DeviceId home : shape.homes)
    if (home < 0) refuse("gemm: location " + std::to_string(home) + " is negative");

  Problem problem{.routine = Routine::gemm,
                  .type = shape.type,
                  .op_a = shape.op_a,
                  .op_b = shape.op_b,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k,
                  .batch = shape.batch};
  auto& [a, b, c] = problem.operands;
  a = {.rows = shape.m, .cols = shape.k, .home = shape.homes[kA], .shared = shape.share_a};
  b = {.rows = shape.k, .cols = shape.n, .home = shape.homes[kB], .shared = shape.share_b};
  c = {.rows = shape.m,
       .cols = shape.n,
       .access = shape.beta_is_zero ? Access::write : Access::update,
       .home = shape.homes[kC]};
  if (shape.op_a != Op::none) std::swap(a.rows, a.cols);
  if (shape.op_b != Op::none) std::swap(b.rows, b.cols);
  require_addressable(a, shape, "A");
  require_addressable(b, shape, "B");
  require_addressable(c, shape, "C");
  return problem;
}

double flops(const Problem& problem) {
  const double products = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                          static_cast<double>(problem.k) * static_cast<double>(problem.batch);
  return (is_complex(problem.type) ? 8 : 2) * products;
}

std::string to_text(const Problem& problem) {
  std::string text = std::string(word_of(problem.type)) + "gemm";
  text += " m=" + std::to_string(problem.m);
  text += " n=" + std::to_string(problem.n);
  text += " k=" + std::to_string(problem.k);
  for (const int operand : {kA, kB, kC}) {
    const Operand& o = problem.operands[static_cast<std::size_t>(operand)];
    text += std::string(" ") + "abc"[operand] + "@" + place_word(o.home) + (o.shared ? "*" : "");
  }
  if (problem.op_a != Op::none) text += std::string(" transa=") + letter_of(problem.op_a);
  if (problem.op_b != Op::none) text += std::string(" transb=") + letter_of(problem.op_b);
  if (problem.operands[kC].access == Access::write) text += " beta=0";
  if (problem.batch != 1) text += " batch=" + std::to_string(problem.batch);
  return text;
}

Problem parse_problem(std::string_view text) {
  const std::vector<std::string_view> words = split(text);
  if (words.empty()) refuse("problem text is empty");
  GemmShape shape{.type = parse_routine(words[0])};
  for (std::size_t i = 1; i < words.size(); ++i)
    if (!parse_placement(words[i], shape)) parse_setting(words[i], shape);
  const Problem problem = make_gemm(shape);
  require_sizes(words, text);
  return problem;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// vector_text.cpp: problems with vectors as text, both ways. It must not know machines.
#include <algorithm>

#include "problem/text_words.hpp"

namespace fleet::text {
namespace {

/// "sdot", "zdotc": complex dot products have one more letter.
std::string word_of_routine(Routine routine, DataType type, Op op) {
  std::string word = word_of(type) + std::string(traits_of(routine).word);
  if (routine == Routine::dot && is_complex(type.storage)) word += op == Op::conjugate ? 'c' : 'u';
  return word;
}

std::optional<VectorShape> parse_routine(std::string_view word) {
  for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64})
    for (const Routine routine : {Routine::gemv, Routine::axpy, Routine::dot})
      for (const Op op : {Op::none, Op::conjugate})
        if (word == word_of_routine(routine, type, op)) {
          const bool conjugates = routine == Routine::dot && is_complex(type.storage);
          return VectorShape{.routine = routine, .type = type, .op = conjugates ? op : Op::none};
        }
  return std::nullopt;
}

/// The letters that operands have in texts, in the order of the operands; a blank for none.
std::string_view letters_of(Routine routine) {
  return routine == Routine::gemv ? "axy" : routine == Routine::axpy ? "x y" : "xyr";
}

std::string_view sizes_of(Routine routine) { return routine == Routine::gemv ? "mn" : "n"; }

bool parse_placement(std::string_view word, VectorShape& shape) {
  if (word.size() < 2 || word[1] != '@') return false;
  const auto operand = letters_of(shape.routine).find(word[0]);
  if (operand == std::string_view::npos || word[0] == ' ') return false;
  shape.homes[operand] = parse_place(word.substr(2));
  return true;
}

/// Sizes, "transa=t" and "beta=0". Notes in `given` which sizes there were.
void parse_setting(std::string_view word, VectorShape& shape, std::string& given) {
  const auto equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == word.npos ? "" : word.substr(equals + 1);
  const std::string_view sizes = sizes_of(shape.routine);
  const bool is_gemv = shape.routine == Routine::gemv;
  if (name == "size" || (name.size() == 1 && sizes.find(name) != sizes.npos)) {
    const std::int64_t size = parse_count(value, word);
    for (const char letter : name == "size" ? sizes : name) {
      (letter == 'm' ? shape.m : shape.n) = size;
      given += letter;
    }
  } else if (name == "transa" && is_gemv) {
    shape.op = parse_op(value, word);
  } else if (name == "beta" && is_gemv) {
    if (value != "0" && value != "1") refuse("problem text: " + quoted(word) + " needs 0 or 1");
    shape.beta_is_zero = value == "0";
  } else {
    refuse("problem text: does not understand " + quoted(word));
  }
}

}  // namespace

std::optional<Problem> parse_vectors(std::span<const std::string_view> words) {
  std::optional<VectorShape> shape = parse_routine(words[0]);
  if (!shape) return std::nullopt;
  std::string given;
  for (const std::string_view word : words.subspan(1))
    if (!parse_placement(word, *shape)) parse_setting(word, *shape, given);
  for (const char size : sizes_of(shape->routine))
    if (given.find(size) == std::string::npos)
      refuse("problem text " + quoted(words[0]) + " gives no " + size);
  return make_vectors(*shape);
}

std::string text_of_vectors(const Problem& problem) {
  std::string text = word_of_routine(problem.routine, problem.type, problem.op_a);
  const Operand& a = problem.operands[kA];
  if (problem.routine == Routine::gemv) text += " m=" + std::to_string(a.rows);
  text += " n=" + std::to_string(a.cols);
  const std::string_view letters = letters_of(problem.routine);
  for (std::size_t operand = 0; operand < letters.size(); ++operand) {
    const DeviceId home = problem.operands[operand].home;
    const bool left_out = letters[operand] == ' ' || (letters[operand] == 'r' && home == kHost);
    if (!left_out) text += std::string(" ") + letters[operand] + "@" + place_word(home);
  }
  if (problem.routine != Routine::gemv) return text;
  if (problem.op_a != Op::none) text += std::string(" transa=") + letter_of(problem.op_a);
  if (problem.operands[kC].access == Access::write) text += " beta=0";
  return text;
}

}  // namespace fleet::text

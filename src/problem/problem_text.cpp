// SPDX-License-Identifier: BSD-3-Clause
// problem_text.cpp: problems and places as text, both ways. It must not know machines.
#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.hpp"
#include "problem/signature.hpp"

namespace fleet {
namespace {

std::string quoted(std::string_view word) { return "'" + std::string(word) + "'"; }

/// A plain decimal number and nothing else. `word` is what the message shows.
std::int64_t parse_count(std::string_view digits, std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = !digits.empty() && end == digits.data() + digits.size();
  if (is_whole && error == std::errc::result_out_of_range)
    refuse_argument("problem text: " + quoted(word) + " is too large");
  if (!is_whole || error != std::errc())
    refuse_argument("problem text: " + quoted(word) + " needs a whole number");
  return value;
}

Op parse_op(std::string_view letter, std::string_view word) {
  for (const Op op : {Op::none, Op::transpose, Op::conjugate})
    if (letter.size() == 1 && letter[0] == letter_of(op)) return op;
  refuse_argument("problem text: " + quoted(word) + " needs n, t or c");
}

/// The words of a problem text.
struct Words {
  CallShape shape;
  Conditions conditions;
  std::string sizes;  ///< a letter for each size that was given
};

/// "dgemm", "sdot", "zdotc": complex dots have a letter more.
std::string word_of_call(Routine routine, DataType type, Op op_a) {
  std::string word = word_of(type) + std::string(traits_of(routine).word);
  if (routine == Routine::dot && is_complex(type.storage))
    word += op_a == Op::conjugate ? 'c' : 'u';
  return word;
}

CallShape parse_routine(std::string_view word) {
  for (const DataType type : kDataTypes)
    for (int routine = 0; routine < kRoutines; ++routine)
      for (const Op op : {Op::none, Op::conjugate}) {
        const auto r = static_cast<Routine>(routine);
        if (word == word_of_call(r, type, op)) return {.routine = r, .type = type, .op_a = op};
      }
  refuse_argument(
      "problem text begins with " + quoted(word) +
      "; the routines are gemm, gemmt, symm, hemm, syrk, herk, syr2k, her2k, trmm, trsm, gemv and "
      "axpy with s, d, c or z before them, sdot, ddot, cdotu, cdotc, zdotu, zdotc, hgemm, bf16gemm "
      "and tf32gemm; outside programs also potrf, getrf and geqrf with s, d, c or z before them");
}

/// The sizes that a routine has, a letter each.
std::string sizes_of(Routine routine) {
  std::string sizes;
  for (const NamedArg& argument : signature_of(routine))
    if (is_size(argument.arg)) sizes += argument.name;
  return sizes;
}

/// The letters that operands have in texts, in the order of the operands; a blank for none.
std::string_view letters_of(Routine routine) {
  return routine == Routine::gemv   ? "axy"
         : routine == Routine::axpy ? "x y"
         : routine == Routine::dot  ? "xyr"
                                    : "abc";
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
bool parse_placement(std::string_view word, Words& words) {
  if (word.size() < 2 || word[1] != '@') return false;
  const RoutineTraits& traits = words.shape.traits();
  const std::size_t operand = letters_of(words.shape.routine).find(word[0]);
  if (operand == std::string_view::npos || word[0] == ' ') return false;
  if (operand == kB && !traits.has_b)
    refuse_argument("problem text: " + quoted(word) + ": " + traits.word + " has no B");
  std::string_view place = word.substr(2);
  if (place.ends_with('*')) {
    place.remove_suffix(1);
    if (operand == kC)
      refuse_argument("problem text: " + quoted(word) + ": C cannot be shared by a batch");
    if (words.shape.routine != Routine::gemm)
      refuse_argument("problem text: " + quoted(word) + ": only gemm has batches");
    (operand == kA ? words.conditions.share_a : words.conditions.share_b) = true;
  }
  words.conditions.homes[operand] = parse_place(place);
  return true;
}

/// One of two letters.
bool parse_choice(std::string_view value, std::string_view word, char no, char yes) {
  if (value.size() == 1 && (value[0] == no || value[0] == yes)) return value[0] == yes;
  refuse_argument("problem text: " + quoted(word) + " needs " + no + " or " + yes);
}

/// Sizes: "m=8192", and "size=64" for every size of the routine.
bool parse_size(std::string_view name, std::string_view value, std::string_view word,
                Words& words) {
  const std::string sizes = sizes_of(words.shape.routine);
  const bool all = name == "size";
  if (!all && (name.size() != 1 || sizes.find(name) == std::string::npos)) return false;
  const std::int64_t size = parse_count(value, word);
  for (const char letter : all ? std::string_view(sizes) : name) {
    (letter == 'm' ? words.shape.m : letter == 'n' ? words.shape.n : words.shape.k) = size;
    words.sizes += letter;
  }
  return true;
}

/// "transa=t", "uplo=u", "side=r", "diag=u", "alpha=0", "beta=0", "batch=16", and sizes. Refuses
/// any other word.
void parse_setting(std::string_view word, Words& words) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos)
    refuse_argument("problem text: does not understand " + quoted(word));
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  CallShape& shape = words.shape;
  const RoutineTraits& traits = shape.traits();
  const auto is = [&](const char* setting, Arg arg) {
    return name == setting && has(signature_of(shape.routine), arg);
  };
  if (is("transa", Arg::transa)) {
    shape.op_a = parse_op(value, word);
  } else if (is("transb", Arg::transb)) {
    shape.op_b = parse_op(value, word);
  } else if (is("beta", Arg::beta)) {
    // A plan depends only on whether it is zero, so the text says no more.
    words.conditions.beta_is_zero = !parse_choice(value, word, '0', '1');
  } else if (name == "alpha" && traits.has_side()) {
    // The others say it by k == 0.
    words.conditions.alpha_is_zero = !parse_choice(value, word, '0', '1');
  } else if (is("diag", Arg::diag)) {
    shape.diag = parse_choice(value, word, 'n', 'u') ? Diag::unit : Diag::non_unit;
  } else if (is("side", Arg::side)) {
    shape.side = parse_choice(value, word, 'l', 'r') ? Side::right : Side::left;
  } else if (is("uplo", Arg::uplo)) {
    shape.uplo = parse_choice(value, word, 'l', 'u') ? Uplo::upper : Uplo::lower;
  } else if (name == "batch" && shape.routine == Routine::gemm) {
    shape.batch = parse_count(value, word);
  } else if (!parse_size(name, value, word, words)) {
    refuse_argument("problem text: does not understand " + quoted(word));
  }
}

/// A size left out is a slip, not a zero.
void require_sizes(const Words& words, std::string_view text) {
  const std::string sizes = sizes_of(words.shape.routine);
  std::string missing;
  for (const char letter : sizes)
    if (words.sizes.find(letter) == std::string::npos) missing += letter;
  if (missing.empty()) return;
  const std::string what = missing.size() == sizes.size() ? "sizes" : missing.substr(0, 1);
  refuse_argument("problem text " + quoted(text) + " gives no " + what);
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
    refuse_argument("place " + quoted(word) + " is none of h, p, or a device number");
  return kFirstDevice + device;
}

std::string to_text(const Problem& problem) {
  const RoutineTraits& traits = problem.traits();
  const auto& [a, b, c] = problem.operands;
  std::string text = word_of_call(problem.routine, problem.type, problem.op_a);
  const auto add = [&](const char* name, const std::string& value) {
    text += std::string(" ") + name + "=" + value;
  };
  for (const NamedArg& argument : signature_of(problem.routine))
    if (argument.arg == Arg::m)
      add("m", std::to_string(traits.vectors ? a.rows : problem.m));
    else if (argument.arg == Arg::n)
      add("n", std::to_string(traits.vectors ? a.cols : problem.n));
    else if (argument.arg == Arg::k)
      add("k", std::to_string(problem.k));
  for (const std::size_t operand : {kA, kB, kC}) {
    if (operand == kB && !traits.has_b) continue;
    const Operand& o = problem.operands[operand];
    const char letter = letters_of(problem.routine)[operand];
    if (letter == 'r' && o.home == kHost) continue;
    text += std::string(" ") + letter + "@" + place_word(o.home) + (o.shared ? "*" : "");
  }
  const Signature signature = signature_of(problem.routine);
  if (problem.side == Side::right) add("side", "r");
  if (problem.uplo == Uplo::upper) add("uplo", "u");
  if (problem.op_a != Op::none && has(signature, Arg::transa))
    add("transa", std::string(1, letter_of(problem.op_a)));
  if (problem.op_b != Op::none && has(signature, Arg::transb))
    add("transb", std::string(1, letter_of(problem.op_b)));
  if (problem.diag == Diag::unit) add("diag", "u");
  if (traits.has_side() && problem.k == 0 && a.rows > 0) add("alpha", "0");
  if (c.access == Access::write && has(signature, Arg::beta)) add("beta", "0");
  if (problem.batch != 1) add("batch", std::to_string(problem.batch));
  return text;
}

Problem parse_problem(std::string_view text) {
  const std::vector<std::string_view> split_words = split(text);
  if (split_words.empty()) refuse_argument("problem text is empty");
  Words words{.shape = parse_routine(split_words[0])};
  for (std::size_t i = 1; i < split_words.size(); ++i)
    if (!parse_placement(split_words[i], words)) parse_setting(split_words[i], words);
  const Problem problem = make_problem(words.shape, words.conditions);
  require_sizes(words, text);
  return problem;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// problem_text.cpp: problems and places as text, both ways. It must not know machines.
#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.hpp"
#include "problem/problem.hpp"
#include "problem/text_words.hpp"

namespace fleet {
namespace text {

void refuse(const std::string& message) { throw Error(Status::bad_argument, message); }

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

}  // namespace text

namespace {

using text::parse_count, text::parse_op, text::quoted, text::refuse;

/// The words of a problem text, for any routine.
struct Words {
  Level3Shape shape;
  std::int64_t batch = 1;
  bool share_a = false, share_b = false;
  std::string sizes;  ///< a letter for each size that was given
};

Words parse_routine(std::string_view word) {
  for (const DataType type : kDataTypes)
    for (int routine = 0; routine < kLevel3Routines; ++routine) {
      const auto r = static_cast<Routine>(routine);
      if (word == std::string(word_of(type)) + traits_of(r).word)
        return {.shape = {.routine = r, .type = type}};
    }
  refuse(
      "problem text begins with " + quoted(word) +
      "; the routines are gemm, gemmt, symm, hemm, syrk, herk, syr2k, her2k, trmm, trsm, gemv and "
      "axpy with s, d, c or z before them, sdot, ddot, cdotu, cdotc, zdotu, zdotc, hgemm, bf16gemm "
      "and tf32gemm");
}

/// The sizes that a routine has.
std::string_view sizes_of(const RoutineTraits& traits) {
  return traits.triangle ? "nk" : traits.has_side() ? "mn" : "mnk";
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
  const int operand = word[0] - 'a';
  if (operand < kA || operand > kC) return false;
  const RoutineTraits& traits = words.shape.traits();
  if (operand == kB && !traits.has_b)
    refuse("problem text: " + quoted(word) + ": " + traits.word + " has no B");
  std::string_view place = word.substr(2);
  if (place.ends_with('*')) {
    place.remove_suffix(1);
    if (operand == kC) refuse("problem text: " + quoted(word) + ": C cannot be shared by a batch");
    if (words.shape.routine != Routine::gemm)
      refuse("problem text: " + quoted(word) + ": only gemm has batches");
    (operand == kA ? words.share_a : words.share_b) = true;
  }
  words.shape.homes[static_cast<std::size_t>(operand)] = parse_place(place);
  return true;
}

/// One of two letters.
bool parse_choice(std::string_view value, std::string_view word, char no, char yes) {
  if (value.size() == 1 && (value[0] == no || value[0] == yes)) return value[0] == yes;
  refuse("problem text: " + quoted(word) + " needs " + no + " or " + yes);
}

/// Sizes: "m=8192", and "size=64" for every size of the routine.
bool parse_size(std::string_view name, std::string_view value, std::string_view word,
                Words& words) {
  const std::string_view sizes = sizes_of(words.shape.traits());
  const bool all = name == "size";
  if (!all && (name.size() != 1 || sizes.find(name) == std::string_view::npos)) return false;
  const std::int64_t size = parse_count(value, word);
  for (const char letter : all ? sizes : name) {
    (letter == 'm' ? words.shape.m : letter == 'n' ? words.shape.n : words.shape.k) = size;
    words.sizes += letter;
  }
  return true;
}

/// "transa=t", "uplo=u", "side=r", "diag=u", "alpha=0", "beta=0", "batch=16", and sizes. Refuses
/// any other word.
void parse_setting(std::string_view word, Words& words) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) refuse("problem text: does not understand " + quoted(word));
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  Level3Shape& shape = words.shape;
  const RoutineTraits& traits = shape.traits();
  if (name == "transa" && !traits.symmetric) {
    shape.op_a = parse_op(value, word);
  } else if (name == "transb" && !traits.has_side() && !traits.by_itself) {
    shape.op_b = parse_op(value, word);
  } else if (name == "beta" && !traits.triangular) {
    // A plan depends only on whether it is zero, so the text says no more.
    shape.beta_is_zero = !parse_choice(value, word, '0', '1');
  } else if (name == "alpha" && traits.has_side()) {
    // The others say it by k == 0.
    shape.alpha_is_zero = !parse_choice(value, word, '0', '1');
  } else if (name == "diag" && traits.triangular) {
    shape.diag = parse_choice(value, word, 'n', 'u') ? Diag::unit : Diag::non_unit;
  } else if (name == "side" && traits.has_side()) {
    shape.side = parse_choice(value, word, 'l', 'r') ? Side::right : Side::left;
  } else if (name == "uplo" && shape.routine != Routine::gemm) {
    shape.uplo = parse_choice(value, word, 'l', 'u') ? Uplo::upper : Uplo::lower;
  } else if (name == "batch" && shape.routine == Routine::gemm) {
    words.batch = parse_count(value, word);
  } else if (!parse_size(name, value, word, words)) {
    refuse("problem text: does not understand " + quoted(word));
  }
}

/// A size left out is a slip, not a zero.
void require_sizes(const Words& words, std::string_view text) {
  const std::string_view sizes = sizes_of(words.shape.traits());
  std::string missing;
  for (const char letter : sizes)
    if (words.sizes.find(letter) == std::string::npos) missing += letter;
  if (missing.empty()) return;
  const std::string what = missing.size() == sizes.size() ? "sizes" : missing.substr(0, 1);
  refuse("problem text " + quoted(text) + " gives no " + what);
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

std::string to_text(const Problem& problem) {
  if (problem.traits().vectors) return text::text_of_vectors(problem);
  const RoutineTraits& traits = problem.traits();
  std::string text = std::string(word_of(problem.type)) + traits.word;
  for (const char letter : sizes_of(traits))
    text += std::string(" ") + letter + "=" +
            std::to_string(letter == 'm'   ? problem.m
                           : letter == 'n' ? problem.n
                                           : problem.k);
  for (const int operand : {kA, kB, kC}) {
    if (operand == kB && !traits.has_b) continue;
    const Operand& o = problem.operands[static_cast<std::size_t>(operand)];
    text += std::string(" ") + "abc"[operand] + "@" + place_word(o.home) + (o.shared ? "*" : "");
  }
  if (traits.has_side() && problem.side == Side::right) text += " side=r";
  if (problem.uplo == Uplo::upper) text += " uplo=u";
  if (problem.op_a != Op::none) text += std::string(" transa=") + letter_of(problem.op_a);
  if (problem.op_b != Op::none && !traits.by_itself)
    text += std::string(" transb=") + letter_of(problem.op_b);
  if (problem.diag == Diag::unit) text += " diag=u";
  if (traits.has_side() && problem.k == 0 && problem.operands[kA].rows > 0) text += " alpha=0";
  if (!traits.triangular && problem.operands[kC].access == Access::write) text += " beta=0";
  if (problem.batch != 1) text += " batch=" + std::to_string(problem.batch);
  return text;
}

Problem parse_problem(std::string_view text) {
  const std::vector<std::string_view> split_words = split(text);
  if (split_words.empty()) refuse("problem text is empty");
  if (const auto problem = text::parse_vectors(split_words)) return *problem;
  Words words = parse_routine(split_words[0]);
  for (std::size_t i = 1; i < split_words.size(); ++i)
    if (!parse_placement(split_words[i], words)) parse_setting(split_words[i], words);
  const Level3Shape& shape = words.shape;
  const Problem problem = shape.routine != Routine::gemm
                              ? make_level3(shape)
                              : make_gemm({.type = shape.type,
                                           .op_a = shape.op_a,
                                           .op_b = shape.op_b,
                                           .m = shape.m,
                                           .n = shape.n,
                                           .k = shape.k,
                                           .homes = shape.homes,
                                           .beta_is_zero = shape.beta_is_zero,
                                           .batch = words.batch,
                                           .share_a = words.share_a,
                                           .share_b = words.share_b});
  require_sizes(words, text);
  return problem;
}

}  // namespace fleet

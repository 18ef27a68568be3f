// SPDX-License-Identifier: BSD-3-Clause
// factorization.cpp: factorizations as values and as text. It must not know machines.
#include "problem/factorization.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace fleet {
namespace {

std::string name_of(const Factorization& what) {
  return std::string(fleet::word_of(what.type())) + word_of(what.routine);
}

void require_size(const Factorization& what, std::int64_t size, const char* name) {
  if (size < 0)
    refuse_argument(name_of(what) + ": " + name + " = " + std::to_string(size) + " is negative");
}

/// The factorization that a text names; nothing where it names none.
std::optional<Factorization> parse_name(std::string_view word) {
  for (const Storage storage : {Storage::f32, Storage::f64, Storage::c32, Storage::c64})
    for (int routine = 0; routine < kFactorings; ++routine) {
      const Factorization what{.routine = static_cast<Factoring>(routine), .storage = storage};
      if (word == name_of(what)) return what;
    }
  return std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' '))
    if (const std::string_view bare = trimmed(word); !bare.empty()) words.push_back(bare);
  return words;
}

[[noreturn]] void refuse_word(std::string_view word, const char* why) {
  refuse_argument("problem text: '" + std::string(word) + "' " + why);
}

void parse_word(std::string_view word, Factorization& what) {
  if (word.starts_with("a@")) {
    const auto places = split(word.substr(2), '+');
    for (const std::string_view place : places) what.dealt.push_back(parse_place(place));
    what.home = what.dealt.front();
    if (places.size() == 1) what.dealt.clear();
    return;
  }
  if (word == "refined" || word == "kept") {
    (word == "kept" ? what.kept : what.refined) = true;
    return;
  }
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (name == "uplo" && what.routine == Factoring::potrf) {
    if (value != "l" && value != "u") refuse_word(word, "needs l or u");
    what.uplo = value == "u" ? Uplo::upper : Uplo::lower;
    return;
  }
  const bool has_m = what.routine != Factoring::potrf;
  if (name != "n" && name != "size" && !(name == "m" && has_m))
    refuse_word(word, "is no word of a factorization");
  const auto size = number_of<std::int64_t>(value);
  const bool has_digits_only =
      !value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos;
  if (!size) refuse_word(word, has_digits_only ? "is too large" : "needs a whole number");
  if (name != "n") what.m = *size;
  if (name != "m") what.n = *size;
}

}  // namespace

const char* word_of(Factoring routine) {
  constexpr std::array<const char*, kFactorings> kWords{"potrf", "getrf", "geqrf"};
  return kWords[static_cast<std::size_t>(routine)];
}

Factorization make_factorization(const Factorization& wanted) {
  Factorization what = wanted;
  if (is_half(what.storage)) refuse_argument("there is no routine " + name_of(what));
  if (what.routine == Factoring::potrf)
    what.m = what.n;
  else
    what.uplo = Uplo::lower;
  require_size(what, what.m, "m");
  require_size(what, what.n, "n");
  if (what.home < 0)
    refuse_argument(name_of(what) + ": location " + std::to_string(what.home) + " is negative");
  if (!what.dealt.empty()) what.home = what.dealt.front();
  for (std::size_t d = 0; d < what.dealt.size(); ++d)
    if (on_host(what.dealt[d]) || std::ranges::count(what.dealt, what.dealt[d]) > 1)
      refuse_argument(name_of(what) + ": columns are dealt among devices, to each once");
  if (!what.dealt.empty() && what.uplo == Uplo::upper)
    refuse_argument(name_of(what) + ": an upper triangle is cut into rows, and columns are dealt");
  if (what.refined &&
      (what.routine != Factoring::getrf || what.m != what.n || is_wide(what.storage)))
    refuse_argument(name_of(what) + ": refined are square sgetrf and cgetrf");
  if (what.refined && on_host(what.home))
    refuse_argument(name_of(what) + ": what is refined is factored where it lies on devices");
  if (what.kept && (what.routine != Factoring::getrf || what.m != what.n || !on_host(what.home)))
    refuse_argument(name_of(what) + ": kept are factors of square getrf of matrices on the host");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / bytes_of(what.storage);
  if (what.n > 0 && what.m > most / what.n)
    refuse_argument(name_of(what) + ": A has more bytes than 64 bits can count");
  return what;
}

double flops(const Factorization& what) {
  const auto m = static_cast<double>(what.m), n = static_cast<double>(what.n);
  const double k = static_cast<double>(what.diagonal());
  // Multiply-adds of the products of a right-looking factorization, to the leading order.
  const double lu = m * n * k - (m + n) * k * k / 2 + k * k * k / 3;
  const double multiply_adds = what.routine == Factoring::potrf   ? n * n * n / 6
                               : what.routine == Factoring::getrf ? lu
                                                                  : 2 * lu;
  return (is_complex(what.storage) ? 8 : 2) * multiply_adds;
}

Problem product_like(const Factorization& what) {
  return make_problem({.type = what.type(),
                       .m = what.m,
                       .n = what.n,
                       .k = std::max<std::int64_t>(1, what.diagonal() / 3)},
                      {.homes = {what.home, what.home, what.home}});
}

std::string to_text(const Factorization& what) {
  std::string text = name_of(what);
  if (what.routine != Factoring::potrf) text += " m=" + std::to_string(what.m);
  text += " n=" + std::to_string(what.n) + " a@" + place_word(what.home);
  for (std::size_t d = 1; d < what.dealt.size(); ++d)
    text += std::string("+") + place_word(what.dealt[d]);
  if (what.uplo == Uplo::upper) text += " uplo=u";
  if (what.refined) text += " refined";
  if (what.kept) text += " kept";
  return text;
}

bool names_factorization(std::string_view text) {
  const auto words = words_of(text);
  return !words.empty() && parse_name(words.front()).has_value();
}

Factorization parse_factorization(std::string_view text) {
  const auto words = words_of(text);
  const auto named = words.empty() ? std::nullopt : parse_name(words.front());
  if (!named)
    refuse_argument("problem text begins with '" + std::string(words.empty() ? "" : words.front()) +
                    "'; the factorizations are potrf, getrf and geqrf with s, d, c or z before "
                    "them");
  Factorization what = *named;
  for (std::size_t w = 1; w < words.size(); ++w) parse_word(words[w], what);
  return make_factorization(what);
}

}  // namespace fleet

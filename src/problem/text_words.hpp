// SPDX-License-Identifier: BSD-3-Clause
// text_words.hpp: what problem texts share, and the texts of problems with vectors.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace fleet::text {

[[noreturn]] void refuse(const std::string& message);
std::string quoted(std::string_view word);
/// A plain decimal number and nothing else. `word` is what the message shows.
std::int64_t parse_count(std::string_view digits, std::string_view word);
Op parse_op(std::string_view letter, std::string_view word);

/// The problem that these words name, its routine first; nothing if that has no vectors.
std::optional<Problem> parse_vectors(std::span<const std::string_view> words);
std::string text_of_vectors(const Problem& problem);

}  // namespace fleet::text

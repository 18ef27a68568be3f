// SPDX-License-Identifier: BSD-3-Clause
// composition.cpp: the text of calls that share matrices, and their tile program.
#include "program/composition.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "program/expand.hpp"

namespace fleet {
namespace {

[[noreturn]] void refuse_line(int line, const std::string& what) {
  throw Error(Status::bad_argument, "line " + std::to_string(line) + " of the program: " + what);
}

bool is_name(std::string_view word) {
  const auto is_letter = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  return !word.empty() && is_letter(word[0]) && std::ranges::all_of(word, [&](char c) {
    return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

/// Which operand a letter stands for in problem texts: x and y are B and C of gemv, A and C of
/// axpy, A and B of dot.
int operand_of(char letter, Routine routine) {
  switch (letter) {
    case 'a':
      return kA;
    case 'b':
      return kB;
    case 'x':
      return routine == Routine::gemv ? kB : kA;
    case 'y':
      return routine == Routine::dot ? kB : kC;
    default:
      return kC;
  }
}

/// "a=NAME@PLACE" becomes "a@PLACE", and the name is kept by its letter; so are block-cyclic
/// places, for which problems have no word.
struct Line {
  std::string text;  ///< with single blanks
  std::string problem;
  std::vector<std::pair<char, std::string>> names;
  std::vector<std::pair<char, CyclicPlace>> cyclic;
};

/// Throws Error(bad_argument).
Line split_names(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  Line line;
  for (auto begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(kSpace, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = text.find_first_not_of(kSpace, end);
    const char* const blank = line.problem.empty() ? "" : " ";
    line.problem += blank;
    line.text += blank;
    line.text += word;
    const auto at = word.find('@');
    const bool is_named = at != std::string_view::npos && word.size() > 1 && word[1] == '=';
    if (!is_named && at != 1) {
      line.problem += word;
      continue;
    }
    const std::string_view name = is_named ? word.substr(2, at - 2) : "",
                           place = word.substr(at + 1);
    if (is_named && !is_name(name))
      throw Error(Status::bad_argument,
                  "'" + std::string(word) + "' needs a name of letters, digits and _");
    if (is_named) line.names.emplace_back(word[0], name);
    if (is_cyclic(place)) line.cyclic.emplace_back(word[0], parse_cyclic(place));
    line.problem += word.substr(0, 1);
    line.problem += '@';
    line.problem += is_cyclic(place) ? "h" : place;
  }
  return line;
}

/// What a name stands for: the first operand that had it.
struct Named {
  Storage storage;
  Operand operand;
  std::int64_t batch;
};

/// What a line says of operand x, if anything.
template <typename What>
std::optional<What> said_of(int x, Routine routine,
                            const std::vector<std::pair<char, What>>& words) {
  std::optional<What> said;
  for (const auto& [letter, what] : words)
    if (operand_of(letter, routine) == x) said = what;
  return said;
}

}  // namespace

Composition parse_composition(std::string_view text) {
  Composition composition;
  std::vector<Named> known;  // per matrix
  int number = 0;
  while (!text.empty()) {
    ++number;
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Line line;
    Composition::Call call;
    try {
      line = split_names(whole.substr(0, whole.find('#')));
      if (line.problem.empty()) continue;
      call = {.problem = parse_problem(line.problem), .text = line.text};
    } catch (const Error& error) {
      refuse_line(number, error.what());
    }
    const RoutineTraits& traits = call.problem.traits();
    for (const int x : {kA, kB, kC}) {
      if (x == kB && !traits.has_b) continue;
      const Operand& operand = call.problem.operands[static_cast<std::size_t>(x)];
      const std::string name = said_of(x, call.problem.routine, line.names).value_or("");
      const auto cyclic = said_of(x, call.problem.routine, line.cyclic);
      if (cyclic && call.problem.batch > 1)
        refuse_line(number, "the matrices of a batch cannot be block-cyclic");
      const auto found =
          name.empty() ? composition.names.end() : std::ranges::find(composition.names, name);
      auto& matrix = call.matrices[static_cast<std::size_t>(x)];
      matrix = static_cast<int>(found - composition.names.begin());
      if (found == composition.names.end()) {
        composition.names.push_back(name);
        composition.cyclic.push_back(cyclic);
        known.push_back({call.problem.type.storage, operand, call.problem.batch});
        continue;
      }
      if (composition.cyclic[static_cast<std::size_t>(matrix)] != cyclic)
        refuse_line(number, "matrix " + name + " is block-cyclic in one way in all calls, or none");
      const Named& first = known[static_cast<std::size_t>(matrix)];
      if (first.storage != call.problem.type.storage || first.operand.rows != operand.rows ||
          first.operand.cols != operand.cols || first.operand.home != operand.home ||
          first.operand.shared != operand.shared || first.batch != call.problem.batch)
        refuse_line(number, "matrix " + name + " was " + std::to_string(first.operand.rows) +
                                " x " + std::to_string(first.operand.cols) + " at " +
                                place_word(first.operand.home) + " before, and is " +
                                std::to_string(operand.rows) + " x " +
                                std::to_string(operand.cols) + " at " + place_word(operand.home) +
                                " here; type and batch must be the same too");
    }
    if (call.matrices[kC] == call.matrices[kA] || call.matrices[kC] == call.matrices[kB])
      refuse_line(number, "the call reads the matrix that it writes");
    composition.calls.push_back(std::move(call));
  }
  if (composition.calls.empty())
    throw Error(Status::bad_argument, "the program has no call: one problem a line is expected");
  return composition;
}

std::int64_t regular_edge(std::int64_t size, const RegularTiles& tiles) {
  constexpr std::int64_t kPieces = 2;
  if (tiles.tile != 0) return tiles.tile;
  std::int64_t tile = tiles.most;
  const std::int64_t even = size / (kPieces * std::max(1, tiles.devices));
  while (tile / 2 >= std::max(tiles.least, even)) tile /= 2;
  return tile;
}

Cuts regular_cuts(std::int64_t size, const RegularTiles& tiles) {
  const std::int64_t tile = regular_edge(size, tiles);
  Cuts cuts{0};
  // A last piece of less than half a tile is not worth its latency.
  while (size - cuts.back() > tile + tile / 2) cuts.push_back(cuts.back() + tile);
  if (size > 0) cuts.push_back(size);
  return cuts;
}

CallCuts regular_cuts(const Problem& problem, const RegularTiles& tiles) {
  return {regular_cuts(problem.m, tiles), regular_cuts(problem.n, tiles),
          regular_cuts(problem.k, tiles)};
}

CallCuts cuts_of_call(const Problem& problem, const RegularTiles& tiles,
                      const Distributions& distributions) {
  CallCuts cuts = regular_cuts(problem, tiles);
  const RoutineTraits& traits = problem.traits();
  // Of two dimensions that are cut alike, the one that stands for both.
  const auto known_as = [&](CutsOf dimension) {
    if (traits.triangle && dimension == &CallCuts::n) return &CallCuts::m;
    if (traits.has_side() && dimension == &CallCuts::k)
      return problem.side == Side::left ? &CallCuts::m : &CallCuts::n;
    return dimension;
  };
  std::vector<CutsOf> done;
  for (const int x : {kC, kA, kB}) {
    const auto& distribution = distributions[static_cast<std::size_t>(x)];
    if (!distribution) continue;
    const auto [along_rows, along_cols] = stored_dimensions(problem, x);
    for (const auto& [asked, at] :
         {std::pair(along_rows, distribution->row), std::pair(along_cols, distribution->col)}) {
      const CutsOf dimension = known_as(asked);
      if (std::ranges::find(done, dimension) != done.end()) continue;
      done.push_back(dimension);
      cuts.*dimension = distribution->cuts_of((cuts.*dimension).back(), at);
    }
  }
  if (traits.triangle) cuts.n = cuts.m;
  if (traits.has_side() && problem.k > 0) cuts.k = problem.side == Side::left ? cuts.m : cuts.n;
  return cuts;
}

TileProgram expand(const Composition& composition, const RegularTiles& tiles) {
  TileProgram program;
  std::vector<MatrixId> ids(composition.names.size(), kNoMatrix);
  std::vector<std::optional<Distribution>> made(composition.names.size());
  for (std::size_t c = 0; c < composition.calls.size(); ++c) {
    const Composition::Call& call = composition.calls[c];
    std::array<MatrixId, 3> matrices{kNoMatrix, kNoMatrix, kNoMatrix};
    for (std::size_t x = 0; x < 3; ++x)
      if (call.matrices[x] >= 0) matrices[x] = ids[static_cast<std::size_t>(call.matrices[x])];
    // Of a new matrix that is both factors: the id that A is going to have.
    if (call.matrices[kB] >= 0 && call.matrices[kB] == call.matrices[kA] &&
        matrices[kA] == kNoMatrix)
      matrices[kB] = static_cast<MatrixId>(program.matrices.size());
    Distributions distributions;
    for (std::size_t x = 0; x < 3; ++x) {
      if (call.matrices[x] < 0) continue;
      const auto at = static_cast<std::size_t>(call.matrices[x]);
      const Operand& operand = call.problem.operands[x];
      if (composition.cyclic[at] && !made[at])
        made[at] = distribution_of(*composition.cyclic[at], operand.rows, operand.cols, tiles);
      distributions[x] = made[at];
    }
    const CallCuts cuts = cuts_of_call(call.problem, tiles, distributions);
    try {
      append(program, call.problem, cuts, matrices);
    } catch (const Error& error) {
      throw Error(error.status(), "call " + std::to_string(c + 1) + ", " + to_text(call.problem) +
                                      ": " + error.what());
    }
    for (std::size_t x = 0; x < 3; ++x)
      if (call.matrices[x] >= 0)
        ids[static_cast<std::size_t>(call.matrices[x])] = program.calls.back().matrices[x];
  }
  for (std::size_t m = 0; m < made.size(); ++m) {
    if (!made[m] || ids[m] == kNoMatrix) continue;
    Matrix& matrix = program.matrices[static_cast<std::size_t>(ids[m])];
    matrix.distribution = made[m];
    matrix.stays = true;
    matrix.returns = false;
  }
  return program;
}

}  // namespace fleet

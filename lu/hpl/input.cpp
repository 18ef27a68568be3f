// SPDX-License-Identifier: BSD-3-Clause
// input.cpp: each line has its values first and its meaning after them.
#include "hpl/input.hpp"

#include <limits>
#include <sstream>

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

/// Lists longer than this are a mistake: HPL takes 20.
constexpr int kMostValues = 1000;

class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : stream_(std::string(text)), file_(file) {}

  std::istringstream next() {
    std::string line;
    ++number_;
    if (!std::getline(stream_, line)) fail("is missing");
    return std::istringstream(line);
  }
  void skip() { next(); }

  std::string word() {
    std::string word;
    if (!(next() >> word)) fail("is empty");
    return word;
  }
  template <typename Number>
  Number number(const char* name, Number least, Number most) {
    std::istringstream line = next();
    return value<Number>(line, name, least, most);
  }
  template <typename Number>
  std::vector<Number> numbers(int count, const char* name, Number least, Number most) {
    std::istringstream line = next();
    std::vector<Number> found;
    for (int i = 0; i < count; ++i) found.push_back(value<Number>(line, name, least, most));
    return found;
  }
  /// A line with a count, and one with so many numbers.
  template <typename Number>
  std::vector<Number> list(const char* name, Number least, Number most) {
    const int count = number<int>("count", 1, kMostValues);
    return numbers<Number>(count, name, least, most);
  }

 private:
  template <typename Number>
  Number value(std::istringstream& line, const char* name, Number least, Number most) const {
    std::string word;
    line >> word;
    std::istringstream text(word);
    Number found{};
    if (!(text >> found) || !text.eof())
      fail(std::string("needs ") + name + (word.empty() ? "" : ", not '" + word + "'"));
    if (!(found >= least && found <= most)) fail("has " + word + ", which is no " + name);
    return found;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure(file_ + ": line " + std::to_string(number_) + " " + what);
  }

  std::istringstream stream_;
  const std::string& file_;
  int number_ = 0;
};

char letter(int factorization) { return "LCR"[factorization]; }

}  // namespace

Input parse_input(std::string_view text, const std::string& file) {
  // N*(N+1) numbers are counted by 64 bits.
  constexpr auto kMany = std::int64_t{1} << 31;
  constexpr int kManyRanks = 1 << 24;
  Lines lines(text, file);
  Input input;
  lines.skip();
  lines.skip();
  input.file = lines.word();
  input.device = lines.number<int>("output device", 0, kManyRanks);
  input.orders = lines.list<std::int64_t>("N", 0, kMany);
  input.blocks = lines.list<std::int64_t>("NB", 1, kMany);
  input.column_major = lines.number<int>("PMAP (0 or 1)", 0, 1) == 1;
  const int grids = lines.number<int>("count", 1, kMostValues);
  const auto rows = lines.numbers<int>(grids, "P", 1, kManyRanks);
  const auto cols = lines.numbers<int>(grids, "Q", 1, kManyRanks);
  for (std::size_t i = 0; i < rows.size(); ++i) input.grids.push_back({rows[i], cols[i]});
  input.threshold = lines.number<double>("threshold", std::numeric_limits<double>::lowest(),
                                         std::numeric_limits<double>::max());
  input.pfact = letter(lines.list<int>("PFACT (0, 1 or 2)", 0, 2).front());
  input.nbmin = lines.list<int>("NBMIN", 1, kManyRanks).front();
  input.ndiv = lines.list<int>("NDIV", 2, kManyRanks).front();
  input.rfact = letter(lines.list<int>("RFACT (0, 1 or 2)", 0, 2).front());
  input.bcast = lines.list<int>("BCAST (0 to 5)", 0, 5).front();
  input.depths = lines.list<int>("DEPTH", 0, kManyRanks);
  // Swapping, its threshold, the forms of L1 and U, equilibration and alignment: nothing here, and
  // HPL's own files may end before them.
  return input;
}

}  // namespace fleet::lu

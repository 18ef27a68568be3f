// SPDX-License-Identifier: BSD-3-Clause
// options.cpp: "cores=4;patience_s=60".
#include "mpi_api/options.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "comm/comm.hpp"
#include "routines/described.hpp"

namespace fleet::lu {
namespace {

[[noreturn]] void refuse(std::string_view word) {
  throw Refusal(FLEET_BAD_OPTION, "option '" + std::string(word) +
                                      "' means nothing: cores=N, patience_s=N, overlap=full, "
                                      "overlap=none, devices=auto, devices=none, devices=always, "
                                      "with ; between them");
}

OwnDevice::Use use(std::string_view text, std::string_view word) {
  if (text == "auto") return OwnDevice::Use::where_it_pays;
  if (text == "always") return OwnDevice::Use::always;
  if (text != "none") refuse(word);
  return OwnDevice::Use::never;
}

int number(std::string_view text, std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) refuse(word);
  return value;
}

void apply(std::string_view words, GridOptions& options) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(';'));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == word.npos) refuse(word);
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "cores") {
      options.cores = number(value, word);
    } else if (name == "patience_s") {
      options.patience_s = number(value, word);
      if (options.patience_s == 0) options.patience_s = kForever;
    } else if (name == "overlap" && (value == "full" || value == "none")) {
      options.overlap = value == "full" ? Overlap::full : Overlap::none;
    } else if (name == "devices") {
      options.devices = use(value, word);
    } else {
      refuse(word);
    }
  }
}

}  // namespace

GridOptions grid_options(const char* words) {
  GridOptions options;
  if (const char* const set = std::getenv("FLEETBLAS_MPI")) apply(set, options);
  if (words != nullptr) apply(words, options);
  return options;
}

}  // namespace fleet::lu

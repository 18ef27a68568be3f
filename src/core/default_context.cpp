// SPDX-License-Identifier: BSD-3-Clause
// default_context.cpp: the one context that nobody creates and nobody destroys. It knows no calls.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "core/context.hpp"

namespace fleet {
namespace {

// Leaked on purpose: threads may be inside when the process ends.
std::atomic<Context*> the_context{nullptr};

/// What only a context can judge, in the order in which settings are given up where two do not fit
/// together: devices before the machine that has them, and a backend last.
constexpr std::array<std::string_view, 6> kJudgedLate = {"rules",   "preset",  "cpu_blas",
                                                         "devices", "machine", "backend"};

/// Empty: there is a context with these options.
std::string failure_of(const Options& options) {
  try {
    const Context context(options);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

bool is_set(const Options& options, const OptionInfo& info) {
  const auto row = static_cast<std::size_t>(&info - option_table().data());
  return row < options.origins.size() && options.origins[row] != Origin::fallback;
}

/// Gives its default back to the setting that this failure is about: without it there is none, or
/// another one. Its name; empty: it is about none.
std::string reset_guilty(Options& options, const std::string& failure) {
  for (const std::string_view name : kJudgedLate) {
    const OptionInfo& info = *std::ranges::find(option_table(), name, &OptionInfo::name);
    if (!is_set(options, info)) continue;
    Options without = options;
    set_option(without, name, info.fallback, Origin::fallback);
    if (failure_of(without) == failure) continue;
    options = std::move(without);
    return std::string(name);
  }
  return {};
}

/// A program that did not ask for the library must not fail for a wrong setting, nor lose the
/// others.
std::unique_ptr<Context> make_context(Options& options, std::vector<std::string>& complaints) {
  for (;;) {
    std::string failure;
    try {
      return std::make_unique<Context>(options);
    } catch (const Error& error) {
      failure = error.what();
    }
    const std::string name = reset_guilty(options, failure);
    complaints.push_back(
        failure + "; " +
        (name.empty() ? "the defaults are used" : "the default of " + name + " is used"));
    if (name.empty()) break;
  }
  Options plain;
  plain.verbose = options.verbose;
  plain.log_level = options.log_level;
  plain.log_file = options.log_file;
  plain.summary = options.summary;
  plain.trace = options.trace;
  plain.cache_dir = options.cache_dir;
  return std::make_unique<Context>(plain);
}

/// Not part of default_context(), which every small call runs.
[[gnu::noinline]] Context& make_default_context() {
  // No lock: in a forked child it could be held for ever. Of two that are made at once one is
  // dropped; neither has started anything yet.
  std::vector<std::string> complaints;
  Options options = read_options(complaints);
  auto fresh = make_context(options, complaints);
  Context* expected = nullptr;
  if (!the_context.compare_exchange_strong(expected, fresh.get())) return *expected;
  // Other threads may use the context from here on: it stays whatever fails.
  Context& made = *fresh.release();
  try {
    made.open_books(complaints);
  } catch (const std::bad_alloc&) {
    // Without memory there are no books.
  }
  return made;
}

}  // namespace

Context& default_context() {
  Context* const made = the_context.load(std::memory_order_acquire);
  return made != nullptr ? *made : make_default_context();
}

}  // namespace fleet

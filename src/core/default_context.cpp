// SPDX-License-Identifier: BSD-3-Clause
// default_context.cpp: the one context that nobody creates and nobody destroys. It knows no calls.
#include <atomic>
#include <memory>
#include <new>

#include "base/error.hpp"
#include "core/context.hpp"

namespace fleet {
namespace {

// Leaked on purpose: threads may be inside when the process ends.
std::atomic<Context*> the_context{nullptr};

/// A program that did not ask for the library must not fail for a wrong setting.
std::unique_ptr<Context> make_context(Options& options, std::vector<std::string>& complaints) {
  try {
    return std::make_unique<Context>(options);
  } catch (const Error& error) {
    complaints.push_back(std::string(error.what()) + "; the defaults are used");
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

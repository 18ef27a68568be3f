// SPDX-License-Identifier: BSD-3-Clause
// lapack_symbols.cpp: the table of LAPACK's names. It must not decide what is offloaded.
#include "preload/lapack_symbols.hpp"

#include <dlfcn.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "preload/front.hpp"
#include "preload/objects.hpp"

// Defined in lapack_entries.cpp with their full signatures; here only their addresses matter.
#define FLEET_DECLARE(name, ...)                                      \
  extern "C" [[gnu::visibility("hidden")]] void fleet_entry_##name(); \
  extern "C" [[gnu::visibility("hidden")]] void fleet_adapter_##name();
FLEET_LAPACK_NAMES(FLEET_DECLARE)
#undef FLEET_DECLARE

namespace fleet::preload {

#define FLEET_SYMBOL(name, word, routine, T, Int, lengths, xerbla, ddot)                 \
  {{#name, &fleet_entry_##name}, #word, 8 * static_cast<int>(sizeof(Int)), xerbla, ddot, \
   &fleet_adapter_##name},
constinit LapackSymbol lapack_symbols[kLapackCount] = {FLEET_LAPACK_NAMES(FLEET_SYMBOL)};
#undef FLEET_SYMBOL

namespace {

constexpr const char* kNames[] = {
#define FLEET_NAME(name, ...) #name,
    FLEET_LAPACK_NAMES(FLEET_NAME)
#undef FLEET_NAME
};

constexpr bool goes_before(const char* x, const char* y) {
  for (; *x && *x == *y; ++x, ++y)
    ;
  return *x < *y;
}

// The rows in the order of their names.
constexpr auto kRowsByName = [] {
  std::array<short, kLapackCount> rows{};
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<short>(row);
  std::ranges::sort(rows, goes_before, [](short row) { return kNames[row]; });
  return rows;
}();

}  // namespace

Served* find_lapack(const char* name) {
  const auto at =
      std::ranges::lower_bound(kRowsByName, name, goes_before, [](short r) { return kNames[r]; });
  const bool found = at != kRowsByName.end() && strcmp(kNames[*at], name) == 0;
  return found ? &lapack_symbols[*at] : nullptr;
}

void forget_patched_lapack() {
  for (LapackSymbol& symbol : lapack_symbols)
    symbol.patched.store(nullptr, std::memory_order_release);
}

void* resolve_behind(LapackId id, const void* caller) {
  LapackSymbol& symbol = lapack_symbols[id];
  void* function = find_same_name(symbol, caller);
  // Not remembered: the core may load a LAPACK, whose calls of itself come here too.
  if (!function) return reinterpret_cast<void*>(symbol.adapter);
  symbol.behind.store(function, std::memory_order_release);
  return function;
}

bool has_named_ints(LapackId id, const void* caller) {
  using Ints = LapackSymbol::Ints;
  LapackSymbol& symbol = lapack_symbols[id];
  if (symbol.int_bits == 64) return true;
  if (symbol.ints.load(std::memory_order_relaxed) == Ints::unknown) {
    void* library = library_of(behind_of(id, caller));
    void* ddot = library ? find_in(library, symbol.ddot) : nullptr;
    const bool wider = ddot && !has_narrow_ints(ddot);
    symbol.ints.store(wider ? Ints::wider : Ints::as_named, std::memory_order_relaxed);
    if (library) dlclose(library);
  }
  return symbol.ints.load(std::memory_order_relaxed) == Ints::as_named;
}

}  // namespace fleet::preload

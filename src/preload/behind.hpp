// SPDX-License-Identifier: BSD-3-Clause
// behind.hpp: the BLAS behind us: where each symbol would have led without this library. It knows
// nothing of the core's decisions.
#pragma once
#include <atomic>

#include "api/dropin.h"
#include "preload/names.hpp"

namespace fleet::preload {

/// A row of the table of names, and where that name leads.
struct Symbol {
  const char* name;
  const char* word;  ///< the routine in that name
  Routine routine;
  char type;
  Shape shape;
  int int_bits;
  const char* xerbla;
  const char* cblas_xerbla;
  void (*entry)();    ///< our own function of that name, its signature left out
  void (*adapter)();  ///< of the same signature, for where that name exists nowhere else
  /// Calls `function`, which has this row's signature. The call's sizes must fit int_bits.
  void (*invoke)(void* function, const fleet_dropin_call& call);

  std::atomic<void*> behind{nullptr};   ///< nullptr until it is resolved
  std::atomic<void*> patched{nullptr};  ///< where a patched GOT entry of this name led before
  std::atomic<void*> other{nullptr};    ///< the same routine under another name,
  std::atomic<int> other_row{0};        ///< and that name's row
};
extern Symbol symbols[kSymbolCount];

/// Finds and remembers the function behind a symbol. `caller` is an address in the calling code.
/// Where no loaded library has that very name, the answer is the adapter, which calls
/// run_elsewhere.
void* resolve_behind(SymbolId id, const void* caller);

/// The function behind a symbol.
inline void* behind_of(SymbolId id, const void* caller) {
  void* behind = symbols[id].behind.load(std::memory_order_acquire);
  return behind ? behind : resolve_behind(id, caller);
}

/// Is there a BLAS with that very name?
inline bool is_behind(SymbolId id, const void* caller) {
  return behind_of(id, caller) != reinterpret_cast<void*>(symbols[id].adapter);
}

/// Does a call whose own name exists nowhere: under another name, else by the core's CPU BLAS, else
/// by plain loops.
void run_elsewhere(SymbolId id, const fleet_dropin_call& call);

}  // namespace fleet::preload

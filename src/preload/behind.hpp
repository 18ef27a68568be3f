// SPDX-License-Identifier: BSD-3-Clause
// behind.hpp: the BLAS behind us: where each symbol would have led without this library. It knows
// nothing of the core's decisions.
#pragma once
#include <atomic>

#include "api/dropin.h"
#include "preload/names.hpp"

namespace fleet::preload {

/// A name that we stand in front of, and where it leads without us.
struct Served {
  const char* name;
  void (*entry)();  ///< our own function of that name, its signature left out

  std::atomic<void*> behind{nullptr};   ///< nullptr until it is resolved
  std::atomic<void*> patched{nullptr};  ///< where a patched GOT entry of this name led before
};

/// A row of the table of names.
struct Symbol : Served {
  const char* word;  ///< the routine in that name
  Routine routine;
  char type;
  Shape shape;
  int int_bits;
  const char* xerbla;
  const char* cblas_xerbla;
  void (*adapter)();  ///< of the same signature, for where that name exists nowhere else
  /// Calls `function`, which has this row's signature. The call's sizes must fit int_bits.
  void (*invoke)(void* function, const fleet_dropin_call& call);

  std::atomic<void*> other{nullptr};  ///< the same routine under another name,
  std::atomic<int> other_row{0};      ///< and that name's row
};
extern Symbol symbols[kSymbolCount];

/// The function of that very name in the loaded libraries, neither ours nor in front of us, which
/// stays loaded then; nullptr if there is none. `caller` is an address in the calling code.
void* find_same_name(const Served& served, const void* caller);

/// True if a library's ddot takes sizes of 32 bits.
bool has_narrow_ints(void* ddot);

/// Finds and remembers the function behind a symbol. Where no loaded library has that very name,
/// the answer is the adapter, which calls run_elsewhere.
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

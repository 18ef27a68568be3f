// SPDX-License-Identifier: BSD-3-Clause
// lapack_symbols.hpp: the LAPACK behind us: where each of its names would have led without this
// library. It knows nothing of the core's decisions.
#pragma once
#include "api/dropin.h"
#include "preload/behind.hpp"
#include "preload/lapack_names.hpp"

namespace fleet::preload {

/// A row of the table of LAPACK's names.
struct LapackSymbol : Served {
  const char* word;  ///< "dgetrf"
  int int_bits;
  const char* xerbla;
  const char* ddot;   ///< the name of ddot in the same family
  void (*adapter)();  ///< of the same signature as `entry`, for where there is no LAPACK behind

  enum class Ints : char { unknown, as_named, wider };
  std::atomic<Ints> ints{Ints::unknown};  ///< of the function behind
};
extern LapackSymbol lapack_symbols[kLapackCount];

/// Finds and remembers the function behind a name. Where no loaded library has it, the answer is
/// the adapter.
void* resolve_behind(LapackId id, const void* caller);

inline void* behind_of(LapackId id, const void* caller) {
  void* behind = lapack_symbols[id].behind.load(std::memory_order_acquire);
  return behind ? behind : resolve_behind(id, caller);
}

/// False where the LAPACK behind has integers of 64 bits under a name without `64`, as MKL may:
/// what it is passed and returns cannot be told from the name then.
bool has_named_ints(LapackId id, const void* caller);

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// lapack_ilaenv.cpp: LAPACK's question for a block size, answered for devices where a routine that
// is not served leaves its work to level 3. It must not decide whether devices help.
//
// LAPACK's routines call ilaenv by its name. The blocks of the reference, of 32 or 64 columns, are
// so narrow that no device helps with the updates. Larger ones pay only where the work outside of
// level 3 stays small with them: gelqf, orglq, sytrf and their kin take longer even on the CPU,
// since they do a panel of nb columns one column after another.
#include <dlfcn.h>
#include <string.h>

#include <algorithm>

#include "preload/behind.hpp"
#include "preload/objects.hpp"
#include "preload/preload.hpp"

// The names of ilaenv, for an X macro with the columns
//   name   the exported symbol
//   Int    integers: int32_t (LP64) or int64_t (ILP64)
//   ddot   ddot in the same family of names (lapack_names.hpp)
#define FLEET_ILAENV_NAMES(X)                   \
  X(ilaenv_, std::int32_t, "ddot_")             \
  X(scipy_ilaenv_, std::int32_t, "scipy_ddot_") \
  X(ilaenv_64_, std::int64_t, "ddot_64_")       \
  X(ilaenv64_, std::int64_t, "ddot64_")         \
  X(scipy_ilaenv_64_, std::int64_t, "scipy_ddot_64_")

namespace fleet::preload {
namespace {

/// A routine whose blocks may be larger.
struct Blocked {
  const char* word;        ///< without the letter of the type
  const char* types;       ///< that have it
  std::int64_t reference;  ///< the block size of the reference, in columns
  std::int64_t most;       ///< what fits into the routine's own arrays, or more than is of use
};
constexpr Blocked kBlocked[] = {
    {.word = "sygst", .types = "sd", .reference = 64, .most = 1024},
    {.word = "hegst", .types = "cz", .reference = 64, .most = 1024},
    // Asked by trevc3, which has NBMAX = 128.
    {.word = "trevc", .types = "sdcz", .reference = 64, .most = 128},
    // NBMAX = 64.
    {.word = "ormlq", .types = "sd", .reference = 32, .most = 64},
    {.word = "ormql", .types = "sd", .reference = 32, .most = 64},
    {.word = "ormrq", .types = "sd", .reference = 32, .most = 64},
    {.word = "unmlq", .types = "cz", .reference = 32, .most = 64},
    {.word = "unmql", .types = "cz", .reference = 32, .most = 64},
    {.word = "unmrq", .types = "cz", .reference = 32, .most = 64},
};
constexpr std::size_t kNameLength = 6;
/// The least number of blocks along each size of a problem: outside of level 3 sygst does less than
/// a hundredth of its work then.
constexpr std::int64_t kLeastBlocks = 16;
constexpr std::int64_t kBlockSize = 1;  // ISPEC
constexpr std::int64_t kUnused = -1;

enum class Kind : char { unknown, apart, one_with_blas };

struct IlaenvSymbol : Served {
  const char* ddot;
  std::atomic<Kind> kind{Kind::unknown};
};

enum IlaenvId : int {
#define FLEET_ID(name, ...) ki_##name,
  FLEET_ILAENV_NAMES(FLEET_ID)
#undef FLEET_ID
      kIlaenvCount
};

// No entry: nothing is gained by patching, since LAPACK's calls of its own ilaenv are left alone.
#define FLEET_SYMBOL(name, Int, ddot) {{#name, nullptr}, ddot},
constinit IlaenvSymbol ilaenv_symbols[kIlaenvCount] = {FLEET_ILAENV_NAMES(FLEET_SYMBOL)};
#undef FLEET_SYMBOL

void* behind_of(IlaenvSymbol& symbol, const void* caller) {
  void* behind = symbol.behind.load(std::memory_order_acquire);
  if (behind) return behind;
  behind = find_same_name(symbol, caller);
  symbol.behind.store(behind, std::memory_order_release);
  return behind;
}

/// False for a library that is LAPACK and BLAS in one, as OpenBLAS and MKL are: its LAPACK calls
/// level 3 without us, and is tuned for that.
bool is_apart(IlaenvSymbol& symbol, void* behind) {
  if (symbol.kind.load(std::memory_order_relaxed) == Kind::unknown) {
    void* library = library_of(behind);
    void* ddot = library ? find_in(library, symbol.ddot) : nullptr;
    const bool one = !library || (ddot && base_of(ddot) == base_of(behind));
    symbol.kind.store(one ? Kind::one_with_blas : Kind::apart, std::memory_order_relaxed);
    if (library) dlclose(library);
  }
  return symbol.kind.load(std::memory_order_relaxed) == Kind::apart;
}

/// The type in `type`; nullptr for a routine that is not in the table. `name` is in either case.
const Blocked* find_blocked(const char* name, std::size_t length, char& type) {
  if (length < kNameLength) return nullptr;
  char lower[kNameLength + 1] = {};
  for (std::size_t i = 0; i < kNameLength; ++i)
    lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  type = lower[0];
  for (const Blocked& blocked : kBlocked)
    if (strcmp(lower + 1, blocked.word) == 0 && type != '\0' && strchr(blocked.types, type))
      return &blocked;
  return nullptr;
}

/// 0: the reference's own block size is to stay. Unused sizes are kUnused.
std::int64_t larger_block(const Blocked& blocked, char type, std::int64_t n1, std::int64_t n2,
                          std::int64_t n3) {
  std::int64_t least = n1;
  for (const std::int64_t size : {n2, n3})
    if (size != kUnused) least = std::min(least, size);
  const std::int64_t most = std::min(blocked.most, least / kLeastBlocks);
  if (most <= blocked.reference) return 0;
  return block_size_in_core(type, n1, n2 == kUnused ? n1 : n2, blocked.reference, most);
}

/// The answer behind is passed on as it came, in all bits of a register, since a library may have
/// integers of 64 bits under a name without `64`. Of the arguments the lower half is enough.
template <class Int>
std::int64_t answer(IlaenvId id, const void* caller, const Int* ispec, const char* name,
                    const char* opts, const Int* n1, const Int* n2, const Int* n3, const Int* n4,
                    std::size_t name_length, std::size_t opts_length) {
  using Ilaenv = std::int64_t(const Int*, const char*, const char*, const Int*, const Int*,
                              const Int*, const Int*, std::size_t, std::size_t);
  IlaenvSymbol& symbol = ilaenv_symbols[id];
  void* behind = behind_of(symbol, caller);
  if (!behind) return 1;  // as the reference for what it does not know: no blocks
  const std::int64_t own = reinterpret_cast<Ilaenv*>(behind)(ispec, name, opts, n1, n2, n3, n4,
                                                             name_length, opts_length);
  if (*ispec != kBlockSize || inside) return own;
  char type = '\0';
  // Callers of old compilers pass lengths of 32 bits.
  const Blocked* blocked = find_blocked(name, static_cast<std::uint32_t>(name_length), type);
  // Who has set another size has tuned it.
  if (!blocked || static_cast<Int>(own) != blocked->reference) return own;
  if (!is_apart(symbol, behind)) return own;
  const std::int64_t larger = larger_block(*blocked, type, *n1, *n2, *n3);
  return larger > 0 ? larger : own;
}

}  // namespace

#define FLEET_DEFINE(symbol, Int, ddot)                                                        \
  extern "C" [[gnu::visibility("default")]] std::int64_t symbol(                               \
      const Int* ispec, const char* name, const char* opts, const Int* n1, const Int* n2,      \
      const Int* n3, const Int* n4, std::size_t name_length, std::size_t opts_length) {        \
    return answer(ki_##symbol, __builtin_return_address(0), ispec, name, opts, n1, n2, n3, n4, \
                  name_length, opts_length);                                                   \
  }
FLEET_ILAENV_NAMES(FLEET_DEFINE)

}  // namespace fleet::preload

// SPDX-License-Identifier: BSD-3-Clause
// got_patch.cpp: takes over the calls of libraries that are loaded already, by their entries in the
// global offset tables, and gives them back. It must not look symbols up while it walks.
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "preload/behind.hpp"
#include "preload/front.hpp"
#include "preload/preload.hpp"

namespace fleet::preload {
namespace {

#if defined(__x86_64__)
constexpr unsigned kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr unsigned kGlobalData = R_X86_64_GLOB_DAT;
constexpr unsigned kAddress = R_X86_64_64;
#elif defined(__aarch64__)
constexpr unsigned kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr unsigned kGlobalData = R_AARCH64_GLOB_DAT;
constexpr unsigned kAddress = R_AARCH64_ABS64;
#else
#error "got_patch.cpp does not know this machine's relocations"
#endif

struct Range {
  uintptr_t start = 0;
  uintptr_t stop = 0;
  bool contains(uintptr_t address) const { return start <= address && address < stop; }
};

// A slot that we changed, and its old contents.
struct Patched {
  uintptr_t slot;
  uintptr_t before;
};

// State that patch calls share, under `lock`. Never freed: a process may exit while it is patched.
struct State {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int depth = 0;  // patch calls that were not undone yet
  Patched* patched = nullptr;
  std::size_t count = 0;
  std::size_t capacity = 0;
};
constinit State state;

void lock_state() { pthread_mutex_lock(&state.lock); }
void unlock_state() { pthread_mutex_unlock(&state.lock); }

// A fork waits for a walk to end, so that the child does not find the lock taken for ever.
__attribute__((constructor)) void watch_forks() {
  pthread_atfork(&lock_state, &unlock_state, &unlock_state);
}

// One loaded object, as far as patching needs it.
struct Object {
  uintptr_t base = 0;
  Range image;
  Range read_only;  // pages that the dynamic linker has write-protected after relocation
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  Range tables[2];  // of relocations
};

struct Walk {
  enum class Action { patch, restore } action;
  Range us;
  int slots = 0;
  int error = 0;
};

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

// The dynamic linker has relocated these addresses in place, except in a few kinds of object.
uintptr_t absolute(const Object& object, uintptr_t address) {
  return address < object.base ? object.base + address : address;
}

void read_dynamic(const ElfW(Dyn) * entry, Object& object) {
  uintptr_t sizes[2] = {0, 0};
  for (; entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB)
      object.symbols = reinterpret_cast<const ElfW(Sym)*>(absolute(object, value));
    if (entry->d_tag == DT_STRTAB)
      object.strings = reinterpret_cast<const char*>(absolute(object, value));
    if (entry->d_tag == DT_JMPREL) object.tables[0].start = absolute(object, value);
    if (entry->d_tag == DT_PLTRELSZ) sizes[0] = value;
    if (entry->d_tag == DT_RELA) object.tables[1].start = absolute(object, value);
    if (entry->d_tag == DT_RELASZ) sizes[1] = value;
  }
  for (int i = 0; i < 2; ++i)
    object.tables[i].stop = object.tables[i].start ? object.tables[i].start + sizes[i] : 0;
}

Object read_object(const dl_phdr_info& info) {
  Object object;
  object.base = info.dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const Range range{object.base + segment.p_vaddr,
                      object.base + segment.p_vaddr + segment.p_memsz};
    if (segment.p_type == PT_LOAD) {
      if (!object.image.stop || range.start < object.image.start) object.image.start = range.start;
      if (range.stop > object.image.stop) object.image.stop = range.stop;
    }
    if (segment.p_type == PT_GNU_RELRO) object.read_only = range;
    if (segment.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(range.start);
  }
  // Whole pages only: a page that the range ends in was left writable.
  object.read_only.start &= ~(page_bytes() - 1);
  object.read_only.stop &= ~(page_bytes() - 1);
  if (dynamic) read_dynamic(dynamic, object);
  return object;
}

// Writes a slot; other threads may be calling through it.
bool write_slot(const Object& object, uintptr_t slot, uintptr_t value) {
  const bool locked = object.read_only.contains(slot);
  void* page = reinterpret_cast<void*>(slot & ~(page_bytes() - 1));
  if (locked && mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<uintptr_t*>(slot), value, __ATOMIC_RELEASE);
  return !locked || mprotect(page, page_bytes(), PROT_READ) == 0;
}

bool remember(uintptr_t slot, uintptr_t before) {
  for (std::size_t i = 0; i < state.count; ++i)
    if (state.patched[i].slot == slot) {  // of a library that is gone, at the same place
      state.patched[i].before = before;
      return true;
    }
  if (state.count == state.capacity) {
    const std::size_t capacity = 2 * state.capacity + 64;
    void* grown = realloc(state.patched, capacity * sizeof(Patched));
    if (!grown) return false;
    state.patched = static_cast<Patched*>(grown);
    state.capacity = capacity;
  }
  state.patched[state.count++] = {slot, before};
  return true;
}

constexpr const char* kNames[] = {
#define FLEET_NAME(name, ...) #name,
    FLEET_NAMES(FLEET_NAME)
#undef FLEET_NAME
};

constexpr bool goes_before(const char* x, const char* y) {
  for (; *x && *x == *y; ++x, ++y)
    ;
  return *x < *y;
}

// The rows in the order of their names: every undefined symbol of every library is looked for.
constexpr auto kRowsByName = [] {
  std::array<short, kSymbolCount> rows{};
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<short>(row);
  std::ranges::sort(rows, goes_before, [](short row) { return kNames[row]; });
  return rows;
}();

Served* served_name(const char* name) {
  const auto at =
      std::ranges::lower_bound(kRowsByName, name, goes_before, [](short r) { return kNames[r]; });
  const bool found = at != kRowsByName.end() && strcmp(kNames[*at], name) == 0;
  return found ? &symbols[*at] : find_lapack(name);
}

void patch_slot(const Object& object, uintptr_t slot, Served& served, Walk& walk) {
  const uintptr_t before = __atomic_load_n(reinterpret_cast<uintptr_t*>(slot), __ATOMIC_ACQUIRE);
  if (before == 0) return;  // a weak reference that found nothing
  if (walk.us.contains(before)) {
    ++walk.slots;
    return;
  }
  if (!remember(slot, before)) {
    walk.error = ENOMEM;
    return;
  }
  // An address within the caller's own object is the stub of a symbol not bound yet: it would bind,
  // and overwrite the slot, so it is no function to call.
  if (!object.image.contains(before))
    served.patched.store(reinterpret_cast<void*>(before), std::memory_order_release);
  if (write_slot(object, slot, reinterpret_cast<uintptr_t>(served.entry)))
    ++walk.slots;
  else
    walk.error = errno;
}

void restore_slot(const Object& object, uintptr_t slot, Walk& walk) {
  const uintptr_t now = __atomic_load_n(reinterpret_cast<uintptr_t*>(slot), __ATOMIC_ACQUIRE);
  if (!walk.us.contains(now)) return;
  for (std::size_t i = 0; i < state.count; ++i) {
    if (state.patched[i].slot != slot) continue;
    if (write_slot(object, slot, state.patched[i].before))
      ++walk.slots;
    else
      walk.error = errno;
    return;
  }
}

void visit_relocation(const Object& object, const ElfW(Rela) & relocation, Walk& walk) {
  const auto type = static_cast<unsigned>(ELF64_R_TYPE(relocation.r_info));
  const bool pointer =
      type == kJumpSlot || type == kGlobalData || (type == kAddress && relocation.r_addend == 0);
  if (!pointer) return;
  const ElfW(Sym)& symbol = object.symbols[ELF64_R_SYM(relocation.r_info)];
  // A BLAS library's calls of itself stay its own.
  if (symbol.st_shndx != SHN_UNDEF) return;
  Served* served = served_name(object.strings + symbol.st_name);
  if (!served) return;
  const uintptr_t slot = object.base + relocation.r_offset;
  if (walk.action == Walk::Action::patch)
    patch_slot(object, slot, *served, walk);
  else
    restore_slot(object, slot, walk);
}

int visit_object(dl_phdr_info* info, std::size_t, void* context) {
  Walk& walk = *static_cast<Walk*>(context);
  const Object object = read_object(*info);
  if (object.image.start == walk.us.start || !object.symbols || !object.strings) return 0;
  for (const Range& table : object.tables)
    for (uintptr_t at = table.start; at < table.stop; at += sizeof(ElfW(Rela)))
      visit_relocation(object, *reinterpret_cast<const ElfW(Rela)*>(at), walk);
  return walk.error != 0;
}

int find_us(dl_phdr_info* info, std::size_t, void* context) {
  const Range image = read_object(*info).image;
  if (!image.contains(reinterpret_cast<uintptr_t>(&find_us))) return 0;
  *static_cast<Range*>(context) = image;
  return 1;
}

Walk walk_objects(Walk::Action action) {
  Walk walk{.action = action, .us = {}};
  dl_iterate_phdr(&find_us, &walk.us);
  dl_iterate_phdr(&visit_object, &walk);
  return walk;
}

}  // namespace
}  // namespace fleet::preload

using namespace fleet::preload;

/// Makes all libraries that are loaded now call us for the names of the table, until as many
/// fleetblas_preload_unpatch calls have followed. Call it again for libraries loaded later. Returns
/// how many slots lead here now (those that did before, thanks to LD_PRELOAD, included), or a
/// negative errno with nothing changed.
extern "C" [[gnu::visibility("default")]] int fleetblas_preload_patch(void) {
  lock_state();
  refresh_min_flops();
  const Walk walk = walk_objects(Walk::Action::patch);
  if (!walk.error)
    ++state.depth;
  else if (state.depth == 0)
    walk_objects(Walk::Action::restore);
  unlock_state();
  return walk.error ? -walk.error : walk.slots;
}

/// Undoes one fleetblas_preload_patch; the last one gives every slot back what it held. Returns how
/// many slots were given back, or a negative errno (-EINVAL where nothing was patched).
extern "C" [[gnu::visibility("default")]] int fleetblas_preload_unpatch(void) {
  lock_state();
  Walk walk{.action = Walk::Action::restore, .us = {}};
  if (state.depth == 0)
    walk.error = EINVAL;
  else if (--state.depth == 0) {
    walk = walk_objects(Walk::Action::restore);
    state.count = 0;
    for (Symbol& symbol : symbols) symbol.patched.store(nullptr, std::memory_order_release);
    forget_patched_lapack();
  }
  unlock_state();
  return walk.error ? -walk.error : walk.slots;
}

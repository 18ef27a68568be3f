// SPDX-License-Identifier: BSD-3-Clause
// objects.cpp: walks the loaded libraries. Never looks a symbol up while dl_iterate_phdr runs: the
// two take the dynamic linker's locks in opposite orders.
#include "preload/objects.hpp"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace fleet::preload {
namespace {

struct Names {
  char** name = nullptr;
  std::size_t count = 0;
  std::size_t capacity = 0;
};

int collect_name(dl_phdr_info* object, std::size_t, void* context) {
  Names& names = *static_cast<Names*>(context);
  if (!object->dlpi_name || !strchr(object->dlpi_name, '/')) return 0;  // main program, vdso
  if (names.count == names.capacity) {
    const std::size_t capacity = 2 * names.capacity + 64;
    void* grown = realloc(names.name, capacity * sizeof(char*));
    if (!grown) return 1;
    names.name = static_cast<char**>(grown);
    names.capacity = capacity;
  }
  names.name[names.count] = strdup(object->dlpi_name);
  return names.name[names.count] ? (++names.count, 0) : 1;
}

void* loaded(const char* file) { return dlopen(file, RTLD_LAZY | RTLD_NOLOAD); }

void* find_named(void* library, void* name) {
  return find_behind(library, static_cast<const char*>(name));
}

bool holds(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && start <= at && at < start + segment.p_memsz) return true;
  }
  return false;
}

struct Order {
  const void* address;
  bool before_us;
};

// Ends at the first of the two objects: they come in the order in which they were loaded.
int find_first(dl_phdr_info* object, std::size_t, void* context) {
  Order& order = *static_cast<Order*>(context);
  order.before_us = holds(*object, order.address);
  return order.before_us || holds(*object, reinterpret_cast<const void*>(&find_first));
}

bool was_loaded_before_us(const void* address) {
  Order order{.address = address, .before_us = false};
  dl_iterate_phdr(&find_first, &order);
  return order.before_us;
}

// The scope that every look-up by name searches first. Not RTLD_DEFAULT, which searches from here:
// that finds our own names even where no one else sees them.
void* find_globally(const char* name) {
  void* everything = dlopen(nullptr, RTLD_LAZY);
  void* symbol = everything ? dlsym(everything, name) : nullptr;
  if (!symbol) dlerror();
  if (everything) dlclose(everything);
  return symbol;
}

}  // namespace

const void* base_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

bool is_ours(const void* address) {
  return base_of(address) == base_of(reinterpret_cast<const void*>(&is_ours));
}

void* library_of(const void* address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname) return nullptr;
  void* library = loaded(info.dli_fname);
  if (!library) dlerror();
  return library;
}

bool file_beside_us(const char* name, char (&path)[kPathBytes]) {
  Dl_info info;
  void* self = library_of(reinterpret_cast<const void*>(&is_ours));
  if (!self || !dladdr(reinterpret_cast<const void*>(&is_ours), &info)) return false;
  // The dynamic linker remembers the folder as it was at load time; a relative LD_PRELOAD and a
  // change of directory since then do not matter.
  char folder[kPathBytes / 2];
  const bool found = dlinfo(self, RTLD_DI_ORIGIN, folder) == 0;
  dlclose(self);
  const char* slash = strrchr(info.dli_fname, '/');
  snprintf(path, kPathBytes, "%s/%s", folder, slash ? slash + 1 : info.dli_fname);
  char real[PATH_MAX];
  if (found && realpath(path, real)) snprintf(folder, sizeof folder, "%s", dirname(real));
  return found && snprintf(path, kPathBytes, "%s/%s", folder, name) < static_cast<int>(kPathBytes);
}

void* find_in(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (!symbol) dlerror();  // a failed search is ours, not an error of the program
  return symbol && !is_ours(symbol) ? symbol : nullptr;
}

// Preloaded and linked libraries are looked through in the order in which they were loaded. One
// opened later without RTLD_GLOBAL is not looked through, whenever it was loaded, and is not in
// front of us; where the first symbol of this name is not ours, it cannot be told from those that
// are, and is done without. Where we were opened that way ourselves, nothing leads here by name.
bool is_in_front(const void* symbol, const char* name) {
  if (!find_globally("fleetblas_preload_patch")) return false;
  const void* first = find_globally(name);
  return first && !is_ours(first) && was_loaded_before_us(symbol);
}

void* find_behind(void* library, const char* name) {
  void* symbol = find_in(library, name);
  return symbol && !is_in_front(symbol, name) ? symbol : nullptr;
}

void* search_objects(void* (*find)(void* library, void* request), void* request) {
  Names names;
  dl_iterate_phdr(&collect_name, &names);
  void* symbol = nullptr;
  for (std::size_t i = 0; i < names.count && !symbol; ++i) {
    void* library = loaded(names.name[i]);
    if (!library) {
      dlerror();
      continue;
    }
    symbol = find(library, request);
    if (!symbol) dlclose(library);
  }
  for (std::size_t i = 0; i < names.count; ++i) free(names.name[i]);
  free(names.name);
  return symbol;
}

void* find_anywhere(const char* name) {
  return search_objects(&find_named, const_cast<char*>(name));
}

}  // namespace fleet::preload

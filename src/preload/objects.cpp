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
  return find_in(library, static_cast<const char*>(name));
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

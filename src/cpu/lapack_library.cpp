// SPDX-License-Identifier: BSD-3-Clause
// lapack_library.cpp: the names of LAPACK's routines in the libraries that exist. It must not know
// matrices, leases or plans.
#include "cpu/lapack_library.hpp"

namespace fleet {
namespace {

/// How a library spells getrf: before + type letter + "getrf" + after.
struct LapackNaming {
  const char* before;
  const char* after;
  Ints ints;
};

constexpr LapackNaming kLapackNamings[] = {{"scipy_", "_64_", Ints::wide},
                                           {"scipy_", "_", Ints::narrow},
                                           {"", "_64_", Ints::wide},
                                           {"", "_", Ints::ask}};

/// In the order of LapackRoutine; for real elements and for complex ones.
constexpr const char* kWords[kLapackRoutines][2] = {
    {"potrf", "potrf"}, {"getrf", "getrf"}, {"geqrf", "geqrf"}, {"larft", "larft"},
    {"trtri", "trtri"}, {"lauum", "lauum"}, {"ormqr", "unmqr"}};

thread_local int depth = 0;

}  // namespace

LapackLibrary find_lapack(const std::function<void*(const std::string&)>& symbol,
                          bool plain_is_wide) {
  for (const LapackNaming& naming : kLapackNamings) {
    LapackLibrary library;
    library.wide_ints = naming.ints == Ints::ask ? plain_is_wide : naming.ints == Ints::wide;
    bool any = false;
    for (const DataType type : {DataType::f32, DataType::f64, DataType::c32, DataType::c64})
      for (std::size_t routine = 0; routine < kLapackRoutines; ++routine) {
        const char* word = kWords[routine][is_complex(type.storage) ? 1 : 0];
        void*& found = library.symbols[routine][static_cast<std::size_t>(type.storage)];
        found = symbol(naming.before + std::string(word_of(type)) + word + naming.after);
        any = any || found != nullptr;
      }
    if (any) return library;
  }
  return {};
}

bool inside_lapack() { return depth > 0; }
InsideLapack::InsideLapack() { ++depth; }
InsideLapack::~InsideLapack() { --depth; }

}  // namespace fleet

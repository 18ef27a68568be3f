// SPDX-License-Identifier: BSD-3-Clause
// lapack_library.hpp: the LAPACK inside a library found by dlopen: its routines under whatever name
// they have. It must not know matrices, leases or plans.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "problem/problem.hpp"

namespace fleet {

/// How wide the integers of a library are, by the names of its routines; `ask`: they say nothing.
enum class Ints { narrow, wide, ask };

/// ormqr is unmqr for complex elements.
enum class LapackRoutine { potrf, getrf, geqrf, larft, trtri, lauum, ormqr };
inline constexpr int kLapackRoutines = 7;

/// Entry points with gfortran's calling convention. A value.
struct LapackLibrary {
  bool wide_ints = false;
  /// By routine and element type; or none.
  std::array<std::array<void*, kStorages>, kLapackRoutines> symbols{};

  void* find(LapackRoutine routine, Storage storage) const {
    return symbols[static_cast<std::size_t>(routine)][static_cast<std::size_t>(storage)];
  }
};

/// What a library has; `symbol` gives the address of a name or null. `plain_is_wide`: the integers
/// of names that say nothing about them have 64 bits.
LapackLibrary find_lapack(const std::function<void*(const std::string&)>& symbol,
                          bool plain_is_wide);

/// Is this thread inside the LAPACK of a library? Some libraries reach their own products through
/// the dynamic linker there, and so a BLAS that was preloaded: that must leave them alone.
bool inside_lapack();

/// While it lives, this thread is.
class InsideLapack {
 public:
  InsideLapack();
  ~InsideLapack();
  InsideLapack(const InsideLapack&) = delete;
  InsideLapack& operator=(const InsideLapack&) = delete;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// lapack_function.hpp: what the C functions of lapack.h check and pass on in the same way. It knows
// no routine.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "api/parameters.hpp"
#include "core/argument_check.hpp"
#include "linalg/level3.hpp"

namespace fleet::capi {

using Int = std::int64_t;

/// The function that was called.
struct Function {
  fleet_context* context;
  const char* symbol;
  Storage storage;

  ArgumentCheck check() const { return {symbol, kBehindContext}; }
  linalg::Level3 on() const { return {context_of(context), storage, symbol}; }
  /// What the library itself reads and writes element by element.
  void require_host(const char* name, const void* data, Int elements, Storage type) const {
    const View array{.data = const_cast<void*>(data), .rows = elements, .cols = 1, .ld = elements};
    if (elements > 0 && !context_of(context).bring_to_cpu(array, type, Access::update))
      refuse_argument(std::string(symbol) + ": " + name + " is on a device, expected host memory");
  }
  void require_host_pivots(const Int* pivots, Int elements) const {
    require_host("ipiv", pivots, elements, Storage::f64);  // of the same size
  }
  void require_host_tau(const void* tau, Int elements) const {
    require_host("tau", tau, elements, storage);
  }
};

/// A matrix and its leading dimension, as arguments.
struct Given {
  const void* data;
  Int ld;
  View view(Int rows, Int cols, Fill fill = Fill::full) const {
    return {.data = const_cast<void*>(data), .rows = rows, .cols = cols, .ld = ld, .fill = fill};
  }
};

template <class T>
using Element = std::conditional_t<std::is_floating_point_v<T>, T, void>;

}  // namespace fleet::capi

#define FLEET_F(letter, word, T) \
  Function { context, "fleet_" #letter #word, kTypeOf<T>.storage }

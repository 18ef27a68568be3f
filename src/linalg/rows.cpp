// SPDX-License-Identifier: BSD-3-Clause
// rows.cpp: one kernel each, without a plan.
#include "linalg/rows.hpp"

namespace fleet::linalg {
namespace {

/// Numbers are as large as these elements.
constexpr Storage kNumber = Storage::f64;

}  // namespace

void pack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed) {
  if (is_empty(packed)) return;
  const Launch launches[] = {{.kernel = Kernel::pack,
                              .type = {.storage = on.storage()},
                              .a = matrix,
                              .b = numbers,
                              .c = packed}};
  const Context::InPlace operands[] = {{matrix, on.storage(), Access::read},
                                       {numbers, kNumber, Access::read},
                                       {packed, on.storage(), Access::write}};
  on.context().compute_in_place(launches, operands);
}

void unpack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed) {
  if (is_empty(packed)) return;
  const Launch launches[] = {{.kernel = Kernel::unpack,
                              .type = {.storage = on.storage()},
                              .a = packed,
                              .b = numbers,
                              .c = matrix}};
  const Context::InPlace operands[] = {{matrix, on.storage(), Access::update},
                                       {numbers, kNumber, Access::read},
                                       {packed, on.storage(), Access::read}};
  on.context().compute_in_place(launches, operands);
}

}  // namespace fleet::linalg

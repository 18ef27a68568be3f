// SPDX-License-Identifier: BSD-3-Clause
// rows.cpp: one kernel each, without a plan.
#include "linalg/rows.hpp"

namespace fleet::linalg {
namespace {

/// Numbers are as large as these elements.
constexpr Storage kNumber = Storage::f64;

void move(const Level3& on, Kernel kernel, const View& from, const View& numbers, const View& to,
          Access access) {
  if (is_empty(from) || is_empty(numbers)) return;
  const Launch launches[] = {
      {.kernel = kernel, .type = {.storage = on.storage()}, .a = from, .b = numbers, .c = to}};
  const Context::InPlace operands[] = {{from, on.storage(), Access::read},
                                       {numbers, kNumber, Access::read},
                                       {to, on.storage(), access}};
  on.context().compute_in_place(launches, operands);
}

}  // namespace

void pack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed) {
  move(on, Kernel::pack, matrix, numbers, packed, Access::write);
}

void unpack_rows(const Level3& on, const View& matrix, const View& numbers, const View& packed) {
  move(on, Kernel::unpack, packed, numbers, matrix, Access::update);
}

}  // namespace fleet::linalg

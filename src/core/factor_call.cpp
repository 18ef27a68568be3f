// SPDX-License-Identifier: BSD-3-Clause
// factor_call.cpp: the words and flops of factorizations. It knows no context.
#include "core/factor_call.hpp"

#include <algorithm>

namespace fleet {

const char* word_of(Factoring routine) {
  switch (routine) {
    case Factoring::potrf:
      return "potrf";
    case Factoring::getrf:
      return "getrf";
    case Factoring::geqrf:
      return "geqrf";
  }
  return "unknown";
}

double flops(Factoring routine, Storage storage, std::int64_t m, std::int64_t n) {
  const auto rows = static_cast<double>(m), cols = static_cast<double>(n);
  const double least = std::min(rows, cols);
  // Twice the multiply-adds of updates that shrink by one row and one column each time.
  const double lu =
      2 * (rows * cols * least - (rows + cols) * least * least / 2 + least * least * least / 3);
  const double part = routine == Factoring::potrf ? 0.5 : routine == Factoring::getrf ? 1 : 2;
  return (is_complex(storage) ? 4 : 1) * part * lu;
}

View FactorCall::matrix() const {
  const Fill fill = routine != Factoring::potrf ? Fill::full
                    : uplo == Uplo::lower       ? Fill::lower
                                                : Fill::upper;
  return {.data = a, .rows = m, .cols = n, .ld = lda, .fill = fill};
}

}  // namespace fleet

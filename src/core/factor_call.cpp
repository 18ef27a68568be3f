// SPDX-License-Identifier: BSD-3-Clause
// factor_call.cpp: a factorization as a view and as a value. It knows no context.
#include "core/factor_call.hpp"

namespace fleet {

View FactorCall::matrix() const {
  const Fill fill = routine != Factoring::potrf ? Fill::full
                    : uplo == Uplo::lower       ? Fill::lower
                                                : Fill::upper;
  return {.data = a, .rows = m, .cols = n, .ld = lda, .fill = fill};
}

Factorization FactorCall::at(DeviceId home) const {
  return make_factorization(
      {.routine = routine, .storage = storage, .uplo = uplo, .m = m, .n = n, .home = home});
}

}  // namespace fleet

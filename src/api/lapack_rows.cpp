// SPDX-License-Identifier: BSD-3-Clause
// lapack_rows.cpp: copies of matrices and of their rows (lapack.h): arguments are checked and
// passed on.
#include "api/lapack_function.hpp"
#include "fleetblas/lapack.h"
#include "linalg/rows.hpp"

using namespace fleet;        // NOLINT: this file is the border between the two languages
using namespace fleet::capi;  // NOLINT

namespace {

fleet_status lacpy(const Function& f, Int m, Int n, Given a, Given b) {
  return guarded([&] {
    f.check()
        .at_least("m", m, 0)
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .matrix("b", b.data, "ldb", b.ld, m, n, f.storage);
    if (m > 0 && n > 0) context_of(f.context).copy(b.view(m, n), a.view(m, n), f.storage);
  });
}

using Move = void (*)(const linalg::Level3&, const View&, const View&, const View&);

fleet_status move_rows(const Function& f, Move move, Int k, const Int* rows, Int m, Int n, Given a,
                       Given p) {
  return guarded([&] {
    f.check()
        .at_least("k", k, 0)
        .array("rows", rows, k)
        .at_least("m", m, 0)
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .matrix("p", p.data, "ldp", p.ld, n, k, f.storage);
    if (m > 0) move(f.on(), a.view(m, n), Given{rows, k}.view(k, 1), p.view(n, k));
  });
}

}  // namespace

#define FLEET_DEFINE_ROWS(x, T)                                                                   \
  fleet_status fleet_##x##lacpy(fleet_context* context, Int m, Int n, const Element<T>* a,        \
                                Int lda, Element<T>* b, Int ldb) {                                \
    return lacpy(FLEET_F(x, lacpy, T), m, n, {a, lda}, {b, ldb});                                 \
  }                                                                                               \
  fleet_status fleet_##x##pack_rows(fleet_context* context, Int k, const Int* rows, Int m, Int n, \
                                    const Element<T>* a, Int lda, Element<T>* p, Int ldp) {       \
    return move_rows(FLEET_F(x, pack_rows, T), linalg::pack_rows, k, rows, m, n, {a, lda},        \
                     {p, ldp});                                                                   \
  }                                                                                               \
  fleet_status fleet_##x##unpack_rows(fleet_context* context, Int k, const Int* rows, Int m,      \
                                      Int n, Element<T>* a, Int lda, const Element<T>* p,         \
                                      Int ldp) {                                                  \
    return move_rows(FLEET_F(x, unpack_rows, T), linalg::unpack_rows, k, rows, m, n, {a, lda},    \
                     {p, ldp});                                                                   \
  }

FLEET_DEFINE_ROWS(s, float)
FLEET_DEFINE_ROWS(d, double)
FLEET_DEFINE_ROWS(c, std::complex<float>)
FLEET_DEFINE_ROWS(z, std::complex<double>)

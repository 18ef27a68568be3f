// SPDX-License-Identifier: BSD-3-Clause
// lapack.cpp: the C functions of lapack.h for all element types: their arguments are checked, in
// the order of LAPACK, and passed on. The compiler compares them with the header.
#include "fleetblas/lapack.h"

#include <algorithm>

#include "api/lapack_function.hpp"
#include "cpu/element.hpp"
#include "linalg/inverse.hpp"
#include "linalg/orthogonal.hpp"
#include "linalg/solve.hpp"

using namespace fleet;          // NOLINT: this file is the border between the two languages
using namespace fleet::capi;    // NOLINT
using namespace fleet::linalg;  // NOLINT

namespace {

Fill fill_of(fleet_uplo uplo) { return uplo == FLEET_UPPER ? Fill::upper : Fill::lower; }
Diag diag_of(fleet_diag diag) { return diag == FLEET_UNIT ? Diag::unit : Diag::non_unit; }
Side side_of(fleet_side side) { return side == FLEET_RIGHT ? Side::right : Side::left; }
/// Reflectors are turned round only as a whole: real ones by 't' or 'c', complex ones by 'c'.
const char* turns_of(const Function& f) { return is_complex(f.storage) ? "nc" : "ntc"; }
Op turn_of(const Function& f, fleet_op trans) {
  return trans == FLEET_NO_TRANS ? Op::none : is_complex(f.storage) ? Op::conjugate : Op::transpose;
}
/// A real matrix is its own conjugate.
Op operation_of(const Function& f, fleet_op trans) {
  return is_complex(f.storage) ? op_of(trans) : turn_of(f, trans);
}

fleet_status potrf(const Function& f, fleet_uplo uplo, Int n, Given a, Int* info) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("info", info, 1);
    *info = linalg::potrf(f.on(), a.view(n, n, fill_of(uplo)));
  });
}

fleet_status getrf(const Function& f, Int m, Int n, Given a, Int* ipiv, Int* info) {
  return guarded([&] {
    f.check()
        .at_least("m", m, 0)
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .array("ipiv", ipiv, std::min(m, n))
        .array("info", info, 1);
    f.require_host_pivots(ipiv, std::min(m, n));
    *info = linalg::getrf(f.on(), a.view(m, n), ipiv);
  });
}

fleet_status geqrf(const Function& f, Int m, Int n, Given a, void* tau) {
  return guarded([&] {
    f.check()
        .at_least("m", m, 0)
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .array("tau", tau, std::min(m, n));
    f.require_host_tau(tau, std::min(m, n));
    linalg::geqrf(f.on(), a.view(m, n), tau);
  });
}

fleet_status potrs(const Function& f, fleet_uplo uplo, Int n, Int nrhs, Given a, Given b) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage);
    linalg::potrs(f.on(), a.view(n, n, fill_of(uplo)), b.view(n, nrhs));
  });
}

fleet_status getrs(const Function& f, fleet_op trans, Int n, Int nrhs, Given a, const Int* ipiv,
                   Given b) {
  return guarded([&] {
    f.check()
        .flag("trans", trans, "ntc")
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("ipiv", ipiv, n)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage);
    f.require_host_pivots(ipiv, n);
    ArgumentCheck(f.symbol, 7).pivots("ipiv", ipiv, n, n);
    linalg::getrs(f.on(), operation_of(f, trans), a.view(n, n), ipiv, b.view(n, nrhs));
  });
}

fleet_status posv(const Function& f, fleet_uplo uplo, Int n, Int nrhs, Given a, Given b,
                  Int* info) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage)
        .array("info", info, 1);
    *info = linalg::posv(f.on(), a.view(n, n, fill_of(uplo)), b.view(n, nrhs));
  });
}

fleet_status gesv(const Function& f, Int n, Int nrhs, Given a, Int* ipiv, Given b, Int* info) {
  return guarded([&] {
    f.check()
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("ipiv", ipiv, n)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage)
        .array("info", info, 1);
    f.require_host_pivots(ipiv, n);
    *info = linalg::gesv(f.on(), a.view(n, n), ipiv, b.view(n, nrhs));
  });
}

fleet_status solve(const Function& f, fleet_op trans, Int n, Int nrhs, Given a, Given b, Given x,
                   Int* info) {
  return guarded([&] {
    f.check()
        .flag("trans", trans, "ntc")
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage)
        .matrix("x", x.data, "ldx", x.ld, n, nrhs, f.storage)
        .array("info", info, 1);
    if (n > 0 && nrhs > 1 && x.data == b.data && x.ld != b.ld)
      refuse_argument(std::string(f.symbol) + ": argument 10 (ldx) is " + std::to_string(x.ld) +
                      ", expected that of B where X is B, " + std::to_string(b.ld));
    *info = linalg::solve(f.on(), operation_of(f, trans), a.view(n, n), b.view(n, nrhs),
                          x.view(n, nrhs));
  });
}

fleet_status inverse(const Function& f, Int n, Given a, Given x, Int* info) {
  return guarded([&] {
    f.check()
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .matrix("x", x.data, "ldx", x.ld, n, n, f.storage)
        .array("info", info, 1);
    if (n > 1 && x.data == a.data && x.ld != a.ld)
      refuse_argument(std::string(f.symbol) + ": argument 6 (ldx) is " + std::to_string(x.ld) +
                      ", expected that of A where X is A, " + std::to_string(a.ld));
    *info = linalg::inverse(f.on(), a.view(n, n), x.view(n, n));
  });
}

fleet_status slogdet(const Function& f, Int n, Given a, void* sign, double* logabs) {
  return guarded([&] {
    f.check()
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("sign", sign, 1)
        .array("logabs", logabs, 1);
    f.require_host("sign", sign, 1, f.storage);
    f.require_host("logabs", logabs, 1, Storage::f64);
    const LogDet found = log_det(f.on(), a.view(n, n));
    with_wide_element(f.storage, [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<T>)
        *static_cast<T*>(sign) = static_cast<T>(found.sign.real());
      else
        *static_cast<T*>(sign) = T(found.sign);
    });
    *logabs = found.log;
  });
}

fleet_status trtrs(const Function& f, fleet_uplo uplo, fleet_op trans, fleet_diag diag, Int n,
                   Int nrhs, Given a, Given b, Int* info) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .flag("trans", trans, "ntc")
        .flag("diag", diag, "nu")
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage)
        .array("info", info, 1);
    *info = linalg::trtrs(f.on(), operation_of(f, trans), diag_of(diag),
                          a.view(n, n, fill_of(uplo)), b.view(n, nrhs));
  });
}

fleet_status mixed(const Function& f, Int n, Int nrhs, Given a, Int* ipiv, Given b, Given x,
                   Int* iter, Int* info) {
  return guarded([&] {
    f.check()
        .at_least("n", n, 0)
        .at_least("nrhs", nrhs, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("ipiv", ipiv, n)
        .matrix("b", b.data, "ldb", b.ld, n, nrhs, f.storage)
        .matrix("x", x.data, "ldx", x.ld, n, nrhs, f.storage)
        .array("iter", iter, 1)
        .array("info", info, 1);
    f.require_host_pivots(ipiv, n);
    const MixedSolve call{
        .a = a.view(n, n), .pivots = ipiv, .b = b.view(n, nrhs), .x = x.view(n, nrhs)};
    Int iterations = 0;
    *info = mixed_gesv(f.on(), call, iterations);
    *iter = iterations;
  });
}

fleet_status trtri(const Function& f, fleet_uplo uplo, fleet_diag diag, Int n, Given a, Int* info) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .flag("diag", diag, "nu")
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("info", info, 1);
    *info = linalg::trtri(f.on(), a.view(n, n, fill_of(uplo)), diag_of(diag));
  });
}

fleet_status getri(const Function& f, Int n, Given a, const Int* ipiv, Int* info) {
  return guarded([&] {
    f.check()
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("ipiv", ipiv, n)
        .array("info", info, 1);
    f.require_host_pivots(ipiv, n);
    ArgumentCheck(f.symbol, 5).pivots("ipiv", ipiv, n, n);
    *info = linalg::getri(f.on(), a.view(n, n), ipiv);
  });
}

fleet_status potri(const Function& f, fleet_uplo uplo, Int n, Given a, Int* info) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage)
        .array("info", info, 1);
    *info = linalg::potri(f.on(), a.view(n, n, fill_of(uplo)));
  });
}

fleet_status lauum(const Function& f, fleet_uplo uplo, Int n, Given a) {
  return guarded([&] {
    f.check()
        .flag("uplo", uplo, "lu")
        .at_least("n", n, 0)
        .matrix("a", a.data, "lda", a.ld, n, n, f.storage);
    linalg::lauum(f.on(), a.view(n, n, fill_of(uplo)));
  });
}

fleet_status orgqr(const Function& f, Int m, Int n, Int k, Given a, const void* tau) {
  return guarded([&] {
    f.check()
        .at_least("m", m, 0)
        .within("n", n, 0, m)
        .within("k", k, 0, n)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .array("tau", tau, k);
    f.require_host_tau(tau, k);
    linalg::orgqr(f.on(), a.view(m, n), k, tau);
  });
}

/// On which side of C, m x n, something with k reflectors is applied, and how.
struct Applied {
  fleet_side side;
  fleet_op trans;
  Int m, n, k;
  /// The order of what is applied.
  Int order() const { return side == FLEET_LEFT ? m : n; }
};

fleet_status ormqr(const Function& f, const Applied& how, Given a, const void* tau, Given c) {
  return guarded([&] {
    f.check()
        .flag("side", how.side, "lr")
        .flag("trans", how.trans, turns_of(f))
        .at_least("m", how.m, 0)
        .at_least("n", how.n, 0)
        .within("k", how.k, 0, how.order())
        .matrix("a", a.data, "lda", a.ld, how.order(), how.k, f.storage)
        .array("tau", tau, how.k)
        .matrix("c", c.data, "ldc", c.ld, how.m, how.n, f.storage);
    f.require_host_tau(tau, how.k);
    linalg::ormqr(f.on(), side_of(how.side), turn_of(f, how.trans), a.view(how.order(), how.k), tau,
                  c.view(how.m, how.n));
  });
}

fleet_status larfb(const Function& f, const Applied& how, fleet_direct direct, fleet_storev storev,
                   Given v, Given t, Given c) {
  return guarded([&] {
    const bool by_rows = storev == FLEET_ROWWISE;
    const Int rows = by_rows ? how.k : how.order(), cols = by_rows ? how.order() : how.k;
    f.check()
        .flag("side", how.side, "lr")
        .flag("trans", how.trans, turns_of(f))
        .flag("direct", direct, "fb")
        .flag("storev", storev, "cr")
        .at_least("m", how.m, 0)
        .at_least("n", how.n, 0)
        .within("k", how.k, 0, how.order())
        .matrix("v", v.data, "ldv", v.ld, rows, cols, f.storage)
        .matrix("t", t.data, "ldt", t.ld, how.k, how.k, f.storage)
        .matrix("c", c.data, "ldc", c.ld, how.m, how.n, f.storage);
    linalg::larfb(f.on(), side_of(how.side), turn_of(f, how.trans),
                  {.backward = direct == FLEET_BACKWARD,
                   .by_rows = by_rows,
                   .v = v.view(rows, cols),
                   .t = t.view(how.k, how.k)},
                  c.view(how.m, how.n));
  });
}

}  // namespace

// For one letter and element type; real and complex names of orthogonal matrices differ.
#define FLEET_DEFINE_LAPACK(x, T, ORG, ORM)                                                        \
  fleet_status fleet_##x##potrf(fleet_context* context, fleet_uplo uplo, Int n, Element<T>* a,     \
                                Int lda, Int* info) {                                              \
    return potrf(FLEET_F(x, potrf, T), uplo, n, {a, lda}, info);                                   \
  }                                                                                                \
  fleet_status fleet_##x##getrf(fleet_context* context, Int m, Int n, Element<T>* a, Int lda,      \
                                Int* ipiv, Int* info) {                                            \
    return getrf(FLEET_F(x, getrf, T), m, n, {a, lda}, ipiv, info);                                \
  }                                                                                                \
  fleet_status fleet_##x##geqrf(fleet_context* context, Int m, Int n, Element<T>* a, Int lda,      \
                                Element<T>* tau) {                                                 \
    return geqrf(FLEET_F(x, geqrf, T), m, n, {a, lda}, tau);                                       \
  }                                                                                                \
  fleet_status fleet_##x##potrs(fleet_context* context, fleet_uplo uplo, Int n, Int nrhs,          \
                                const Element<T>* a, Int lda, Element<T>* b, Int ldb) {            \
    return potrs(FLEET_F(x, potrs, T), uplo, n, nrhs, {a, lda}, {b, ldb});                         \
  }                                                                                                \
  fleet_status fleet_##x##getrs(fleet_context* context, fleet_op trans, Int n, Int nrhs,           \
                                const Element<T>* a, Int lda, const Int* ipiv, Element<T>* b,      \
                                Int ldb) {                                                         \
    return getrs(FLEET_F(x, getrs, T), trans, n, nrhs, {a, lda}, ipiv, {b, ldb});                  \
  }                                                                                                \
  fleet_status fleet_##x##posv(fleet_context* context, fleet_uplo uplo, Int n, Int nrhs,           \
                               Element<T>* a, Int lda, Element<T>* b, Int ldb, Int* info) {        \
    return posv(FLEET_F(x, posv, T), uplo, n, nrhs, {a, lda}, {b, ldb}, info);                     \
  }                                                                                                \
  fleet_status fleet_##x##gesv(fleet_context* context, Int n, Int nrhs, Element<T>* a, Int lda,    \
                               Int* ipiv, Element<T>* b, Int ldb, Int* info) {                     \
    return gesv(FLEET_F(x, gesv, T), n, nrhs, {a, lda}, ipiv, {b, ldb}, info);                     \
  }                                                                                                \
  fleet_status fleet_##x##solve(fleet_context* context, fleet_op trans, Int n, Int nrhs,           \
                                const Element<T>* a, Int lda, const Element<T>* b, Int ldb,        \
                                Element<T>* solution, Int ldx, Int* info) {                        \
    return solve(FLEET_F(x, solve, T), trans, n, nrhs, {a, lda}, {b, ldb}, {solution, ldx}, info); \
  }                                                                                                \
  fleet_status fleet_##x##inverse(fleet_context* context, Int n, const Element<T>* a, Int lda,     \
                                  Element<T>* inverted, Int ldx, Int* info) {                      \
    return inverse(FLEET_F(x, inverse, T), n, {a, lda}, {inverted, ldx}, info);                    \
  }                                                                                                \
  fleet_status fleet_##x##slogdet(fleet_context* context, Int n, const Element<T>* a, Int lda,     \
                                  Element<T>* sign, double* logabs) {                              \
    return slogdet(FLEET_F(x, slogdet, T), n, {a, lda}, sign, logabs);                             \
  }                                                                                                \
  fleet_status fleet_##x##trtrs(fleet_context* context, fleet_uplo uplo, fleet_op trans,           \
                                fleet_diag diag, Int n, Int nrhs, const Element<T>* a, Int lda,    \
                                Element<T>* b, Int ldb, Int* info) {                               \
    return trtrs(FLEET_F(x, trtrs, T), uplo, trans, diag, n, nrhs, {a, lda}, {b, ldb}, info);      \
  }                                                                                                \
  fleet_status fleet_##x##trtri(fleet_context* context, fleet_uplo uplo, fleet_diag diag, Int n,   \
                                Element<T>* a, Int lda, Int* info) {                               \
    return trtri(FLEET_F(x, trtri, T), uplo, diag, n, {a, lda}, info);                             \
  }                                                                                                \
  fleet_status fleet_##x##getri(fleet_context* context, Int n, Element<T>* a, Int lda,             \
                                const Int* ipiv, Int* info) {                                      \
    return getri(FLEET_F(x, getri, T), n, {a, lda}, ipiv, info);                                   \
  }                                                                                                \
  fleet_status fleet_##x##potri(fleet_context* context, fleet_uplo uplo, Int n, Element<T>* a,     \
                                Int lda, Int* info) {                                              \
    return potri(FLEET_F(x, potri, T), uplo, n, {a, lda}, info);                                   \
  }                                                                                                \
  fleet_status fleet_##x##lauum(fleet_context* context, fleet_uplo uplo, Int n, Element<T>* a,     \
                                Int lda) {                                                         \
    return lauum(FLEET_F(x, lauum, T), uplo, n, {a, lda});                                         \
  }                                                                                                \
  fleet_status fleet_##x##ORG(fleet_context* context, Int m, Int n, Int k, Element<T>* a, Int lda, \
                              const Element<T>* tau) {                                             \
    return orgqr(FLEET_F(x, ORG, T), m, n, k, {a, lda}, tau);                                      \
  }                                                                                                \
  fleet_status fleet_##x##ORM(fleet_context* context, fleet_side side, fleet_op trans, Int m,      \
                              Int n, Int k, const Element<T>* a, Int lda, const Element<T>* tau,   \
                              Element<T>* c, Int ldc) {                                            \
    return ormqr(FLEET_F(x, ORM, T), {side, trans, m, n, k}, {a, lda}, tau, {c, ldc});             \
  }                                                                                                \
  fleet_status fleet_##x##larfb(fleet_context* context, fleet_side side, fleet_op trans,           \
                                fleet_direct direct, fleet_storev storev, Int m, Int n, Int k,     \
                                const Element<T>* v, Int ldv, const Element<T>* t, Int ldt,        \
                                Element<T>* c, Int ldc) {                                          \
    return larfb(FLEET_F(x, larfb, T), {side, trans, m, n, k}, direct, storev, {v, ldv}, {t, ldt}, \
                 {c, ldc});                                                                        \
  }
#define FLEET_DEFINE_MIXED(x, word, T)                                                          \
  fleet_status fleet_##x##word(fleet_context* context, Int n, Int nrhs, Element<T>* a, Int lda, \
                               Int* ipiv, const Element<T>* b, Int ldb, Element<T>* solution,   \
                               Int ldx, Int* iter, Int* info) {                                 \
    return mixed(FLEET_F(x, word, T), n, nrhs, {a, lda}, ipiv, {b, ldb}, {solution, ldx}, iter, \
                 info);                                                                         \
  }

FLEET_DEFINE_LAPACK(s, float, orgqr, ormqr)
FLEET_DEFINE_LAPACK(d, double, orgqr, ormqr)
FLEET_DEFINE_LAPACK(c, std::complex<float>, ungqr, unmqr)
FLEET_DEFINE_LAPACK(z, std::complex<double>, ungqr, unmqr)
FLEET_DEFINE_MIXED(d, sgesv, double)
FLEET_DEFINE_MIXED(z, cgesv, std::complex<double>)

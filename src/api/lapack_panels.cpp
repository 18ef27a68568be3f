// SPDX-License-Identifier: BSD-3-Clause
// lapack_panels.cpp: the steps of getrf (lapack.h): arguments are checked and passed on.
#include "api/lapack_function.hpp"
#include "cpu/element.hpp"
#include "fleetblas/lapack.h"
#include "linalg/panel.hpp"

using namespace fleet;          // NOLINT: this file is the border between the two languages
using namespace fleet::capi;    // NOLINT
using namespace fleet::linalg;  // NOLINT

namespace {

/// Of m rows and n columns, at an address.
LuPanel panel_of(Int m, Int n, const void* panel) {
  return {.rows = m, .width = n, .data = const_cast<void*>(panel)};
}

fleet_status getrf_panel(const Function& f, Int m, Int n, Given a, void* panel) {
  return guarded([&] {
    f.check()
        .within("m", m, 0, kMostPanelRows)
        .within("n", n, 0, m)
        .matrix("a", a.data, "lda", a.ld, m, n, f.storage)
        .array("panel", panel, n);
    linalg::factor_panel(f.on(), a.view(m, n), panel_of(m, n, panel));
  });
}

fleet_status getrf_pivots(const Function& f, Int m, Int n, const void* panel, Int* ipiv,
                          Int* info) {
  return guarded([&] {
    f.check()
        .within("m", m, 0, kMostPanelRows)
        .within("n", n, 0, m)
        .array("panel", panel, n)
        .array("ipiv", ipiv, n)
        .array("info", info, 1);
    f.require_host_pivots(ipiv, n);
    *info = linalg::panel_pivots(f.on(), panel_of(m, n, panel), ipiv);
  });
}

fleet_status getrf_apply(const Function& f, Int m, Int n, const void* panel, Int k, Given c) {
  return guarded([&] {
    f.check()
        .within("m", m, 0, kMostPanelRows)
        .within("n", n, 0, m)
        .array("panel", panel, n)
        .at_least("k", k, 0)
        .matrix("c", c.data, "ldc", c.ld, m, k, f.storage);
    linalg::apply_panel(f.on(), panel_of(m, n, panel), c.view(m, k));
  });
}

fleet_status getrf_update(const Function& f, Int m, Int n, Given l, Int k, Given u, Given c) {
  return guarded([&] {
    f.check()
        .at_least("m", m, 0)
        .within("n", n, 0, m)
        .matrix("l", l.data, "ldl", l.ld, m, n, f.storage)
        .at_least("k", k, 0)
        .matrix("u", u.data, "ldu", u.ld, n, k, f.storage)
        .matrix("c", c.data, "ldc", c.ld, m - n, k, f.storage);
    linalg::update_by_panel(f.on(), l.view(m, n), u.view(n, k), c.view(m - n, k));
  });
}

}  // namespace

fleet_status fleet_getrf_panel_bytes(fleet_type type, Int m, Int n, Int* bytes) {
  return guarded([&] {
    ArgumentCheck("fleet_getrf_panel_bytes", 1)
        .flag("type", type, "sdcz")
        .within("m", m, 0, kMostPanelRows)
        .within("n", n, 0, m)
        .array("bytes", bytes, 1);
    *bytes = linalg::panel_bytes(known_type(type)->storage, m, n);
  });
}

#define FLEET_DEFINE_PANELS(x, T)                                                                 \
  fleet_status fleet_##x##getrf_panel(fleet_context* context, Int m, Int n, Element<T>* a,        \
                                      Int lda, void* panel) {                                     \
    return getrf_panel(FLEET_F(x, getrf_panel, T), m, n, {a, lda}, panel);                        \
  }                                                                                               \
  fleet_status fleet_##x##getrf_pivots(fleet_context* context, Int m, Int n, const void* panel,   \
                                       Int* ipiv, Int* info) {                                    \
    return getrf_pivots(FLEET_F(x, getrf_pivots, T), m, n, panel, ipiv, info);                    \
  }                                                                                               \
  fleet_status fleet_##x##getrf_apply(fleet_context* context, Int m, Int n, const void* panel,    \
                                      Int k, Element<T>* c, Int ldc) {                            \
    return getrf_apply(FLEET_F(x, getrf_apply, T), m, n, panel, k, {c, ldc});                     \
  }                                                                                               \
  fleet_status fleet_##x##getrf_update(fleet_context* context, Int m, Int n, const Element<T>* l, \
                                       Int ldl, Int k, Element<T>* u, Int ldu, Element<T>* c,     \
                                       Int ldc) {                                                 \
    return getrf_update(FLEET_F(x, getrf_update, T), m, n, {l, ldl}, k, {u, ldu}, {c, ldc});      \
  }

FLEET_DEFINE_PANELS(s, float)
FLEET_DEFINE_PANELS(d, double)
FLEET_DEFINE_PANELS(c, std::complex<float>)
FLEET_DEFINE_PANELS(z, std::complex<double>)

# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations and solutions of one matrix of one type, in whichever order it lies.

A C-ordered matrix is not transposed in memory: its transpose is factored as it lies. What info says
is returned; nothing here raises LinAlgError. Empty matrices are the caller's.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from .. import _arrays, _lapack
from . import _storage


@dataclass
class Stored:
    """A matrix in column-major memory of our own: f is the matrix, or its transpose if `turned`."""

    f: np.ndarray
    turned: bool


def stored(a: np.ndarray, dtype, overwrite: bool = False, turned: bool | None = None) -> Stored:
    """A copy of `a`, in its own order unless `turned` says which; `a` itself if it may be
    overwritten and LAPACK can use it."""
    if overwrite and a.dtype == dtype and a.flags.writeable:
        found = _arrays.layout(a) if turned is None else (turned, _arrays.leading_as(a, turned))
        if found is not None and found[1] is not None:
            return Stored(a.T if found[0] else a, found[0])
    if turned is None:
        turned = _storage.is_row_major(a)
    copied = np.empty(a.shape, dtype, "C" if turned else "F")
    _storage.copy(copied, a)
    return Stored(copied.T if turned else copied, turned)


def readable(a: np.ndarray, dtype) -> Stored:
    """`a` itself where LAPACK can read it, else a copy."""
    found = _arrays.layout(a) if a.dtype == dtype else None
    if found is None:
        return stored(a, dtype)
    return Stored(a.T if found[0] else a, found[0])


@contextlib.contextmanager
def _conjugated(x: np.ndarray, is_wanted):
    """x is conjugated within the block, also where that fails and somebody else takes over."""
    if is_wanted:
        np.conjugate(x, out=x)
    try:
        yield
    finally:
        if is_wanted:
            np.conjugate(x, out=x)


# ---- triangles ----------------------------------------------------------------------------------


def solve_triangle(context, f, uplo, turned, conjugated, diag, x) -> None:
    """x becomes op(f)^-1 x, where x is C-ordered or column-major, and op may be any of four."""
    side = "l"
    if _arrays.leading_as(x, False) is None:
        side, x, turned = "r", x.T, not turned
    conjugated = conjugated and x.dtype.kind == "c"
    # BLAS has no flag for conjugation without transposition.
    around = conjugated and not turned
    trans = "n" if not turned else "c" if conjugated else "t"
    with _conjugated(x, around):
        _lapack.trsm(context, side + uplo + trans + diag, f, x)


# ---- LU -----------------------------------------------------------------------------------------


@dataclass
class Lu:
    """matrix.f = P L U, with 1-based pivots; info > 0 counts to a pivot that is zero."""

    matrix: Stored
    pivots: np.ndarray
    info: int


def factor_lu(context, matrix: Stored) -> Lu:
    rows, cols = matrix.f.shape
    pivots = np.empty(min(rows, cols), np.int64)
    (info,) = _lapack.call(context, matrix.f.dtype, "getrf", rows, cols, matrix.f, pivots)
    return Lu(matrix, pivots, info)


def solve_lu(context, lu: Lu, b: np.ndarray, x: np.ndarray, trans: str = "n") -> None:
    """x := op(a)^-1 b of the factored matrix, for x C-ordered or column-major and any b; x may be
    b."""
    f = lu.matrix.f
    turned, conjugated = (trans != "n") ^ lu.matrix.turned, trans == "c" and f.dtype.kind == "c"
    if _arrays.leading_as(x, False) is not None and (turned or not conjugated):
        if not _arrays.is_same(x, b):
            _storage.copy(x, b)
        word = "n" if not turned else "c" if conjugated else "t"
        _lapack.call(context, f.dtype, "getrs", word, *x.shape, f, lu.pivots, x)
        return
    order = _storage.permutation(lu.pivots)
    triangles = [("l", "u"), ("u", "n")]  # and whether their diagonals are ones
    if turned:
        # op(f) = U^t L^t P^t: the rows are put in order last, so into another array.
        work = np.empty(x.shape, x.dtype)
        _storage.copy(work, b)
        for uplo, diag in reversed(triangles):
            solve_triangle(context, f, uplo, True, conjugated, diag, work)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        _storage.take_rows(x, work, back)
        return
    source = b.copy() if np.may_share_memory(x, b) else b
    _storage.take_rows(x, source, order)
    for uplo, diag in triangles:
        solve_triangle(context, f, uplo, False, conjugated, diag, x)


def solve(context, a, b, x) -> int:
    """x := a^-1 b; x may be b. Returns info; x is of no use if it is positive."""
    if a.dtype != x.dtype or _arrays.layout(a) is None:
        lu = factor_lu(context, stored(a, x.dtype))
        if lu.info == 0:
            solve_lu(context, lu, b, x)
        return lu.info
    # Factors that devices keep to themselves.
    matrix = readable(a, x.dtype)
    left = x if _arrays.leading_as(x, False) is not None else np.empty(x.shape, x.dtype, "F")
    if not _arrays.is_same(left, b):
        _storage.copy(left, b)
    trans = "t" if matrix.turned else "n"
    (info,) = _lapack.call(context, x.dtype, "solve", trans, *x.shape, matrix.f, left, left)
    if left is not x and info == 0:
        _storage.copy(x, left)
    return info


def solve_refined(context, a, b, x) -> int:
    """x := a^-1 b by a factorization in single precision that is refined, or in double where that
    does not converge. Returns info."""
    matrix = stored(a, x.dtype, turned=False)
    right = stored(b, x.dtype, turned=False).f
    left = x if _arrays.leading_as(x, False) is not None else np.empty(x.shape, x.dtype, "F")
    pivots = np.empty(len(a), np.int64)
    _, info = _lapack.call(context, x.dtype, "sgesv", *x.shape, matrix.f, pivots, right, left)
    if left is not x:
        _storage.copy(x, left)
    return info


def invert(context, a, out) -> int:
    """out := a^-1, C-ordered. Returns info; out is of no use if it is positive."""
    # The inverse of the transpose is the transpose of the inverse, so rows have to be columns.
    is_readable = a.dtype == out.dtype and _arrays.leading_as(a, True) is not None
    matrix = a.T if is_readable else stored(a, out.dtype, turned=True).f
    return _lapack.call(context, out.dtype, "inverse", len(a), matrix, out.T)[0]


def invert_lu(context, lu: Lu) -> int:
    """The inverse of what was factored, in its place; returns info."""
    f = lu.matrix.f
    return _lapack.call(context, f.dtype, "getri", len(f), f, lu.pivots)[0]


def signed_log_det(context, a, dtype):
    """The sign and the logarithm of the modulus of the determinant."""
    matrix = readable(a, dtype)
    sign, log = np.empty(1, dtype), np.empty(1)
    _lapack.call(context, dtype, "slogdet", len(a), matrix.f, sign, log)
    return sign[0], sign.real.dtype.type(log[0])


# ---- Cholesky -----------------------------------------------------------------------------------


def factor_cholesky(context, matrix: Stored, lower: bool) -> int:
    """The factor of one triangle of a Hermitian matrix in its place; returns info.

    The transpose of a Hermitian matrix is its conjugate. So is its factor, of the other triangle:
    the transpose of what is stored is the factor of the matrix itself.
    """
    uplo = "l" if lower != matrix.turned else "u"
    return _lapack.call(context, matrix.f.dtype, "potrf", uplo, len(matrix.f), matrix.f)[0]


def cholesky(context, a, out, lower: bool) -> int:
    """out := the factor, C-ordered, with zeros in its other triangle; returns info."""
    _storage.copy_triangle(out, a, lower)
    return factor_cholesky(context, Stored(out.T, True), lower)


def solve_cholesky(context, matrix: Stored, lower: bool, x: np.ndarray) -> None:
    """x becomes a^-1 x, with the factor of a; x is C-ordered or column-major."""
    uplo = "l" if lower != matrix.turned else "u"
    in_columns = _arrays.leading_as(x, False) is not None
    # The factor that lies there is of conj(a) if it is turned; and x^t meets a^t = conj(a).
    around = x.dtype.kind == "c" and matrix.turned == in_columns
    with _conjugated(x, around):
        if in_columns:
            _lapack.call(context, x.dtype, "potrs", uplo, *x.shape, matrix.f, x)
            return
        turns = "cn" if uplo == "l" else "nc"
        for trans in turns if x.dtype.kind == "c" else turns.replace("c", "t"):
            _lapack.trsm(context, "r" + uplo + trans + "n", matrix.f, x.T)


# ---- QR -----------------------------------------------------------------------------------------


def factor_qr(context, a, dtype, overwrite: bool = False):
    """LAPACK's geqrf: reflectors below R, column-major, and their factors."""
    f = stored(a, dtype, overwrite, turned=False).f
    tau = np.empty(min(f.shape), dtype)
    _lapack.call(context, dtype, "geqrf", *f.shape, f, tau)
    return f, tau


def upper(f, rows: int) -> np.ndarray:
    """R: the upper triangle of the first rows, C-ordered."""
    r = np.empty((rows, f.shape[1]), f.dtype)
    _storage.copy_triangle(r, f[:rows], lower=False)
    return r


def unitary(context, f, tau, cols: int) -> np.ndarray:
    """The first columns of Q, column-major; overwrites f where Q has no more columns than f."""
    rows, known = len(f), len(tau)
    q = f[:, :cols]
    if cols > f.shape[1]:
        q = np.empty((rows, cols), f.dtype, "F")
        _storage.copy(q[:, :known], f[:, :known])
    _lapack.call(context, f.dtype, "orgqr", rows, cols, known, q, tau)
    return q


def times_unitary(context, f, tau, x, adjoint: bool) -> None:
    """x becomes Q^H x or Q x, column-major."""
    trans = "n" if not adjoint else "c" if x.dtype.kind == "c" else "t"
    _lapack.call(
        context, x.dtype, "ormqr", "l", trans, *x.shape, len(tau), f[:, : len(tau)], tau, x
    )

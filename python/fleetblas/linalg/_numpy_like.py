# SPDX-License-Identifier: BSD-3-Clause
"""The functions that NumPy has: its shapes, types and errors. float32 and complex64 are computed as
such; results are C-ordered unless they say otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from . import _checked, _reduced, _single, _storage
from ._checked import array_of, context_of, wrapped
from ._scipy_like import solve_triangular


class QRResult(NamedTuple):
    """What qr returns."""

    Q: np.ndarray
    R: np.ndarray


class SlogdetResult(NamedTuple):
    """What slogdet returns."""

    sign: np.ndarray
    logabsdet: np.ndarray


_STRUCTURES = {
    "gen": "gen",
    "general": "gen",
    "pos": "pos",
    "positive definite": "pos",
    "upper triangular": "upper",
    "lower triangular": "lower",
}


# ---- solve --------------------------------------------------------------------------------------


def _solve_general(context, a, b, x, refine: bool, overwrite: bool) -> None:
    if refine and x.dtype in (np.float64, np.complex128):
        info = _single.solve_refined(context, a, b, x)
    elif overwrite:
        lu = _single.factor_lu(context, _single.stored(a, x.dtype, overwrite))
        info = lu.info
        if info == 0:
            _single.solve_lu(context, lu, b, x)
    else:
        info = _single.solve(context, a, b, x)
    if info > 0:
        raise LinAlgError("Singular matrix")


def _solve_positive(context, a, b, x, lower: bool, overwrite: bool) -> None:
    matrix = _single.stored(a, x.dtype, overwrite)
    if _single.factor_cholesky(context, matrix, lower) > 0:
        raise LinAlgError("Matrix is not positive definite")
    _storage.copy(x, b)
    _single.solve_cholesky(context, matrix, lower, x)


def solve(
    a,
    b,
    *,
    assume_a="gen",
    lower=False,
    refine=False,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=False,
    context=None,
):
    """x with a @ x = b, for matrices or stacks of matrices; b may be a vector.

    assume_a    "gen"; "pos": positive definite, of which one triangle is read, the lower one if
                `lower`; "upper triangular" or "lower triangular"
    refine      general matrices of float64 and complex128 are factored in single precision, and x
                is refined until it is as good as in double; where that does not converge they are
                factored in double
    overwrite_a, overwrite_b    their contents may be lost, which saves copies. Without overwrite_a
                the factors of a general matrix stay on devices that have room for them, which saves
                more than a copy where right sides are few
    check_finite                ValueError for an inf or a NaN

    Raises LinAlgError if a is singular, or not positive definite.
    """
    structure = _STRUCTURES.get(assume_a)
    if structure is None:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    context, given = context_of(context), b
    a, b = array_of(a), array_of(b)
    _checked.check_square(a)
    dtype = _checked.common_type(a, b)
    _checked.check_rows("solve", a, b)
    if structure in ("upper", "lower"):
        words = {"lower": structure == "lower", "overwrite_b": overwrite_b}
        x = solve_triangular(a, b, **words, check_finite=check_finite, context=context)
        return wrapped(given, x)
    _checked.check_all_finite(check_finite, a, b)
    columns = b[:, np.newaxis] if b.ndim == 1 else b
    stack = _checked.stack_of(a, columns)
    if structure == "gen" and a.size and not columns.size:
        # Without right sides NumPy reports a singular matrix all the same.
        x = np.linalg.solve(a, np.broadcast_to(columns, stack + columns.shape[-2:]))
        return wrapped(given, x.astype(dtype, copy=False))
    x = _checked.target(stack + columns.shape[-2:], dtype, columns, overwrite_b)
    for place, one_a, one_b in _checked.items(a, columns) if x.size else ():
        overwrite = overwrite_a and not stack
        if structure == "pos":
            _solve_positive(context, one_a, one_b, x[place], lower, overwrite)
        else:
            _solve_general(context, one_a, one_b, x[place], refine, overwrite)
    return wrapped(given, x[..., 0] if b.ndim == 1 else x)


# ---- functions of one square matrix -------------------------------------------------------------


def _square(a, check_finite: bool) -> tuple[np.ndarray, np.dtype]:
    array = array_of(a)
    _checked.check_square(array)
    dtype = _checked.common_type(array)
    _checked.check_all_finite(check_finite, array)
    return array, dtype


def inv(a, *, overwrite_a=False, check_finite=False, context=None):
    """The inverse of a matrix or a stack of matrices. LinAlgError if one is singular."""
    array, dtype = _square(a, check_finite)
    # The inverse of the transpose is the transpose of the inverse, so C order is what is needed.
    out = _checked.target(array.shape, dtype, array, overwrite_a and array.flags.c_contiguous)
    for place, one in _checked.items(array) if out.size else ():
        if _single.invert(context_of(context), one, out[place]) > 0:
            raise LinAlgError("Singular matrix")
    return wrapped(a, out)


def cholesky(a, *, upper=False, check_finite=False, context=None):
    """The lower factor L with a = L L^H, or the upper one with a = U^H U, of a matrix or a stack.

    Only that triangle of a is read. LinAlgError if a is not positive definite.
    """
    array, dtype = _square(a, check_finite)
    out = np.empty(array.shape, dtype)
    for place, one in _checked.items(array) if out.size else ():
        if _single.cholesky(context_of(context), one, out[place], not upper) > 0:
            raise LinAlgError("Matrix is not positive definite")
    return wrapped(a, out)


def slogdet(a, *, overwrite_a=False, check_finite=False, context=None):
    """Sign and logarithm of the modulus of the determinant, of a matrix or each of a stack.

    The matrix is read where it is; overwrite_a is SciPy's word, and changes nothing.
    """
    array, dtype = _square(a, check_finite)
    stack = array.shape[:-2]
    sign, log = np.ones(stack, dtype), np.zeros(stack, np.empty(0, dtype).real.dtype)
    for place, one in _checked.items(array) if array.size else ():
        sign[place], log[place] = _single.signed_log_det(context_of(context), one, dtype)
    return SlogdetResult(sign[()], log[()])


def det(a, *, overwrite_a=False, check_finite=False, context=None):
    """The determinant of a matrix, or of each matrix of a stack."""
    words = {"overwrite_a": overwrite_a, "check_finite": check_finite, "context": context}
    sign, log = slogdet(a, **words)
    with np.errstate(all="ignore"):
        return sign * np.exp(log)


# ---- QR and least squares -----------------------------------------------------------------------


def qr(a, mode="reduced", *, overwrite_a=False, check_finite=False, context=None):
    """The QR factorization of a matrix or a stack of matrices.

    mode    "reduced": Q with min(m, n) columns, and R; "complete": with m columns; "r": R only;
            "raw": the reflectors as LAPACK's geqrf has them, transposed, and their factors

    Q of a single matrix is in Fortran order.
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    context, array = context_of(context), array_of(a)
    _checked.check_matrices(array)
    dtype = _checked.common_type(array)
    _checked.check_all_finite(check_finite, array)
    if not array.size:
        result = np.linalg.qr(array.astype(dtype), mode)
        return QRResult(*result) if mode in ("reduced", "complete") else result
    stack = array.shape[:-2]
    if not stack:
        parts = _qr_of_one(context, array, dtype, mode, overwrite_a)
    else:
        found = [_qr_of_one(context, one, dtype, mode, False) for _, one in _checked.items(array)]
        parts = [np.stack(each).reshape(stack + each[0].shape) for each in zip(*found)]
    if mode == "r":
        return wrapped(a, parts[0])
    if mode == "raw":
        return wrapped(a, parts[0]), parts[1]
    return QRResult(wrapped(a, parts[0]), wrapped(a, parts[1]))


def _qr_of_one(context, a, dtype, mode: str, overwrite: bool) -> tuple[np.ndarray, ...]:
    f, tau = _single.factor_qr(context, a, dtype, overwrite)
    if mode == "raw":
        return f.T, tau
    cols = len(f) if mode == "complete" else len(tau)
    r = _single.upper(f, cols)
    return (r,) if mode == "r" else (_single.unitary(context, f, tau, cols), r)


def lstsq(a, b, rcond=None, *, context=None):
    """NumPy's least squares: x, residuals, rank and singular values of a.

    A matrix that is much longer than wide, or wider than long, is reduced to a square one by a QR
    factorization, and NumPy solves that; it also solves what is nearly square from the beginning.
    """
    given = b
    a, b = array_of(a), array_of(b)
    columns = b[:, np.newaxis] if b.ndim == 1 else b
    for array in (a, columns):
        if array.ndim != 2:
            text = f"{array.ndim}-dimensional array given. Array must be two-dimensional"
            raise LinAlgError(text)
    if a.shape[0] != b.shape[0]:
        raise LinAlgError("Incompatible dimensions")
    dtype = _checked.common_type(a, b)
    rcond = np.finfo(dtype).eps * max(a.shape) if rcond is None else rcond
    if not (a.size and columns.size and _reduced.is_worth_it(*a.shape)):
        return np.linalg.lstsq(a, given, rcond)
    x, residuals, rank, s = _reduced.lstsq(context_of(context), a, columns, dtype, rcond)
    return wrapped(given, x[:, 0] if b.ndim == 1 else x), wrapped(given, residuals), rank, s

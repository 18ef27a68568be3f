# SPDX-License-Identifier: BSD-3-Clause
"""The functions that SciPy has and NumPy has not: factorizations that are kept, and solutions with
them, with SciPy's arguments, results and errors. Does not need SciPy."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.linalg import LinAlgError

from . import _checked, _single, _storage
from ._checked import array_of, context_of

_TRANS = {0: "n", 1: "t", 2: "c", "N": "n", "T": "t", "C": "c"}


def _trans(word) -> str:
    """The letter of SciPy's word or number for an operation."""
    try:
        return _TRANS[word.upper() if isinstance(word, str) else word]
    except (KeyError, TypeError):
        raise ValueError(f"trans {word!r} is none of 0, 1, 2, 'N', 'T', 'C'") from None


def _square(name: str, array: np.ndarray) -> None:
    _checked.check_matrices(array)
    if array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name}: expected a square matrix, got shape {array.shape}")


def _right_side(name: str, a, b, dtype, overwrite: bool):
    """b as columns, with those of the result, and the results' shape in the end."""
    _checked.check_rows(name, a, b)
    columns = b[:, np.newaxis] if b.ndim == 1 else b
    shape = _checked.stack_of(a, columns) + columns.shape[-2:]
    # A matrix in Fortran order stays so: its copy costs least, and LAPACK uses it as it is.
    order = "F" if len(shape) == 2 and not _storage.is_row_major(columns) else "C"
    x = _checked.target(shape, dtype, columns, overwrite, order)
    return columns, x, x[..., 0] if b.ndim == 1 else x


def lu_factor(a, overwrite_a=False, check_finite=True, *, context=None):
    """(lu, piv) for lu_solve: L below the diagonal of lu, whose ones are not stored, and U; row i
    was exchanged with row piv[i]. Matrices, of any shape, or stacks of them.

    Warns of a matrix that is singular.
    """
    array = array_of(a)
    _checked.check_matrices(array)
    dtype = _checked.common_type(array)
    _checked.check_all_finite(check_finite, array)
    stack, count = array.shape[:-2], min(array.shape[-2:])
    piv = np.zeros((*stack, count), np.int32)
    if not array.size:
        piv[...] = np.arange(count)
        return np.empty(array.shape, dtype), piv
    lu = np.empty(array.shape, dtype) if stack else None
    for place, one in _checked.items(array):
        matrix = _single.stored(one, dtype, overwrite_a and not stack, turned=False)
        found = _single.factor_lu(context_of(context), matrix)
        if found.info > 0:
            text = f"Diagonal number {found.info} is exactly zero. Singular matrix."
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        piv[place] = found.pivots - 1
        if stack:
            lu[place] = matrix.f
        else:
            lu = matrix.f
    return lu, piv


def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True, *, context=None):
    """x with op(a) @ x = b, with what lu_factor(a) returned; op: 0 a, 1 its transpose, 2 the
    conjugate of that."""
    lu, piv = map(array_of, lu_and_piv)
    b, trans = array_of(b), _trans(trans)
    _square("lu_solve", lu)
    dtype = _checked.common_type(lu, b)
    n = lu.shape[-1]
    if piv.shape != lu.shape[:-1] or piv.dtype.kind not in "iu":
        raise ValueError(f"lu_solve: piv {piv.shape} does not belong to lu {lu.shape}")
    if piv.size and (piv.min() < 0 or piv.max() >= n):
        raise ValueError("lu_solve: a row that piv names does not exist")
    _checked.check_all_finite(check_finite, lu, b)
    columns, x, result = _right_side("lu_solve", lu, b, dtype, overwrite_b)
    pivots = piv[..., np.newaxis].astype(np.int64) + 1
    for place, one_lu, one_piv, one_b in _checked.items(lu, pivots, columns) if x.size else ():
        one = np.ascontiguousarray(one_piv[:, 0])
        factored = _single.Lu(_single.readable(one_lu, dtype), one, 0)
        if factored.matrix.turned:
            # P stands before the factors of lu, and lu is not theirs if it is transposed.
            factored.matrix = _single.stored(one_lu, dtype, turned=False)
        _single.solve_lu(context_of(context), factored, one_b, x[place], trans)
    return result


def cho_factor(a, lower=False, overwrite_a=False, check_finite=True, *, context=None):
    """(c, lower) for cho_solve: the Cholesky factor in one triangle of c; the other triangle holds
    anything. LinAlgError if a is not positive definite."""
    array = array_of(a)
    _square("cho_factor", array)
    dtype = _checked.common_type(array)
    _checked.check_all_finite(check_finite, array)
    stack = array.shape[:-2]
    c = np.empty(array.shape, dtype) if stack or not array.size else None
    for place, one in _checked.items(array) if array.size else ():
        matrix = _single.stored(one, dtype, overwrite_a and not stack)
        info = _single.factor_cholesky(context_of(context), matrix, bool(lower))
        if info > 0:
            raise LinAlgError(f"{info}-th leading minor of the array is not positive definite")
        factor = matrix.f.T if matrix.turned else matrix.f
        if stack:
            c[place] = factor
        else:
            c = factor
    return c, bool(lower)


def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True, *, context=None):
    """x with a @ x = b, with what cho_factor(a) returned."""
    c, lower = c_and_lower
    if np.ndim(lower):  # SciPy's cho_factor gives one for each matrix of a stack, all the same
        lower = np.asarray(lower).flat[0]
    c, b = array_of(c), array_of(b)
    _square("cho_solve", c)
    dtype = _checked.common_type(c, b)
    _checked.check_all_finite(check_finite, c, b)
    columns, x, result = _right_side("cho_solve", c, b, dtype, overwrite_b)
    for place, one_c, one_b in _checked.items(c, columns) if x.size else ():
        _storage.copy(x[place], one_b)
        _single.solve_cholesky(
            context_of(context), _single.readable(one_c, dtype), bool(lower), x[place]
        )
    return result


def solve_triangular(
    a,
    b,
    trans=0,
    lower=False,
    unit_diagonal=False,
    overwrite_b=False,
    check_finite=True,
    *,
    context=None,
):
    """x with op(a) @ x = b, of which only one triangle is read; op: 0 a, 1 its transpose, 2 the
    conjugate of that. LinAlgError for a zero on the diagonal."""
    a, b, trans = array_of(a), array_of(b), _trans(trans)
    _square("solve_triangular", a)
    dtype = _checked.common_type(a, b)
    _checked.check_all_finite(check_finite, a, b)
    columns, x, result = _right_side("solve_triangular", a, b, dtype, overwrite_b)
    diag = "u" if unit_diagonal else "n"
    for place, one_a, one_b in _checked.items(a, columns) if x.size else ():
        zeros = np.flatnonzero(one_a.diagonal() == 0)
        if zeros.size and not unit_diagonal:
            raise LinAlgError(f"singular matrix: resolution failed at diagonal {zeros[0]}")
        matrix = _single.readable(one_a, dtype)
        uplo = "l" if bool(lower) != matrix.turned else "u"
        turned = (trans != "n") != matrix.turned
        _storage.copy(x[place], one_b)
        _single.solve_triangle(
            context_of(context), matrix.f, uplo, turned, trans == "c", diag, x[place]
        )
    return result

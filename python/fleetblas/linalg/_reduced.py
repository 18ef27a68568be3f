# SPDX-License-Identifier: BSD-3-Clause
"""Least squares by a QR factorization, and a square problem that NumPy solves.

With A = Q R, R has the singular values of A, and R x = Q^H b the least squares solutions of
A x = b. With A^H = Q R, and y the shortest solution of R^H y = b, the shortest solution of A x = b
is Q y. So rank, singular values and solution are those of A, whatever its rank is.
"""

from __future__ import annotations

import numpy as np

from . import _single, _storage


def is_worth_it(rows: int, cols: int) -> bool:
    """Whether the square problem is so much smaller that the factorization pays."""
    return max(rows, cols) >= 2 * min(rows, cols)


def lstsq(context, a, b, dtype, rcond, solve=np.linalg.lstsq):
    """x, residuals (empty where they are not those of a matrix of full rank), rank, and singular
    values, for matrices that are not empty; solve: what does the square problem."""
    rows, cols = a.shape
    if rows >= cols:
        f, tau = _single.factor_qr(context, a, dtype)
        right = _single.stored(b, dtype, turned=False).f
        _single.times_unitary(context, f, tau, right, adjoint=True)
        x, _, rank, s = solve(_single.upper(f, cols), right[:cols], rcond)
        rest = right[cols:]
        is_full = rank == cols and rows > cols
        squares = np.sum(np.abs(rest) ** 2, axis=0) if is_full else np.empty(0, rest.real.dtype)
        return x, squares, rank, s
    adjoint = a.conj().T if a.dtype.kind == "c" else a.T
    f, tau = _single.factor_qr(context, adjoint, dtype)
    r = _single.upper(f, rows)
    y, residuals, rank, s = solve(r.conj().T, b, rcond)
    x = np.zeros((cols, b.shape[1]), dtype, "F")
    _storage.copy(x[:rows], y)
    _single.times_unitary(context, f, tau, x, adjoint=False)
    return np.ascontiguousarray(x), residuals[:0], rank, s

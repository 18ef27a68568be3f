# SPDX-License-Identifier: BSD-3-Clause
"""The functions behind scipy.linalg.solve and inv, from SciPy 1.17 on, for one general or positive
definite matrix whose condition gives nothing to warn of. With any other SciPy does it all."""

from __future__ import annotations

import numpy as np

from .. import _lapack
from . import _single, _storage
from ._prepared import LeftToCaller, Prepared, flops_of, name_of

_DETECT, _GENERAL, _POSITIVE = -1, 0, 101  # SciPy's numbers of structures


def prepared(name: str, original, values: tuple, words: dict) -> Prepared | None:
    """None for what is left to SciPy."""
    if words:
        return None
    arrays = values[: 2 if name == "_solve" else 1]
    a = arrays[0]
    if any(type(each) is not np.ndarray or each.ndim != 2 or not each.size for each in arrays):
        return None
    if a.shape[0] != a.shape[1] or a.dtype.char not in "fdFD":
        return None
    if any(each.dtype != a.dtype or len(each) != len(a) for each in arrays):
        return None
    compute, flops = {"_solve": _solution, "_inv": _inverse}[name](*values)
    if compute is None:
        return None
    is_positive = name == "_solve" and values[2] == _POSITIVE
    routine = {"_solve": "posv" if is_positive else "gesv", "_inv": "getri"}[name]
    # The empty list is of warnings, of which there are none.
    return Prepared(
        name_of(a.dtype, routine, f"scipy.linalg.{name[1:]}"),
        flops_of(a.dtype, flops),
        lambda context: ((compute(context), []), None),
    )


def _is_general(a, structure: int) -> bool:
    """Not if it is to be detected, and may be banded, triangular or symmetric."""
    if structure != _DETECT:
        return structure == _GENERAL
    is_symmetric = np.array_equal(a[0], a[:, 0]) or np.array_equal(a[0], a[:, 0].conj())
    return a[0, -1] != 0 and a[-1, 0] != 0 and not is_symmetric


def _of_scipy(dtype, name: str):
    """A function of SciPy's LAPACK."""
    from scipy.linalg import lapack

    return getattr(lapack, _lapack.letter_of(dtype) + name)


def _check_condition(dtype, rcond, info) -> None:
    """By what SciPy's LAPACK estimates: SciPy warns of smaller ones."""
    if info != 0 or not rcond > 4 * np.finfo(dtype).eps:
        raise LeftToCaller("ill-conditioned")


def _factor_general(context, matrix: _single.Stored) -> _single.Lu:
    # The norm of the transpose by rows is that of the matrix by columns, which SciPy takes.
    norm, f = "I" if matrix.turned else "1", matrix.f
    size = _of_scipy(f.dtype, "lange")(norm, f)
    lu = _single.factor_lu(context, matrix)
    if lu.info > 0:
        raise LeftToCaller("singular")
    _check_condition(f.dtype, *_of_scipy(f.dtype, "gecon")(f, size, norm=norm))
    return lu


def _solution(a, b, structure, lower, transposed, overwrite_a, overwrite_b):
    flops = 2.0 * a.size * (len(a) / 3 + b.shape[1])
    if structure == _POSITIVE and not transposed:
        return _positive_solution(a, b, bool(lower)), flops / 2
    if not _is_general(a, structure) or (transposed and a.dtype.kind == "c"):
        return None, flops

    def compute(context):
        lu = _factor_general(context, _single.stored(a, a.dtype))
        x = np.empty(b.shape, b.dtype)
        _single.solve_lu(context, lu, b, x, "t" if transposed else "n")
        return x

    return compute, flops


def _positive_solution(a, b, lower: bool):
    def compute(context):
        matrix = _single.stored(a, a.dtype)
        uplo = "L" if lower != matrix.turned else "U"
        size = _norm_of_triangle(matrix.f, uplo)
        if _single.factor_cholesky(context, matrix, lower) > 0:
            raise LeftToCaller("not positive definite")
        _check_condition(a.dtype, *_of_scipy(a.dtype, "pocon")(matrix.f, size, uplo=uplo))
        x = np.empty(b.shape, b.dtype)
        _storage.copy(x, b)
        _single.solve_cholesky(context, matrix, lower, x)
        return x

    return compute


def _norm_of_triangle(f, uplo: str) -> float:
    """Of the Hermitian matrix, of which one triangle is read: the largest sum of a column."""
    half = np.abs(np.tril(f) if uplo == "L" else np.triu(f))
    diagonal = half.diagonal()
    return float(np.max(half.sum(axis=0) + half.sum(axis=1) - diagonal))


def _inverse(a, structure, overwrite_a, lower):
    if not _is_general(a, structure):
        return None, 0.0

    def compute(context):
        out = np.empty(a.shape, a.dtype)
        _storage.copy(out, a)
        lu = _factor_general(context, _single.Stored(out.T, True))
        _single.invert_lu(context, lu)
        return out

    return compute, 2.0 * len(a) ** 3

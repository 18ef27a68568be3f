# SPDX-License-Identifier: BSD-3-Clause
"""The functions of numpy.linalg._umath_linalg for stacks of matrices: same operands, same results,
NaN where NumPy has NaN, and its way to report it. Results are C-ordered, as NumPy's. NumPy 1 gives
the error state of the caller as extobj."""

from __future__ import annotations

import functools

import numpy as np

from . import _checked, _reduced, _single, _storage
from ._prepared import LeftToCaller, Prepared, flops_of, name_of, qr_flops


def signal(original, name: str, sample: np.ndarray, words: dict) -> None:
    """Has NumPy report what it would have reported of the operands, by a small sample of the same
    kind: as a NaN, a warning or an error, as the error state of the caller says."""
    right = np.ones(sample.shape[: 2 if name == "solve" else 1], sample.dtype)
    original(sample, *((right,) if name.startswith("solve") else ()), **words)


def prepared(name: str, original, values: tuple, words: dict) -> Prepared | None:
    """None for what is left to NumPy."""
    if set(words) - {"signature", "extobj"} or name not in _FUNCTIONS:
        return None
    count, routine, flops, function = _FUNCTIONS[name]
    arrays, scalars = values[:count], values[count:]
    is_lstsq = name.startswith("lstsq")  # the one function with a number, rcond
    if len(scalars) != (1 if is_lstsq else 0):
        return None
    if any(type(array) is not np.ndarray or not array.size for array in arrays):
        return None
    dtype = _type(original, arrays, words.get("signature"))
    if dtype is None or not all(_casts(array.dtype, dtype) for array in arrays):
        return None
    if arrays[0].ndim < 2 or (name in _OF_SQUARES and arrays[0].shape[-2] != arrays[0].shape[-1]):
        return None
    if is_lstsq:
        scalars = (*scalars, functools.partial(original, **words))
    compute = function(dtype, *arrays, *scalars)
    if compute is None:
        return None
    edges = (*arrays[0].shape[-2:], *(arrays[1].shape[-1:] if count > 1 else ()))
    caller = name.partition("_")[0].rstrip("1")  # "qr" of "qr_r_raw", "solve" of "solve1"
    words = name_of(dtype, routine, f"numpy.linalg.{caller}")
    return Prepared(words, flops_of(dtype, flops(*edges)), compute)


def _type(original, arrays, signature) -> np.dtype | None:
    """The type of the matrices; None if it is none of LAPACK's four."""
    if signature is None:
        return _checked.common_type(*arrays) if all(_is_known(a.dtype) for a in arrays) else None
    if not isinstance(signature, str) or signature not in original.types:
        return None
    return np.dtype(signature[0])


def _is_known(dtype) -> bool:
    return dtype.char in "fdFD" and dtype.isnative


def _casts(given, dtype) -> bool:
    return given.kind in "biufc" and np.can_cast(given, dtype, "same_kind")


# What follows, down to _FUNCTIONS, takes the type, operands and scalars of NumPy's function, and
# returns what computes it (see Prepared), or None for what is left to NumPy.

# ---- one square matrix --------------------------------------------------------------------------


def _inverses(dtype, a):
    def compute(context):
        out, sample = np.empty(a.shape, dtype), None
        for place, one in _checked.items(a):
            if _single.invert(context, one, out[place]) > 0:
                out[place], sample = np.nan, np.zeros((1, 1), dtype)
        return out, sample

    return compute


def _factors(lower: bool):
    def function(dtype, a):
        def compute(context):
            out, sample = np.empty(a.shape, dtype), None
            for place, one in _checked.items(a):
                if _single.cholesky(context, one, out[place], lower) > 0:
                    out[place], sample = np.nan, -np.ones((1, 1), dtype)
            return out, sample

        return compute

    return function


def _signs_and_logs(dtype, a):
    def compute(context):
        stack = a.shape[:-2]
        sign, log = np.empty(stack, dtype), np.empty(stack, np.empty(0, dtype).real.dtype)
        for place, one in _checked.items(a):
            sign[place], log[place] = _single.signed_log_det(context, one, dtype)
        if not (np.isfinite(sign).all() and np.all(log < np.inf)):
            raise LeftToCaller("not finite")
        return (sign[()], log[()]), None

    return compute


def _determinants(dtype, a):
    def compute(context):
        (sign, log), _ = _signs_and_logs(dtype, a)(context)
        size, info, edge = np.exp(log), np.finfo(dtype), None
        if np.any(np.isinf(size)):
            edge = info.max / 4
        elif np.any((size < info.tiny) & (log > -np.inf)):
            edge = info.tiny
        # A sign with parts that are zero would make more to report, of infinity times zero.
        phase = 1 + 1j if dtype.kind == "c" else 1
        sample = None if edge is None else np.diag(np.array([edge * phase, edge], dtype))
        return sign * size, sample

    return compute


# ---- systems ------------------------------------------------------------------------------------


def _solutions(dtype, a, b):
    if b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return None
    stack = _checked.stack_of(a, b)

    def compute(context):
        x, sample = np.empty(stack + b.shape[-2:], dtype), None
        for place, one_a, one_b in _checked.items(a, b):
            if _single.solve(context, one_a, one_b, x[place]) > 0:
                x[place], sample = np.nan, np.zeros((1, 1), dtype)
        return x, sample

    return compute


def _solutions_of_vectors(dtype, a, b):
    compute_columns = _solutions(dtype, a, b[..., np.newaxis])

    def compute(context):
        x, sample = compute_columns(context)
        return x[..., 0], sample

    return compute_columns and compute


def _least_squares(dtype, a, b, rcond, solve):
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b) or not _reduced.is_worth_it(*a.shape):
        return None

    def compute(context):
        x, squares, rank, s = _reduced.lstsq(context, a, b, dtype, rcond, solve)
        if rank < 0:
            raise LeftToCaller("no convergence")
        if not squares.size:
            squares = np.full(b.shape[1], np.nan, s.dtype)  # which the caller drops
        return (x, squares, rank, s), None

    return compute


# ---- QR -----------------------------------------------------------------------------------------


def _reflectors(dtype, a):
    """Overwrites a, as NumPy's function does."""
    if a.dtype != dtype or not a.flags.writeable:
        return None

    def compute(context):
        tau = np.empty((*a.shape[:-2], min(a.shape[-2:])), dtype)
        found = [_single.factor_qr(context, one, dtype) for _, one in _checked.items(a)]
        for (place, one), (f, factors) in zip(_checked.items(a), found):
            _storage.copy(one, f)
            tau[place] = factors
        return tau, None

    return compute


def _unitaries(is_complete: bool):
    def function(dtype, a, tau):
        known = min(a.shape[-2:])
        if tau.shape != (*a.shape[:-2], known):
            return None

        def compute(context):
            rows = a.shape[-2]
            q = np.empty((*a.shape[:-1], rows if is_complete else known), dtype)
            for place, one in _checked.items(a):
                f = _single.stored(one[:, :known], dtype, turned=False).f
                factors = np.ascontiguousarray(tau[place], dtype)
                columns = _single.unitary(context, f, factors, q.shape[-1])
                _storage.copy(q[place], columns)
            return q, None

        return compute

    return function


def _factor_flops(rows: int, cols: int, *_) -> float:
    return qr_flops(rows, cols)


_OF_SQUARES = ("solve", "solve1", "inv", "det", "slogdet", "cholesky_lo", "cholesky_up")

# Operands; the routine of LAPACK that NumPy calls; flops of real numbers by the edges of the first
# operand and the last of the second; function.
_FUNCTIONS = {
    "solve": (2, "gesv", lambda n, _, m: 2 * n * n * (n / 3 + m), _solutions),
    "solve1": (2, "gesv", lambda n, *_: 2 / 3 * n**3, _solutions_of_vectors),
    "inv": (1, "gesv", lambda n, _: 2.0 * n**3, _inverses),
    "det": (1, "getrf", lambda n, _: 2 / 3 * n**3, _determinants),
    "slogdet": (1, "getrf", lambda n, _: 2 / 3 * n**3, _signs_and_logs),
    "cholesky_lo": (1, "potrf", lambda n, _: 1 / 3 * n**3, _factors(True)),
    "cholesky_up": (1, "potrf", lambda n, _: 1 / 3 * n**3, _factors(False)),
    "qr_r_raw": (1, "geqrf", _factor_flops, _reflectors),
    "qr_r_raw_m": (1, "geqrf", _factor_flops, _reflectors),
    "qr_r_raw_n": (1, "geqrf", _factor_flops, _reflectors),
    "qr_reduced": (2, "orgqr", _factor_flops, _unitaries(False)),
    "qr_complete": (2, "orgqr", _factor_flops, _unitaries(True)),
    "lstsq": (2, "gelsd", _factor_flops, _least_squares),
    "lstsq_m": (2, "gelsd", _factor_flops, _least_squares),
    "lstsq_n": (2, "gelsd", _factor_flops, _least_squares),
}

# SPDX-License-Identifier: BSD-3-Clause
"""The functions of scipy.linalg.lapack for one matrix: same arguments, same results.

Results are column-major, as SciPy's. An operand that may be overwritten is, if it is column-major.
"""

from __future__ import annotations

import numpy as np

from .. import _lapack
from . import _single, _storage
from ._prepared import Prepared, flops_of, qr_flops

_DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
_SAME = {"ungqr": "orgqr", "unmqr": "ormqr"}


def prepared(name: str, original, values: tuple, words: dict) -> Prepared | None:
    """None for what is left to SciPy: other types, what has no elements or does not fit, and
    queries for the size of a workspace."""
    dtype, routine = np.dtype(_DTYPES[name[0]]), _SAME.get(name[1:], name[1:])
    if words.get("lwork") == -1:
        return None
    arrays = [value for value in (*values, *words.values()) if isinstance(value, np.ndarray)]
    for array in arrays:
        is_pivots = routine in ("getrs", "getri") and array.ndim == 1
        if type(array) is not np.ndarray or not array.size:
            return None
        if array.dtype != dtype and not (is_pivots and array.dtype.kind == "i"):
            return None
    call = _Call(dtype)
    compute = getattr(call, routine)(*values, **words)  # TypeError: arguments that are not known
    if compute is None:
        return None
    return Prepared(
        f"{name} (scipy.linalg.lapack)",
        flops_of(dtype, call.flops),
        lambda context: (compute(context), None),
        call.overwrites,
    )


def _is_square(a) -> bool:
    return a.ndim == 2 and a.shape[0] == a.shape[1]


def _fit(a, b) -> bool:
    return _is_square(a) and b.ndim == 2 and len(a) == len(b)


def _uplo(lower) -> str:
    return "l" if lower else "u"


def _pivots(piv) -> np.ndarray | None:
    """1-based, or None if a row does not exist."""
    if piv.ndim != 1 or piv.min() < 0 or piv.max() >= len(piv):
        return None
    return piv.astype(np.int64) + 1


class _Call:
    """One call, whose methods are the functions without the letter of the type: each returns what
    computes it, or None for what is left to SciPy.

    flops       of real numbers, set by the method
    overwrites  the operands in whose memory the result is, once that is computed
    """

    def __init__(self, dtype):
        self.dtype = dtype
        self.flops = 0.0
        self.overwrites = []

    def _own(self, a, overwrite):
        """Column-major memory with the contents of a, where the result will be."""
        f = _single.stored(a, self.dtype, bool(overwrite), turned=False).f
        if f is a:
            self.overwrites.append(a)
        return f

    def _call(self, context, *words):
        """One function of lapack.h: its name and arguments. Returns its numbers, such as info."""
        return _lapack.call(context, self.dtype, *words)

    # ---- LU

    def getrf(self, a, overwrite_a=0):
        if a.ndim != 2:
            return None
        self.flops = qr_flops(*a.shape) / 2

        def compute(context):
            lu = _single.factor_lu(context, _single.Stored(self._own(a, overwrite_a), False))
            return lu.matrix.f, (lu.pivots - 1).astype(np.int32), lu.info

        return compute

    def getrs(self, lu, piv, b, trans=0, overwrite_b=0):
        if not _fit(lu, b) or len(piv) != len(lu) or trans not in (0, 1, 2):
            return None
        pivots = _pivots(piv)
        self.flops = 2.0 * len(lu) * b.size
        if pivots is None:
            return None

        def compute(context):
            x = self._own(b, overwrite_b)
            matrix = _single.stored(lu, self.dtype, overwrite=True, turned=False)
            word = "ntc"[trans] if x.dtype.kind == "c" else "ntt"[trans]
            self._call(context, "getrs", word, *x.shape, matrix.f, pivots, x)
            return x, 0

        return compute

    def gesv(self, a, b, overwrite_a=0, overwrite_b=0):
        if not _fit(a, b):
            return None
        self.flops = 2.0 * a.size * (len(a) / 3 + b.shape[1])

        def compute(context):
            # Not in the caller's memory, which is needed again where the second step fails.
            lu = _single.factor_lu(context, _single.Stored(self._own(a, False), False))
            x = self._own(b, False)
            if lu.info == 0:
                self._call(context, "getrs", "n", *x.shape, lu.matrix.f, lu.pivots, x)
            return lu.matrix.f, (lu.pivots - 1).astype(np.int32), x, lu.info

        return compute

    def getri(self, lu, piv, lwork=None, overwrite_lu=0):
        if not _is_square(lu) or len(piv) != len(lu) or lwork == -1:
            return None
        pivots = _pivots(piv)
        self.flops = 4 / 3 * len(lu) ** 3
        if pivots is None:
            return None

        def compute(context):
            inverse = self._own(lu, overwrite_lu)
            return inverse, *self._call(context, "getri", len(inverse), inverse, pivots)

        return compute

    # ---- Cholesky

    def _potrf(self, context, a, lower, clean, overwrite_a):
        if clean and not (overwrite_a and a.flags.f_contiguous):
            c = np.empty(a.shape, self.dtype, "F")
            _storage.copy_triangle(c, a, bool(lower))
        else:
            c = self._own(a, overwrite_a)
        (info,) = self._call(context, "potrf", _uplo(lower), len(c), c)
        if clean and overwrite_a and np.shares_memory(a, c):
            _storage.copy_triangle(c, c, bool(lower))
        return c, info

    def potrf(self, a, lower=0, clean=1, overwrite_a=0):
        if not _is_square(a):
            return None
        self.flops = len(a) ** 3 / 3
        return lambda context: self._potrf(context, a, lower, clean, overwrite_a)

    def potrs(self, c, b, lower=0, overwrite_b=0):
        if not _fit(c, b):
            return None
        self.flops = 2.0 * len(c) * b.size

        def compute(context):
            x = self._own(b, overwrite_b)
            _single.solve_cholesky(context, _single.readable(c, self.dtype), bool(lower), x)
            return x, 0

        return compute

    def posv(self, a, b, lower=0, overwrite_a=0, overwrite_b=0):
        if not _fit(a, b):
            return None
        self.flops = a.size * (len(a) / 3 + 2 * b.shape[1])

        def compute(context):
            c, info = self._potrf(context, a, lower, clean=False, overwrite_a=False)
            x = self._own(b, False)
            if info == 0:
                self._call(context, "potrs", _uplo(lower), *x.shape, c, x)
            return c, x, info

        return compute

    def potri(self, c, lower=0, overwrite_c=0):
        return self._triangle("potri", c, _uplo(lower), overwrite_c, 2 / 3)

    def lauum(self, c, lower=0, overwrite_c=0):
        return self._triangle("lauum", c, _uplo(lower), overwrite_c, 1 / 3)

    def trtri(self, c, lower=0, unitdiag=0, overwrite_c=0):
        return self._triangle("trtri", c, _uplo(lower) + "nu"[bool(unitdiag)], overwrite_c, 1 / 3)

    def _triangle(self, name, c, flags, overwrite, share):
        if not _is_square(c):
            return None
        self.flops = share * len(c) ** 3

        def compute(context):
            result = self._own(c, overwrite)
            return result, *(self._call(context, name, *flags, len(result), result) or (0,))

        return compute

    def trtrs(self, a, b, lower=0, trans=0, unitdiag=0, overwrite_b=0):
        if not _fit(a, b) or trans not in (0, 1, 2) or (not unitdiag and not a.diagonal().all()):
            return None
        self.flops = float(len(a) * b.size)

        def compute(context):
            x = self._own(b, overwrite_b)
            matrix = _single.readable(a, self.dtype)
            uplo = "l" if bool(lower) != matrix.turned else "u"
            turned = (trans != 0) != matrix.turned
            diag = "nu"[bool(unitdiag)]
            _single.solve_triangle(context, matrix.f, uplo, turned, trans == 2, diag, x)
            return x, 0

        return compute

    # ---- QR

    def _work(self, size, lwork):
        """SciPy's workspace, which begins with how long it should be."""
        work = np.zeros(lwork, self.dtype)
        work[0] = size
        return work

    def geqrf(self, a, lwork=None, overwrite_a=0):
        if a.ndim != 2:
            return None
        lwork = 3 * a.shape[1] if lwork is None else lwork
        if lwork < a.shape[1]:
            return None
        self.flops = qr_flops(*a.shape)

        def compute(context):
            work, qr = self._work(a.shape[1], lwork), self._own(a, overwrite_a)
            qr, tau = _single.factor_qr(context, qr, self.dtype, overwrite=True)
            return qr, tau, work, 0

        return compute

    def orgqr(self, a, tau, lwork=None, overwrite_a=0):
        if a.ndim != 2 or tau.ndim != 1 or not len(a) >= a.shape[1] >= len(tau):
            return None
        lwork = 3 * a.shape[1] if lwork is None else lwork
        if lwork < a.shape[1]:
            return None
        self.flops = qr_flops(*a.shape)

        def compute(context):
            work, factors = self._work(a.shape[1], lwork), np.ascontiguousarray(tau)
            q = self._own(a, overwrite_a)
            self._call(context, "orgqr", *q.shape, len(tau), q, factors)
            return q, work, 0

        return compute

    def ormqr(self, side, trans, a, tau, c, lwork, overwrite_c=0):
        words = [each.decode() if isinstance(each, bytes) else each for each in (side, trans)]
        side, trans = (str(word).lower() for word in words)
        adjoint = "c" if self.dtype.kind == "c" else "t"
        if side not in ("l", "r") or trans not in ("n", adjoint):
            return None
        if a.ndim != 2 or tau.ndim != 1 or c.ndim != 2 or a.shape[1] != len(tau):
            return None
        if len(a) != c.shape[side == "r"] or len(a) < len(tau) or lwork < c.shape[side == "l"]:
            return None
        self.flops = 4.0 * c.size * len(tau)

        def compute(context):
            work, factors = self._work(max(c.shape), lwork), np.ascontiguousarray(tau)
            f = _single.stored(a, self.dtype, overwrite=True, turned=False).f  # is only read
            result = self._own(c, overwrite_c)
            self._call(context, "ormqr", side, trans, *result.shape, len(tau), f, factors, result)
            return result, work, 0

        return compute

# SPDX-License-Identifier: BSD-3-Clause
"""Checks a product against its operands, without trusting the BLAS that made it.

All matrices are NumPy arrays in host memory. `error` is max|diff| / (eps * k * max|A| * max|B|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SAMPLE = 64  # rows, and columns
CHUNK_BYTES = 2**25
# A sum of k products is off by less than k*eps times their sizes, mostly by about sqrt(k)*eps; one
# missing tile shows as 1/eps. So a small number separates right from wrong.
TOLERANCE = 4.0
LONGDOUBLE_FLOPS = 2.0**28  # a whole product without BLAS takes about a second


@dataclass
class Product:
    """C = alpha*op(A)*op(B) + beta*C0, with the result under test in `c`."""

    transa: str
    transb: str
    alpha: complex
    a: np.ndarray
    b: np.ndarray
    beta: complex
    c0: np.ndarray
    c: np.ndarray


@dataclass
class Verdict:
    error: float
    residual: float  # of C*x with a random x, in the same unit
    tolerance: float

    @property
    def ok(self) -> bool:
        # Not a number is not ok.
        return self.error <= self.tolerance and self.residual <= self.tolerance


def apply_op(op: str, matrix: np.ndarray) -> np.ndarray:
    return {"n": matrix, "t": matrix.T}.get(op) if op in "nt" else matrix.T.conj()


def _wide(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.clongdouble if dtype.kind == "c" else np.longdouble)


def _ranges(length: int, bytes_each: int):
    step = max(1, CHUNK_BYTES // max(1, bytes_each))
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def largest(matrix: np.ndarray) -> float:
    """max|x|, 0 for an empty matrix."""
    columns = _ranges(matrix.shape[1], matrix.shape[0] * matrix.itemsize) if matrix.size else ()
    return max((float(np.abs(matrix[:, part]).max()) for part in columns), default=0.0)


def _wide_product(left: np.ndarray, right: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """left @ right in `dtype`, the sum cut so that no wide copy is large."""
    total = np.zeros((left.shape[0], right.shape[1]), dtype)
    each = (left.shape[0] + right.shape[1]) * dtype.itemsize
    for part in _ranges(left.shape[1], each):
        total += left[:, part].astype(dtype) @ right[part].astype(dtype)
    return total


def _worst(difference: np.ndarray) -> float:
    worst = float(np.abs(difference).max()) if difference.size else 0.0
    return worst if math.isfinite(worst) else math.inf


def _expected(p: Product, rows, columns, dtype: np.dtype) -> np.ndarray:
    left = _rows_of(p.transa, p.a, rows)
    right = _rows_of({"n": "t", "t": "n", "c": "n"}[p.transb], p.b, columns).T
    if p.transb == "c":
        right = right.conj()
    expected = _scalar(p.alpha, dtype) * _wide_product(left, right, dtype)
    if p.beta != 0:
        expected += _scalar(p.beta, dtype) * p.c0[rows][:, columns].astype(dtype)
    return expected


def _rows_of(op: str, stored: np.ndarray, rows) -> np.ndarray:
    """op(stored)[rows] without making the rest of op(stored)."""
    if op == "n":
        return stored[rows]
    return apply_op(op, stored[:, rows])


def _scalar(value: complex, dtype: np.dtype):
    return dtype.type(complex(value) if dtype.kind == "c" else complex(value).real)


def sample_error(p: Product, generator: np.random.Generator) -> float:
    """Worst difference over 64 random rows by 64 random columns, in higher precision."""
    m, n = p.c.shape
    rows = np.sort(generator.choice(m, min(SAMPLE, m), replace=False))
    columns = np.sort(generator.choice(n, min(SAMPLE, n), replace=False))
    dtype = _wide(p.c.dtype)
    return _worst(p.c[rows][:, columns].astype(dtype) - _expected(p, rows, columns, dtype))


def whole_error(p: Product) -> float:
    """Worst difference over all of C: by long double where that takes seconds, else by double."""
    m, n = p.c.shape
    k = p.a.shape[1] if p.transa == "n" else p.a.shape[0]
    small = 2.0 * m * n * k <= LONGDOUBLE_FLOPS
    kind = p.c.dtype.kind
    dtype = _wide(p.c.dtype) if small else np.dtype(np.complex128 if kind == "c" else np.float64)
    columns = np.arange(n)
    worst = 0.0
    for part in _ranges(m, max(1, n) * dtype.itemsize):
        rows = np.arange(m)[part]
        expected = _expected(p, rows, columns, dtype)
        worst = max(worst, _worst(p.c[part].astype(dtype) - expected))
    return worst


def _times(op: str, matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """op(matrix) @ vector in at least double precision, without a wide copy of the matrix."""
    stored = matrix if op == "n" else matrix.T
    total = np.zeros(stored.shape[0], vector.dtype)
    for part in _ranges(stored.shape[1], stored.shape[0] * vector.itemsize):
        block = stored[:, part].conj() if op == "c" else stored[:, part]
        total += block.astype(vector.dtype) @ vector[part]
    return total


def residual(p: Product, generator: np.random.Generator) -> float:
    """max|C*x - alpha*op(A)*(op(B)*x) - beta*C0*x| / sqrt(n), random signs x: all of C counts."""
    n = p.c.shape[1]
    dtype = np.dtype(np.complex128 if p.c.dtype.kind == "c" else np.float64)
    x = generator.choice([-1.0, 1.0], n).astype(dtype)
    expected = _scalar(p.alpha, dtype) * _times(p.transa, p.a, _times(p.transb, p.b, x))
    if p.beta != 0:
        expected += _scalar(p.beta, dtype) * _times("n", p.c0, x)
    return _worst(_times("n", p.c, x) - expected) / math.sqrt(max(1, n))


def verify(p: Product, generator: np.random.Generator, everything: bool = False) -> Verdict:
    k = max(1, p.a.shape[1] if p.transa == "n" else p.a.shape[0])
    eps = float(np.finfo(p.c.dtype).eps)
    scale = largest(p.a) * largest(p.b)
    of_c0 = largest(p.c0) if p.beta != 0 else 0.0
    # Without a product (k or alpha 0) only the scaling of C is left to round.
    unit = eps * (k * scale or of_c0 or 1.0)
    found = whole_error(p) if everything else sample_error(p, generator)
    weight = abs(p.alpha) * (4 if p.c.dtype.kind == "c" else 1)
    tolerance = TOLERANCE * (max(1.0, weight) + abs(p.beta) * of_c0 * eps / unit)
    return Verdict(found / unit, residual(p, generator) / unit, tolerance)

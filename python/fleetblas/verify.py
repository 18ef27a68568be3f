# SPDX-License-Identifier: BSD-3-Clause
"""Checks a product against its operands, without trusting the BLAS that made it.

Matrices are read through a `Source`, in pieces of whole columns, so that they may lie anywhere;
`HostSource` is one for a NumPy array in host memory. `error` is max|diff| / (eps * k * max|A| *
max|B|); where numbers are rounded to a type that is coarser than that of the sums (f16, bf16,
tf32), eps * k is that of the sums and eps * sqrt(k) of the coarser type more.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from . import _types

SAMPLE = 64  # rows, and columns
CHUNK_BYTES = 2**25
THREADS = min(16, os.cpu_count() or 1)  # reading is limited by host memory, which few can fill
# A sum of k products is off by less than k*eps times their sizes, mostly by about sqrt(k)*eps; one
# missing tile shows as 1/eps. So a small number separates right from wrong. Coarser roundings of
# the inputs, or of C which is about sqrt(k), are off by about sqrt(k)*eps for random matrices.
TOLERANCE = 4.0
LONGDOUBLE_FLOPS = 2.0**28  # a whole product without BLAS takes about a second


@dataclass
class Product:
    """C = alpha*op(A)*op(B) + beta*C0, with the result under test in `c`; all in host memory."""

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


def _double(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _ranges(length: int, bytes_each: int):
    step = max(1, CHUNK_BYTES // max(1, bytes_each))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


# ---- reading a matrix once ----------------------------------------------------------------------


class HostSource:
    """A matrix in host memory; `each` gives its columns in pieces, to several threads at once."""

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype

    def each(self, look) -> list:
        """look(columns, piece) for every piece; the results from the left to the right."""
        parts = _ranges(self.shape[1], self.shape[0] * self.dtype.itemsize)

        def one(part):
            return look(part, self.matrix[:, part])

        if len(parts) < 2:
            return [one(part) for part in parts]
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(one, parts))


@dataclass
class Evidence:
    """What is looked at of op(S): some rows and columns, its product with a vector, max|S|."""

    sample: np.ndarray
    product: np.ndarray
    largest: float


def _largest(piece: np.ndarray) -> float:
    if piece.size == 0:
        return 0.0
    if piece.dtype.kind == "c":
        return float(np.abs(piece).max())
    return max(float(piece.max()), -float(piece.min()))


def _within(wanted: np.ndarray | None, part: slice) -> np.ndarray:
    """Those of the wanted columns that are in the part, counted from its first."""
    if wanted is None:
        return np.arange(part.stop - part.start)
    return wanted[(wanted >= part.start) & (wanted < part.stop)] - part.start


def look_at(source, op: str, vector: np.ndarray, rows=None, columns=None) -> Evidence:
    """op(S)[rows][:, columns] (None: all), op(S) @ vector in at least double precision."""
    wide = _double(np.dtype(source.dtype))
    plain = op == "n"
    across, along = (rows, columns) if plain else (columns, rows)

    def look(part, piece):
        taken = piece[:, _within(along, part)]
        if across is not None:
            taken = taken[across]
        doubled = piece.astype(wide, copy=False)
        product = doubled @ vector[part] if plain else apply_op(op, doubled) @ vector
        return np.array(taken), product, _largest(piece)

    pieces = source.each(look)
    length = source.shape[0 if plain else 1]
    if not pieces:
        edges = [source.shape[0] if across is None else len(across), 0]
        taken = np.zeros(edges, source.dtype)
        product = np.zeros(length, wide)
    else:
        taken = np.hstack([piece[0] for piece in pieces])
        parts = [piece[1] for piece in pieces]
        product = sum(parts[1:], parts[0]) if plain else np.concatenate(parts)
    return Evidence(apply_op(op, taken), product, max((piece[2] for piece in pieces), default=0.0))


# ---- what is expected ---------------------------------------------------------------------------


def _scalar(value: complex, dtype: np.dtype):
    return dtype.type(complex(value) if dtype.kind == "c" else complex(value).real)


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


class Reference:
    """What C = alpha*op(A)*op(B) + beta*C0 has to be, at 64 random rows and 64 random columns in
    higher precision, and times a vector of random signs, to which all of C counts.

    Reads A, B and C0 once; then any number of results can be judged by reading only them. `c0` is
    not read where beta is 0. Row and column numbers, and the signs, come from `generator`. `tf32`
    where products may round float32 inputs.
    """

    def __init__(self, ops: tuple[str, str], scalars, sources, generator, tf32: bool = False):
        a, b, c0 = sources
        (m, n), (alpha, beta) = c0.shape, scalars
        self.shape, self.dtype = (m, n), np.dtype(c0.dtype)
        double = _double(self.dtype)
        self.rows = np.sort(generator.choice(m, min(SAMPLE, m), replace=False))
        self.columns = np.sort(generator.choice(n, min(SAMPLE, n), replace=False))
        self.signs = generator.choice([-1.0, 1.0], n).astype(double)
        right = look_at(b, ops[1], self.signs, columns=self.columns)
        left = look_at(a, ops[0], right.product, rows=self.rows)
        wide = _wide(self.dtype)
        self.sample = _scalar(alpha, wide) * _wide_product(left.sample, right.sample, wide)
        self.product = _scalar(alpha, double) * left.product
        of_c0 = 0.0
        if beta != 0:
            before = self.look_at(c0)
            self.sample = self.sample + _scalar(beta, wide) * before.sample.astype(wide)
            self.product = self.product + _scalar(beta, double) * before.product
            of_c0 = before.largest
        k = max(1, left.sample.shape[1])
        element = _types.of(self.dtype, tf32)
        eps = element.sum_eps + element.low_eps
        of_product = left.largest * right.largest
        # Without a product (k or alpha 0) only the scaling of C is left to round.
        self.unit = (element.sum_eps * k + element.low_eps * math.sqrt(k)) * of_product
        self.unit = self.unit or eps * (of_c0 or 1.0)
        weight = abs(alpha) * (4 if self.dtype.kind == "c" else 1)
        self.tolerance = TOLERANCE * (max(1.0, weight) + abs(beta) * of_c0 * eps / self.unit)

    def look_at(self, source) -> Evidence:
        """What has to be known of a result; it may be gathered in another process."""
        return look_at(source, "n", self.signs, self.rows, self.columns)

    def judge(self, seen: Evidence) -> Verdict:
        """The verdict on a result of which this was seen."""
        residual = _worst(seen.product - self.product) / math.sqrt(max(1, self.shape[1]))
        error = _worst(seen.sample.astype(self.sample.dtype) - self.sample)
        return Verdict(error / self.unit, residual / self.unit, self.tolerance)


# ---- all of C, and all at once ------------------------------------------------------------------


def _rows_of(op: str, stored: np.ndarray, rows) -> np.ndarray:
    """op(stored)[rows] without making the rest of op(stored)."""
    if op == "n":
        return stored[rows]
    return apply_op(op, stored[:, rows])


def whole_error(p: Product) -> float:
    """Worst difference over all of C: by long double where that takes seconds, else by double."""
    m, n = p.c.shape
    k = p.a.shape[1] if p.transa == "n" else p.a.shape[0]
    small = 2.0 * m * n * k <= LONGDOUBLE_FLOPS
    dtype = _wide(p.c.dtype) if small else _double(p.c.dtype)
    right = apply_op(p.transb, p.b)
    worst = 0.0
    for part in _ranges(m, max(1, n) * dtype.itemsize):
        left = _rows_of(p.transa, p.a, np.arange(m)[part])
        expected = _scalar(p.alpha, dtype) * _wide_product(left, right, dtype)
        if p.beta != 0:
            expected += _scalar(p.beta, dtype) * p.c0[part].astype(dtype)
        worst = max(worst, _worst(p.c[part].astype(dtype) - expected))
    return worst


def verify(
    p: Product, generator: np.random.Generator, everything: bool = False, tf32: bool = False
) -> Verdict:
    sources = (HostSource(p.a), HostSource(p.b), HostSource(p.c0))
    reference = Reference((p.transa, p.transb), (p.alpha, p.beta), sources, generator, tf32)
    verdict = reference.judge(reference.look_at(HostSource(p.c)))
    if everything:
        verdict.error = whole_error(p) / reference.unit
    return verdict

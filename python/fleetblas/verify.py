# SPDX-License-Identifier: BSD-3-Clause
"""Checks a result against its operands, without trusting the BLAS that computed it.

Matrices are read through a `Source`, in pieces of whole columns, so that they may lie anywhere;
`HostSource` is one for a NumPy array in host memory. `error` is max|diff| / (eps * k * max|A| *
max|B|), with the denominator summed over the two terms of a product that has two. If numbers are
rounded to a type coarser than that of the sums (f16, bf16, tf32), eps * k is that of the sums plus
eps * sqrt(k) of the coarser type. For a solution X, diff is op(A)*X - alpha*B, and the denominator
is eps * (k * max|A| * max|X| + |alpha| * max|B|), since the error of substitution is at most k/2
eps |A|*|X|.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from . import _types
from ._formulas import FULL, ONE, Factor, Formula

SAMPLE = 64  # rows, and columns
CHUNK_BYTES = 2**25
THREADS = min(16, os.cpu_count() or 1)  # host memory limits reading, and few threads saturate it
# The error of a sum of k products is below k*eps times their sizes, typically about sqrt(k)*eps; a
# missing tile gives about 1/eps. So a small number separates right from wrong. Coarser rounding of
# the inputs, or of C, which is about sqrt(k), adds about sqrt(k)*eps for random matrices.
TOLERANCE = 4.0
LONGDOUBLE_FLOPS = 2.0**28  # a whole product without BLAS takes about a second


@dataclass
class Case:
    """A formula, and its matrices a, b, c0 and c (the result under test) in host memory."""

    formula: Formula
    matrices: dict[str, np.ndarray]


@dataclass
class Verdict:
    error: float
    residual: float  # error of C*x with a random x, in the same unit
    tolerance: float
    unit: float

    @property
    def ok(self) -> bool:
        # NaN is not ok.
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
        """Calls look(columns, piece) for every piece; returns the results from left to right."""
        parts = _ranges(self.shape[1], self.shape[0] * self.dtype.itemsize)

        def one(part):
            return look(part, self.matrix[:, part])

        if len(parts) < 2:
            return [one(part) for part in parts]
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(one, parts))

    def whole(self) -> np.ndarray:
        return self.matrix


@dataclass
class Evidence:
    """The sampled data of op(S): some rows and columns, its product with a vector, max|S|; and the
    stored numbers there, including unused ones."""

    sample: np.ndarray
    product: np.ndarray
    largest: float
    stored: np.ndarray | None = None


def _largest(piece: np.ndarray) -> float:
    if piece.size == 0:
        return 0.0
    if piece.dtype.kind == "c":
        return float(np.abs(piece).max())
    return max(float(piece.max()), -float(piece.min()))


def _within(wanted: np.ndarray | None, part: slice) -> np.ndarray:
    """The wanted columns that lie in the part, counted from its first column."""
    if wanted is None:
        return np.arange(part.stop - part.start)
    return wanted[(wanted >= part.start) & (wanted < part.stop)] - part.start


def _both(piece: np.ndarray, across, along) -> np.ndarray:
    taken = piece[:, along]
    return np.array(taken if across is None else taken[across])


def look_at(source, op: str, vector: np.ndarray, rows=None, columns=None, form=FULL) -> Evidence:
    """op(S)[rows][:, columns] (None: all) and op(S) @ vector in at least double precision; the form
    derives S from the stored elements."""
    wide = _double(np.dtype(source.dtype))
    parts = form.parts(op)

    def look_for(part, piece, op):
        plain = op == "n"
        across, along = (rows, columns) if plain else (columns, rows)
        doubled = piece.astype(wide, copy=False)
        product = doubled @ vector[part] if plain else apply_op(op, doubled) @ vector
        return _both(piece, across, _within(along, part)), product

    def look(part, piece):
        kept = [form.kept(piece, part.start, strict) for _, strict in parts]
        found = [look_for(part, one, op) for one, (op, _) in zip(kept, parts)]
        stored = None if form.kind == "full" else _both(piece, rows, _within(columns, part))
        return found, _largest(kept[0]), stored

    pieces = source.each(look)
    evidence = [
        _joined(source, op, rows, columns, [piece[0][i] for piece in pieces])
        for i, (op, _) in enumerate(parts)
    ]
    samples, products = zip(*evidence)
    stored = np.hstack([piece[2] for piece in pieces]) if pieces and form.kind != "full" else None
    largest = max((piece[1] for piece in pieces), default=0.0)
    return Evidence(sum(samples[1:], samples[0]), sum(products[1:], products[0]), largest, stored)


def _joined(source, op: str, rows, columns, pieces: list) -> tuple[np.ndarray, np.ndarray]:
    """The sample and the product, combined from all pieces of columns."""
    plain = op == "n"
    across = rows if plain else columns
    if not pieces:
        edges = [source.shape[0] if across is None else len(across), 0]
        length = source.shape[0 if plain else 1]
        taken = np.zeros(edges, source.dtype)
        return apply_op(op, taken), np.zeros(length, _double(np.dtype(source.dtype)))
    taken = np.hstack([piece[0] for piece in pieces])
    parts = [piece[1] for piece in pieces]
    return apply_op(op, taken), sum(parts[1:], parts[0]) if plain else np.concatenate(parts)


# ---- expected results ---------------------------------------------------------------------------


def _scalar(value: complex, dtype: np.dtype):
    return dtype.type(complex(value) if dtype.kind == "c" else complex(value).real)


def _wide_product(left: np.ndarray, right: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """left @ right in `dtype`, summed in pieces so that no wide copy is large."""
    total = np.zeros((left.shape[0], right.shape[1]), dtype)
    each = (left.shape[0] + right.shape[1]) * dtype.itemsize
    for part in _ranges(left.shape[1], each):
        total += left[:, part].astype(dtype) @ right[part].astype(dtype)
    return total


def _worst(difference: np.ndarray) -> float:
    worst = float(np.abs(difference).max()) if difference.size else 0.0
    return worst if math.isfinite(worst) else math.inf


def _triangle_times(left: np.ndarray, right: np.ndarray, uplo: str, vector: np.ndarray):
    """One triangle of left @ right times the vector, without forming the product: row i needs the
    sum of the columns of right up to i, or from i on."""
    turn = slice(None, None, 1 if uplo == "l" else -1)
    left, right, vector = left[turn], right[:, turn], vector[turn]
    found, before = np.zeros_like(vector), np.zeros(len(right), vector.dtype)
    for part in _ranges(len(vector), max(1, len(right)) * vector.itemsize):
        sums = before[:, np.newaxis] + np.cumsum(right[:, part] * vector[part], axis=1)
        found[part] = np.einsum("ik,ki->i", left[part].astype(vector.dtype), sums)
        before = sums[:, -1]
    return found[turn]


class Reference:
    """The expected result at 64 random rows and 64 random columns in higher precision, and its
    product with a vector of random signs, to which all used elements of C contribute.

    `sources` has A, B and C0 by name: they are read once (A of a solution again for each result);
    then any number of results can be checked by reading only those. C0 is not read if beta is 0.
    Rows, columns and signs come from `generator`. `tf32`: products may round float32 inputs.
    """

    def __init__(self, formula: Formula, sources: dict, generator, tf32: bool = False):
        c0 = sources["c0"]
        one = HostSource(np.ones((1, 1), c0.dtype))
        self.formula, self.sources = formula, {**sources, ONE: one}
        (m, n), self.dtype = c0.shape, np.dtype(c0.dtype)
        self.element = _types.of(self.dtype, tf32)
        double, wide = _double(self.dtype), _wide(self.dtype)
        self.rows = np.sort(generator.choice(m, min(SAMPLE, m), replace=False))
        self.columns = np.sort(generator.choice(n, min(SAMPLE, n), replace=False))
        self.signs = generator.choice([-1.0, 1.0], n).astype(double)
        form, beta = (FULL if formula.solves else formula.c), formula.beta
        self.sample = np.zeros((len(self.rows), len(self.columns)), wide)
        self.product = np.zeros(m, double)
        self.unit, self.before, before = 0.0, 0.0, None
        if not formula.solves:
            terms = self._sum_of_terms(self.sources)
            self.sample, self.product, self.unit = terms.sample, terms.product, terms.largest
        if beta != 0 or form.kind != "full":
            before = look_at(c0, "n", self.signs, self.rows, self.columns, form)
        # Elements that are not computed must not change.
        self.stored = before.stored if before else None
        if beta != 0:
            self.sample = self.sample + _scalar(beta, wide) * before.sample.astype(wide)
            self.product = self.product + _scalar(beta, double) * before.product
            self.before = abs(beta) * before.largest

    def _eps(self) -> float:
        return self.element.sum_eps + self.element.low_eps

    def _sum_of_terms(self, sources: dict) -> Evidence:
        """The unit of errors of the products for these largest elements."""
        double, wide = _double(self.dtype), _wide(self.dtype)
        sample = product = 0
        unit = 0.0
        for alpha, left, right in self.formula.terms:
            found = [None, None]
            vector = self.signs
            for side, factor in ((1, right), (0, left)):
                chosen = {"columns": self.columns} if side else {"rows": self.rows}
                source = sources[factor.name]
                found[side] = look_at(source, factor.op, vector, **chosen, form=factor.form)
                vector = found[side].product
            pair = (found[0].sample, found[1].sample)
            sample = sample + _scalar(alpha, wide) * _wide_product(*pair, wide)
            product = product + _scalar(alpha, double) * vector
            k = max(1, pair[0].shape[1])
            eps = self.element.sum_eps * k + self.element.low_eps * math.sqrt(k)
            unit += eps * found[0].largest * found[1].largest
        if self.formula.c.kind == "triangle":
            (alpha, left, right), form = self.formula.terms[0], self.formula.c
            matrices = (apply_op(x.op, sources[x.name].whole()) for x in (left, right))
            times = _triangle_times(*matrices, form.uplo, self.signs)
            product = _scalar(alpha, double) * times
            sample = np.where(form.counts(self.rows, self.columns), sample, 0)
        return Evidence(sample, product, unit)

    def look_at(self, source) -> Evidence:
        """The data of a result that the check needs; another process may gather it."""
        if self.formula.solves:
            return self._sum_of_terms({**self.sources, "c": source})
        return look_at(source, "n", self.signs, self.rows, self.columns, self.formula.c)

    def judge(self, seen: Evidence) -> Verdict:
        """The verdict on a result with this data."""
        unit, rounded = self.unit, self.before * self._eps()
        if self.formula.solves:
            unit = seen.largest + rounded
        # Without a product (k or alpha is 0) only the scaling of C rounds.
        unit = unit or rounded or self._eps()
        largest = max((abs(alpha) for alpha, _, _ in self.formula.terms), default=0.0)
        weight = largest * (4 if self.dtype.kind == "c" else 1)
        residual = _worst(seen.product - self.product) / math.sqrt(max(1, len(self.signs)))
        error = _worst(seen.sample.astype(self.sample.dtype) - self.sample)
        if self._is_touched(seen):
            error = math.inf
        tolerance = TOLERANCE * (max(1.0, weight) + rounded / unit)
        return Verdict(error / unit, residual / unit, tolerance, unit)

    def _is_touched(self, seen: Evidence) -> bool:
        """Whether elements outside the used part were written."""
        if self.stored is None or seen.stored is None:
            return False
        aside = ~self.formula.c.counts(self.rows, self.columns)
        return not np.array_equal(seen.stored[aside], self.stored[aside], equal_nan=True)


# ---- a check of all of C at once ----------------------------------------------------------------


def _wholes(case: Case, dtype: np.dtype) -> list[tuple[complex, np.ndarray, np.ndarray]]:
    """The terms with all of op(factor) in this type."""

    def whole(factor: Factor) -> np.ndarray:
        matrix = np.ones((1, 1), dtype) if factor.name == ONE else case.matrices[factor.name]
        return apply_op(factor.op, factor.form.whole(matrix))

    return [(_scalar(x, dtype), whole(left), whole(right)) for x, left, right in case.formula.terms]


def whole_error(case: Case) -> float:
    """The worst difference over all of C, in long double if that takes seconds, else in double.

    Elements of C outside the used part must be as in C0.
    """
    formula, c, c0 = case.formula, case.matrices["c"], case.matrices["c0"]
    (m, n), form = c.shape, formula.c
    terms = _wholes(case, c.dtype)
    flops = sum(2.0 * m * n * left.shape[1] for _, left, _ in terms)
    dtype = _wide(c.dtype) if flops <= LONGDOUBLE_FLOPS else _double(c.dtype)
    before = None if formula.beta == 0 else form.whole(c0)
    worst = 0.0
    for part in _ranges(m, max(1, n) * dtype.itemsize):
        found = sum(
            _scalar(alpha, dtype) * _wide_product(left[part], right, dtype)
            for alpha, left, right in terms
        )
        wanted = 0 if before is None else _scalar(formula.beta, dtype) * before[part].astype(dtype)
        if formula.solves:
            worst = max(worst, _worst(found - wanted))
            continue
        counts = form.counts(np.arange(m)[part], np.arange(n))
        computed = c[part].astype(dtype)
        worst = max(worst, _worst(np.where(counts, computed - (found + wanted), 0)))
        if not np.array_equal(c[part][~counts], c0[part][~counts], equal_nan=True):
            worst = math.inf
    return worst


def verify(
    case: Case, generator: np.random.Generator, everything: bool = False, tf32: bool = False
) -> Verdict:
    sources = {name: HostSource(matrix) for name, matrix in case.matrices.items()}
    reference = Reference(case.formula, sources, generator, tf32)
    verdict = reference.judge(reference.look_at(sources["c"]))
    if everything:
        verdict.error = whole_error(case) / verdict.unit
    return verdict

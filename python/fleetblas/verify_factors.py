# SPDX-License-Identifier: BSD-3-Clause
"""Checks factors and solutions by their backward errors, without trusting what computed them.

`error` is that of LAPACK's own testers, in the 1-norm: |A - L*L^H| / (n |A| eps) of potrf,
|P*A - L*U| / (n |A| eps) of getrf, the larger of |Q^H*A - R| / (m |A| eps) and |1 - Q^H*Q| / (m
eps) of geqrf, where eps is half the distance from 1 to the next number; of solutions
|B - A*X| / (sqrt(n) |A| |X| eps), as dsgesv asks. Small matrices are compared as a whole. Of others
the product of the difference with a few vectors of random signs is taken, which reads each matrix
once or twice; its largest element is at most the norm of the difference.

`residual` is that product in a sharper unit, since norms grow with n: eps times n times the largest
element of A, or for getrf of its factors, which rounding gives about 1 of.

Matrices are read in pieces of whole columns: anything with `shape`, `dtype` and
`columns(start, stop)`, an array in host memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .verify import Verdict

TOLERANCE = 30.0  # the threshold of LAPACK's testers
VECTORS = 4
WHOLE_EDGE = 768  # up to this a check of all elements takes less than a second
WIDTH = 256  # columns per piece
REFLECTORS = 64  # applied at once


class HostMatrix:
    """An array in host memory."""

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype

    def columns(self, start: int, stop: int) -> np.ndarray:
        return self.matrix[:, start:stop]


@dataclass
class Factors:
    """What a routine left: the matrix, pivots that count from 1, tau, or the solution."""

    matrix: object | None = None
    pivots: np.ndarray | None = None
    tau: np.ndarray | None = None
    solution: object | None = None


def _double(dtype) -> np.dtype:
    return np.dtype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)


def _pieces(matrix, count: int | None = None, width: int = WIDTH):
    """(first column, columns) of the first `count` columns, in double precision."""
    count = matrix.shape[1] if count is None else count
    for start in range(0, count, width):
        piece = matrix.columns(start, min(start + width, count))
        yield start, piece.astype(_double(matrix.dtype), copy=False)


def _whole(matrix) -> np.ndarray:
    return matrix.columns(0, matrix.shape[1]).astype(_double(matrix.dtype))


# ---- products with vectors ----------------------------------------------------------------------


def _parts(piece: np.ndarray, start: int, uplo: str, unit: bool):
    """(rows, their elements) of columns from `start` on that belong to a triangle."""
    rows, stop = len(piece), min(start + piece.shape[1], len(piece))
    block = piece[start:stop]
    block = np.tril(block) if uplo == "l" else np.triu(block)
    if unit:
        np.fill_diagonal(block, 1)
    beside = slice(stop, rows) if uplo == "l" else slice(0, min(start, rows))
    return [(slice(start, stop), block), (beside, piece[beside])]


def triangle_times(matrix, uplo: str, x, unit: bool = False, adjoint: bool = False) -> np.ndarray:
    """op(T) @ x of the triangle or trapezoid that is stored in the first columns of a matrix."""
    rows, columns = matrix.shape
    count = min(rows, columns) if uplo == "l" else columns
    result = np.zeros((count if adjoint else rows, x.shape[1]), x.dtype)
    for start, piece in _pieces(matrix, count):
        across = slice(start, start + piece.shape[1])
        for along, part in _parts(piece, start, uplo, unit):
            if adjoint:
                result[across] += part.conj().T @ x[along]
            else:
                result[along] += part @ x[across]
    return result


def hermitian_times(matrix, uplo: str, x) -> tuple[np.ndarray, float, float]:
    """A @ x, the 1-norm of A, of which one triangle is stored, and its largest element."""
    n = matrix.shape[1]
    result, sums, largest = np.zeros_like(x), np.zeros(n), 0.0
    for start, piece in _pieces(matrix):
        across = slice(start, start + piece.shape[1])
        (_, block), (along, beside) = _parts(piece, start, uplo, unit=False)
        strict = block - np.diag(np.diagonal(block))
        block = strict + strict.conj().T + np.diag(np.diagonal(block).real)
        result[across] += block @ x[across] + beside.conj().T @ x[along]
        result[along] += beside @ x[across]
        sizes = np.abs(beside)
        sums[across] += np.abs(block).sum(0) + sizes.sum(0)
        sums[along] += sizes.sum(1)
        largest = max(largest, np.abs(block).max(), sizes.max(initial=0.0))
    return result, float(sums.max(initial=0.0)), float(largest)


def general_times(matrix, x) -> tuple[np.ndarray, float, float]:
    """A @ x, the 1-norm of A, and its largest element."""
    result, norm, largest = np.zeros((matrix.shape[0], x.shape[1]), x.dtype), 0.0, 0.0
    for start, piece in _pieces(matrix):
        result += piece @ x[start : start + piece.shape[1]]
        sizes = np.abs(piece)
        norm = max(norm, float(sizes.sum(0).max(initial=0.0)))
        largest = max(largest, float(sizes.max(initial=0.0)))
    return result, norm, largest


def largest_of(matrix) -> float:
    return max((float(np.abs(piece).max(initial=0.0)) for _, piece in _pieces(matrix)), default=0.0)


def exchanged(y: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The rows of y after the exchanges of getrf."""
    order = np.arange(len(y))
    for row, other in enumerate(pivots - 1):
        order[row], order[other] = order[other], order[row]
    return y[order]


def _triangular_factor(v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """T with H(1)*H(2)*... = 1 - V*T*V^H."""
    products, t = v.conj().T @ v, np.zeros((len(tau), len(tau)), v.dtype)
    for i, factor in enumerate(tau):
        t[:i, i] = -factor * (t[:i, :i] @ products[:i, i])
        t[i, i] = factor
    return t


def times_adjoint(matrix, tau: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Q^H @ y, with the reflectors that geqrf left."""
    z = np.array(y)
    for start, piece in _pieces(matrix, len(tau), REFLECTORS):
        v = np.tril(piece[start:], -1)
        np.fill_diagonal(v, 1)
        t = _triangular_factor(v, tau[start : start + v.shape[1]].astype(v.dtype))
        z[start:] -= v @ (t.conj().T @ (v.conj().T @ z[start:]))
    return z


# ---- verdicts -----------------------------------------------------------------------------------


def _norm(matrix: np.ndarray) -> float:
    return float(np.abs(matrix).sum(0).max(initial=0.0))


def _ratio(error: float, scale: float) -> float:
    """Infinite where a number is not finite, and for an error where nothing may be wrong."""
    if not (math.isfinite(error) and math.isfinite(scale)):
        return math.inf
    return error / scale if scale > 0 else 0.0 if error == 0 else math.inf


class Expectation:
    """What is known of a matrix before a routine takes it; `a`, and `b` of equations, are read now
    and must stay as they are. Any number of results can be judged by it."""

    def __init__(self, routine: str, a, generator, uplo: str = "l", b=None):
        self.routine, self.a, self.b, self.uplo = routine, a, b, uplo
        self.dtype = np.dtype(a.dtype)
        self.eps = float(np.finfo(self.dtype).eps) / 2
        signs = generator.choice([-1.0, 1.0], (a.shape[1], VECTORS))
        self.x = signs.astype(_double(self.dtype))
        if routine == "potrf":
            self.product, self.norm, self.largest = hermitian_times(a, uplo, self.x)
        else:
            self.product, self.norm, self.largest = general_times(a, self.x)
        # Of no relation to A: reflectors must keep the angles between them.
        other = generator.choice([-1.0, 1.0], (a.shape[0], VECTORS))
        self.other = other.astype(_double(self.dtype))

    def judge(self, found: Factors, everything: bool = False) -> Verdict:
        """The verdict on a result; `everything`: all elements, also of a large matrix."""
        with np.errstate(all="ignore"):
            if self.routine == "gesv":
                error = residual = self._of_solution(found.solution)
            else:
                by_vectors, by_wholes = {
                    "potrf": (self._potrf, self._potrf_as_a_whole),
                    "getrf": (self._getrf, self._getrf_as_a_whole),
                    "geqrf": (self._geqrf, self._geqrf_as_a_whole),
                }[self.routine]
                error, residual = by_vectors(found)
                if everything or max(self.a.shape) <= WHOLE_EDGE:
                    error = by_wholes(found)
        return Verdict(error, residual, TOLERANCE, self.eps)

    def _errors(self, difference: np.ndarray, order: int, largest: float) -> tuple[float, float]:
        """The largest element of the difference's product with signs, in LAPACK's unit and in the
        sharper one."""
        worst = float(np.abs(difference).max(initial=0.0))
        scale = order * self.eps
        return _ratio(worst, scale * self.norm), _ratio(worst, scale * largest)

    def _potrf(self, found: Factors) -> tuple[float, float]:
        lower = self.uplo == "l"
        inner = triangle_times(found.matrix, self.uplo, self.x, adjoint=lower)
        outer = triangle_times(found.matrix, self.uplo, inner, adjoint=not lower)
        return self._errors(outer - self.product, len(outer), self.largest)

    def _potrf_as_a_whole(self, found: Factors) -> float:
        half = {"l": np.tril, "u": np.triu}[self.uplo]
        strict = half(_whole(self.a), -1 if self.uplo == "l" else 1)
        a = strict + strict.conj().T + np.diag(np.diagonal(_whole(self.a)).real)
        factor = half(_whole(found.matrix))
        left, right = (factor, factor.conj().T) if self.uplo == "l" else (factor.conj().T, factor)
        return _ratio(_norm(left @ right - a), len(a) * self.norm * self.eps)

    def _getrf(self, found: Factors) -> tuple[float, float]:
        if not _are_pivots(found.pivots, self.a.shape):
            return math.inf, math.inf
        inner = triangle_times(found.matrix, "u", self.x)[: len(found.pivots)]
        outer = triangle_times(found.matrix, "l", inner, unit=True)
        difference = outer - exchanged(self.product, found.pivots)
        return self._errors(difference, self.a.shape[1], largest_of(found.matrix))

    def _getrf_as_a_whole(self, found: Factors) -> float:
        if not _are_pivots(found.pivots, self.a.shape):
            return math.inf
        factors, edge = _whole(found.matrix), len(found.pivots)
        lower = np.tril(factors[:, :edge], -1)
        np.fill_diagonal(lower, 1)
        difference = lower @ np.triu(factors[:edge]) - exchanged(_whole(self.a), found.pivots)
        return _ratio(_norm(difference), self.a.shape[1] * self.norm * self.eps)

    def _geqrf(self, found: Factors) -> tuple[float, float]:
        rows = self.a.shape[0]
        together = times_adjoint(found.matrix, found.tau, np.hstack([self.product, self.other]))
        product, other = together[:, :VECTORS], together[:, VECTORS:]
        factor = triangle_times(found.matrix, "u", self.x)
        factor[len(found.tau) :] = 0
        angles = other.conj().T @ other - self.other.conj().T @ self.other
        error, residual = self._errors(product - factor, max(self.a.shape), self.largest)
        # The vectors have a length of sqrt(rows).
        turned = _ratio(float(np.abs(angles).max(initial=0.0)), rows * rows * self.eps)
        return max(error, turned), max(residual, turned)

    def _geqrf_as_a_whole(self, found: Factors) -> float:
        rows, edge = self.a.shape[0], len(found.tau)
        upper = np.triu(_whole(found.matrix))
        upper[edge:] = 0
        difference = times_adjoint(found.matrix, found.tau, _whole(self.a)) - upper
        one = np.eye(rows, dtype=difference.dtype)
        adjoint = times_adjoint(found.matrix, found.tau, one)
        return max(
            _ratio(_norm(difference), rows * self.norm * self.eps),
            _ratio(_norm(one - adjoint @ adjoint.conj().T), rows * self.eps),
        )

    def _of_solution(self, solution) -> float:
        """The worst of all right sides."""
        b, x = _whole(self.b), _whole(solution)
        product, _, _ = general_times(self.a, x)
        errors = np.abs(b - product).sum(0)
        sizes, unit = np.abs(x).sum(0), math.sqrt(len(x)) * self.norm * self.eps
        return max(
            (_ratio(float(e), unit * float(s)) for e, s in zip(errors, sizes)),
            default=0.0,
        )


def _are_pivots(pivots: np.ndarray, shape: tuple[int, int]) -> bool:
    """Whether each row is exchanged with itself or a later one."""
    rows = np.arange(1, len(pivots) + 1)
    return len(pivots) == min(shape) and bool(((pivots >= rows) & (pivots <= shape[0])).all())

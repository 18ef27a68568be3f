# SPDX-License-Identifier: BSD-3-Clause
"""The result of each routine as a formula: sums of products of two factors, and the used part of
each stored matrix. Knows nothing of how it is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._routines import EVERY, VECTORS


@dataclass(frozen=True)
class Form:
    """The part of a stored matrix S that is used.

    kind   "full"; "triangle": one triangle, the rest is 0; "symmetric", "hermitian": one triangle,
           the rest is its mirror image
    uplo   which triangle
    unit   the diagonal of the triangle is taken as ones
    """

    kind: str = "full"
    uplo: str = "l"
    unit: bool = False

    def parts(self, op: str) -> list[tuple[str, bool]]:
        """op(S) as a sum of op(triangle), or of op(triangle without its diagonal): True."""
        mirror = {"symmetric": "t", "hermitian": "c"}.get(self.kind)
        return [(op, False)] if mirror is None else [("n", False), (mirror, True)]

    def kept(self, piece: np.ndarray, first: int, strict: bool = False) -> np.ndarray:
        """A piece of whole columns from column `first` on, with 0 outside the used part."""
        if self.kind == "full":
            return piece
        # Only the square at the diagonal is cut; the rows above and below it are copied, or are 0.
        rows, width = piece.shape
        square, kept = slice(first, first + width), np.zeros_like(piece)
        if self.uplo == "l":
            kept[first + width :] = piece[first + width :]
            kept[square] = np.tril(piece[square], -int(strict))
        else:
            kept[:first] = piece[:first]
            kept[square] = np.triu(piece[square], int(strict))
        columns = np.arange(min(width, max(0, rows - first)))
        if self.unit:
            kept[first + columns, columns] = 1
        elif self.kind == "hermitian":
            kept[first + columns, columns] = kept[first + columns, columns].real
        return kept

    def counts(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Whether the stored elements at these rows and columns are used."""
        if self.kind == "full":
            return np.ones((len(rows), len(columns)), bool)
        below = rows[:, np.newaxis] >= columns
        return below if self.uplo == "l" else rows[:, np.newaxis] <= columns

    def whole(self, matrix: np.ndarray) -> np.ndarray:
        """The full matrix that S represents."""
        turned = {"n": lambda x: x, "t": np.transpose, "c": lambda x: x.conj().T}
        parts = [turned[op](self.kept(matrix, 0, strict)) for op, strict in self.parts("n")]
        return sum(parts[1:], parts[0])


FULL = Form()
ONE = "one"  # the name of a matrix of one element, 1


@dataclass(frozen=True)
class Factor:
    """op of one of the matrices a, b, c0 (the initial C), c (the result) and ONE."""

    name: str
    op: str = "n"
    form: Form = FULL


@dataclass(frozen=True)
class Formula:
    """C is the sum of factor*left*right over the terms, plus beta*C0; `c` is its used part. If it
    `solves`, C is a factor instead, and the sum of the terms equals beta*C0.
    """

    terms: tuple[tuple[complex, Factor, Factor], ...]
    beta: complex
    c: Form = FULL
    solves: bool = False


def _of_vectors(routine, flags: dict, alpha: complex, beta: complex) -> Formula:
    """The number of multiply-adds of one column."""
    if routine.word == "gemv":
        return Formula(((alpha, Factor("a", flags["transa"]), Factor("b")),), beta)
    if routine.word == "axpy":
        return Formula(((alpha, Factor("a"), Factor(ONE)),), 1)
    return Formula(((1, Factor("a", routine.turned), Factor("b")),), 0)


def formula_of(word: str, flags: dict, alpha: complex, beta: complex = 0) -> Formula:
    """The formula of a routine; flags as in _routines. beta is ignored if the routine has none."""
    routine = EVERY[word]
    if word in VECTORS:
        return _of_vectors(routine, flags, alpha, beta)
    kind = "hermitian" if routine.hermitian else "symmetric"
    if "side" in routine.flags:
        if routine.triangular:
            form = Form("triangle", flags["uplo"], flags["diag"] == "u")
            solves = word == "trsm"
            a, other = Factor("a", flags["transa"], form), Factor("c" if solves else "c0")
            beta = alpha if solves else 0
            alpha = 1 if solves else alpha
        else:
            solves = False
            a, other = Factor("a", "n", Form(kind, flags["uplo"])), Factor("b")
        pair = (a, other) if flags["side"] == "l" else (other, a)
        return Formula(((alpha, *pair),), beta, solves=solves)
    if not routine.by_itself:
        term = (alpha, Factor("a", flags["transa"]), Factor("b", flags["transb"]))
        return Formula((term,), beta, Form("triangle", flags["uplo"]) if routine.triangle else FULL)
    plain = flags["transa"]
    turned = routine.turned if plain == "n" else "n"
    terms = [(alpha, Factor("a", plain), Factor("b" if routine.has_b else "a", turned))]
    if routine.twice:
        second = np.conj(alpha) if routine.hermitian else alpha
        terms.append((second, Factor("b", plain), Factor("a", turned)))
    return Formula(tuple(terms), beta, Form(kind, flags["uplo"]))

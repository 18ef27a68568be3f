# SPDX-License-Identifier: BSD-3-Clause
"""A call of NumPy or SciPy that can be computed, and what is said of all of them: flops and names.
Computes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from .. import _lapack


@dataclass
class Prepared:
    """A call that can be computed.

    name        of LAPACK's routine, and where it would have been called: for the summary
    flops       of one matrix of a stack
    compute     context -> (result, sample); the sample is None, or a small matrix of which NumPy
                reports what it would have reported of the operands
    overwrites  the operands in whose memory the result is computed, once that begins
    """

    name: str
    flops: float
    compute: Callable
    overwrites: list = field(default_factory=list)


class LeftToCaller(Exception):
    """Raised while computing: NumPy and SciPy have words of their own for these operands."""


def flops_of(dtype, real: float) -> float:
    """By the flops for real numbers: complex ones take four times as many."""
    return real * (4 if dtype.kind == "c" else 1)


def qr_flops(rows: int, cols: int) -> float:
    """Of the QR factorization of a real matrix; twice those of LU."""
    short, long = min(rows, cols), max(rows, cols)
    return 2 * short * short * (long - short / 3)


def name_of(dtype, routine: str, caller: str) -> str:
    """`dgesv (numpy.linalg.solve)`, for the summary."""
    if routine == "orgqr" and dtype.kind == "c":
        routine = "ungqr"
    return f"{_lapack.letter_of(dtype)}{routine} ({caller})"

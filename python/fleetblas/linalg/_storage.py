# SPDX-License-Identifier: BSD-3-Clause
"""Memory of matrices: copies in tiles by several threads, rows in another order, triangles.

A C-ordered matrix is the column-major storage of its transpose. Knows no library.
"""

from __future__ import annotations

import concurrent.futures
import os

import numpy as np

_SMALL_BYTES = 1 << 20  # less is copied by one thread, which has done it before others start
_ROWS = 512
_COLS = 64  # of a tile that is transposed: a page of each row, whose cache lines are used up
_MOST_THREADS = 16  # as many saturate memory


def in_threads(work, starts) -> None:
    """work(start) for each start, by several threads; work may be done twice."""
    count = min(len(starts), _MOST_THREADS, len(os.sched_getaffinity(0)))
    if count > 1:
        try:
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                list(pool.map(work, starts))
            return
        except RuntimeError:
            pass  # no more threads: a limit, or the interpreter ends
    for start in starts:
        work(start)


def is_row_major(array: np.ndarray) -> bool:
    """Whether neighbours in a row are nearer than those in a column."""
    rows, cols = array.shape
    if cols == 1 or rows == 1:
        return cols != 1
    return abs(array.strides[1]) <= abs(array.strides[0])


def _tiles(work, to: np.ndarray, source: np.ndarray) -> None:
    """work(rows, cols) for slices that cover `to`, which is row-major, and suit `source`."""
    rows, cols = to.shape
    width = cols if is_row_major(source) else _COLS

    def stripe(first):
        for left in range(0, cols, width):
            work(slice(first, first + _ROWS), slice(left, left + width))

    in_threads(stripe, range(0, rows, _ROWS))


def copy(to: np.ndarray, source: np.ndarray) -> None:
    """Copies a matrix, also into another type of the same kind."""
    if to.nbytes < _SMALL_BYTES:
        np.copyto(to, source, casting="same_kind")
        return
    if not is_row_major(to):
        to, source = to.T, source.T

    def tile(*place):
        np.copyto(to[place], source[place], casting="same_kind")

    _tiles(tile, to, source)


def copy_triangle(to: np.ndarray, source: np.ndarray, lower: bool) -> None:
    """Copies one triangle of a matrix, and sets the other to zero."""
    if not is_row_major(to):
        to, source, lower = to.T, source.T, not lower
    cols = to.shape[1]

    def stripe(first):
        last = first + _ROWS
        rows = slice(first, last)
        diagonal = slice(min(first, cols), min(last, cols))
        before, after = slice(0, min(first, cols)), slice(min(last, cols), cols)
        copied, zeroed = (before, after) if lower else (after, before)
        width = _COLS if not is_row_major(source) else cols
        for left in range(copied.start, copied.stop, width):
            part = slice(left, min(left + width, copied.stop))
            np.copyto(to[rows, part], source[rows, part], casting="same_kind")
        to[rows, zeroed] = 0
        block = source[rows, diagonal]
        to[rows, diagonal] = np.tril(block) if lower else np.triu(block)

    in_threads(stripe, range(0, to.shape[0], _ROWS))


def take_rows(to: np.ndarray, source: np.ndarray, order: np.ndarray) -> None:
    """Row i of `to` becomes row order[i] of `source`."""

    def stripe(first):
        rows = slice(first, first + _ROWS)
        to[rows] = source[order[rows]]

    in_threads(stripe, range(0, len(order), _ROWS))


def is_finite(array: np.ndarray) -> bool:
    """Whether no element of an array of numbers is infinite or NaN."""
    if array.dtype.kind not in "fc":
        return True
    if array.ndim < 2 or not array.size:
        return bool(np.isfinite(array).all())
    stripes = array.reshape(-1, array.shape[-1]) if array.flags.c_contiguous else array
    finite = []

    def stripe(first):
        finite.append(bool(np.isfinite(stripes[first : first + _ROWS]).all()))

    in_threads(stripe, range(0, len(stripes), _ROWS))
    return all(finite)


def permutation(pivots: np.ndarray) -> np.ndarray:
    """Row i of a matrix that was exchanged by 1-based pivots is row permutation[i] of the old."""
    order = list(range(len(pivots)))
    for row, other in enumerate((pivots - 1).tolist()):
        order[row], order[other] = order[other], order[row]
    return np.array(order, np.intp)

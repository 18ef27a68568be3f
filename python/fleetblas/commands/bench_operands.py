# SPDX-License-Identifier: BSD-3-Clause
"""The matrices of a benchmark: random, at their places, made once for all problems of a command.

Triangular matrices allow repeated products and solves: diagonals are 1 to 1.25 in absolute value,
and the rest is at most 1/sqrt(n), so that neither makes results grow. Knows nothing of the engines.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .. import _arrays, _types, verify
from .._formulas import formula_of
from .._routines import EVERY, Routine

SEED = 20261121
NAMES = ("a", "b", "c", "c0")
BLOCK = 2**20  # numbers per generator: small enough to distribute, large enough to pay
CHUNK_BYTES = 2**28  # copied to a device at once
SCRATCH_BYTES = 2**27  # pinned, for reading memory of a device
THREADS = os.cpu_count() or 1
# Contents of a matrix; a triangular one has its order here.
RANDOM, UNREAD = -1, -2


def _in_threads(function, length: int, step: int) -> None:
    """function(slice) over [0, length)."""
    parts = [slice(start, min(start + step, length)) for start in range(0, length, step)]
    if len(parts) < 2:
        for part in parts:
            function(part)
        return
    with ThreadPoolExecutor(min(THREADS, len(parts))) as threads:
        list(threads.map(function, parts))


def copy_in_threads(target: np.ndarray, source: np.ndarray) -> None:
    _in_threads(lambda part: np.copyto(target[part], source[part]), len(target), BLOCK)


def fill_random(flat: np.ndarray, name: str, first: int = 0) -> None:
    """Numbers first, first + 1, ... of the matrix `name`, uniform in [-1, 1), reproducible.

    `first` is a multiple of BLOCK. Both parts of complex numbers are uniform; two-byte types have
    the numbers of float32, rounded.
    """
    reals = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    drawn = np.dtype(np.float32) if reals.itemsize < 4 else reals.dtype
    width = BLOCK * (len(reals) // len(flat)) if len(flat) else BLOCK

    def fill(part: slice) -> None:
        seed = [SEED, NAMES.index(name), first // BLOCK + part.start // width]
        values = reals[part] if reals.dtype == drawn else np.empty(len(reals[part]), drawn)
        np.random.Generator(np.random.SFC64(seed)).random(out=values, dtype=drawn)
        values *= 2
        values -= 1
        if reals.dtype != drawn:
            reals[part] = values

    _in_threads(fill, len(reals), width)


def fill_triangle(flat: np.ndarray, name: str, first: int, order: int) -> None:
    """As fill_random, for numbers first, first + 1, ... of a triangular matrix of this order."""
    fill_random(flat, name, first)
    step = order + 1  # from one element of the diagonal to the next
    at = slice(-first % step, min(len(flat), order * order - first), step)
    diagonal = flat[at].copy()
    factor = flat.real.dtype.type(order**-0.5)
    _in_threads(lambda part: np.multiply(flat[part], factor, out=flat[part]), len(flat), BLOCK)
    flat[at] = np.where(diagonal.real < 0, -1, 1) + diagonal / 4


class DeviceSource:
    """A matrix in a device's memory, read in pieces through pinned memory (see verify)."""

    def __init__(self, context, flat: np.ndarray, shape: tuple[int, int], scratch: np.ndarray):
        self.context, self.flat, self.scratch = context, flat, scratch
        self.shape, self.dtype = shape, flat.dtype

    def each(self, look) -> list:
        rows, columns = self.shape
        results: list = []
        step = len(self.scratch) // rows if rows else max(1, columns)
        for start in range(0, columns, step):
            stop = min(start + step, columns)
            piece = self.scratch[: rows * (stop - start)]
            if rows:
                self.context.copy(piece, self.flat[rows * start : rows * stop])
            on_host = verify.HostSource(piece.reshape((rows, stop - start), order="F"))

            def shifted(part, values, start=start):
                return look(slice(part.start + start, part.stop + start), values)

            results += on_host.each(shifted)
        return results

    def whole(self) -> np.ndarray:
        copy = self.context.copy(np.empty(len(self.flat), self.dtype), self.flat)
        return copy.reshape(self.shape, order="F")


def routine_of(words: dict) -> Routine:
    return EVERY[words["routine"]]


def flags_of(words: dict) -> dict:
    """The operands that the routine has."""
    return {name: words[name] for name in routine_of(words).flags}


def shapes_of(words: dict) -> dict[str, tuple[int, int]]:
    edges = (words[name] for name in "mnk")
    shapes = routine_of(words).shapes(*edges, flags_of(words))
    return {**shapes, "c0": shapes["c"]}


class Pool:
    """Memory for A, B and C at any place, as large as the largest problem needs, and C0 on the
    host: the contents of C before a call (NaN if beta is 0 and C must not be read).

    A smaller problem uses the first numbers of this memory, so each place is allocated and filled
    once; only a triangular A is made again for each order.
    """

    def __init__(self, context, problems: list[dict]):
        self.context = context
        self.dtype = _types.TYPES[problems[0]["type"]].dtype
        shapes = [shapes_of(words) for words in problems]
        self.numbers = {
            name: max((of[name][0] * of[name][1] for of in shapes if name in of), default=0)
            for name in NAMES
        }
        self.rows = max(rows for of in shapes for rows, _ in of.values())
        self._flat: dict[tuple[str, str], np.ndarray] = {}
        self._filled: dict[tuple[str, str], int | None] = {}
        self._scratch: np.ndarray | None = None

    def flat(self, name: str, location: str, fill=RANDOM) -> np.ndarray:
        """All the numbers of a matrix at a place: random, UNREAD, or those of a triangular matrix
        of this order."""
        key = (name, location)
        if key not in self._flat:
            if location == "p":
                memory = np.empty(self.numbers[name], self.dtype)
            else:
                memory = self.context.empty((self.numbers[name],), self.dtype, location)
            self._flat[key] = memory
        if name != "c" and self._filled.get(key) != fill:  # Operands.reset sets C
            self._fill(self._flat[key], name, location, fill)
            self._filled[key] = fill
        return self._flat[key]

    def _fill(self, memory: np.ndarray, name: str, location: str, fill: int) -> None:
        if fill == UNREAD:  # only C0, which is on the host
            memory.fill(np.nan)
            return

        def make(part: np.ndarray, first: int) -> None:
            if fill == RANDOM:
                fill_random(part, name, first)
            else:
                fill_triangle(part, name, first, fill)

        if fill != RANDOM:
            memory = memory[: fill * fill]
        if location in ("h", "p"):
            make(memory, 0)
        else:
            step = max(1, CHUNK_BYTES // (self.dtype.itemsize * BLOCK)) * BLOCK
            chunk = self.context.empty((min(step, len(memory)),), self.dtype, "h")
            for first in range(0, len(memory), step):
                part = chunk[: min(step, len(memory) - first)]
                make(part, first)
                self.context.copy(memory[first : first + len(part)], part)

    def scratch(self) -> np.ndarray:
        if self._scratch is None:
            numbers = max(SCRATCH_BYTES // self.dtype.itemsize, self.rows)
            self._scratch = self.context.empty((numbers,), self.dtype, "h")
        return self._scratch


class Operands:
    """The matrices of one problem at their places; problems at equal places share the memory."""

    def __init__(self, pool: Pool, words: dict, locations: list[str] | None = None):
        self.pool, self.words, self.routine = pool, words, routine_of(words)
        self.locations = locations or words["place"].split(",")
        self.shapes = shapes_of(words)
        self.alpha, self.beta = (
            _arrays.real_or_complex(pool.dtype, name, words.get(name, 0))
            for name in ("alpha", "beta")
        )
        for name in self.routine.operands:
            self._numbers(name)  # allocates now, so that the constructor fails if memory is short

    @property
    def dtype(self) -> np.dtype:
        return self.pool.dtype

    @property
    def sizes(self) -> tuple[int, int, int]:
        return tuple(self.words[name] for name in "mnk")

    @property
    def flags(self) -> dict:
        return flags_of(self.words)

    @property
    def growth(self) -> float:
        """The largest factor by which C grows per call."""
        return abs(self.alpha if self.routine.triangular else self.beta)

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """(address, leading dimension or increment) of A, B (A again if there is no B) and C."""
        found = {}
        for name in (*self.routine.operands, "c"):
            step = max(1, self.shapes[name][0]) if name in self.routine.matrices else 1
            found[name] = (self._numbers(name).ctypes.data, step)
        return [found["a"], found.get("b", found["a"]), found["c"]]

    def at(self, locations: list[str]) -> Operands:
        """The same values at another place."""
        return Operands(self.pool, self.words, locations)

    def _location(self, name: str) -> str:
        operands = self.routine.operands
        return self.locations[operands.index(name)] if name in operands else "p"

    def _contents(self, name: str) -> int:
        if name == "a" and self.routine.triangular:
            return self.shapes["a"][0]
        unread = name == "c0" and self.formula.beta == 0 and not self.routine.triangular
        return UNREAD if unread else RANDOM

    def _numbers(self, name: str) -> np.ndarray:
        rows, columns = self.shapes[name]
        flat = self.pool.flat(name, self._location(name), self._contents(name))
        return flat[: rows * columns]

    def matrix(self, name: str) -> np.ndarray:
        """In device memory, an array whose elements Python cannot read."""
        return self._numbers(name).reshape(self.shapes[name], order="F")

    def reset(self) -> None:
        """C becomes C0."""
        target, before = self._numbers("c"), self._numbers("c0")
        if self._location("c") in ("h", "p"):
            copy_in_threads(target, before)
        else:
            self.pool.context.copy(target, before)

    def source(self, name: str):
        """The matrix as a source for `verify`."""
        if self._location(name) in ("h", "p"):
            return verify.HostSource(self.matrix(name))
        return DeviceSource(
            self.pool.context, self._numbers(name), self.shapes[name], self.pool.scratch()
        )

    @property
    def formula(self):
        return formula_of(self.words["routine"], self.flags, self.alpha, self.beta)

    @property
    def _operands(self) -> list[str]:
        return [name for name in NAMES if name in self.shapes]

    def reference(self) -> verify.Reference:
        """The expected result. Reads A, B and C0."""
        sources = {name: self.source(name) for name in self._operands if name != "c"}
        generator = np.random.default_rng(SEED + 1)
        return verify.Reference(self.formula, sources, generator, self.words["type"] == "tf32")

    def on_host(self, name: str) -> np.ndarray:
        """The matrix itself, or a host copy of it if it is in device memory."""
        return self.source(name).whole()

    def case(self, c: np.ndarray | None = None) -> verify.Case:
        """All operands on the host, for a check of every element; `c` replaces ours if given."""
        names = [name for name in self._operands if name != "c" or c is None]
        found = {name: self.on_host(name) for name in names}
        return verify.Case(self.formula, found if c is None else {**found, "c": c})

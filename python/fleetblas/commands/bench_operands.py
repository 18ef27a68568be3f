# SPDX-License-Identifier: BSD-3-Clause
"""The matrices of a benchmark: random, at their places, made once for all problems of a command.

Knows nothing of what multiplies them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .. import _arrays, _types, verify

SEED = 20261121
NAMES = ("a", "b", "c", "c0")
BLOCK = 2**20  # numbers that one generator makes: small enough to share out, large enough to pay
CHUNK_BYTES = 2**28  # of what goes to a device at once
SCRATCH_BYTES = 2**27  # pinned, for reading what is on a device
THREADS = os.cpu_count() or 1


def _in_threads(function, length: int, step: int) -> None:
    """function(slice) over [0, length)."""
    parts = [slice(start, min(start + step, length)) for start in range(0, length, step)]
    if len(parts) < 2:
        for part in parts:
            function(part)
        return
    with ThreadPoolExecutor(min(THREADS, len(parts))) as threads:
        list(threads.map(function, parts))


def fill_random(flat: np.ndarray, name: str, first: int = 0) -> None:
    """Numbers first, first + 1, ... of the matrix `name`, uniform in [-1, 1): always the same ones.

    `first` is a multiple of BLOCK. For complex types both parts are such numbers; two-byte types
    have those of float32, rounded.
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


class Pool:
    """Memory for A, B and C at any place, as large as the largest problem needs, and C0 on the
    host: what C holds before a product (not a number where beta is 0 and it must not be read).

    A smaller problem uses the first numbers of it, so each place is allocated and filled once.
    """

    def __init__(self, context, problems: list[dict]):
        self.context = context
        self.dtype = _types.TYPES[problems[0]["type"]].dtype
        self.not_read = problems[0]["beta"] == 0
        self.numbers = {
            "a": max(words["m"] * words["k"] for words in problems),
            "b": max(words["k"] * words["n"] for words in problems),
            "c": max(words["m"] * words["n"] for words in problems),
        }
        self.numbers["c0"] = self.numbers["c"]
        self.rows = max(max(words[name] for name in "mnk") for words in problems)
        self._flat: dict[tuple[str, str], np.ndarray] = {}
        self._scratch: np.ndarray | None = None

    def flat(self, name: str, location: str) -> np.ndarray:
        """All the numbers of a matrix at a place."""
        key = (name, location)
        if key not in self._flat:
            if location == "p":
                memory = np.empty(self.numbers[name], self.dtype)
            else:
                memory = self.context.empty((self.numbers[name],), self.dtype, location)
            self._fill(memory, name, location)
            self._flat[key] = memory
        return self._flat[key]

    def _fill(self, memory: np.ndarray, name: str, location: str) -> None:
        if name == "c":  # Operands.reset sets it
            return
        if name == "c0" and self.not_read:
            memory.fill(np.nan)
        elif location in ("h", "p"):
            fill_random(memory, name)
        else:
            step = max(1, CHUNK_BYTES // (self.dtype.itemsize * BLOCK)) * BLOCK
            chunk = self.context.empty((min(step, len(memory)),), self.dtype, "h")
            for first in range(0, len(memory), step):
                part = chunk[: min(step, len(memory) - first)]
                fill_random(part, name, first)
                self.context.copy(memory[first : first + len(part)], part)

    def scratch(self) -> np.ndarray:
        if self._scratch is None:
            numbers = max(SCRATCH_BYTES // self.dtype.itemsize, self.rows)
            self._scratch = self.context.empty((numbers,), self.dtype, "h")
        return self._scratch


class Operands:
    """A, B and C of one product at their places; products at equal places share the memory."""

    def __init__(self, pool: Pool, words: dict, locations: list[str] | None = None):
        self.pool, self.words = pool, words
        self.locations = locations or words["place"].split(",")
        m, n, k = words["m"], words["n"], words["k"]
        self.shapes = {
            "a": (m, k) if words["transa"] == "n" else (k, m),
            "b": (k, n) if words["transb"] == "n" else (n, k),
            "c": (m, n),
            "c0": (m, n),
        }
        self.a, self.b, self.c = (self._matrix(name) for name in "abc")
        self.alpha, self.beta = (
            _arrays.real_or_complex(pool.dtype, name, words[name]) for name in ("alpha", "beta")
        )

    @property
    def dtype(self) -> np.dtype:
        return self.pool.dtype

    @property
    def sizes(self) -> tuple[int, int, int]:
        return tuple(self.words[name] for name in "mnk")

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """(address, leading dimension) of A, B and C."""
        return [(x.ctypes.data, max(1, x.shape[0])) for x in (self.a, self.b, self.c)]

    def at(self, locations: list[str]) -> Operands:
        """The same values elsewhere."""
        return Operands(self.pool, self.words, locations)

    def _location(self, name: str) -> str:
        return "p" if name == "c0" else self.locations["abc".index(name)]

    def _numbers(self, name: str) -> np.ndarray:
        rows, columns = self.shapes[name]
        return self.pool.flat(name, self._location(name))[: rows * columns]

    def _matrix(self, name: str) -> np.ndarray:
        return self._numbers(name).reshape(self.shapes[name], order="F")

    def reset(self) -> None:
        """C becomes C0."""
        target, before = self._numbers("c"), self._numbers("c0")
        if self._location("c") in ("h", "p"):
            _in_threads(lambda part: np.copyto(target[part], before[part]), len(target), BLOCK)
        else:
            self.pool.context.copy(target, before)

    def source(self, name: str):
        """The matrix as `verify` reads it."""
        if self._location(name) in ("h", "p"):
            return verify.HostSource(self._matrix(name))
        return DeviceSource(
            self.pool.context, self._numbers(name), self.shapes[name], self.pool.scratch()
        )

    def reference(self) -> verify.Reference:
        """What the product has to be. Reads A, B and C0."""
        w = self.words
        sources = (self.source("a"), self.source("b"), self.source("c0"))
        generator = np.random.default_rng(SEED + 1)
        scalars = (self.alpha, self.beta)
        ops, tf32 = (w["transa"], w["transb"]), w["type"] == "tf32"
        return verify.Reference(ops, scalars, sources, generator, tf32)

    def on_host(self, name: str) -> np.ndarray:
        """The matrix itself, or a copy of it where it is in a device's memory."""
        if self._location(name) in ("h", "p"):
            return self._matrix(name)
        numbers = self._numbers(name)
        copy = self.pool.context.copy(np.empty(len(numbers), self.dtype), numbers)
        return copy.reshape(self.shapes[name], order="F")

    def product(self, c: np.ndarray | None = None) -> verify.Product:
        """All of it on the host, for a check of every element; `c` instead of ours where given."""
        w = self.words
        a, b, c0 = (self.on_host(name) for name in ("a", "b", "c0"))
        c = self.on_host("c") if c is None else c
        return verify.Product(w["transa"], w["transb"], self.alpha, a, b, self.beta, c0, c)

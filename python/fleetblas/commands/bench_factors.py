# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations and equations in a benchmark: their matrices, and FleetBLAS as their engine.

Each call takes a fresh matrix, copied in before the clock starts. Others: bench_lapack,
bench_cusolver.
"""

from __future__ import annotations

import numpy as np

from .. import _lapack, _types, verify, verify_factors
from .._routines import LAPACK, is_cyclic
from ..verify_factors import Expectation, Factors
from .bench_engines import Engine, FleetBlas, Unmeasured, add_plan
from .bench_operands import SCRATCH_BYTES, SEED, copy_in_threads, fill_random

SHIFT = 3.0  # times sqrt(n): beyond the eigenvalues of random Hermitian matrices, about 1.6 sqrt(n)
RANDOM = -1
REFINED = "sgesv"  # in LAPACK's names dsgesv and zcgesv
HELD = "refined in double precision"  # the books' word for a matrix that devices hold twice


def fill_definite(flat: np.ndarray, order: int) -> None:
    """A random Hermitian matrix whose eigenvalues are positive; both triangles are filled."""
    fill_random(flat, "a")
    diagonal = flat[:: order + 1]
    diagonal[:] = diagonal.real + SHIFT * order**0.5


class FactorPool:
    """Memory for A and B at any place, as large as the largest problem needs, and for their
    contents before each call, on the host. A smaller problem uses the first numbers of it."""

    def __init__(self, context, problems: list[dict]):
        self.context = context
        self.dtype = _types.TYPES[problems[0]["type"]].dtype
        self.numbers: dict[str, int] = {"a": 0, "b": 0, "x": 0}
        for words in problems:
            for name, (rows, columns) in shapes_of(words).items():
                self.numbers[name] = max(self.numbers[name], rows * columns)
        self.numbers["x"] = self.numbers["b"]
        self._flat: dict[tuple[str, str], np.ndarray] = {}
        self._before: dict[str, tuple[np.ndarray, int]] = {}
        self._scratch: np.ndarray | None = None
        self._cyclic: dict[str, tuple] = {}

    def flat(self, name: str, location: str) -> np.ndarray:
        key = (name, location)
        if key not in self._flat:
            count = max(1, self.numbers[name])
            self._flat[key] = self.context.empty((count,), self.dtype, location)
        return self._flat[key]

    def cyclic(self, name: str, shape: tuple[int, int], place: str):
        """A block-cyclic matrix; that of the problem before is given back."""
        kept = self._cyclic.get(name)
        if kept is None or (kept[0], kept[1].shape) != (place, shape):
            self._cyclic.pop(name, None)
            made = self.context.tracked(shape=shape, dtype=self.dtype, place=place)
            self._cyclic[name] = kept = (place, made)
        return kept[1]

    def before(self, name: str, fill: int) -> np.ndarray:
        """Random numbers, or those of a definite matrix of this order."""
        memory, filled = self._before.get(name, (None, None))
        if filled != fill:
            if memory is None:
                memory = np.empty(max(1, self.numbers[name]), self.dtype)
            if fill == RANDOM:
                fill_random(memory, name)
            else:
                fill_definite(memory[: fill * fill], fill)
            self._before[name] = (memory, fill)
        return memory

    def scratch(self, rows: int) -> np.ndarray:
        """Pinned memory for some columns of a matrix on a device."""
        numbers = max(SCRATCH_BYTES // self.dtype.itemsize, rows * verify_factors.WIDTH)
        if self._scratch is None or len(self._scratch) < numbers:
            self._scratch = self.context.empty((numbers,), self.dtype, "h")
        return self._scratch


class DeviceMatrix:
    """A matrix in a device's memory, of which some columns at a time are copied to the host."""

    def __init__(self, pool: FactorPool, flat: np.ndarray, shape: tuple[int, int]):
        self.pool, self.flat, self.shape, self.dtype = pool, flat, shape, flat.dtype

    def columns(self, start: int, stop: int) -> np.ndarray:
        rows = self.shape[0]
        piece = np.empty(rows * (stop - start), self.dtype)
        scratch = self.pool.scratch(rows).view(self.dtype)
        step = max(1, len(scratch) // rows) * rows
        for first in range(0, len(piece), step):
            part = scratch[: min(step, len(piece) - first)]
            from_here = rows * start + first
            self.pool.context.copy(part, self.flat[from_here : from_here + len(part)])
            piece[first : first + len(part)] = part
        return piece.reshape((rows, stop - start), order="F")


class CyclicMatrix:
    """A block-cyclic matrix, of which some columns at a time are gathered."""

    def __init__(self, tracked):
        self.tracked, self.shape, self.dtype = tracked, tracked.shape, tracked.dtype

    def columns(self, start: int, stop: int) -> np.ndarray:
        return self.tracked.part(slice(None), slice(start, stop)).gather()


def shapes_of(words: dict) -> dict[str, tuple[int, int]]:
    return LAPACK[words["routine"]].shapes(*(words[name] for name in "mnk"), {})


class FactorOperands:
    """The matrices of one problem at their places, with pivots and factors of reflectors on the
    host."""

    growth = float("inf")  # no call may take what another left

    def __init__(self, pool: FactorPool, words: dict, locations: list[str] | None = None):
        self.pool, self.words, self.routine = pool, words, LAPACK[words["routine"]]
        self.locations = locations or words["place"].split(",")
        self.shapes = shapes_of(words)
        self.pivots = np.zeros(self.diagonal, np.int64)
        self.tau = np.zeros(self.diagonal, pool.dtype)
        for name in self.routine.operands:
            self.matrix(name)  # allocates now, so that the constructor fails if memory is short

    @property
    def dtype(self) -> np.dtype:
        return self.pool.dtype

    @property
    def diagonal(self) -> int:
        return min(self.words["m"], self.words["n"])

    @property
    def uplo(self) -> str:
        return self.words.get("uplo", "l")

    def at(self, locations: list[str]) -> FactorOperands:
        """The same values at another place."""
        return FactorOperands(self.pool, self.words, locations)

    def _location(self, name: str) -> str:
        return self.locations[-1 if name in "bx" else 0]

    def flat(self, name: str) -> np.ndarray:
        """x has the shape and the place of b."""
        rows, columns = self.shapes["b" if name == "x" else name]
        return self.pool.flat(name, self._location(name))[: rows * columns]

    def matrix(self, name: str):
        """In device memory, an array whose elements Python cannot read; block-cyclic, a tracked
        matrix."""
        shape, location = self.shapes["b" if name == "x" else name], self._location(name)
        if is_cyclic(location):
            return self.pool.cyclic(name, shape, location)
        return self.flat(name).reshape(shape, order="F")

    def before(self, name: str) -> np.ndarray:
        """The contents before each call, as a host matrix."""
        fill = self.words["n"] if self.routine.word == "potrf" else RANDOM
        rows, columns = self.shapes[name]
        flat = self.pool.before(name, fill if name == "a" else RANDOM)[: rows * columns]
        return flat.reshape((rows, columns), order="F")

    def reset(self) -> None:
        """A and B become as they were."""
        for name in self.routine.operands:
            if is_cyclic(self._location(name)):
                self.matrix(name).scatter(self.before(name))
                continue
            target, before = self.flat(name), self.before(name).reshape(-1, order="F")
            if self._location(name) in ("h", "p"):
                copy_in_threads(target, before)
            else:
                self.pool.context.copy(target, before)

    def readable(self, name: str):
        """The matrix as `verify_factors` reads it."""
        matrix = self.matrix(name)
        if is_cyclic(self._location(name)):
            return CyclicMatrix(matrix)
        if self._location(name) in ("h", "p"):
            return verify_factors.HostMatrix(matrix)
        return DeviceMatrix(self.pool, self.flat(name), matrix.shape)

    def factors(self) -> Factors:
        """What a call left here."""
        if self.routine.solves:
            return Factors(solution=self.readable("b"))
        return Factors(self.readable("a"), self.pivots, self.tau)

    def reference(self) -> Expectation:
        """What every engine's result is judged by."""
        generator = np.random.default_rng(SEED + 1)
        b = verify_factors.HostMatrix(self.before("b")) if self.routine.solves else None
        a = verify_factors.HostMatrix(self.before("a"))
        return Expectation(self.routine.word, a, generator, self.uplo, b)


def factoring(words: dict) -> dict:
    """The words of the factorization that the problem is, or that takes its time."""
    if words["routine"] != "gesv":
        return words
    return {**words, "routine": "getrf", "k": words["n"], "place": words["place"].split(",")[0]}


class LapackEngine(Engine):
    """An engine that takes fresh matrices for each call and reports LAPACK's info."""

    types = tuple("sdcz")
    routines = tuple(LAPACK)
    info = 0
    _fresh = False

    def make_ready(self) -> None:
        """Factorizations are planned once."""

    def reset(self) -> None:
        self.operands.reset()
        self._fresh = True

    def call(self) -> float:
        if not self._fresh:
            self.reset()
        self._fresh = False
        return self.timed()

    def results(self) -> Factors:
        return self.operands.factors()

    def verdict(self, reference: Expectation, everything: bool) -> verify.Verdict:
        if self.info != 0:
            word = self.operands.words["routine"]
            raise Unmeasured(f"{word} returned info = {self.info}", "internal")
        return reference.judge(self.results(), everything)


class Factorizer(LapackEngine, FleetBlas):
    """FleetBLAS, by the functions of lapack.h."""

    name = "fleetblas"
    settling = 1

    def compute(self) -> None:
        self.info = self._compute_on(self.context)

    def _compute_on(self, context) -> int:
        o = self.operands
        routine, a = o.routine.word, o.matrix("a")
        m, n, k = (o.words[name] for name in "mnk")
        if routine == "potrf":
            return _lapack.call(context, o.dtype, routine, o.uplo, n, a)[0]
        if routine == "getrf":
            return _lapack.call(context, o.dtype, routine, m, n, a, o.pivots)[0]
        if routine == "gesv":
            return _lapack.call(context, o.dtype, routine, n, k, a, o.pivots, o.matrix("b"))[0]
        _lapack.call(context, o.dtype, routine, m, n, a, o.tau)
        return 0

    def describe(self, row: dict) -> None:
        config, words = self.context.config(), self.operands.words
        row.update({"cpu_blas": config["cpu_blas"], "cores": config["cores"]})
        last = self.context.stats()["last"] or {}
        row["where"], row["reason"] = last.get("where"), last.get("reason")
        if words["routine"] == "gesv":
            row["reason"] = "getrf and two trsm"  # the last call is one of these
            if self.times:
                self._describe_factorization(row, bool(config["devices"]))
        elif last.get("where") == "devices":
            row["devices"], row["tile"] = last["workers"], last["tile"]
            add_plan(row, self.context.plan(**words))

    def _describe_factorization(self, row: dict, has_devices: bool) -> None:
        """Equations have no plan and no bound of their own."""
        words = factoring(self.operands.words)
        if not has_devices:
            row.update(self.context.bound(**words))
            return
        plan = self.context.plan(**words)
        add_plan(row, plan)
        row["predicted_s"] = None  # of the factorization alone
        if row["where"] == "devices":
            row["devices"], row["tile"] = len(plan["workers"]), plan["tile"]


class Refined(Factorizer):
    """The same equations, with factors in single precision and a refined solution."""

    name = "fleetblas-refined"
    types = tuple("dz")
    routines = ("gesv",)
    iterations: int | None = None

    def _compute_on(self, context) -> int:
        o = self.operands
        matrices = (o.matrix("a"), o.pivots, o.matrix("b"), o.matrix("x"))
        sizes = (o.words["n"], o.words["k"])
        self.iterations, info = _lapack.call(context, o.dtype, REFINED, *sizes, *matrices)
        return info

    def results(self) -> Factors:
        return Factors(solution=self.operands.readable("x"))

    def describe(self, row: dict) -> None:
        super().describe(row)
        row["iterations"] = self.iterations
        last = self.context.stats()["last"] or {}
        row["refined_on"] = "devices" if last.get("reason") == HELD else "host"
        if row["refined_on"] == "devices":
            row["devices"], row["tile"] = last["workers"], last["tile"]
        if self.iterations is not None:
            single = f"{self.iterations} refinements of single precision"
            row["reason"] = single if self.iterations >= 0 else "done in double precision"

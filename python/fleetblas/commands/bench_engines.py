# SPDX-License-Identifier: BSD-3-Clause
"""The engines of a benchmark: FleetBLAS itself, and the CPU BLAS alone. Others: bench_peers.

Knows nothing of rounds, rows and tables.
"""

from __future__ import annotations

import time

import numpy as np

from .. import Context, _arrays, _level3, _matrices, _native, _tracked, _types, _vectors, verify
from .._routines import EVERY, ROUTINES, VECTORS
from .bench_operands import Operands

START_UP_EDGE = 256  # a first product of this size includes all of start-up


class Unmeasured(Exception):
    """An engine that is missing or failed; `status` is the word of its row."""

    def __init__(self, message: str, status: str = "unsupported"):
        super().__init__(message)
        self.status = status


class Engine:
    """One library that makes the call, and its measurements."""

    name = ""
    same_problem = True  # its operands have the places of FleetBLAS's, so the bound holds for it
    types = tuple(_types.TYPES)  # words of the types that it multiplies
    routines = tuple(EVERY)

    def __init__(self, operands: Operands):
        self.operands = operands
        self.times: list[float] = []
        self.first_s: float | None = None
        self.verdicts: list[verify.Verdict] = []
        self.failure: Exception | None = None
        self.energy = None  # of a call, if the GPUs count it
        self.balance: float | None = None  # of its devices, if known

    @property
    def gpus(self) -> list[int]:
        """CUDA numbers of its GPUs, whether or not it uses them all."""
        return []

    def taking_part(self, row: dict) -> list[int]:
        """Those of its GPUs that its calls use, by what `describe` put into the row."""
        return self.gpus

    def require_problem(self) -> None:
        """Raises Unmeasured if it lacks the routine or type."""
        word, routine = self.operands.words["type"], self.operands.words["routine"]
        if word not in self.types:
            raise Unmeasured(f"{self.name} has no product of type {word}")
        if routine not in self.routines:
            raise Unmeasured(f"{self.name} has no {routine}")

    def start_up(self) -> None:
        """Handles, contexts, the best block size: everything that a first product sets up.

        Raises Unmeasured if the engine has no product of this type.
        """

    def compute(self) -> None:
        """One call; C is complete when it returns."""
        raise NotImplementedError

    def reset(self) -> None:
        """C becomes C0."""
        self.operands.reset()

    def call(self) -> float:
        """Seconds of one call."""
        if self.operands.growth > 1:
            self.reset()  # else C would overflow eventually
        return self.timed()

    def timed(self) -> float:
        """Seconds of one call on the operands as they are."""
        start = time.perf_counter()
        self.compute()
        return time.perf_counter() - start

    def first_call(self) -> float:
        """Seconds of the first product of this kind after start_up."""
        return self.call()

    def make_ready(self) -> None:
        """After the first call: does what the calls that are timed must not do beside them."""

    def verdict(self, reference: verify.Reference, everything: bool) -> verify.Verdict:
        """The verdict on the result of the last call, which must have begun with C0."""
        verdict = reference.judge(reference.look_at(self.operands.source("c")))
        if everything:
            verdict.error = verify.whole_error(self.operands.case()) / verdict.unit
        return verdict

    def describe(self, row: dict) -> None:
        """Adds the values that only this engine has to its row."""

    def close(self) -> None:
        """Frees the resources of the engine; its measurements stay."""


class Absent(Engine):
    """A peer that is not of the problem's kind."""

    same_problem = False
    routines = ()

    def __init__(self, operands, name: str):
        super().__init__(operands)
        self.name = name

    def start_up(self) -> None:
        self.require_problem()


class FleetBlas(Engine):
    name = "fleetblas"
    settling = 1  # calls until each is as the one before

    def __init__(self, context: Context, operands: Operands):
        super().__init__(operands)
        self.context = context

    @property
    def gpus(self) -> list[int]:
        config = self.context.config()
        return [] if config["backend"] == "host" else config["devices"]

    def start_up(self) -> None:
        self.require_problem()
        a, b = (np.ones((START_UP_EDGE, START_UP_EDGE), self.operands.dtype) for _ in range(2))
        self.context.gemm(a, b, tf32=self.operands.words["type"] == "tf32")

    def compute(self) -> None:
        self._compute_on(self.context)

    def _compute_on(self, context) -> None:
        o, words = self.operands, self.operands.words
        a, b, c = o.matrices
        scalars = (o.alpha, a, b, o.beta, c)
        if words["routine"] == "gemm":
            ops = (words["transa"], words["transb"])
            _arrays.call(context, words["type"], ops, o.sizes, *scalars)
        else:
            module = _vectors if words["routine"] in VECTORS else _level3
            module.call(context, words["type"], o.routine, o.flags, o.sizes, *scalars)

    def make_ready(self) -> None:
        """Has the best plan found now, in place of the one that the first call got soon."""
        last = self.context.stats()["last"] or {}
        if last.get("where") == "devices":
            self.context.plan(**self.operands.words)

    def taking_part(self, row: dict) -> list[int]:
        homes = {int(place) for place in self.operands.locations if place.isdigit()}
        used = {*row.get("workers", []), *homes}
        return [gpu for gpu in self.gpus if gpu in used]

    def describe(self, row: dict) -> None:
        config = self.context.config()
        row.update({"cpu_blas": config["cpu_blas"], "cores": config["cores"]})
        last = self.context.stats()["last"] or {}
        row["where"], row["reason"] = last.get("where"), last.get("reason")
        if last.get("where") == "devices":
            row["devices"], row["tile"] = last["workers"], last["tile"]
            add_plan(row, self.context.plan(**self.operands.words))


class Resident(FleetBlas):
    """Operands are tracked, so they stay on the devices between calls; calls are queued, and waited
    for by their events. What is in the operands' own memory is old until it is read."""

    same_problem = False  # its bound is not that of the operands' places
    settling = 2  # the first brings the operands
    types, routines = tuple(_matrices.CODES), tuple(ROUTINES)

    def __init__(self, context: Context, operands: Operands):
        super().__init__(context, operands)
        names = ("a", "b", "c") if operands.routine.has_b else ("a", "c")
        self._memories = {
            name: _matrices.Memory(context.handle, operands.matrix(name), None, own=False)
            for name in names
        }

    def compute(self) -> None:
        queue = _tracked.Queue(self.context, list(self._memories.values()))
        self._compute_on(queue)
        queue.event.wait()

    def reset(self) -> None:
        self.read_c()
        super().reset()
        memory = self._memories["c"]
        memory.wrote(self.context.handle, memory.block)

    def read_c(self) -> None:
        memory = self._memories["c"]
        memory.read(self.context.handle, memory.block)

    def verdict(self, reference: verify.Reference, everything: bool) -> verify.Verdict:
        self.read_c()
        return super().verdict(reference, everything)

    def describe(self, row: dict) -> None:
        super().describe(row)
        row.update(dict.fromkeys(("bound_s", "limited_by", "plan_s", "grid", "bytes_by_link")))
        row["predicted_s"] = (self.context.stats()["last"] or {}).get("predicted_s")
        devices = self.context.config()["devices"]
        if len(devices) == 1 and self.times:
            # Several devices have the operands in parts, for which there is no place.
            place = ",".join([str(devices[0])] * len(self.operands.locations))
            row.update(self.context.bound(**{**self.operands.words, "place": place}))

    def close(self) -> None:
        for memory in self._memories.values():
            memory.let_go()


class HostBlas(FleetBlas):
    """The CPU BLAS behind FleetBLAS on all cores; operands on devices are copied to the host
    first."""

    name = "hostblas"
    same_problem = False  # no device takes part, so the bound of the devices does not hold
    types = (*"sdcz", "tf32")  # tf32 as s; a CPU BLAS has no products of two-byte types

    def __init__(self, context: Context, operands: Operands):
        on_host = [place if place in ("h", "p") else "p" for place in operands.locations]
        super().__init__(context, operands.at(on_host))

    @property
    def gpus(self) -> list[int]:
        return []

    def describe(self, row: dict) -> None:
        super().describe(row)
        row["devices"] = 0


def host_context() -> Context:
    """A context without GPUs, which would otherwise be started to look up addresses of operands."""
    return Context(backend="host", devices=1, offload="never")


def add_plan(row: dict, plan: dict) -> None:
    for name in ("bound_s", "limited_by", "predicted_s", "plan_s", "grid", "workers", "machine"):
        row[name] = plan.get(name)
    for name in ("cpu_share", "bytes_by_link", "problem", "corrections"):
        row[name] = plan.get(name)


def balance_of(timeline: dict) -> float | None:
    """The imbalance of the workers: (most - least) / mean of their busy seconds; None if nothing
    was computed."""
    run = timeline["fleetblas"]
    names = ("host" if worker < 0 else str(worker) for worker in run["workers"])
    busy = [run["busy_s"]["devices"].get(name, 0.0) for name in names]
    total = sum(busy)
    return (max(busy) - min(busy)) * len(busy) / total if total > 0 else None


MEASURING_ERRORS = (_native.Error, Unmeasured)

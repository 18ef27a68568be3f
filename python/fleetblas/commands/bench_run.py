# SPDX-License-Identifier: BSD-3-Clause
"""Runs the problems of one command, each with the devices and rules that it wants, on the same
operands; keeps what is measured, and goes on where an earlier run was cut off.

Knows nothing of the command line, nor of how a call is timed.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field

from .. import Context
from . import bench_rows, common
from .bench_engines import Engine, FleetBlas, HostBlas, Unmeasured, host_context
from .bench_method import Method, measure
from .bench_nvblas import Nvblas, NvblasProcess
from .bench_operands import Operands, Pool
from .bench_peers import Cublas, CublasXt
from .energy import Meter

# Of the time that is left for a problem, what each engine's timed calls may take: those to warm up
# take as much, and verifying the rest.
SHARE_OF_TIMED = 0.3
LEAST_SECONDS = 0.02


@dataclass
class Work:
    """One problem, and what is said about it in its rows."""

    words: dict
    options: dict = field(default_factory=dict)  # of its context, beyond those of the command
    labels: dict = field(default_factory=dict)
    peers: bool = True  # measured too

    def key(self) -> tuple:
        """What tells it from the other problems of a set."""
        return key_of({**self.labels, **self.words})


def key_of(row: dict) -> tuple:
    place = row.get("beside") or row["place"]
    wanted = row.get("wanted_devices")
    return (
        *(row[name] for name in ("type", "m", "n", "k")),
        place,
        tuple(wanted) if wanted else None,
        row.get("rules"),
    )


class Progress:
    """A line on stderr that overwrites itself; nothing where that is no terminal."""

    def __init__(self):
        self.shown = sys.stderr.isatty()
        self.before = ""

    def __call__(self, text: str) -> None:
        if self.shown:
            sys.stderr.write(f"\r\033[K{self.before if text else ''}{text}")
            sys.stderr.flush()


@dataclass
class Budget:
    """Seconds for all that a command has to do; without end by default."""

    seconds: float = math.inf
    began_s: float = field(default_factory=time.monotonic)

    def left_s(self) -> float:
        return self.began_s + self.seconds - time.monotonic()


class Bench:
    """What the problems of one command share: contexts, operands, and the process of NVBLAS."""

    def __init__(self, context: Context, options: dict, works: list[Work], arguments):
        self.base, self.options, self.arguments = context, options, arguments
        self.problems = [work.words for work in works]
        self.devices = context.config()["devices"]
        self.pool = Pool(context, self.problems)
        self.peers = arguments.vs
        self.host = host_context() if "hostblas" in self.peers else None
        self.nvblas = NvblasProcess(self.problems, self.devices)
        self.progress = Progress()
        self._here = ({}, context, self.pool)  # extra options, their context, its operands
        self._references: dict[tuple, object] = {}
        self._meters: dict[tuple, Meter | None] = {}

    def close(self) -> None:
        self.nvblas.close()
        self._leave()

    def _leave(self) -> None:
        _, context, _ = self._here
        if context is not self.base:
            context.close()
        self._here = ({}, self.base, self.pool)

    def _enter(self, extra: dict) -> tuple[Context, Pool]:
        """The context for these options: one of its own, besides the first one, at a time."""
        if extra != self._here[0]:
            self._leave()
            if extra:
                self.base.trim()  # its devices' memory is needed
                context = Context(**{**self.options, **extra})
                # GPUs know each other's memory, and pinned memory, by their addresses; virtual
                # devices know only what their own context gave.
                shared = self.base.config()["backend"] != "host"
                pool = self.pool if shared else Pool(context, self.problems)
                self._here = (extra, context, pool)
        return self._here[1:]

    def _peer(self, name: str, operands: Operands, devices: list[int]) -> Engine:
        if name == "hostblas":
            return HostBlas(self.host, operands)
        if name == "nvblas":
            return Nvblas(operands, self.nvblas)
        return {"cublas": Cublas, "cublasxt": CublasXt}[name](operands, devices)

    def meter(self, gpus: list[int]) -> Meter | None:
        """What counts the energy of these GPUs; None where nothing does."""
        key = tuple(gpus)
        if key not in self._meters:
            try:
                self._meters[key] = Meter(gpus)
            except Unmeasured:
                self._meters[key] = None
        return self._meters[key] if self.arguments.energy else None

    def rows(self, work: Work, method: Method) -> list[dict]:
        """One problem, by every engine."""
        context, pool = self._enter(work.options)
        operands = Operands(pool, work.words)
        # The values of A, B and C0 are the same at every place.
        self._references = {operands.sizes: self._references.get(operands.sizes)}

        def reference():
            if self._references[operands.sizes] is None:
                self._references[operands.sizes] = operands.reference()
            return self._references[operands.sizes]

        devices = work.labels.get("wanted_devices") or self.devices
        engines = [FleetBlas(context, operands)]
        engines += [self._peer(name, operands, devices) for name in self.peers if work.peers]
        try:
            check = self.arguments.check
            measure(engines, method, reference, self.meter, self.progress, check)
            rows = [
                bench_rows.measured_row(engine, context, work.words, method) for engine in engines
            ]
            return [{**row, **work.labels} for row in rows]
        finally:
            for engine in engines:
                engine.close()


def method_of(arguments, budget: Budget, works_left: int) -> Method:
    """As the command says, but no more than the budget allows each of the problems left."""
    seconds = math.inf if arguments.seconds is None else arguments.seconds
    if budget.seconds < math.inf:
        share = max(0.0, budget.left_s()) / works_left
        engines = 1 + len(arguments.vs)
        seconds = min(seconds, max(LEAST_SECONDS, SHARE_OF_TIMED * share / engines))
    return Method(
        warmup=arguments.warmup,
        most=arguments.repeat,
        least=min(arguments.least, arguments.repeat),
        seconds=seconds,
        precision=arguments.precision,
    )


def measured(
    context: Context, options: dict, works: list[Work], arguments, budget: Budget, keep
) -> int:
    """Measures one work after the other and hands its rows to `keep`; the number of those that the
    budget left undone."""
    bench = Bench(context, options, works, arguments)
    try:
        for done, work in enumerate(works):
            if budget.left_s() <= 0:
                return len(works) - done
            bench.progress.before = f"{done + 1}/{len(works)} " if len(works) > 1 else ""
            keep(bench.rows(work, method_of(arguments, budget, len(works) - done)))
    finally:
        bench.close()
    return 0


def simulated(context: Context, options: dict, works: list[Work], keep) -> None:
    """The same by the simulator, with no data."""
    extra, here = {}, context
    try:
        for work in works:
            if work.options != extra:
                if here is not context:
                    here.close()
                extra = work.options
                here = Context(**{**options, **extra}) if extra else context
            keep([{**bench_rows.simulated_row(here, work.words), **work.labels}])
    finally:
        if here is not context:
            here.close()


def machine_text(context: Context) -> str:
    """What the numbers hold for, in words."""
    config = context.config()
    if config["backend"] == "cuda":
        from .cuda_libraries import Driver

        names = [Driver().name(device) for device in config["devices"]]
        kinds = dict.fromkeys(names)
        gpus = ", ".join(f"{names.count(name)} x {name}" for name in kinds)
        return f"{gpus}, {config['cores']} cores"
    machine = context.machine()
    return machine["name"]


def header(context: Context, arguments) -> dict:
    """What a file of results begins with."""
    method = {name: getattr(arguments, name) for name in ("warmup", "repeat", "least", "seconds")}
    method.update({name: getattr(arguments, name) for name in ("precision", "budget")})
    return {
        "schema": 1,
        "dataset": arguments.dataset,
        "type": arguments.type,
        "machine": machine_text(context),
        "gpus": len(context.config()["devices"]),
        "commit": common.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "method": method,
        "options": common.context_options(arguments),
    }

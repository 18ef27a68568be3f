# SPDX-License-Identifier: BSD-3-Clause
"""Runs the problems of one command, each with its devices and rules, on the same operands; keeps
the results, and continues an interrupted run.

Knows nothing of the command line, nor of how a call is timed.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field

from .. import Context
from .._routines import KNOWN, LAPACK
from . import bench_rows, common
from .bench_cusolver import Cusolver, CusolverMg
from .bench_engines import (
    MEASURING_ERRORS,
    Absent,
    Engine,
    FleetBlas,
    HostBlas,
    Resident,
    Unmeasured,
    balance_of,
    host_context,
)
from .bench_factors import Factorizer, FactorOperands, FactorPool, LapackEngine, Refined
from .bench_lapack import CpuLapack
from .bench_method import Method, measure
from .bench_nvblas import Nvblas, NvblasProcess
from .bench_operands import Operands, Pool
from .bench_peers import Cublas, CublasXt
from .energy import Meter

# The share of a problem's time for the timed calls of each engine; warm-ups take as much, and
# verification takes the rest.
SHARE_OF_TIMED = 0.3
LEAST_SECONDS = 0.02
# Peers on the same GPUs, by whether they do products or what LAPACK does; others are made below.
PRODUCT_PEERS = {"cublas": Cublas, "cublasxt": CublasXt}
LAPACK_PEERS = {"cusolver": Cusolver, "cusolvermg": CusolverMg}


@dataclass
class Work:
    """One problem, and the values that its rows have in common."""

    words: dict
    options: dict = field(default_factory=dict)  # of its context, in addition to the command's
    labels: dict = field(default_factory=dict)
    peers: bool = True  # peers are measured too

    def key(self) -> tuple:
        """The key that distinguishes the problem within a set."""
        return key_of({**self.labels, **self.words})


def key_of(row: dict) -> tuple:
    place = row.get("beside") or row["place"]
    wanted = row.get("wanted_devices")
    routine = row.get("routine", "gemm")
    return (
        routine,
        *(row[name] for name in ("type", "m", "n", "k")),
        *(row.get(name, "n") for name in KNOWN[routine].flags),
        place,
        tuple(wanted) if wanted else None,
        row.get("rules"),
    )


class Progress:
    """A line on stderr that overwrites itself; silent if stderr is no terminal."""

    def __init__(self):
        self.shown = sys.stderr.isatty()
        self.before = ""

    def __call__(self, text: str) -> None:
        if self.shown:
            sys.stderr.write(f"\r\033[K{self.before if text else ''}{text}")
            sys.stderr.flush()


@dataclass
class Budget:
    """Seconds for all the work of a command; unlimited by default."""

    seconds: float = math.inf
    began_s: float = field(default_factory=time.monotonic)

    def left_s(self) -> float:
        return self.began_s + self.seconds - time.monotonic()


class Bench:
    """Shared by the problems of a command: contexts, operands, and the process of NVBLAS."""

    def __init__(self, context: Context, options: dict, works: list[Work], arguments):
        self.base, self.options, self.arguments = context, options, arguments
        self.problems = [work.words for work in works]
        self.devices = context.config()["devices"]
        self.peers = arguments.vs
        self.resident = getattr(arguments, "resident", False)
        self.host = host_context() if "hostblas" in self.peers else None
        products = [words for words in self.problems if words["routine"] == "gemm"]
        self.nvblas = NvblasProcess(products, self.devices)
        self.progress = Progress()
        self._here: tuple[dict, Context] = ({}, context)  # extra options, and their context
        self._timed: tuple[dict, Context | None] = ({}, None)  # the same, with a timeline
        self._pool: tuple[Context, str, bool, Pool | FactorPool] | None = None
        self._references: dict[tuple, object] = {}
        self._meters: dict[tuple, Meter | None] = {}

    def close(self) -> None:
        self.nvblas.close()
        self._leave()

    def _leave(self) -> None:
        for _, context in (self._here, self._timed):
            if context not in (None, self.base):
                context.close()
        self._here, self._timed = ({}, self.base), ({}, None)

    def _enter(self, extra: dict) -> Context:
        """The context for these options; besides the first context at most one exists at a time."""
        if extra != self._here[0]:
            self._leave()
            if extra:
                self.base.trim()  # the new context needs its device memory
                self._here = (extra, Context(**{**self.options, **extra}))
        return self._here[1]

    def _operands(self, context: Context, words: dict) -> Operands | FactorOperands:
        """The operands of a problem, in memory that all products of a type share, or all
        factorizations."""
        # GPUs recognize device and pinned memory by address; virtual devices know only the memory
        # of their own context.
        shared = self.base.config()["backend"] != "host"
        owner, word = self.base if shared else context, words["type"]
        factors = words["routine"] in LAPACK
        if self._pool is None or self._pool[:3] != (owner, word, factors):
            # References to the old memory are dropped first: both may not fit.
            self._references, self._pool = {}, None
            alike = [
                problem
                for problem in self.problems
                if problem["type"] == word and (problem["routine"] in LAPACK) == factors
            ]
            pool = FactorPool(owner, alike) if factors else Pool(owner, alike)
            self._pool = (owner, word, factors, pool)
        pool = self._pool[3]
        return FactorOperands(pool, words) if factors else Operands(pool, words)

    def _balance(self, context: Context, extra: dict, engine: FleetBlas) -> float | None:
        """The balance of one more call, if ordinary calls do not time tasks, as on GPUs."""
        if engine.failure is not None or not self.arguments.balance:
            return None
        if isinstance(engine, LapackEngine) and engine.operands.routine.solves:
            return None  # its last run is that of a solution
        try:
            if (context.stats()["last"] or {}).get("where") != "devices":
                return None
            if context.config()["backend"] == "host":
                return balance_of(context.trace())
            if self._timed[1] is None or self._timed[0] != extra:
                self._timed = (extra, Context(**{**self.options, **extra, "timeline": True}))
            context.trim()  # both may not fit
            timed = self._timed[1]
            engine.reset()
            again = type(engine)(timed, engine.operands)
            for _ in range(again.settling):
                again.compute()
            found = balance_of(timed.trace())
            again.close()
            timed.trim()
            return found
        except MEASURING_ERRORS:
            return None  # an optional number, no reason to lose the others

    def _peer(self, name: str, operands, devices: list[int]) -> Engine:
        factors = isinstance(operands, FactorOperands)
        on_gpus = LAPACK_PEERS if factors else PRODUCT_PEERS
        if name in on_gpus:
            return on_gpus[name](operands, devices)
        if name == "lapack" and factors:
            return CpuLapack(operands)
        if name == "hostblas" and not factors:
            return HostBlas(self.host, operands)
        if name == "nvblas" and not factors:
            return Nvblas(operands, self.nvblas)
        return Absent(operands, name)

    def _engines(self, context: Context, operands, work: Work) -> list[Engine]:
        """FleetBLAS first."""
        devices = work.labels.get("wanted_devices") or self.devices
        if isinstance(operands, FactorOperands):
            engines: list[Engine] = [Factorizer(context, operands)]
            if getattr(self.arguments, "refine", False) and operands.routine.solves:
                engines.append(Refined(context, operands))
        else:
            engines = [(Resident if self.resident else FleetBlas)(context, operands)]
        return engines + [self._peer(name, operands, devices) for name in self.peers if work.peers]

    def meter(self, gpus: list[int]) -> Meter | None:
        """The energy meter of these GPUs; None if they have none."""
        key = tuple(gpus)
        if key not in self._meters:
            try:
                self._meters[key] = Meter(gpus)
            except Unmeasured:
                self._meters[key] = None
        return self._meters[key] if self.arguments.energy else None

    def rows(self, work: Work, method: Method) -> list[dict]:
        """Measures one problem with every engine."""
        context = self._enter(work.options)
        operands = self._operands(context, work.words)
        # The values of A, B and C0 are the same at every place.
        identity = tuple(value for name, value in work.words.items() if name != "place")
        self._references = {identity: self._references.get(identity)}

        def reference():
            if self._references[identity] is None:
                self._references[identity] = operands.reference()
            return self._references[identity]

        engines = self._engines(context, operands, work)
        try:
            check = self.arguments.check
            measure(engines, method, reference, self.meter, self.progress, check)
            engines[0].balance = self._balance(context, work.options, engines[0])
            rows = [
                bench_rows.measured_row(engine, context, work.words, method) for engine in engines
            ]
            labels = {**work.labels, "resident": True} if self.resident else work.labels
            return [{**row, **labels} for row in rows]
        finally:
            for engine in engines:
                engine.close()


def method_of(arguments, budget: Budget, works_left: int) -> Method:
    """The effort that the command asks for, limited to an equal share of the budget left."""
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
        enough_warm_s=getattr(arguments, "enough_warm_s", math.inf),
    )


def measured(
    context: Context, options: dict, works: list[Work], arguments, budget: Budget, keep
) -> int:
    """Measures the works in turn and passes their rows to `keep`; returns the number that the
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


def simulated(context: Context, options: dict, works: list[Work], arguments, keep) -> None:
    """The same with the simulator, without data."""
    extra, here = {}, context
    try:
        for work in works:
            if work.options != extra:
                if here is not context:
                    here.close()
                extra = work.options
                here = Context(**{**options, **extra}) if extra else context
            row = bench_rows.simulated_row(here, work.words)
            # Of a factorization in stages only the first is simulated by itself.
            if arguments.balance and row["workers"] and row.get("stages", 1) == 1:
                row["balance"] = balance_of(here.simulate(**work.words))
            keep([{**row, **work.labels}])
    finally:
        if here is not context:
            here.close()


def machine_text(context: Context) -> str:
    """The machine for which the numbers hold, in words."""
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
    """The head of a file of results."""
    types = dict.fromkeys(common.type_of(arguments, word) for word in arguments.routine)
    method = {name: getattr(arguments, name) for name in ("warmup", "repeat", "least", "seconds")}
    method.update({name: getattr(arguments, name) for name in ("precision", "budget")})
    if getattr(arguments, "resident", False):
        method["resident"] = True
    return {
        "schema": 1,
        "dataset": arguments.dataset,
        "type": ",".join(types),
        "machine": machine_text(context),
        "gpus": len(context.config()["devices"]),
        "commit": common.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "method": method,
        "options": common.context_options(arguments),
    }

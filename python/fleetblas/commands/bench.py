# SPDX-License-Identifier: BSD-3-Clause
"""Times a product, verifies it, and compares it with its lower bound.

Knows nothing of how a product is made. Every row is verified; a wrong result fails the command.
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
import time

import numpy as np

from .. import Context, __version__, _arrays, _native, verify
from . import common

EXAMPLE = """examples: fleetblas bench gemm --size 4K --backend host --devices 2 --vs hostblas
          fleetblas bench gemm --size 16K --backend sim --machine h200x8 --json -"""

SEED = 20261121
START_UP_EDGE = 256  # a first product of this size does all that start-up is


def add_arguments(parser) -> None:
    common.add_problem_arguments(parser)
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument("--repeat", type=common.positive_size, default=10, metavar="R")
    parser.add_argument("--warmup", type=common.count, default=3, metavar="W")
    parser.add_argument("--check", action="store_true", help="verify all of C, not only a sample")
    parser.add_argument("--vs", choices=["hostblas"], help="also time the CPU BLAS, in turn")
    parser.add_argument("--json", metavar="FILE", help="write the results; - for stdout")


class Operands:
    """A, B and C of one product at their places, with what C held before."""

    def __init__(self, context: Context, words: dict):
        self.words, self.context = words, context
        self.dtype = _arrays.DTYPES[words["type"]]
        self.generator = np.random.default_rng(SEED)
        m, n, k = words["m"], words["n"], words["k"]
        self.locations = words["place"].split(",")
        shapes = [(m, k) if words["transa"] == "n" else (k, m)]
        shapes += [(k, n) if words["transb"] == "n" else (n, k), (m, n)]
        self.a, self.b, self.c = (
            self._placed(self._random(shape), location)
            for shape, location in zip(shapes, self.locations)
        )
        # beta == 0: C must not be read, and not-a-number would show it.
        self.c0 = self.on_host("c").copy(order="F")
        if words["beta"] == 0:
            self.c0.fill(np.nan)
        self.reset()

    def _random(self, shape) -> np.ndarray:
        """Uniform in [-1, 1), column-major."""
        matrix = np.empty(shape, self.dtype, order="F")
        parts = (matrix.real, matrix.imag) if self.dtype.kind == "c" else (matrix,)
        for part in parts:
            for column in range(shape[1]):
                values = self.generator.random(shape[0], part.dtype)
                part[:, column] = values * 2 - 1
        return matrix

    def _placed(self, matrix: np.ndarray, location: str) -> np.ndarray:
        if location == "p":
            return matrix
        return self.context.copy(
            self.context.empty(matrix.shape, matrix.dtype, location, order="F"), matrix
        )

    def on_host(self, name: str) -> np.ndarray:
        """The matrix itself, or its copy if it is in a device's memory."""
        matrix = getattr(self, name)
        if self.locations["abc".index(name)] in ("h", "p"):
            return matrix
        return self.context.copy(np.empty(matrix.shape, matrix.dtype, order="F"), matrix)

    def reset(self) -> None:
        self.context.copy(self.c, self.c0)

    def for_cpu(self) -> Operands:
        """The same for the CPU BLAS: what is on the host is shared, but C is its own."""
        other = copy.copy(self)
        other.locations = [place if place in ("h", "p") else "p" for place in self.locations]
        other.a, other.b = self.on_host("a"), self.on_host("b")
        other.c = other._placed(self.c0.copy(order="F"), other.locations[2])
        return other

    def product(self) -> verify.Product:
        w = self.words
        a, b, c = (self.on_host(name) for name in "abc")
        return verify.Product(w["transa"], w["transb"], w["alpha"], a, b, w["beta"], self.c0, c)


class Engine:
    """One context that does the product, and what was measured of it."""

    def __init__(self, name: str, context: Context, operands: Operands):
        self.name, self.context, self.operands = name, context, operands
        self.times: list[float] = []
        self.first_s: float | None = None
        self.verdicts: list[verify.Verdict] = []
        self.failure: _native.Error | None = None
        words = operands.words
        self._scalars = tuple(
            _arrays.real_or_complex(operands.dtype, name, words[name]) for name in ("alpha", "beta")
        )

    def call(self) -> float:
        """Seconds of one product."""
        o, words = self.operands, self.operands.words
        alpha, beta = self._scalars
        matrices = [(x.ctypes.data, max(1, x.shape[0])) for x in (o.a, o.b, o.c)]
        ops, sizes = (words["transa"], words["transb"]), tuple(words[name] for name in "mnk")
        if abs(beta) > 1:
            o.reset()  # or C would overflow in the end
        start = time.perf_counter()
        _arrays.call(
            self.context, words["type"], ops, sizes, alpha, *matrices[:2], beta, matrices[2]
        )
        return time.perf_counter() - start

    def start_up(self) -> None:
        """Contexts, handles, peer checks and the measured machine."""
        edge = START_UP_EDGE
        a, b = (np.ones((edge, edge), self.operands.dtype) for _ in range(2))
        self.context.gemm(a, b)

    def verified(self, everything: bool) -> None:
        """The result of the last call, which must have begun with C0."""
        generator = np.random.default_rng(SEED + 1)
        self.verdicts.append(verify.verify(self.operands.product(), generator, everything))


def measure(engines: list[Engine], arguments, progress) -> None:
    """First calls, warm-up, then rounds in which the engines take turns, then a verified call."""

    def attempt(engine: Engine, step) -> None:
        if engine.failure is None:
            try:
                step()
            except _native.Error as error:
                engine.failure = error

    def first(engine: Engine) -> None:
        engine.start_up()
        engine.operands.reset()
        engine.first_s = engine.call()
        engine.verified(everything=False)

    def last(engine: Engine) -> None:
        engine.operands.reset()
        engine.call()
        engine.verified(arguments.check)

    for engine in engines:
        progress(f"{engine.name}: first call")
        attempt(engine, lambda engine=engine: first(engine))
    for round_number in range(arguments.warmup + arguments.repeat):
        for engine in engines:
            progress(f"{engine.name}: {round_number + 1}/{arguments.warmup + arguments.repeat}")
            timed = round_number >= arguments.warmup
            times = engine.times if timed else []
            attempt(engine, lambda engine=engine, times=times: times.append(engine.call()))
    for engine in engines:
        progress(f"{engine.name}: verifying")
        attempt(engine, lambda engine=engine: last(engine))
    progress("")


# ---- rows ---------------------------------------------------------------------------------------


def percentile_95(times: list[float]) -> float:
    return float(np.percentile(times, 95))


def blank_row(engine: str, words: dict) -> dict:
    row: dict = {"engine": engine, "routine": "gemm", "type": words["type"]}
    row.update({name: words[name] for name in ("m", "n", "k", "place")})
    row.update({"devices": 0, "tile": None, "first_s": None, "median_s": None, "min_s": None})
    row.update({"p95_s": None, "tflops": None, "bound_s": None, "limited_by": None})
    row.update({"bound_fraction": None, "predicted_s": None, "error": None, "status": "ok"})
    row.update({"measured": "measured", "transa": words["transa"], "transb": words["transb"]})
    for name in ("alpha", "beta"):
        value = complex(words[name])
        row[name] = value.real if value.imag == 0 else [value.real, value.imag]
    row.update({"version": __version__, "commit": common.commit(), "seed": SEED})
    return row


def add_plan(row: dict, plan: dict) -> None:
    for name in ("bound_s", "limited_by", "predicted_s", "plan_s", "grid", "workers", "machine"):
        row[name] = plan.get(name)
    for name in ("bytes_by_link", "problem"):
        row[name] = plan.get(name)


def add_fraction(row: dict) -> None:
    if row["median_s"] and row["bound_s"] is not None:
        row["bound_fraction"] = row["bound_s"] / row["median_s"]
    row["tflops"] = common.tflops(row["type"], row["m"], row["n"], row["k"], row["median_s"])


def measured_row(engine: Engine, arguments) -> dict:
    words = engine.operands.words
    row = blank_row(engine.name, words)
    row["place"] = ",".join(engine.operands.locations)
    row.update({"repeat": arguments.repeat, "warmup": arguments.warmup, "first_s": engine.first_s})
    config = engine.context.config()
    row.update({"cpu_blas": config["cpu_blas"], "cores": config["cores"]})
    if engine.times:
        row["median_s"], row["min_s"] = statistics.median(engine.times), min(engine.times)
        row["p95_s"] = percentile_95(engine.times)
    if engine.failure is not None:
        row.update({"status": engine.failure.status, "message": str(engine.failure)})
    if engine.verdicts:
        row["error"] = max(verdict.error for verdict in engine.verdicts)
        row["residual"] = max(verdict.residual for verdict in engine.verdicts)
        if row["status"] == "ok" and not all(verdict.ok for verdict in engine.verdicts):
            row.update({"status": "internal", "message": "the result is wrong"})
    last = engine.context.stats()["last"] or {}
    row["where"], row["reason"] = last.get("where"), last.get("reason")
    if last.get("where") == "devices":
        add_plan(row, engine.context.plan(**words))
        row["devices"], row["tile"] = last["workers"], last["tile"]
    elif engine.name != "hostblas":
        row["bound_s"], row["limited_by"] = (
            engine.context.bound(**words)[name] for name in ("bound_s", "limited_by")
        )
    add_fraction(row)
    return row


def simulated_row(context: Context, words: dict) -> dict:
    row = blank_row("fleetblas", words)
    row["measured"] = "simulated"
    plan = context.plan(**words)
    add_plan(row, plan)
    row.update({"devices": len(plan["workers"]), "tile": plan["tile"]})
    row.update(dict.fromkeys(("median_s", "min_s", "p95_s"), plan["predicted_s"]))
    row["first_s"] = plan["plan_s"] + plan["predicted_s"]
    add_fraction(row)
    return row


TABLE_HEAD = ["engine", "problem", "place", "devices", "tile", "first", "median", "min", "p95"]
TABLE_HEAD += ["rate", "bound", "of bound", "predicted", "error", "status"]


def table_row(row: dict) -> list[str]:
    edges = [common.edge_text(row[name]) for name in "mnk"]
    shape = edges[0] if len({row["m"], row["n"], row["k"]}) == 1 else "x".join(edges)
    flags = "" if row["transa"] + row["transb"] == "nn" else f" {row['transa']}{row['transb']}"
    times = [common.duration(row[key]) for key in ("first_s", "median_s", "min_s", "p95_s")]
    return [
        row["engine"],
        f"{row['type']}gemm {shape}{flags}",
        row["place"],
        str(row["devices"] or "cpu"),
        common.edge_text(row["tile"]) if row["tile"] else "-",
        *times,
        common.rate_text(row["tflops"]),
        common.duration(row["bound_s"]),
        common.percent(row["bound_fraction"]),
        common.duration(row["predicted_s"]),
        "-" if row["error"] is None else f"{row['error']:.2g}",
        row["status"] if row["measured"] == "measured" else "simulated",
    ]


class Progress:
    """A line on stderr that overwrites itself; nothing where that is no terminal."""

    def __init__(self):
        self.shown = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self.shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()


def run_engines(context: Context, words: dict, arguments) -> list[dict]:
    operands = Operands(context, words)
    engines = [Engine("fleetblas", context, operands)]
    if arguments.vs:
        cpu = Context(backend="auto", offload="never")
        engines.append(Engine("hostblas", cpu, operands.for_cpu()))
    measure(engines, arguments, Progress())
    return [measured_row(engine, arguments) for engine in engines]


def execute(arguments) -> int:
    words = common.problem_words(arguments)
    simulated = arguments.backend == "sim"
    if simulated and (arguments.vs or arguments.check):
        raise common.UsageError("--backend sim computes nothing: no --vs and no --check with it")
    common.require_writable(arguments.json)
    options = common.context_options(arguments)
    if not simulated and "FLEETBLAS_OFFLOAD" not in os.environ:
        # A benchmark of the devices measures the devices, also where the CPU would win.
        options["offload"] = "always"
    with Context(**options) as context:
        if simulated:
            rows = [simulated_row(context, words)]
        else:
            rows = run_engines(context, words, arguments)
    if arguments.json != "-":
        print(common.table([TABLE_HEAD, *map(table_row, rows)], left=3))
    if arguments.json:
        common.write_json(arguments.json, {"results": rows})
    wrong = [row for row in rows if row["status"] != "ok"]
    for row in wrong:
        reason = row.get("message", row["status"])
        sys.stderr.write(f"fleetblas bench: {row['engine']}: {reason}\n")
    return 1 if wrong else 0

# SPDX-License-Identifier: BSD-3-Clause
"""Times products, verifies them, and compares them with their lower bound and with other libraries.

Knows nothing of how a product is made. Every row is verified; a wrong result fails the command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

import numpy as np

from .. import Context, __version__
from . import common
from .bench_engines import (
    MEASURING_ERRORS,
    Engine,
    FleetBlas,
    HostBlas,
    Unmeasured,
    add_plan,
    host_context,
)
from .bench_nvblas import Nvblas, NvblasProcess
from .bench_operands import SEED, Operands, Pool
from .bench_peers import Cublas, CublasXt
from .energy import Meter

EXAMPLE = """examples: fleetblas bench gemm --size 4K --backend host --devices 2 --vs hostblas
          fleetblas bench gemm --size 16K --backend sim --machine h200x8 --json -
          fleetblas bench gemm --size 4K,8K,16K --place 'h,h,h;0,0,0;p,p,p' --vs cublasxt,cublas

--vs takes a list, measured in turn with FleetBLAS on the same operands:
  cublasxt  cuBLASXt on the same GPUs, at the best of its block sizes
  cublas    the kernel alone on one GPU, operands in its memory before the clock starts
  nvblas    NVBLAS at the best of its settings, in a process of its own; p,p,p only
  hostblas  the CPU BLAS with all cores
One that is missing or fails has a row that says so. The exit status is 1 when FleetBLAS fails, or
when any result is wrong."""

PEERS = ("cublasxt", "cublas", "nvblas", "hostblas")
LEAST_CALLS = 3  # a median needs them, however long they take


def peers(word: str) -> list[str]:
    names = list(dict.fromkeys(word.split(",")))
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PEERS)}")
    return names


def add_arguments(parser) -> None:
    common.add_problem_lists(parser)
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument("--repeat", type=common.positive_size, default=10, metavar="R")
    parser.add_argument("--warmup", type=common.count, default=3, metavar="W")
    parser.add_argument(
        "--seconds",
        type=common.positive_number,
        metavar="S",
        help=f"per engine and problem: no more timed calls, after {LEAST_CALLS}, and none to warm "
        "up, after one, once they took S",
    )
    parser.add_argument("--check", action="store_true", help="verify all of C, not only a sample")
    parser.add_argument("--vs", type=peers, default=[], metavar="LIST", help=", ".join(PEERS))
    parser.add_argument(
        "--no-energy",
        dest="energy",
        action="store_false",
        help="do not measure joules, which takes each engine a second and more per problem",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results; - for stdout")


def measure(engines: list[Engine], arguments, reference, meter, progress) -> None:
    """First calls, warm-up, rounds in which the engines take turns, a second and more of each
    engine alone for its energy, then a verified call.

    `reference()` is what the result has to be, `meter(gpus)` what counts their energy, or None.
    """

    def attempt(engine: Engine, step) -> None:
        if engine.failure is None:
            try:
                step()
            except MEASURING_ERRORS as error:
                engine.failure = error

    def first(engine: Engine) -> None:
        engine.start_up()
        engine.reset()
        engine.first_s = engine.first_call()
        engine.verdicts.append(engine.verdict(reference(), everything=False))

    def energy(engine: Engine) -> None:
        counters = meter(engine.gpus)
        # Setting C back before every call would be counted too.
        if counters is not None and abs(engine.operands.beta) <= 1:
            engine.energy = counters.measure(engine.call)

    def last(engine: Engine) -> None:
        engine.reset()
        engine.call()
        engine.verdicts.append(engine.verdict(reference(), arguments.check))

    warm: dict[int, list[float]] = {id(engine): [] for engine in engines}

    def enough(engine: Engine, timed: bool) -> bool:
        times = engine.times if timed else warm[id(engine)]
        least = LEAST_CALLS if timed else 1
        limit = float("inf") if arguments.seconds is None else arguments.seconds
        return len(times) >= least and sum(times) >= limit

    for engine in engines:
        progress(f"{engine.name}: first call")
        attempt(engine, lambda engine=engine: first(engine))
    for round_number in range(arguments.warmup + arguments.repeat):
        timed = round_number >= arguments.warmup
        for engine in engines:
            if enough(engine, timed):
                continue
            progress(f"{engine.name}: {round_number + 1}/{arguments.warmup + arguments.repeat}")
            times = engine.times if timed else warm[id(engine)]
            attempt(engine, lambda engine=engine, times=times: times.append(engine.call()))
    for engine in engines:
        progress(f"{engine.name}: energy")
        attempt(engine, lambda engine=engine: energy(engine))
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
    row.update({"joules": None, "watts": None})
    row.update({"measured": "measured", "transa": words["transa"], "transb": words["transb"]})
    for name in ("alpha", "beta"):
        value = complex(words[name])
        row[name] = value.real if value.imag == 0 else [value.real, value.imag]
    row.update({"version": __version__, "commit": common.commit(), "seed": SEED})
    return row


def add_fraction(row: dict) -> None:
    if row["median_s"] and row["bound_s"] is not None:
        row["bound_fraction"] = row["bound_s"] / row["median_s"]
    row["tflops"] = common.tflops(row["type"], row["m"], row["n"], row["k"], row["median_s"])


def measured_row(engine: Engine, context: Context, words: dict, arguments) -> dict:
    """`words` is the problem as FleetBLAS has it; the engine's operands may be elsewhere."""
    row = blank_row(engine.name, words)
    row.update({"place": ",".join(engine.operands.locations), "beside": words["place"]})
    row.update({"repeat": len(engine.times), "warmup": arguments.warmup})
    row["first_s"] = engine.first_s
    if engine.times:
        row["median_s"], row["min_s"] = statistics.median(engine.times), min(engine.times)
        row["p95_s"] = percentile_95(engine.times)
    if engine.energy is not None:
        row.update({"joules": engine.energy.joules, "watts": engine.energy.watts})
    if engine.failure is not None:
        row.update({"status": engine.failure.status, "message": str(engine.failure)})
    if engine.verdicts:
        row["error"] = max(verdict.error for verdict in engine.verdicts)
        row["residual"] = max(verdict.residual for verdict in engine.verdicts)
        if not all(verdict.ok for verdict in engine.verdicts):
            row.update({"status": "internal", "message": "the result is wrong"})
    engine.describe(row)
    if row["bound_s"] is None and engine.same_problem and engine.times:
        row.update(context.bound(**words))
    add_fraction(row)
    return row


def simulated_row(context: Context, words: dict) -> dict:
    row = blank_row("fleetblas", words)
    row.update({"measured": "simulated", "beside": words["place"]})
    plan = context.plan(**words)
    add_plan(row, plan)
    row.update({"devices": len(plan["workers"]), "tile": plan["tile"]})
    row.update(dict.fromkeys(("median_s", "min_s", "p95_s"), plan["predicted_s"]))
    row["first_s"] = plan["plan_s"] + plan["predicted_s"]
    add_fraction(row)
    return row


TABLE_HEAD = ["engine", "problem", "place", "devices", "tile", "first", "median", "min", "p95"]
TABLE_HEAD += ["rate", "bound", "of bound", "predicted", "energy", "error", "status"]


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
        "-" if row["joules"] is None else f"{row['joules']:.3g} J",
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


class Bench:
    """What the problems of one command share: contexts, operands, and the process of NVBLAS."""

    def __init__(self, context: Context, problems: list[dict], arguments):
        self.context, self.arguments = context, arguments
        self.pool = Pool(context, problems)
        context.machine()  # the devices are known once the backend runs
        self.devices = context.config()["devices"]
        self.host = host_context() if "hostblas" in arguments.vs else None
        self.nvblas = NvblasProcess(problems, self.devices)
        self._references: dict[tuple, object] = {}
        self._meters: dict[tuple, Meter | None] = {}

    def _peer(self, name: str, operands: Operands) -> Engine:
        if name == "hostblas":
            return HostBlas(self.host, operands)
        if name == "nvblas":
            return Nvblas(operands, self.nvblas)
        return {"cublas": Cublas, "cublasxt": CublasXt}[name](operands, self.devices)

    def meter(self, gpus: list[int]) -> Meter | None:
        """What counts the energy of these GPUs; None where nothing does."""
        key = tuple(gpus)
        if key not in self._meters:
            try:
                self._meters[key] = Meter(gpus)
            except Unmeasured:
                self._meters[key] = None
        return self._meters[key] if self.arguments.energy else None

    def rows(self, words: dict) -> list[dict]:
        """One problem, by every engine."""
        operands = Operands(self.pool, words)
        # The values of A, B and C0 are the same at every place.
        self._references = {operands.sizes: self._references.get(operands.sizes)}

        def reference():
            if self._references[operands.sizes] is None:
                self._references[operands.sizes] = operands.reference()
            return self._references[operands.sizes]

        engines = [FleetBlas(self.context, operands)]
        engines += [self._peer(name, operands) for name in self.arguments.vs]
        try:
            measure(engines, self.arguments, reference, self.meter, Progress())
            return [measured_row(engine, self.context, words, self.arguments) for engine in engines]
        finally:
            for engine in engines:
                engine.close()


def measured(options: dict, problems: list[dict], arguments) -> list[dict]:
    rows: list[dict] = []
    with Context(**options) as context:
        bench = Bench(context, problems, arguments)
        try:
            for words in problems:
                rows += bench.rows(words)
                if arguments.json not in (None, "-"):
                    # What is measured is kept, also when the rest is interrupted.
                    common.write_json(arguments.json, {"results": rows})
        finally:
            bench.nvblas.close()
    return rows


def is_failure(row: dict) -> bool:
    """A peer that is not here, or fails, is no failure of ours; a wrong result is, whoever's."""
    return row["status"] == "internal" or (row["engine"] == "fleetblas" and row["status"] != "ok")


def execute(arguments) -> int:
    problems = common.problem_list(arguments)
    simulated = arguments.backend == "sim"
    if simulated and (arguments.vs or arguments.check):
        raise common.UsageError("--backend sim computes nothing: no --vs and no --check with it")
    common.require_writable(arguments.json)
    options = common.context_options(arguments)
    if not simulated and "FLEETBLAS_OFFLOAD" not in os.environ:
        # A benchmark of the devices measures the devices, also where the CPU would win.
        options["offload"] = "always"
    if simulated:
        with Context(**options) as context:
            rows = [simulated_row(context, words) for words in problems]
    else:
        rows = measured(options, problems, arguments)
    if arguments.json != "-":
        print(common.table([TABLE_HEAD, *map(table_row, rows)], left=3))
    if arguments.json:
        common.write_json(arguments.json, {"results": rows})
    for row in rows:
        if row["status"] != "ok":
            reason = row.get("message", row["status"])
            sys.stderr.write(f"fleetblas bench: {row['engine']} {row['beside']}: {reason}\n")
    return 1 if any(map(is_failure, rows)) else 0

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures queued calls: a solve and a product on its result, products on resident matrices, how
long a queued call takes to return, and how long devices idle in a program of many calls.

All results are verified. Queued calls begin with nothing on the devices unless a row says resident.

    python3 bench/compose.py --sizes 8K,16K,32K -o bench/results/compose-h100.json
    python3 bench/compose.py --backend host --devices 2 --sizes 512 --edge 512 --program 256
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import fleetblas
import numpy as np
from fleetblas import _native, verify
from fleetblas._context import option_text
from fleetblas._formulas import formula_of
from fleetblas._matrices import Block, Event, Matrix
from fleetblas._native import check, library
from fleetblas.commands import bench_rows, common
from fleetblas.commands.bench_method import Method, interval
from fleetblas.commands.bench_operands import SEED, fill_random, fill_triangle
from fleetblas.commands.bench_run import Budget, Progress, header

CHAIN = 10  # products on resident matrices
PROGRAM = 50  # calls
COLUMNS = 4  # of a result, where columns are compared
TOLERANCE = 1e-12  # of these, as a share of their norm
ASYNC_EDGE, ASYNC_CALLS, ASYNC_BATCH = 64, 1000, 50
SOLVE = {"side": "l", "uplo": "l", "transa": "n", "diag": "n"}
PRODUCT = {"transa": "n", "transb": "n"}
TABLE_HEAD = ["what", "size", "median", "min", "max", "rate", "bound", "of bound", "predicted"]
TABLE_HEAD += ["h2d", "d2h", "error"]


class Wrong(Exception):
    """A result that is not what it has to be."""


class Operand:
    """A square matrix in pinned memory, as an array and as a matrix of queued calls."""

    def __init__(self, context, name: str, edge: int, order: int | None = None):
        """name: whose numbers of bench_operands it has; order: it is triangular."""
        self.name, self.order = name, order
        self.array = context.empty((edge, edge), location="h", order="F")
        self.fill()
        self.matrix = Matrix(
            context.handle, Block.of("d", edge, edge, self.array.ctypes.data, edge)
        )

    @property
    def source(self) -> verify.HostSource:
        return verify.HostSource(self.array)

    def fill(self) -> None:
        """Its first numbers, again; matrix.wrote() is the caller's."""
        flat = self.array.reshape(-1, order="F")
        if self.order is None:
            fill_random(flat, self.name)
        else:
            fill_triangle(flat, self.name, 0, self.order)


class Queue:
    """Calls in double precision that are queued on a context."""

    def __init__(self, context):
        self.pointer = context.pointer

    @staticmethod
    def _event(call, *arguments) -> Event:
        event = ctypes.c_void_p()
        check(call(*arguments, ctypes.byref(event)))
        return Event(event)

    def solve(self, t: Operand, x: Operand) -> Event:
        words = (ord(SOLVE[name]) for name in SOLVE)
        call = library.fleet_dtrsm_async
        return self._event(call, self.pointer, *words, 1.0, t.matrix.pointer, x.matrix.pointer)

    def multiply(self, a: Operand, b: Operand, beta: float, c: Operand) -> Event:
        factors = (1.0, a.matrix.pointer, b.matrix.pointer)
        words = (self.pointer, ord("n"), ord("n"), *factors, beta, c.matrix.pointer)
        return self._event(library.fleet_dgemm_async, *words)

    def read(self, operand: Operand) -> Event:
        edge = len(operand.array)
        return self._event(
            library.fleet_matrix_read_async, operand.matrix.pointer, 0, 0, edge, edge
        )


def forget(*operands: Operand) -> None:
    """Nothing of them stays on devices; what is in their memory counts."""
    for operand in operands:
        operand.matrix.wrote()


def let_go(*operands: Operand) -> None:
    for operand in operands:
        operand.matrix.destroy()


def wait(events: list[Event]) -> None:
    for event in events:
        event.wait()


def times_of(method: Method, run, before=lambda: None) -> tuple[float, list[float]]:
    """Seconds of the first call, and of those after warming up."""
    warm: list[float] = []
    times: list[float] = []
    while not method.is_timed(times):
        kept = times if method.is_warm(warm) else warm
        before()
        start_s = time.perf_counter()
        run()
        kept.append(time.perf_counter() - start_s)
    return (warm or times)[0], times


class Bench:
    """One command: its options, its rows, and where it tells what it does."""

    def __init__(self, arguments, options: dict):
        self.arguments, self.options = arguments, options
        self.rows: list[dict] = []
        self.progress = Progress()
        self.commit = arguments.commit or common.commit()

    def method(self) -> Method:
        return Method(
            warmup=self.arguments.warmup, most=self.arguments.repeat, seconds=self.arguments.seconds
        )

    def row(self, way: str, routine: str, edge: int, place: str, words: dict | None = None) -> dict:
        problem = {"routine": "gemm", "type": "d", "m": edge, "n": edge, "k": edge}
        row = bench_rows.blank_row("fleetblas", {**problem, "place": place, **PRODUCT, "beta": 0})
        row.update({"routine": routine, "dataset": f"compose, {way}", "way": way, "beside": place})
        row.update({"devices": self.arguments.count, "commit": self.commit, **(words or {})})
        self.rows.append(row)
        return row

    def add_times(self, row: dict, first_s: float, times: list[float], flops: float) -> None:
        """`flops` of what `times` are the seconds of."""
        row.update({"first_s": first_s, "repeat": len(times), "interval": interval(times)})
        row.update({"median_s": statistics.median(times), "min_s": min(times)})
        row.update({"max_s": max(times), "p95_s": float(np.percentile(times, 95))})
        row["tflops"] = flops / row["median_s"] / 1e12
        if row["bound_s"]:
            row["bound_fraction"] = row["bound_s"] / row["median_s"]


def judge(row: dict, verdict: verify.Verdict, products: int = 1) -> None:
    """Notes how far off a result is, which is the sum of so many products; Wrong if by too much."""
    row["error"] = max(row["error"] or 0.0, verdict.error / products)
    row["residual"] = max(row.get("residual") or 0.0, verdict.residual / products)
    if not verdict.ok:
        raise Wrong(f"{row['way']} at {row['m']}: a result is wrong: {verdict}")


def reference(word: str, flags: dict, scalars: tuple, **sources) -> verify.Reference:
    generator = np.random.default_rng(SEED + 1)
    return verify.Reference(formula_of(word, flags, *scalars), sources, generator)


# ---- a solve, and a product on its result -------------------------------------------------------


def chain(bench: Bench, context, edge: int) -> None:
    """X := T^-1 X, then C := D X, from and to pinned memory."""
    text = f"dtrsm m={edge} n={edge} a=T@h c=X@h\n"
    text += f"dgemm m={edge} n={edge} k={edge} a=D@h b=X@h c=C@h beta=0"
    plan = context.plan_program(text)
    t, d = Operand(context, "a", edge, order=edge), Operand(context, "b", edge)
    x, c = Operand(context, "c", edge), Operand(context, "c0", edge)
    queue, operands = Queue(context), (t, x, d, c)

    def one_by_one() -> None:
        context.trsm(t.array, x.array, out=x.array)
        context.gemm(d.array, x.array, out=c.array)

    def queued() -> None:
        wait([queue.solve(t, x), queue.multiply(d, x, 0.0, c), queue.read(x), queue.read(c)])

    for way, run in (("one by one", one_by_one), ("queued", queued)):
        bench.progress(f"trsm+gemm {edge} {way}")
        row = bench.row(way, "trsm+gemm", edge, "h,h,h")
        row.update({name: plan[name] for name in ("bound_s", "limited_by", "predicted_s")})
        if way == "one by one":
            row["predicted_s"] = plan["alone_s"]
        x.fill()
        before = context.stats()["bytes_by_kind"]
        first_s, times = times_of(bench.method(), run, lambda: forget(*operands))
        calls = len(times) + bench.method().warmup
        moved = context.stats()["bytes_by_kind"]
        row["bytes_by_kind"] = {kind: (moved[kind] - before[kind]) // calls for kind in moved}
        bench.add_times(row, first_s, times, 3.0 * edge**3)
        x.fill()
        c.array.fill(np.nan)
        forget(*operands)
        solution = reference("trsm", SOLVE, (1.0,), a=t.source, c0=x.source)
        run()
        judge(row, solution.judge(solution.look_at(x.source)))
        product = reference("gemm", PRODUCT, (1.0, 0.0), a=d.source, b=x.source, c0=c.source)
        judge(row, product.judge(product.look_at(c.source)))
        context.trim()
    if edge == max(bench.arguments.sizes):
        product_alone(bench, context, (d, x, c))
    let_go(*operands)


def product_alone(bench: Bench, context, operands) -> None:
    """The product by itself in the same run, to compare with."""
    a, b, c = operands
    edge = len(a.array)
    bench.progress(f"gemm {edge}")
    row = bench.row("alone", "gemm", edge, "h,h,h")
    problem = f"dgemm m={edge} n={edge} k={edge} a@h b@h c@h beta=0"
    row.update(context.bound(problem))
    row["predicted_s"] = context.plan(problem)["predicted_s"]
    c.array.fill(np.nan)
    forget(*operands)
    first_s, times = times_of(bench.method(), lambda: context.gemm(a.array, b.array, out=c.array))
    bench.add_times(row, first_s, times, 2.0 * edge**3)
    product = reference("gemm", PRODUCT, (1.0, 0.0), a=a.source, b=b.source, c0=c.source)
    judge(row, product.judge(product.look_at(c.source)))
    context.trim()


# ---- products on resident matrices --------------------------------------------------------------


def resident(bench: Bench, context, edge: int) -> None:
    """Chains of C += A B, timed per product; all that is timed is verified as one sum."""
    bench.progress(f"{CHAIN} gemm {edge} resident")
    operands = [Operand(context, name, edge) for name in ("a", "b", "c")]
    a, b, c = operands
    queue, device = Queue(context), context.config()["devices"][0]
    row = bench.row(
        "resident", "gemm", edge, f"{device},{device},{device}", {"beta": 1.0, "chain": CHAIN}
    )
    places = f"a@{device} b@{device} c@{device}"
    row.update(context.bound(f"dgemm m={edge} n={edge} k={edge} {places}"))

    def run() -> None:
        wait([queue.multiply(a, b, 1.0, c) for _ in range(CHAIN)])

    forget(*operands)
    start_s = time.perf_counter()
    run()  # brings them to the devices
    first_s = (time.perf_counter() - start_s) / CHAIN
    # The chain on matrices that are on devices already has a plan of its own.
    run()
    before = context.stats()["bytes_by_kind"]
    _, times = times_of(bench.method(), run)
    after = context.stats()["bytes_by_kind"]
    row["bytes_by_kind"] = {kind: after[kind] - before[kind] for kind in after}
    bench.add_times(row, first_s, [seconds / CHAIN for seconds in times], 2.0 * edge**3)
    row["predicted_s"] = context.stats()["last"]["predicted_s"]  # a call's part of the program's
    c.matrix.read()
    found, products = c.array.copy(order="F"), CHAIN * (2 + len(times) + bench.method().warmup)
    c.fill()
    sums = reference("gemm", PRODUCT, (float(products), 1.0), a=a.source, b=b.source, c0=c.source)
    judge(row, sums.judge(sums.look_at(verify.HostSource(found))), products)
    row["products"] = products
    let_go(*operands)
    context.trim()


# ---- how long a call takes to return ------------------------------------------------------------


def returns(bench: Bench) -> None:
    """Seconds that fleet_dgemm_async takes in a C program."""
    bench.progress("calls that return")
    here = pathlib.Path(__file__).resolve().parent
    shared = _native.find_library("libfleetblas.so")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/async_calls"
        words = [os.environ.get("CC", "cc"), "-O2", "-std=c99", f"-I{here.parent / 'include'}"]
        words += [str(here / "async_calls.c"), "-o", program, str(shared), "-lm"]
        try:
            subprocess.run([*words, f"-Wl,-rpath,{shared.parent}"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"how long calls take to return is left out: {error}", file=sys.stderr)
            return
        options = option_text(bench.options).decode()
        numbers = [str(number) for number in (ASYNC_EDGE, ASYNC_CALLS, ASYNC_BATCH)]
        done = subprocess.run(
            [program, options, *numbers], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise Wrong(f"async_calls ended with {done.returncode}: {done.stderr}")
    first_s, *times = map(float, done.stdout.split())
    row = bench.row("returns", "gemm", ASYNC_EDGE, "h,h,h", {"batch_of_calls": ASYNC_BATCH})
    row.update({"calls": len(times), "return_first_s": first_s})
    row.update({"return_median_s": statistics.median(times), "return_min_s": min(times)})
    row.update({"return_p99_s": float(np.percentile(times, 99)), "return_max_s": max(times)})


# ---- idle devices -------------------------------------------------------------------------------


def idle(bench: Bench, edge: int) -> None:
    """The share of a program's time in which devices compute nothing: from the host, and again on
    resident matrices."""
    with fleetblas.Context(**bench.options, timeline=True) as context:
        factors = [Operand(context, name, edge) for name in ("a", "b", "c0")]
        sums = [Operand(context, "c", edge) for _ in range(5)]
        queue = Queue(context)
        calls = [
            (factors[i % 3], factors[(i + 1) % 3], sums[i % len(sums)]) for i in range(PROGRAM)
        ]

        def run(is_last: bool) -> float:
            start_s = time.perf_counter()
            events = [queue.multiply(a, b, 1.0, c) for a, b, c in calls]
            wait(events + ([] if is_last else [queue.read(c) for c in sums]))
            return time.perf_counter() - start_s

        rounds = 1
        forget(*factors, *sums)
        run(is_last=False)
        for way in ("from the host", "resident"):
            bench.progress(f"program of {PROGRAM} {way}")
            is_resident = way == "resident"
            if is_resident:
                run(is_last=True)  # the plan of what follows is known
                rounds += 1
            else:
                forget(*factors, *sums)
            seconds = run(is_last=is_resident)
            rounds += 1
            timeline = context.trace()["fleetblas"]
            busy = timeline["busy_s"]["devices"]
            devices = bench.arguments.count
            row = bench.row(f"idle, {way}", "gemm", edge, "h,h,h", {"beta": 1.0})
            row.update({"calls": PROGRAM, "wall_s": seconds, "run_s": timeline["seconds"]})
            row["calls_of_run"] = len(timeline["problem"].split(";"))
            row["busy_s"] = [busy.get(name, 0.0) for name in sorted(busy) if name != "host"]
            row["idle_share"] = 1 - sum(row["busy_s"]) / (devices * timeline["seconds"])
            row["idle_share_of_wall"] = 1 - sum(row["busy_s"]) / (devices * seconds)
        check_program(row, calls, sums, rounds)
        let_go(*factors, *sums)


def check_program(row: dict, calls: list, sums: list[Operand], rounds: int) -> None:
    """Some columns of all sums against NumPy's."""
    edge = len(sums[0].array)
    columns = np.random.default_rng(SEED).choice(edge, min(COLUMNS, edge), replace=False)
    worst = 0.0
    for target in sums:
        target.matrix.read()
        found = target.array[:, columns].copy()
        target.fill()
        wanted = target.array[:, columns].copy()
        for a, b, c in calls:
            if c is target:
                wanted += rounds * (a.array @ b.array[:, columns])
        worst = max(worst, np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
    row["error_of_columns"] = float(worst)
    if not worst < TOLERANCE:
        raise Wrong(f"program of {len(calls)}: columns differ by {worst} of their norm")


# ---- the command --------------------------------------------------------------------------------


def table(rows: list[dict]) -> str:
    lines, others = [TABLE_HEAD], []
    for row in rows:
        if "return_median_s" in row:
            micro = [row[f"return_{name}_s"] * 1e6 for name in ("first", "median", "p99", "max")]
            others.append(
                "a queued call returns after {:.2f} us (first), {:.2f} (median), {:.2f} (p99), "
                "{:.2f} (max)".format(*micro)
            )
        elif "idle_share" in row:
            shares = [common.percent(row[name]) for name in ("idle_share", "idle_share_of_wall")]
            others.append(
                f"{row['calls']} calls of {row['m']}: devices {row['way']}: {shares[0]} of the run "
                f"of {row['calls_of_run']}, {shares[1]} of {common.duration(row['wall_s'])}"
            )
        else:
            moved = row.get("bytes_by_kind") or {}
            lines.append(
                [
                    f"{row['routine']} {row['way']}",
                    common.edge_text(row["m"]),
                    *(common.duration(row[name]) for name in ("median_s", "min_s", "max_s")),
                    common.rate_text(row["tflops"]),
                    common.duration(row["bound_s"]),
                    common.percent(row["bound_fraction"]),
                    common.duration(row["predicted_s"]),
                    *(f"{moved[kind] / 1e9:.2f} GB" if moved else "-" for kind in ("h2d", "d2h")),
                    "-" if row["error"] is None else f"{row['error']:.2g}",
                ]
            )
    return "\n".join([common.table(lines, left=1), *others])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [8192, 16384, 32768]
    parser.add_argument(
        "--sizes", type=common.sizes, default=sizes, help="of the solve and product"
    )
    parser.add_argument("--edge", type=common.positive_size, default=8192, help="if resident")
    parser.add_argument(
        "--program", type=common.positive_size, default=4096, help=f"of {PROGRAM} calls"
    )
    parser.add_argument("--machine", help="machine file; without it the node is measured")
    parser.add_argument("--backend", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--devices", type=common.devices)
    parser.add_argument("--warmup", type=common.count, default=2)
    parser.add_argument("--repeat", type=common.positive_size, default=7)
    parser.add_argument(
        "--seconds", type=common.positive_number, default=12.0, help="for the calls of one row"
    )
    parser.add_argument(
        "--budget",
        type=common.positive_number,
        default=480.0,
        help="begin no further part after it",
    )
    parser.add_argument("--commit", help="where the source tree has no history")
    parser.add_argument("-o", "--output", help="JSON of all rows")
    arguments = parser.parse_args()
    # The arguments as `fleetblas bench` parses them.
    arguments.__dict__.update({"routine": ["gemm"], "type": "d", "dataset": "compose"})
    arguments.__dict__.update({"least": 3, "precision": None})
    return arguments


def main() -> int:
    arguments = parse()
    options = {**common.context_options(arguments), "offload": "always"}
    budget = Budget(arguments.budget)
    with tempfile.TemporaryDirectory() as folder:
        with fleetblas.Context(**options) as context:
            machine = context.machine()
            head = header(context, arguments)
        # One measurement for all contexts.
        options["machine"] = arguments.machine or f"{folder}/machine.json"
        if not arguments.machine:
            common.write_json(options["machine"], machine)
        arguments.count = head["gpus"]
        bench = Bench(arguments, options)
        head["commit"] = bench.commit
        parts = [lambda: returns(bench), lambda: idle(bench, arguments.program)]

        def with_context(part, edge):
            with fleetblas.Context(**options) as context:
                part(bench, context, edge)

        parts.append(lambda: with_context(resident, arguments.edge))
        parts += [lambda edge=edge: with_context(chain, edge) for edge in arguments.sizes]
        for done, part in enumerate(parts):
            if budget.left_s() <= 0:
                print(f"{len(parts) - done} parts are left out: no time", file=sys.stderr)
                break
            try:
                part()
            except Wrong as error:
                bench.progress("")
                print(error, file=sys.stderr)
                return 1
            if arguments.output:
                common.write_json(arguments.output, {**head, "results": bench.rows})
    bench.progress("")
    print(f"{head['machine']}, commit {head['commit']}, {head['date']}")
    print(table(bench.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

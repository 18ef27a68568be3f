# SPDX-License-Identifier: BSD-3-Clause
"""What programs do: `fleetblas bench calls`.

An unmodified NumPy program allocates its operands for each product and frees them, multiplies the
same ones again, mixes small and large products, or is one of several processes on the node. Each
runs under the drop-in, as `fleetblas run` sets it up, and by itself, one after the other. Times are
what the program sees: first calls, allocation and copies of pageable memory included.

Knows nothing of how a call is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from .. import Context, _types
from . import common, run
from .bench_run import Budget, Progress, machine_text

SIZES = (1024, 4096, 8192)
PROCESSES = (1, 2, 4, 8, 16, 28)
SECONDS = 2.0  # of each program
PATTERNS = {
    "fresh": "allocate and fill, product, free, again",
    "again": "the same operands again",
    "mixed": "64 small products (32 to 256), one large",
}
TYPES = ("s", "d", "c", "z")
WAYS = ("fleetblas", "numpy")
MOST_ERROR = 1.0  # in units of n * eps
START_S = 300  # a process that is not ready by then has failed
PROGRAM = pathlib.Path(__file__).with_name("calls_program.py")
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Child:
    """One process of the program. A thread reads its errors, so that it never waits for us."""

    def __init__(self, spec: dict, environment: dict):
        self.process = subprocess.Popen(
            [sys.executable, os.fspath(PROGRAM), json.dumps(spec)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()

    def _read_errors(self) -> None:
        self.said = self.process.stderr.read()

    def failure(self) -> str:
        status = self.process.wait()
        self.reader.join()
        lines = self.said.strip().splitlines()
        return lines[-1] if lines else f"the program ended with status {status}"

    def read(self) -> str:
        """The next line. Raises Failure if there is none."""
        line = self.process.stdout.readline()
        if not line:
            raise common.Failure(self.failure())
        return line

    def begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended: the next read says how
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):  # what it was not told before it ended
                pipe.close()


def run_processes(spec: dict, processes: int, environment: dict) -> list[dict]:
    """What so many processes measured that begin together. Raises Failure."""
    # As who starts several processes does it: they share the cores.
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    environment = {**dict.fromkeys(THREAD_COUNTS, threads), **environment}
    children: list[Child] = []
    # Reads have no time limit, so what hangs is ended.
    alarm = threading.Timer(
        START_S + 10 * spec["seconds"], lambda: [child.process.kill() for child in children]
    )
    alarm.start()
    try:
        for _ in range(processes):
            children.append(Child(spec, environment))
        for child in children:
            child.read()
        for child in children:
            child.begin()
        found = [json.loads(child.read()) for child in children]
        # Summaries of the drop-in are written when processes end.
        for child in children:
            child.process.stdin.close()
            child.process.wait()
        return found
    except OSError as error:
        raise common.Failure(str(error)) from None
    finally:
        alarm.cancel()
        for child in children:
            child.close()


def on_devices(folder: pathlib.Path) -> float:
    """The share of products that devices computed, by the summaries of the drop-in."""
    ran = run.merged(run.read_summaries(folder))["ran"]
    calls = sum(row["calls"] for row in ran)
    return sum(row["calls"] for row in ran if row["where"] == "devices") / calls if calls else 0.0


def measured_row(spec: dict, processes: int, way: str, arguments) -> dict:
    """One program in one way; a row with a message if it failed."""
    row = {"engine": way, **spec, "processes": processes}
    with tempfile.TemporaryDirectory(prefix="fleetblas-") as folder:
        environment = dict(os.environ)
        if way == "fleetblas":
            environment = run.program_environment(arguments)
            environment["FLEETBLAS_SUMMARY"] = str(pathlib.Path(folder, "%p.json"))
        try:
            found = run_processes(spec, processes, environment)
        except common.Failure as failure:
            return {**row, "status": "failed", "message": str(failure)}
        if way == "fleetblas":
            row["on_devices"] = on_devices(pathlib.Path(folder))
    error = max(one["error"] for one in found)
    edges = [spec["size"]] * 3
    row.update(
        status="ok" if error <= MOST_ERROR else "wrong",
        error=error,
        first_s=max(one["first_s"] for one in found),
        product_s=statistics.median(one["product_s"] for one in found),
        least_s=min(one["least_s"] for one in found),
        most_s=max(one["most_s"] for one in found),
        round_s=statistics.median(one["round_s"] for one in found),
        rounds=sum(one["rounds"] for one in found),
        # Of the large products, by the time of whole rounds.
        tflops=sum(
            common.tflops("gemm", spec["type"], *edges, one["seconds"] / one["rounds"])
            for one in found
        ),
    )
    if row["status"] == "wrong":
        row["message"] = f"a wrong result: {error:.3g} times what rounding may do"
    return row


def specs(arguments) -> list[tuple[dict, int]]:
    """The programs, and in how many processes each runs."""
    seconds = arguments.seconds or SECONDS
    sizes = arguments.size or SIZES
    common_part = {"type": arguments.type or "d", "seconds": seconds}
    found = [
        ({"pattern": pattern, "size": size, **common_part}, 1)
        for pattern in PATTERNS
        for size in sizes
    ]
    for processes in arguments.processes or PROCESSES:
        if processes > 1:
            found += [
                ({"pattern": "again", "size": size, **common_part}, processes) for size in sizes
            ]
    return found


def needed_bytes(spec: dict, processes: int) -> int:
    """About what the processes allocate: operands and their copies, C, and what replaces it."""
    return processes * 6 * _types.TYPES[spec["type"]].dtype.itemsize * spec["size"] ** 2


def free_bytes() -> int:
    """What the system could give, caches that it would drop included."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def name_of(spec: dict, processes: int) -> str:
    return f"{spec['pattern']} {spec['size']}, {processes} process{'es' if processes > 1 else ''}"


def table(rows: list[dict]) -> str:
    """A line for each program: our times beside NumPy's own."""
    lines = [
        f"{'program':<42} {'size':>6} {'processes':>9} {'first':>9} {'product':>9} {'round':>9}"
        f" {'numpy':>9} {'faster by':>9} {'on devices':>10}"
    ]
    pairs: dict = {}
    for row in rows:
        key = (row["pattern"], row["size"], row["processes"])
        pairs.setdefault(key, {})[row["engine"]] = row
    for (pattern, size, processes), pair in pairs.items():
        ours, numpy = (pair.get(way, {}) for way in WAYS)
        both = ours.get("status") == numpy.get("status") == "ok"
        cells = [common.duration(ours.get(name)) for name in ("first_s", "product_s", "round_s")]
        cells.append(common.duration(numpy.get("round_s")))
        cells.append(f"{ours['tflops'] / numpy['tflops']:.2f}" if both else "-")
        share = ours.get("on_devices")
        line = f"{PATTERNS[pattern]:<42} {size:>6} {processes:>9}"
        line += "".join(f" {cell:>9}" for cell in cells)
        lines.append(line + (f" {100 * share:>8.0f} %" if share is not None else f" {'-':>10}"))
    return "\n".join(lines)


def require_arguments(arguments) -> None:
    """Raises UsageError where an option is none of calls."""
    for name in ("dataset", "resident", "threshold", "vs", "place", "m", "n", "k", "csv", "check"):
        if getattr(arguments, name):
            raise common.UsageError(f"calls has no --{name}")
    if arguments.backend == "sim":
        raise common.UsageError("--backend sim computes nothing: no calls with it")
    if arguments.type not in (None, *TYPES):
        raise common.UsageError(
            f"calls has no type {arguments.type}: NumPy multiplies s, d, c and z"
        )


def execute(arguments) -> int:
    require_arguments(arguments)
    common.require_writable(arguments.json)
    with Context(**common.context_options(arguments)) as context:
        context.machine()  # starts the backend, which finds the devices
        machine = machine_text(context)
    programs = specs(arguments)
    budget = Budget(arguments.budget) if arguments.budget else Budget()
    progress = Progress()
    rows: list[dict] = []
    left = 0
    for spec, processes in programs:
        if budget.left_s() <= 0:
            left += 1
            continue
        if needed_bytes(spec, processes) > free_bytes():
            needed = common.byte_text(needed_bytes(spec, processes))
            name = name_of(spec, processes)
            sys.stderr.write(f"fleetblas bench: {name}: left out, as it needs {needed} of memory\n")
            continue
        for way in WAYS:
            progress(f"{name_of(spec, processes)}: {way}")
            rows.append(measured_row(spec, processes, way, arguments))
    progress("")
    if arguments.json != "-":
        print(table(rows))
    if arguments.json:
        head = {"schema": 1, "kind": "calls", "machine": machine, "cores": os.cpu_count()}
        head["commit"] = common.commit()
        head.update(date=time.strftime("%Y-%m-%d"), options=common.context_options(arguments))
        common.write_json(arguments.json, {**head, "unfinished": left, "results": rows})
    for row in rows:
        if row["status"] != "ok":
            where = name_of(row, row["processes"])
            sys.stderr.write(f"fleetblas bench: {row['engine']} {where}: {row['message']}\n")
    if left:
        sys.stderr.write(f"fleetblas bench: {left} programs are not measured\n")
    return 1 if any(row["status"] != "ok" for row in rows) else 0

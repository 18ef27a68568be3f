# SPDX-License-Identifier: BSD-3-Clause
"""From which size on devices pay, by shape and number of calls: `fleetblas bench --threshold`.

After GPU-BLOB (github.com/UoB-HPC/GPU-BLOB): sizes rise until devices have won at several in a row.
Devices compute in two ways: each call copies its operands ("copied"), or operands stay on the
devices from the first call to the last, after which the result is read ("resident").

Knows nothing of how a call is made.
"""

from __future__ import annotations

import math
import statistics
import time

from .. import Context
from . import common
from .bench_engines import MEASURING_ERRORS, FleetBlas, HostBlas, Resident, host_context
from .bench_method import QUIET_S, Method, measure
from .bench_operands import Operands, Pool
from .bench_run import Budget, Progress, machine_text

# Sizes that are tried unless others are given: two for each octave.
SIZES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
# m, n and k as parts of the size.
SHAPES = {
    "square": ("m = n = k = s", (1, 1, 1)),
    "update": ("m = n = s, k = s/16", (1, 1, 16)),
    "tall": ("m = s, n = k = s/16", (1, 16, 16)),
    "deep": ("k = s, m = n = s/16", (16, 16, 1)),
}
CALLS = (1, 8, 64)
WAYS = ("copied", "resident")
ENOUGH = 3  # sizes in a row at which devices win in every way: larger ones are not tried
METHOD = Method(warmup=1, most=9, seconds=0.3)
REPEATS = 3  # of calls with resident operands


def problems(words: dict, parts: tuple, sizes) -> list[dict]:
    """Of one shape, by size; those that have an edge of 0 are left out."""
    found = []
    for size in sizes:
        edges = dict(zip("mnk", (size // part for part in parts)))
        if min(edges.values()) > 0:
            found.append({**words, **edges, "size": size})
    return found


def resident_s(context: Context, operands: Operands, calls: int, reference) -> float:
    """The median time of so many calls, from operands on the host to the result there."""
    times = []
    for _ in range(REPEATS):
        operands.reset()
        begin = time.perf_counter()
        engine = Resident(context, operands)
        try:
            for _ in range(calls):
                engine.compute()
            engine.read_c()
            times.append(time.perf_counter() - begin)
            if calls == 1 and not engine.verdict(reference, everything=False).ok:
                raise common.Failure(f"resident: a wrong result at {operands.sizes}")
            if calls == 1 and engine.gpus:
                time.sleep(QUIET_S)
        finally:
            engine.close()
    return statistics.median(times)


def measured_row(context: Context, host: Context, operands: Operands) -> dict:
    """Seconds of the CPU and of devices for each number of calls. Raises Failure if a result is
    wrong."""
    engines = [HostBlas(host, operands), FleetBlas(context, operands)]
    reference = operands.reference()
    measure(engines, METHOD, lambda: reference, lambda gpus: None, lambda text: None)
    for engine in engines:
        if engine.failure is not None:
            raise common.Failure(f"{engine.name}: {engine.failure}")
        if not all(verdict.ok for verdict in engine.verdicts):
            raise common.Failure(f"{engine.name}: a wrong result at {operands.sizes}")
    cpu_s, copied_s = (statistics.median(engine.times) for engine in engines)
    return {
        "cpu_s": [calls * cpu_s for calls in CALLS],
        "copied_s": [calls * copied_s for calls in CALLS],
        "resident_s": [resident_s(context, operands, calls, reference) for calls in CALLS],
    }


def pays(row: dict, way: str, at: int) -> bool:
    return row[way + "_s"][at] < row["cpu_s"][at]


def threshold(rows: list[dict], way: str, at: int) -> int | None:
    """The least size from which on devices were faster at every size; None: at none."""
    found = None
    for row in reversed(rows):
        if not pays(row, way, at):
            break
        found = row["size"]
    return found


def size_text(rows: list[dict], way: str, at: int) -> str:
    if not rows:
        return "-"
    size = threshold(rows, way, at)
    return str(size) if size else f"> {rows[-1]['size']}"


def text_of(found: dict) -> str:
    """A table of thresholds; "-": there was no time to measure any size."""
    lines = [
        f"{found['type']}gemm, operands at {found['place']}: the size s from which on devices are "
        f"faster than the CPU BLAS ({found['cores']} cores)",
        f"{'shape':<22} {'calls':>5}" + "".join(f" {way:>9}" for way in WAYS),
    ]
    for shape in found["shapes"]:
        for at, calls in enumerate(CALLS):
            name = SHAPES[shape["shape"]][0] if at == 0 else ""
            sizes = "".join(f" {size_text(shape['rows'], way, at):>9}" for way in WAYS)
            lines.append(f"{name:<22} {calls:>5}{sizes}")
    return "\n".join(lines)


def execute(arguments) -> int:
    if arguments.routine != ["gemm"]:
        raise common.UsageError("--threshold is of gemm")
    for name in ("dataset", "resident", "vs", "m", "n", "k"):
        if getattr(arguments, name):
            raise common.UsageError(f"--threshold has no --{name}")
    if arguments.backend == "sim":
        raise common.UsageError("--backend sim computes nothing: no --threshold with it")
    sizes = sorted(set(arguments.size or SIZES))
    one = common.for_one(arguments, "gemm")
    one.size, one.place = sizes[-1], (arguments.place or [["p"]])[0][0]
    words = common.problem_words(one, "gemm")
    if words["type"] not in Resident.types or words["type"] not in HostBlas.types:
        raise common.UsageError(f"--threshold has no type {words['type']}")
    common.require_writable(arguments.json)
    options = {**common.context_options(arguments), "offload": "always"}
    progress = Progress()
    with Context(**options) as context, host_context() as host:
        cases = {name: problems(words, parts, sizes) for name, (_, parts) in SHAPES.items()}
        pool = Pool(context, [problem for listed in cases.values() for problem in listed])
        shapes = []
        begin = time.monotonic()
        for number, (name, listed) in enumerate(cases.items(), 1):
            # A shape has its part of the time, and what those before it have left.
            budget = Budget((arguments.budget or math.inf) * number / len(cases), begin)
            rows: list[dict] = []
            for problem in listed:
                wins = [
                    all(pays(row, way, at) for way in WAYS for at in range(len(CALLS)))
                    for row in rows[-ENOUGH:]
                ]
                if (len(wins) == ENOUGH and all(wins)) or budget.left_s() <= 0:
                    break
                progress(f"{name} {problem['size']}")
                try:
                    row = measured_row(context, host, Operands(pool, problem))
                except MEASURING_ERRORS as error:
                    raise common.Failure(str(error)) from None
                rows.append({"size": problem["size"], **row})
            shapes.append({"shape": name, "rows": rows})
        progress("")
        found = {
            "schema": 1, "kind": "threshold", "type": words["type"], "place": words["place"],
            "machine": machine_text(context), "cores": host.config()["cores"],
            "commit": common.commit(), "date": time.strftime("%Y-%m-%d"),
            "calls": list(CALLS), "shapes": shapes,
        }  # fmt: skip
    if arguments.json != "-":
        print(text_of(found))
    if arguments.json:
        common.write_json(arguments.json, found)
    return 0

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the tuner's plan with the plans of all grids and tiles: how far behind the best is it?

The problems are taken in equal numbers from all data sets, spread over their sizes and places. They
are simulated on a machine file by default, on all its devices. --backend cuda measures and verifies
them on the GPUs of this machine, with one set of devices of each size; then the plan of the tuner
and the best five are measured again in turn, and those medians count. With -o the file is complete
after each problem, and the same command continues an interrupted run.

    python3 bench/sweep.py --machine h200x4 -o bench/results/sweep-h200x4.json
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import fleetblas
from fleetblas.commands import bench_rows, common, datasets
from fleetblas.commands.bench_engines import FleetBlas
from fleetblas.commands.bench_method import Method, measure
from fleetblas.commands.bench_operands import Operands, Pool
from fleetblas.commands.bench_run import Budget, Progress, Work, header, measured, simulated

SETS = ("regular", "irregular", "paralia", "skinny", "small")
LARGEST = 16384  # the largest edge: a sweep of larger products takes hours
PIECES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # of the longest edge of a worker's block
MEASURED_PIECES = (1, 2, 3, 5, 8, 12)
AGAIN = 5  # plans that are measured again beside the tuner's
METHOD_AGAIN = Method(warmup=2, most=15, least=7, seconds=0.5, precision=0.01)
LEAST_TILE = 256


def problems(count: int, devices: list[int]) -> list[dict]:
    """About this many problems, from all sets."""
    chosen = {}
    for name in SETS:
        cases = [
            (case, place)
            for case, place in datasets.cases_of(name, len(devices))
            if max(case.m, case.n, case.k) <= LARGEST
        ]
        each = max(1, count // len(SETS))
        for index in range(each):
            case, place = cases[(2 * index + 1) * len(cases) // (2 * each)]
            words = {
                "routine": "gemm",
                "m": case.m,
                "n": case.n,
                "k": case.k,
                "type": "d",
                "alpha": 1,
                "beta": 1,
            }
            ids = [str(devices[int(d)]) if d.isdigit() else d for d in place.split(",")]
            words.update({"transa": "n", "transb": "n", "place": ",".join(ids)})
            chosen[(case.m, case.n, case.k, place)] = words
    return list(chosen.values())


def grids(workers: int) -> list[tuple[int, int]]:
    return [(rows, workers // rows) for rows in range(1, workers + 1) if workers % rows == 0]


def tiles(words: dict, grid: tuple[int, int], pieces: tuple[int, ...]) -> list[int]:
    longest = max(-(-words["m"] // grid[0]), -(-words["n"] // grid[1]), words["k"])
    return sorted({max(LEAST_TILE, -(-longest // count)) for count in pieces}, reverse=True)


def works_of(words: dict, sets: list[list[int]], pieces: tuple[int, ...]) -> list[Work]:
    """All plans; the tuner's is the first. The devices of a single set are those of the command."""
    works = [Work(words)]
    for devices in sets:
        options = {} if len(sets) == 1 else {"devices": devices}
        for grid in grids(len(devices)):
            works += [
                Work(words, {**options, "grid": f"{grid[0]}x{grid[1]}", "tile": tile})
                for tile in tiles(words, grid, pieces)
            ]
    return works


def in_turn(options: dict, works: list[Work], method: Method = METHOD_AGAIN) -> list[dict]:
    """Measures one problem with several options, a call of each at a time, on the same operands."""
    contexts: list[fleetblas.Context] = []
    try:
        for work in works:
            contexts.append(fleetblas.Context(**{**options, **work.options}))
        words = works[0].words
        operands = [Operands(Pool(contexts[0], [words]), words)]
        # Virtual devices know only the pinned and device memory of their own context.
        if contexts[0].config()["backend"] == "host":
            operands += [Operands(Pool(context, [words]), words) for context in contexts[1:]]
        engines = [
            FleetBlas(context, operands[min(i, len(operands) - 1)])
            for i, context in enumerate(contexts)
        ]
        reference = operands[0].reference()
        measure(engines, method, lambda: reference, lambda gpus: None, Progress())
        return [
            bench_rows.measured_row(engine, context, words, method)
            for engine, context in zip(engines, contexts)
        ]
    finally:
        for context in contexts:
            context.close()


def compare(rows: list[dict]) -> dict:
    """The row of the tuner's plan, which is the first, with the best of all added."""
    works = [row for row in rows if row["status"] == "ok"]
    best = min(works, key=lambda row: row["median_s"])
    keys = ("devices", "grid", "tile", "median_s", "min_s")
    return {
        **rows[0],
        "best": {key: best[key] for key in keys},
        "gap": rows[0]["median_s"] / best["median_s"] - 1,
        "plans": len(works),
    }


def compare_measured(options: dict, works: list[Work], rows: list[dict]) -> dict:
    """As compare, of a second measurement of the tuner's plan and the best of the first."""
    others = [i for i in range(1, len(rows)) if rows[i]["status"] == "ok"]
    others.sort(key=lambda i: rows[i]["median_s"])
    again = in_turn(options, [works[0], *(works[i] for i in others[:AGAIN])])
    found = compare(again)
    return {**found, "plans": 1 + len(others), "again": again[1:]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", help="machine file or shipped name")
    parser.add_argument("--backend", choices=("sim", "cuda", "host"), default="sim")
    parser.add_argument("--devices", type=common.devices)
    parser.add_argument("--problems", type=common.positive_size, default=40, metavar="N")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no further problem after this time"
    )
    parser.add_argument("-o", "--output", help="JSON of all problems")
    arguments = parser.parse_args()
    # The arguments as `fleetblas bench` parses them.
    arguments.__dict__.update({"vs": [], "check": False, "energy": False, "dataset": None})
    arguments.__dict__.update({"routine": ["gemm"], "type": "d", "balance": False})
    arguments.__dict__.update({"warmup": 3, "repeat": 7, "least": 3})
    arguments.__dict__.update({"budget": arguments.seconds, "seconds": 0.5, "precision": 0.01})
    return arguments


def key_of(row: dict) -> tuple:
    return (row["m"], row["n"], row["k"], row.get("beside", row["place"]))


def kept(file: str | None, head: dict) -> list[dict]:
    """The results of an interrupted run of the same commit on the same machine."""
    if not file or not pathlib.Path(file).exists():
        return []
    whole = json.loads(pathlib.Path(file).read_text())
    if any(whole.get(key) != head[key] for key in ("machine", "commit", "options")):
        sys.exit(f"sweep: {file} has other results: move it, or name another file with -o")
    return whole["results"]


def text_of(one: dict) -> str:
    best = one["best"]
    return (
        f"{one['m']:6} {one['n']:6} {one['k']:6} {one['place']:6}"
        f"  tuner {one['median_s'] * 1e3:8.3f} ms, predicted {one['predicted_s'] * 1e3:8.3f}"
        f"  best of {one['plans']:2} {best['median_s'] * 1e3:8.3f} ms"
        f"  {best['devices']} {best['grid']} {best['tile']:6}  gap {100 * one['gap']:5.1f} %"
    )


def summary(results: list[dict]) -> list[str]:
    gaps = [one["gap"] for one in results]
    mean = math.exp(statistics.fmean(math.log1p(gap) for gap in gaps)) - 1
    lines = [
        f"{len(gaps)} problems: {100 * mean:.1f} % behind the best in the mean, "
        f"{100 * max(gaps):.1f} % at worst, {sum(gap <= 0.05 for gap in gaps)} within 5 %"
    ]
    if results[0]["measured"] == "measured":
        errors = [abs(one["predicted_s"] / one["median_s"] - 1) for one in results]
        lines.append(
            f"predicted times: median error {100 * statistics.median(errors):.1f} %, "
            f"worst {100 * max(errors):.0f} %"
        )
    return lines


def main() -> int:
    arguments = parse()
    options = common.context_options(arguments)
    if arguments.backend != "sim":
        options["offload"] = "always"
    budget = Budget(arguments.budget)
    with fleetblas.Context(**options) as context:
        context.machine()
        devices = context.config()["devices"]
        head = header(context, arguments)
        results = kept(arguments.output, head)
        done = {key_of(one) for one in results}
        for words in problems(arguments.problems, devices):
            if budget.left_s() <= 0:
                break
            if key_of(words) in done:
                continue
            rows: list[dict] = []
            if arguments.backend == "sim":
                works = works_of(words, [devices], PIECES)
                simulated(context, options, works, arguments, rows.extend)
            else:
                works = works_of(words, datasets.sets_of(devices, words["place"]), MEASURED_PIECES)
                measured(context, options, works, arguments, Budget(), rows.extend)
            if rows[0]["status"] != "ok":
                print(f"{words}: {rows[0]['message']}", file=sys.stderr)
                continue
            if arguments.backend == "sim":
                results.append(compare(rows))
            else:
                results.append(compare_measured(options, works, rows))
            print(text_of(results[-1]), flush=True)
            if arguments.output:
                common.write_json(arguments.output, {**head, "results": results})
        if results:
            print("\n".join(summary(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

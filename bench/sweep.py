#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the tuner's plan with the plans of all grids and tiles: how far behind the best is it?

The problems are taken in equal numbers from all data sets, spread over their sizes and places. They
are simulated on a machine file by default; --backend cuda measures and verifies them on this
machine's GPUs.

    python3 bench/sweep.py --machine h200x4 -o bench/results/sweep-h200x4.json
"""

import argparse
import math
import statistics
import sys

import fleetblas
from fleetblas.commands import common, datasets
from fleetblas.commands.bench_run import Budget, Work, header, measured, simulated

SETS = ("regular", "irregular", "paralia", "skinny", "small")
LARGEST = 16384  # the largest edge: a sweep of larger products takes hours
PIECES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # of the longest edge of a worker's block
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


def tiles(words: dict, grid: tuple[int, int]) -> list[int]:
    longest = max(-(-words["m"] // grid[0]), -(-words["n"] // grid[1]), words["k"])
    return sorted({max(LEAST_TILE, -(-longest // pieces)) for pieces in PIECES}, reverse=True)


def works_of(words: dict, workers: int) -> list[Work]:
    """All plans; the tuner's is the first."""
    works = [Work(words)]
    for grid in grids(workers):
        text = f"{grid[0]}x{grid[1]}"
        works += [Work(words, {"grid": text, "tile": tile}) for tile in tiles(words, grid)]
    return works


def compare(rows: list[dict]) -> dict:
    """The row of the tuner's plan, which is the first, with the best of all added."""
    works = [row for row in rows if row["status"] == "ok"]
    best = min(works, key=lambda row: row["median_s"])
    return {
        **rows[0],
        "best": {key: best[key] for key in ("grid", "tile", "median_s", "min_s")},
        "gap": rows[0]["median_s"] / best["median_s"] - 1,
        "plans": len(works),
    }


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


def main() -> int:
    arguments = parse()
    options = common.context_options(arguments)
    if arguments.backend != "sim":
        options["offload"] = "always"
    results = []
    budget = Budget(arguments.budget)
    with fleetblas.Context(**options) as context:
        context.machine()
        devices = context.config()["devices"]
        for words in problems(arguments.problems, devices):
            if budget.left_s() <= 0:
                break
            rows: list[dict] = []
            works = works_of(words, len(devices))
            if arguments.backend == "sim":
                simulated(context, options, works, arguments, rows.extend)
            else:
                measured(context, options, works, arguments, Budget(), rows.extend)
            results.append(compare(rows))
            one = results[-1]
            print(
                f"{one['m']:6} {one['n']:6} {one['k']:6} {one['place']:6}"
                f"  tuner {one['median_s'] * 1e3:8.2f} ms"
                f"  best of {one['plans']:2} {one['best']['median_s'] * 1e3:8.2f} ms"
                f"  {one['best']['grid']} {one['best']['tile']:6}  gap {100 * one['gap']:5.1f} %",
                flush=True,
            )
        gaps = [one["gap"] for one in results]
        mean = math.exp(statistics.fmean(math.log1p(gap) for gap in gaps)) - 1
        within = sum(gap <= 0.05 for gap in gaps)
        print(
            f"{len(gaps)} problems: {100 * mean:.1f} % behind the best in the mean, "
            f"{100 * max(gaps):.1f} % at worst, {within} within 5 %"
        )
        if arguments.output:
            whole = {**header(context, arguments), "results": results}
            common.write_json(arguments.output, whole)
    return 0


if __name__ == "__main__":
    sys.exit(main())

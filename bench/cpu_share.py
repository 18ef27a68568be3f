#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what the CPU's part of C is worth: the same calls without it and with it, in turn.

The problems are squares, thin products, and routines with triangles, from pageable and from pinned
memory. Each is verified. The first calls are not counted: after two that take a quarter longer than
predicted the plan is made anew.

    python3 bench/cpu_share.py --machine node.json -o bench/results/cpu-share-h200.json
"""

import argparse
import math
import statistics
import sys

import fleetblas
from fleetblas._routines import EVERY, LETTERS
from fleetblas.commands import common
from fleetblas.commands.bench_method import Method
from fleetblas.commands.bench_run import Budget, Work, header
from sweep import in_turn

METHOD = Method(warmup=5, most=21, least=9, seconds=0.6, precision=0.01)
SQUARES = {
    "h": (768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384),
    "p": (1024, 2048, 4096, 8192),
}
THIN = {
    "h": (
        *((8192, 8192, 64), (8192, 8192, 256), (8192, 8192, 1024), (16384, 16384, 32)),
        *((16384, 16384, 128), (512, 512, 65536), (1024, 1024, 32768), (65536, 256, 256)),
    ),
    "p": ((8192, 8192, 64), (8192, 8192, 512), (1024, 1024, 32768)),
}
TRIANGLES = (("syrk", 4096, 4096), ("syrk", 8192, 256), ("trsm", 4096, 4096), ("trsm", 8192, 8192))
TRIANGLES += (("symm", 4096, 4096),)
NOISE = 1.03  # a larger ratio is slower


def problem(routine: str, sizes: tuple[int, int, int], place: str) -> dict:
    """The words of a call, with flags and scalars as `fleetblas bench` has them by default."""
    arguments = argparse.Namespace(**dict.fromkeys((*LETTERS, "size", "beta")))
    arguments.__dict__.update({"type": "d", "alpha": 1, "place": place})
    wanted = EVERY[routine].sizes
    arguments.__dict__.update(
        {name: size if name in wanted else None for name, size in zip("mnk", sizes)}
    )
    return common.problem_words(arguments, routine)


def problems(largest: float) -> list[dict]:
    """Those without a longer edge."""
    found = []
    for place in ("h", "p"):
        found += [problem("gemm", (n, n, n), place) for n in SQUARES[place]]
        found += [problem("gemm", sizes, place) for sizes in THIN[place]]
    found += [problem(routine, (n, n, k), "h") for routine, n, k in TRIANGLES]
    return [words for words in found if max(words[name] for name in "mnk") <= largest]


def text_of(one: dict) -> str:
    return (
        f"{one['routine']:5} {one['m']:6} {one['n']:6} {one['k']:6} {one['place']:6}"
        f"  without {one['without_s'] * 1e3:8.3f} ms  with {one['median_s'] * 1e3:8.3f}"
        f", predicted {one['predicted_s'] * 1e3:8.3f}"
        f"  R {one['cpu_share']:5.3f}  ratio {one['ratio']:5.3f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", help="machine file or shipped name")
    parser.add_argument("--backend", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--devices", type=common.devices)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no further problem after this time"
    )
    parser.add_argument("--largest", type=int, default=math.inf, help="longest edge of problems")
    parser.add_argument("-o", "--output", help="JSON of all problems")
    arguments = parser.parse_args()
    arguments.__dict__.update({"warmup": METHOD.warmup, "repeat": METHOD.most})
    arguments.__dict__.update({"least": METHOD.least, "precision": METHOD.precision})
    arguments.__dict__.update({"routine": ["gemm"], "type": "d", "dataset": None})
    arguments.__dict__.update({"budget": arguments.seconds, "seconds": METHOD.seconds})
    options = {**common.context_options(arguments), "offload": "always"}
    budget = Budget(arguments.budget)
    results = []
    with fleetblas.Context(**options) as context:
        head = header(context, arguments)
    for words in problems(arguments.largest):
        if budget.left_s() <= 0:
            break
        works = [Work(words, {"cpu_share": share}) for share in (0, "auto")]
        without, both = in_turn(options, works, METHOD)
        if failure := next((row for row in (without, both) if row["status"] != "ok"), None):
            print(f"{words}: {failure['message']}", file=sys.stderr)
            return 1
        ratio = both["median_s"] / without["median_s"]
        results.append({**both, "without_s": without["median_s"], "ratio": ratio})
        print(text_of(results[-1]), flush=True)
        if arguments.output:
            common.write_json(arguments.output, {**head, "results": results})
    if not results:
        return 0
    ratios = [one["ratio"] for one in results]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(
        f"{len(ratios)} problems: {mean:.3f} of the time without it in the geometric mean, "
        f"{max(ratios):.3f} at most, {sum(ratio > NOISE for ratio in ratios)} over {NOISE}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

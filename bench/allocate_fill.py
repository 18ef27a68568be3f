#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whole wall times of scripts without the preload library, with it, and with it but for its pool of
large blocks. One script allocates and fills, and never multiplies; the other one multiplies.

    bench/allocate_fill.py --edge 8192 --rounds 4 --repeat 7
    bench/allocate_fill.py --edge 16384 --rounds 10 --multiply

The ways alternate. It prints the median of each with its spread, and the ratio to the plain
one. Standard library only; the scripts need NumPy.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = "libfleetblas_preload.so"

FILL = """
import numpy as np
for _ in range({rounds}):
    a = np.ones(({edge}, {edge}))
    b = np.zeros(({edge}, {edge}))
    b += a
    c = np.empty_like(a)
    c[:] = b
    assert c[-1, -1] == 1
"""
MULTIPLY = """
import time
import numpy as np
a, b = np.ones(({edge}, {edge})), np.ones(({edge}, {edge}))
for _ in range({rounds}):
    begin = time.perf_counter()
    c = a @ b
    print(f"  {{1e3 * (time.perf_counter() - begin):.1f}}", end="", flush=True)
    assert c[0, 0] == c[-1, -1] == {edge}
print(" ms")
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edge", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--multiply", action="store_true")
    parser.add_argument(
        "--library", default=os.fspath(ROOT / "python" / "fleetblas" / "lib" / LIBRARY)
    )
    arguments = parser.parse_args()
    script = (MULTIPLY if arguments.multiply else FILL).format(**vars(arguments))
    ways = {
        "pool": {"LD_PRELOAD": arguments.library, "FLEETBLAS_POOL": ""},
        "no pool": {"LD_PRELOAD": arguments.library, "FLEETBLAS_POOL": "0"},
    }
    if not arguments.multiply:
        ways = {"without us": {}, **ways}
    seconds = {name: [] for name in ways}
    for turn in range(arguments.repeat + 1):  # the first one is not counted
        # What ran before has the system's memory in another state: each way is first in turn.
        order = list(ways.items())
        for name, settings in order[turn % len(order) :] + order[: turn % len(order)]:
            if arguments.multiply:
                print(f"{name:<10}", end="", flush=True)
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", script], env=os.environ | settings, check=True)
            if turn > 0:
                seconds[name].append(time.perf_counter() - begin)
    plain = statistics.median(seconds[next(iter(ways))])
    for name, times in seconds.items():
        median = statistics.median(times)
        print(
            f"{name:<10} {median:7.3f} s  ({min(times):.3f} to {max(times):.3f}), "
            f"{median / plain:.3f} of {next(iter(ways))}"
        )


if __name__ == "__main__":
    main()

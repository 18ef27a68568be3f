#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the simulator says of our own runs of fleetblas-linpack, beside what they took.

    bench/linpack_predict.py [RESULTS] [CLUSTER]

RESULTS is a table of bench/linpack.py with N, NB and the grid above it, CLUSTER a file of
machines/clusters. Exits with 1 where a run is more than 10 % off. It measures nothing.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

from fleetblas import _linpack

RESULTS = pathlib.Path(__file__).parent / "results" / "linpack-cluster.txt"
CLUSTER = "emulated-gigabit"
LIMIT = 0.10
SIZE = re.compile(r"^N = (\d+), NB = (\d+), (\d+) x (\d+) ranks", re.M)
ROW = re.compile(r"^(none|lookahead|dedicated|full) +(\S+) +(\S+) +(\S+) +\d+ +\S+$", re.M)


@dataclasses.dataclass(frozen=True)
class Row:
    """GFLOPS of one overlap."""

    overlap: str
    measured: float  # median
    least: float
    most: float
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1


def rows(results: pathlib.Path = RESULTS, cluster: str = CLUSTER) -> list[Row]:
    text = results.read_text(encoding="utf-8")
    n, nb, grid_rows, grid_cols = map(int, SIZE.search(text).groups())
    simulator, file = _linpack.Simulator(), _linpack.cluster(cluster)
    found = []
    for overlap, *rates in ROW.findall(text):
        run = simulator.run(file, n=n, nb=nb, rows=grid_rows, cols=grid_cols, overlap=overlap)
        found.append(Row(overlap, *map(float, rates), run["flops_per_s"] / 1e9))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=RESULTS)
    parser.add_argument("cluster", nargs="?", default=CLUSTER)
    options = parser.parse_args()
    found = rows(options.results, options.cluster)
    print(f"{'GFLOPS':<12}{'measured':>9}{'from':>7}{'to':>7}{'simulated':>11}{'off by':>9}")
    for row in found:
        print(f"{row.overlap:<12}{row.measured:>9.1f}{row.least:>7.1f}{row.most:>7.1f}"
              f"{row.simulated:>11.1f}{100 * row.error:>+8.1f} %")  # fmt: skip
    return int(any(abs(row.error) > LIMIT for row in found))


if __name__ == "__main__":
    sys.exit(main())

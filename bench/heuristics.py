#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Paper 5, Table II, simulated: the gain of XKBlas's two heuristics on a DGX-1.

DGEMM, DSYR2K and DTRSM, operands on the host, 8 GPUs of the machine `dgx1`, whose file tells which
values the paper gives and which are assumed. Every variant uses the best of the paper's tiles for
each size, as in the paper. The assumed values and the order of the products are varied, so that
each loss comes with its range. Nothing here is measured.

    python3 bench/heuristics.py [-o bench/results/heuristics-dgx1.json]
"""

import argparse
import copy
import json
import pathlib
import random
import tempfile
import time

import fleetblas
from fleetblas.commands import common

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [*range(16384, 49152 + 1, 4096)]
PAPERS_SIZE = 24000  # "about 54 TFLOPS" of DGEMM
TRACED_SIZE = 32768  # of the paper's Fig. 6
VARIED = 3  # number of sizes, from the smallest, where losses are largest
TILES = (1024, 2048, 4096)
PROBLEMS = {
    "DGEMM": ("dgemm m={n} n={n} k={n} a@h b@h c@h", 2),
    "DSYR2K": ("dsyr2k n={n} k={n} a@h b@h c@h", 2),
    "DTRSM": ("dtrsm m={n} n={n} a@h c@h", 1),
}

# XKBlas without its two heuristics: tiles stay where they were fetched, each pair of places has a
# queue, and a product runs when its inputs have arrived. The best of our grids assigns parts of C
# to GPUs, in place of XKBlas's work stealing.
BASE = "outofcore,caching,overlap,order,grid"
AS_IT_IS = "as it is"
TWO, ONE = f"{BASE},bandwidth,forwarding", f"{BASE},bandwidth"
BOTH_ON, NO_FORWARDING, NO_TOPOLOGY = "both on", "optimistic off", "both off"
OURS, TUNED = "all our rules", "all our rules and tiles"
# Variants with their rules, and the criterion by which a GPU chooses among the holders of a tile.
# The paper does not name XKBlas's criterion without the heuristic, so there are several readings.
VARIANTS = {
    BOTH_ON: (TWO, "links"),
    NO_FORWARDING: (ONE, "links"),
    NO_TOPOLOGY: (ONE, "lowest number"),
    "both off, another order": (ONE, "shuffled"),
    "both off, slowest link": (ONE, "slowest"),
    "both off, from the host": (BASE, AS_IT_IS),
    OURS: ("all", AS_IT_IS),
    TUNED: ("all", AS_IT_IS),
}
SHOWN = (BOTH_ON, OURS, TUNED)
COLUMNS = (NO_FORWARDING, *(name for name in VARIANTS if name.startswith(NO_TOPOLOGY)))
PAPER = {
    "DGEMM": {NO_FORWARDING: -0.435, NO_TOPOLOGY: -0.43},
    "DSYR2K": {NO_FORWARDING: -0.194, NO_TOPOLOGY: -0.535},
    "DTRSM": {NO_FORWARDING: -0.296, NO_TOPOLOGY: -0.293},
}

AS_SHIPPED = "as shipped"
ASSUMED = {
    AS_SHIPPED: {},
    "half the latency": {"latency": 0.5},
    "twice the latency": {"latency": 2.0},
    "PCIe at 10 GB/s": {"pcie": 10e9},
    "PCIe at 14 GB/s": {"pcie": 14e9},
    "row by row": {"without": ",order"},
    "grid 4x2": {"without": ",grid"},
}


def assume(machine, latency=1.0, pcie=None):
    """The machine with its assumed values changed."""
    m = copy.deepcopy(machine)
    for link in m["links"]:
        link["latency_s"] *= latency
        if pcie and "host" in (link["from"], link["to"]) and "pageable" not in link.values():
            link["bytes_per_s"] = pcie
    for port in m["ports"]:
        if pcie and port["name"] != "copy threads":
            port["capacity"] = pcie
    return m


def choosing(machine, by):
    """The same machine for the simulator; for the planner, which goes by the rates of links,
    one with link rates that make GPUs choose their sources as wanted; the true rate of a link
    becomes the capacity of a port of its own. As in XKBlas, any GPU that holds a tile is preferred
    to the host."""
    m = copy.deepcopy(machine)
    shuffled = random.Random(5)
    of_host = [x for x in m["links"] if x["from"] == "host" and x["to"].isdigit()]
    of_gpus = [x for x in m["links"] if x["from"].isdigit() and x["to"].isdigit()]
    before_host = 1.01 * max(x["bytes_per_s"] for x in of_host)
    fastest = max(x["bytes_per_s"] for x in of_gpus)
    for link in of_gpus:
        real = link["bytes_per_s"]
        name = f"{link['from']} to {link['to']}"
        m["ports"].append({"name": name, "capacity": real})
        link["ports"] = [*link.get("ports", []), {"port": name, "weight": 1}]
        link["bytes_per_s"] = {
            "links": max(real, before_host),
            "lowest number": fastest,
            "shuffled": fastest * (1 + shuffled.random()),
            "slowest": 2 * fastest - real,
        }[by]
    return m


class Node:
    """Plans for one machine, with a machine file for each criterion of choosing a source."""

    def __init__(self, machine, folder):
        self.files = {by: folder / f"{by}.json" for _, by in VARIANTS.values()}
        for by, file in self.files.items():
            file.write_text(json.dumps(choosing(machine, by) if by != AS_IT_IS else machine))

    def context(self, rules, by, tile=None):
        return fleetblas.Context(
            backend="sim", devices=8, machine=self.files[by], rules=rules, tile=tile
        )

    def row(self, routine, n, variant, tile=None, without=""):
        rules, by = VARIANTS[variant]
        text, flops = PROBLEMS[routine]
        with self.context(rules.replace(without, ""), by, tile) as context:
            plan = context.plan(text.format(n=n))
        out = sum(b for link, b in plan["bytes_by_link"].items() if link.startswith("host->"))
        between = sum(b for link, b in plan["bytes_by_link"].items() if "host" not in link)
        return {
            "routine": routine,
            "n": n,
            "variant": variant,
            "tile": plan["tile"],
            "tflops": flops * n**3 / plan["predicted_s"] / 1e12,
            "host_bytes": out,
            "peer_bytes": between,
        }

    def best(self, routine, n, variant, without=""):
        """The best of the paper's tiles, or our tile in the variant that tests it."""
        tiles = (None,) if variant == TUNED else TILES
        rows = [self.row(routine, n, variant, tile, without) for tile in tiles]
        return max(rows, key=lambda row: row["tflops"])

    def copying(self, variant):
        """The share of copies in the total seconds of copies and kernels of DGEMM."""
        tile = self.best("DGEMM", TRACED_SIZE, variant)["tile"]
        with self.context(*VARIANTS[variant], tile) as context:
            text = PROBLEMS["DGEMM"][0].format(n=TRACED_SIZE)
            events = context.simulate(text)["traceEvents"]
        seconds = {"compute": 0.0, "fetch": 0.0, "writeback": 0.0}
        for event in events:
            if event.get("cat") in seconds:
                seconds[event["cat"]] += event["dur"]
        return 1 - seconds["compute"] / sum(seconds.values())


def rows_of(node, sizes, variants, without=""):
    return [
        node.best(routine, n, variant, without)
        for routine in PROBLEMS
        for n in sizes
        for variant in variants
    ]


def losses(rows):
    """The largest loss of each variant over all sizes, relative to both heuristics on."""
    at = {(row["routine"], row["n"], row["variant"]): row["tflops"] for row in rows}
    return {
        routine: {
            variant: min(
                tflops / at[routine, n, BOTH_ON] - 1
                for (name, n, of), tflops in at.items()
                if (name, of) == (routine, variant)
            )
            for variant in COLUMNS
        }
        for routine in PROBLEMS
    }


def print_losses(name, table):
    for routine, row in table.items():
        cells = "  ".join(f"{100 * row[v]:6.1f} %" for v in COLUMNS if v in row)
        print(f"{name:18} {routine:7} {cells}", flush=True)


def print_speeds(result):
    print("\nTFLOPS: " + "; ".join(SHOWN))
    at = {(row["routine"], row["n"], row["variant"]): row["tflops"] for row in result["results"]}
    for routine, n in sorted({key[:2] for key in at}):
        print(f"{routine:7} {n:6} " + "  ".join(f"{at[routine, n, v]:5.1f}" for v in SHOWN))
    for variant, share in result["copying"].items():
        print(f"copies among copies and kernels, DGEMM {TRACED_SIZE}, {variant}: {share:.1%}")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=common.sizes, default=SIZES, help="default: 16K to 48K")
    parser.add_argument("--as-shipped", action="store_true", help="do not vary the assumed values")
    parser.add_argument("-o", "--output", help="JSON of all results")
    return parser.parse_args()


def main():
    args = parse()
    machine = json.loads((ROOT / "machines" / "dgx1.json").read_text())
    result = {
        "schema": 1,
        "machine": "dgx1",
        "measured": "simulated",
        "commit": common.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "sizes": args.sizes,
        "tiles": TILES,
        "rules": {name: rules for name, (rules, _) in VARIANTS.items()},
        "paper": PAPER,
        "losses": {},
    }
    print("largest loss against both heuristics on: " + "; ".join(COLUMNS))
    for name in [AS_SHIPPED] if args.as_shipped else ASSUMED:
        changed = dict(ASSUMED[name])
        without = changed.pop("without", "")
        with tempfile.TemporaryDirectory() as folder:
            node = Node(assume(machine, **changed), pathlib.Path(folder))
            if name == AS_SHIPPED:
                rows = rows_of(node, args.sizes, VARIANTS)
                result["copying"] = {v: node.copying(v) for v in (BOTH_ON, OURS)}
                result["results"] = rows + [node.best("DGEMM", PAPERS_SIZE, v) for v in SHOWN]
            else:
                rows = rows_of(node, args.sizes[:VARIED], (BOTH_ON, *COLUMNS), without)
            result["losses"][name] = losses(rows)
            print_losses(name, result["losses"][name])
    print_losses("paper", PAPER)
    print_speeds(result)
    if args.output:
        common.write_json(args.output, result)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Paper 1, Fig. 8, simulated: five bars of rules, each relative to the bar on its left.

The regular dataset (19 squares at h,h,h and at 0,0,0), FP64, 8 GPUs of the machine `karolina`,
whose file tells which values the paper gives and which are assumed. The assumed values are varied,
so that each factor comes with its range. Nothing here is measured.

    python3 bench/ablation.py [-o bench/results/ablation-karolina.json]
"""

import argparse
import copy
import json
import math
import pathlib
import tempfile

import fleetblas
from fleetblas.commands.datasets import BARS
from fleetblas.commands.datasets import SQUARES as SIZES

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAPER = {"h,h,h": [2.0, 1.33, 1.18, 1.1], "0,0,0": [2.0, 1.0, 1.18, 1.1]}


def scaled(machine, latency=1.0, small=1.0, issue=1.0, host="together"):
    """The machine with its assumed values changed."""
    m = copy.deepcopy(machine)
    m["issue_s"] *= issue
    for link in m["links"]:
        link["latency_s"] *= latency
    for device in m["devices"]:
        kernels = device.get("kernels", [])
        peak = {
            k["type"]: max(x["flops_per_s"] for x in kernels if x["type"] == k["type"])
            for k in kernels
        }
        for k in kernels:  # scales the loss of small tiles relative to the peak
            k["flops_per_s"] = peak[k["type"]] - small * (peak[k["type"]] - k["flops_per_s"])
    if host == "each way":  # 96 GB/s in each direction; in the file it is the sum of both
        m["ports"].append({"name": "host memory, in", "capacity": 96e9})
        for link in m["links"]:
            for share in link.get("ports", []):
                if share["port"] == "host memory" and link["to"] == "host":
                    share["port"] = "host memory, in"
    return m


VARIANTS = {
    "as shipped": {},
    "half the latency": {"latency": 0.5},
    "twice the latency": {"latency": 2.0},
    "small tiles at full rate": {"small": 0.0},
    "issuing free": {"issue": 0.0},
    "host 96 GB/s each way": {"host": "each way"},
}


def plan(machine_file, rules, place, n, tile=None):
    with fleetblas.Context(machine=machine_file, rules=rules, tile=tile) as context:
        return context.plan(size=n, place=place)


def factors(machine_file, place):
    # One tile for all bars, as in the paper: that of the full set of rules.
    tiles = {n: plan(machine_file, BARS[-1][1], place, n)["tile"] for n in SIZES}
    log_s = []
    for _, rules in BARS:
        times = [plan(machine_file, rules, place, n, tiles[n])["predicted_s"] for n in SIZES]
        log_s.append(sum(map(math.log, times)) / len(times))
    return [math.exp(a - b) for a, b in zip(log_s, log_s[1:])]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=pathlib.Path, help="JSON with all factors")
    args = parser.parse_args()
    machine = json.loads((ROOT / "machines" / "karolina.json").read_text())
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, change in VARIANTS.items():
            file = pathlib.Path(folder) / "machine.json"
            file.write_text(json.dumps(scaled(machine, **change)))
            for place in ("h,h,h", "0,0,0"):
                row = {
                    "variant": name,
                    "place": place,
                    "factors": factors(str(file), place),
                    "paper": PAPER[place],
                    "measured": "simulated",
                }
                results.append(row)
                print(
                    f"{name:32} {place}  " + "  ".join(f"{f:5.2f}" for f in row["factors"]),
                    flush=True,
                )
    for place in ("h,h,h", "0,0,0"):
        rows = [r["factors"] for r in results if r["place"] == place]
        print(
            f"{'range':32} {place}  " + "  ".join(f"{min(c):.2f}-{max(c):.2f}" for c in zip(*rows))
        )
        print(f"{'paper':32} {place}  " + "  ".join(f"{p:5.2f}" for p in PAPER[place]))
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(
            json.dumps({"bars": [b[0] for b in BARS], "sizes": SIZES, "results": results}, indent=1)
        )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what each objective chooses beside every set of devices: time, joules and their product.

The problems are the cheaper half of paper 2's (S of its Table 4), folded to this node. Every set of
devices that holds all operands on devices, one of each size, and the choice of each objective make
the same call in turn; each result is verified. Needs GPUs with energy counters.

    python3 bench/objectives.py --problems 30 -o bench/results/objectives-h200x2.json
"""

import argparse
import itertools
import math
import statistics
import sys
import tempfile
import time

import fleetblas
import numpy as np
from fleetblas.commands import common, datasets
from fleetblas.commands.bench_run import machine_text
from fleetblas.commands.energy import Meter

OBJECTIVES = ("time", "edp", "energy")
CALLS = 5
TOLERANCE = 1e-12  # of a row of C against the CPU, as a share of its norm


def problems(count: int, gpus: int) -> list[tuple[datasets.Case, str]]:
    """The cheaper half of the set, and of these so many at equal distances."""
    cases = sorted(
        datasets.cases_of("paralia", gpus), key=lambda pair: pair[0].m * pair[0].n * pair[0].k
    )
    half = cases[: len(cases) // 2]
    return [half[(2 * i + 1) * len(half) // (2 * count)] for i in range(min(count, len(half)))]


class Call:
    """One product, its operands at their places."""

    def __init__(self, context, case, place: str, generator):
        shapes = ((case.m, case.k), (case.k, case.n), (case.m, case.n))
        self.a, self.b, self.c = (
            context.empty(shape, location=where, order="F")
            for shape, where in zip(shapes, place.split(","))
        )
        self.host = [generator.standard_normal(shape[::-1]).T for shape in shapes[:2]]
        for array, values in zip((self.a, self.b), self.host):
            context.copy(array, values)
        self.rows = generator.choice(case.m, 4, replace=False)
        self.expected = self.host[0][self.rows] @ self.host[1]

    def run(self, context) -> None:
        context.gemm(self.a, self.b, out=self.c)

    def is_right(self, context) -> bool:
        found = np.empty(self.c.shape, order="F")
        context.copy(found, self.c)
        error = np.linalg.norm(found[self.rows] - self.expected) / np.linalg.norm(self.expected)
        return bool(error < TOLERANCE)


def measure(context, call: Call, meter: Meter, used: list[int]) -> dict:
    call.run(context)
    right = call.is_right(context)
    call.run(context)
    times = []
    for _ in range(CALLS):
        start_s = time.perf_counter()
        call.run(context)
        times.append(time.perf_counter() - start_s)
    energy = meter.measure(lambda: call.run(context))
    if energy is None or not right:
        raise SystemExit("an energy counter stands still" if right else "a result is wrong")
    return {
        "seconds": statistics.median(times),
        "joules": energy.of(used),
        "joules_node": energy.of(meter.devices),
        "devices": used,
    }


def value(objective: str, row: dict, joules: str = "joules") -> float:
    if objective == "time":
        return row["seconds"]
    return row[joules] * (row["seconds"] if objective == "edp" else 1)


def geometric(values) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def summary(results: list[dict]) -> list[str]:
    lines = []
    for objective in OBJECTIVES:
        ratios, gains = [], {"joules": [], "joules_node": []}
        for one in results:
            chosen, every = one["chosen"][objective], one["sets"][-1]
            rows = [*one["sets"], *one["chosen"].values()]
            ratios.append(value(objective, chosen) / min(value(objective, r) for r in rows))
            for key, found in gains.items():
                found.append(value(objective, every, key) / value(objective, chosen, key))
        lines.append(
            f"{objective:<7} of the best measured: {geometric(ratios):.3f} in the mean, "
            f"{max(ratios):.3f} at worst, {sum(r <= 1.05 for r in ratios)} of {len(ratios)} within "
            f"5 %; better than all devices by {geometric(gains['joules']):.2f}, "
            f"by the node's joules {geometric(gains['joules_node']):.2f}"
        )
    for key, predicted in (("seconds", "predicted_s"), ("joules", "predicted_joules")):
        errors = [
            abs(row[predicted] / row[key] - 1)
            for one in results
            for row in (*one["sets"], *one["chosen"].values())
        ]
        lines.append(
            f"predicted {key}: median error {100 * statistics.median(errors):.1f} %, "
            f"worst {100 * max(errors):.0f} %"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=common.positive_size, default=30, metavar="N")
    parser.add_argument("--machine", help="machine file; without it the node is measured")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no further problem after this time"
    )
    parser.add_argument("-o", "--output", help="JSON of all problems")
    arguments = parser.parse_args()
    begin_s = time.monotonic()
    generator = np.random.default_rng(20261123)
    options = {"backend": "cuda", "offload": "always"}
    with fleetblas.Context(**options, objective="edp", machine=arguments.machine) as first:
        machine = first.machine()
        gpus = first.config()["devices"]
        head = {"machine": machine_text(first), "commit": common.commit()}
        head |= {"date": time.strftime("%Y-%m-%d"), "watts": machine["devices"][2].get("watts")}
    print(f"{head['machine']}: {head['watts']}", flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        common.write_json(file.name, machine)
        meter = Meter(gpus)
        contexts = {}

        def context_for(devices: str, objective: str = "time"):
            key = (devices, objective)
            if key not in contexts:
                contexts[key] = fleetblas.Context(
                    **options, machine=file.name, devices=devices, objective=objective
                )
            return contexts[key]

        def take(context, call, words, used=None) -> dict:
            plan = context.plan(**words)
            homes = [int(word) for word in words["place"].split(",") if word.isdigit()]
            row = measure(context, call, meter, used or sorted({*plan["workers"], *homes}))
            row |= {"predicted_s": plan["predicted_s"], "predicted_joules": plan["joules"]}
            context.trim()
            return row

        results = []
        for case, place in problems(arguments.problems, len(gpus)):
            if time.monotonic() - begin_s > arguments.seconds:
                break
            words = {"m": case.m, "n": case.n, "k": case.k, "place": place, "beta": 0}
            call = Call(context_for("all"), case, place, generator)
            one = {**words, "sets": [], "chosen": {}}
            for devices in datasets.sets_of(gpus, place):
                text = ",".join(map(str, devices)) + ("," if len(devices) == 1 else "")
                one["sets"].append(take(context_for(text), call, words, devices))
            for objective in OBJECTIVES:
                one["chosen"][objective] = take(context_for("auto", objective), call, words)
            results.append(one)
            cells = [
                f"{len(row['devices'])}: {row['seconds'] * 1e3:.3f} ms {row['joules']:.3g} J"
                for row in itertools.chain(one["sets"], one["chosen"].values())
            ]
            shape = f"{case.m} x {case.n} x {case.k} {place}"
            print(f"{shape:<28} " + "  ".join(f"{cell:<22}" for cell in cells), flush=True)
        lines = summary(results)
        print("\n".join(lines))
        if arguments.output:
            common.write_json(arguments.output, {**head, "results": results, "summary": lines})
    return 0


if __name__ == "__main__":
    sys.exit(main())

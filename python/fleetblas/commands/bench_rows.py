# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a benchmark, measured or simulated, as JSON, CSV and a table.

Knows nothing of the method of measuring.
"""

from __future__ import annotations

import csv
import io
import statistics

import numpy as np

from .. import Context, __version__
from .._routines import KNOWN, LAPACK
from . import common
from .bench_engines import Engine, add_plan
from .bench_method import Method, interval
from .bench_operands import SEED


def blank_row(engine: str, words: dict) -> dict:
    row: dict = {"engine": engine, "routine": words["routine"], "type": words["type"]}
    row.update({name: words[name] for name in ("m", "n", "k", "place")})
    row.update({"devices": 0, "tile": None, "first_s": None, "median_s": None, "min_s": None})
    row.update({"p95_s": None, "tflops": None, "bound_s": None, "limited_by": None})
    row.update({"bound_fraction": None, "predicted_s": None, "error": None, "status": "ok"})
    row.update(
        {
            "joules": None,
            "joules_node": None,
            "watts": None,
            "balance": None,
            "measured": "measured",
        }
    )
    row.update({name: words[name] for name in KNOWN[words["routine"]].flags})
    for name in ("alpha", "beta") if words["routine"] not in LAPACK else ():
        value = complex(words.get(name, 0))
        row[name] = value.real if value.imag == 0 else [value.real, value.imag]
    row.update({"version": __version__, "commit": common.commit(), "seed": SEED})
    return row


def add_fraction(row: dict) -> None:
    if row["median_s"] and row["bound_s"] is not None:
        row["bound_fraction"] = row["bound_s"] / row["median_s"]
    edges = (row[name] for name in "mnk")
    row["tflops"] = common.tflops(row["routine"], row["type"], *edges, row["median_s"])


def measured_row(engine: Engine, context: Context, words: dict, method: Method) -> dict:
    """`words` is the problem of FleetBLAS; the engine's operands may be at other places."""
    row = blank_row(engine.name, words)
    row.update({"place": ",".join(engine.operands.locations), "beside": words["place"]})
    row.update({"repeat": len(engine.times), "warmup": method.warmup})
    row["interval"] = interval(engine.times)
    row.update({"first_s": engine.first_s, "balance": engine.balance})
    if engine.times:
        row["median_s"], row["min_s"] = statistics.median(engine.times), min(engine.times)
        row["p95_s"] = float(np.percentile(engine.times, 95))
    if engine.failure is not None:
        row.update({"status": engine.failure.status, "message": str(engine.failure)})
    if engine.verdicts:
        row["error"] = max(verdict.error for verdict in engine.verdicts)
        row["residual"] = max(verdict.residual for verdict in engine.verdicts)
        if not all(verdict.ok for verdict in engine.verdicts):
            row.update({"status": "internal", "message": "the result is wrong"})
    engine.describe(row)
    if engine.energy is not None:
        row["joules"] = engine.energy.of(engine.taking_part(row))
        row.update({"joules_node": engine.energy.of(engine.gpus), "watts": engine.energy.watts})
    if row["bound_s"] is None and engine.same_problem and engine.times:
        row.update(context.bound(**words))
    add_fraction(row)
    return row


def simulated_row(context: Context, words: dict) -> dict:
    row = blank_row("fleetblas", words)
    row.update({"measured": "simulated", "beside": words["place"]})
    plan = context.plan(**words)
    add_plan(row, plan)
    row.update({"devices": len(plan["workers"]), "tile": plan["tile"]})
    if "stages" in plan:
        row["stages"] = plan["stages"]
    row.update(dict.fromkeys(("median_s", "min_s", "p95_s"), plan["predicted_s"]))
    row["first_s"] = plan["plan_s"] + plan["predicted_s"]
    add_fraction(row)
    return row


def is_failure(row: dict) -> bool:
    """A missing or failed peer is no failure of the command; a wrong result of any engine is."""
    ours = row["engine"] in ("fleetblas", "fleetblas-refined")
    return row["status"] == "internal" or (ours and row["status"] != "ok")


TABLE_HEAD = ["engine", "problem", "place", "devices", "tile", "first", "median", "min", "p95"]
TABLE_HEAD += ["rate", "bound", "of bound", "predicted", "balance", "energy", "error", "status"]


def _engine_text(row: dict) -> str:
    notes = [row["bar"]] if row.get("bar") else []
    notes += ["resident"] if row.get("resident") and row["engine"] == "fleetblas" else []
    return row["engine"] + (f" ({', '.join(notes)})" if notes else "")


def _table_row(row: dict) -> list[str]:
    routine = KNOWN[row["routine"]]
    sizes = [row[name] for name in routine.sizes]
    edges = [common.edge_text(edge) for edge in sizes]
    shape = edges[0] if len(set(sizes)) == 1 else "x".join(edges)
    times = [common.duration(row[key]) for key in ("first_s", "median_s", "min_s", "p95_s")]
    return [
        _engine_text(row),
        f"{routine.named(row['type'])} {shape}{common.flags_text(row)}",
        row["place"],
        str(row["devices"] or "cpu"),
        common.edge_text(row["tile"]) if row["tile"] else "-",
        *times,
        common.rate_text(row["tflops"]),
        common.duration(row["bound_s"]),
        common.percent(row["bound_fraction"]),
        common.duration(row["predicted_s"]),
        common.percent(row["balance"]),
        "-" if row["joules"] is None else f"{row['joules']:.3g} J",
        "-" if row["error"] is None else f"{row['error']:.2g}",
        row["status"] if row["measured"] == "measured" else "simulated",
    ]


def table(rows: list[dict]) -> str:
    return common.table([TABLE_HEAD, *map(_table_row, rows)], left=3)


def mean_table(rows: list[dict]) -> str:
    """Geometric means over the sizes of each routine at each place: rates, the share of the bound,
    and the ratio to each peer over the cases that both have; the mean balance."""
    timed = [row for row in rows if row["status"] == "ok" and row["median_s"]]
    groups: dict[tuple, list[dict]] = {}
    for row in timed:
        if row["engine"] == "fleetblas":
            groups.setdefault((row["type"] + row["routine"], row["place"]), []).append(row)
    others = {(row["engine"], _case(row)): row for row in timed}
    peers = list(dict.fromkeys(row["engine"] for row in timed if row["engine"] != "fleetblas"))
    head = ["routine", "place", "cases", "rate", "of bound", "balance"]
    lines = [head + [f"over {peer}" for peer in peers]]
    for (name, place), ours in groups.items():
        line = [name, place, str(len(ours))]
        line.append(common.rate_text(common.geometric_mean([row["tflops"] for row in ours])))
        fractions = [row["bound_fraction"] for row in ours if row["bound_fraction"]]
        line.append(common.percent(common.geometric_mean(fractions)))
        balances = [row["balance"] for row in ours if row["balance"] is not None]
        line.append(common.percent(statistics.fmean(balances) if balances else None))
        for peer in peers:
            both = [(row, others.get((peer, _case(row)))) for row in ours]
            mean = common.geometric_mean([b["median_s"] / a["median_s"] for a, b in both if b])
            line.append("-" if mean is None else f"{mean:.2f}x")
        lines.append(line)
    return common.table(lines, left=2)


def _case(row: dict) -> tuple:
    flags = (row[name] for name in KNOWN[row["routine"]].flags)
    sizes = (row[name] for name in "mnk")
    words = (row["type"], row["routine"], row["beside"], row.get("bar"))
    return (*words, str(row.get("wanted_devices")), *flags, *sizes)


def csv_text(rows: list[dict]) -> str:
    """A line per row, a column per key that any row has; lists and objects as Python text."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

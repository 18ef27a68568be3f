# SPDX-License-Identifier: BSD-3-Clause
"""The CPU's share R as fleetblas-linpack finds it, beside sweeps of R: paper 3's Fig. 6 and 12."""

from __future__ import annotations

import functools

from .. import _linpack
from . import report_papers
from .report_figures import Axis, Series, linear_axis, lines
from .report_page import Html, figure
from .reproduce_tables import Table, number

CLUSTERS = {"w3520-c1060x16": "paper 3", "w3520-unequal": "two unequal devices"}
SWEEP = tuple(round(0.02 * step, 2) for step in range(51))
EDGE, MULTIPLE = 4096, 64  # of Fig. 6
# The program has pivots, so there its tasks; the paper's tasks for the paper's Table 5.
CASES = (
    ("w3520-c1060x16", "skeleton", "none", "first"),
    ("w3520-c1060x16", "skeleton", "full", "first"),
    ("w3520-c1060x16", "skeleton", "full", "overlap"),
    ("w3520-c1060x16", "pivoted", "full", "overlap"),
    ("w3520-unequal", "pivoted", "none", "first"),
    ("w3520-unequal", "pivoted", "none", "overlap"),
    ("w3520-unequal", "pivoted", "lookahead", "overlap"),
    ("w3520-unequal", "pivoted", "dedicated", "overlap"),
    ("w3520-unequal", "pivoted", "full", "first"),
    ("w3520-unequal", "pivoted", "full", "overlap"),
)
KINDS = {"solve": "dtrsm", "ahead": "next panel", "alone": "alone", "overlapped": "messages"}


@functools.cache
def _simulator() -> _linpack.Simulator:
    return _linpack.Simulator()


@functools.cache
def swept(cluster: str, tasks: str, overlap: str, transfers: str) -> tuple[float, float]:
    """The best R of a sweep, the same for all kinds of work, and GFLOPS there."""
    file = _linpack.cluster(cluster)

    def rate(share: float) -> float:
        shares = {f"{kind}_share": share for kind in ("solve", "ahead", "product")}
        run = _simulator().run(file, tasks=tasks, overlap=overlap, transfers=transfers, **shares)
        return run["flops_per_s"] / 1e9

    best = max(SWEEP, key=rate)
    return best, rate(best)


@functools.cache
def measured(cluster: str, tasks: str, overlap: str, transfers: str) -> dict:
    """The same run with R as the program finds it."""
    file = _linpack.cluster(cluster)
    return _simulator().run(
        file, tasks=tasks, overlap=overlap, transfers=transfers, shares="measured"
    )


def gain(case: tuple[str, str, str, str]) -> float:
    """What the program's R gains over the best R of the sweep; below 0 it loses."""
    return measured(*case)["flops_per_s"] / 1e9 / swept(*case)[1] - 1


def table() -> Table:
    rows = []
    for case in CASES:
        best, rate = swept(*case)
        run = measured(*case)
        shares = [number(run["cpu_shares"][k], 3) if k in run["cpu_shares"] else "-" for k in KINDS]
        rates = [number(best), number(rate, 1), number(run["flops_per_s"] / 1e9, 1)]
        rows.append([CLUSTERS[case[0]], *case[1:], *rates, f"{100 * gain(case):+.1f} %", *shares])
    head = ["cluster", "tasks", "overlap", "transfers", "best R of a sweep", "GFLOPS"]
    head += ["GFLOPS, R measured", "difference", *(f"R, {name}" for name in KINDS.values())]
    notes = [
        "All simulated. R measured: from the rates that both sides had before, by the function "
        "that fleetblas-linpack calls (lu/schedule/balance.cpp). The sweep goes from 0 to 1 by "
        "0.02, with one R for all work; so R measured, which is one for each kind and follows the "
        "run, can win.",
        "The paper's Table 5: 0.31 for dtrsm, 0.35 alone and for the next panel, 0.31 beside "
        "messages. An R of 1.000 is that of the last step, which has few columns.",
    ]
    return Table("R as the program finds it, beside the best R of a sweep", head, rows, 4, notes)


# ---- the figures --------------------------------------------------------------------------------


def _axis() -> Axis:
    ticks = [(i / 10, f"{i / 10:g}") for i in range(0, 11, 2)]
    return Axis("R, the CPU's share", 0, 1, ticks)


def _product(cluster: str, share: float) -> float:
    run = _simulator().run(
        _linpack.cluster(cluster), product=[EDGE] * 3, product_share=share, transfers="first"
    )
    return run["flops_per_s"] / 1e9


def found(cluster: str) -> tuple[float, float]:
    """R that Balance finds for the product of Fig. 6, and GFLOPS with it."""
    run = _simulator().run(
        _linpack.cluster(cluster), product=[EDGE] * 3, shares="measured", transfers="first"
    )
    return run["cpu_share"], run["flops_per_s"] / 1e9


def _sweep(cluster: str, name: str, style: str) -> Series:
    shares = [rows / EDGE for rows in range(0, EDGE + 1, 2 * MULTIPLE)]
    points = [(s, _product(cluster, s), f"R = {s:.2f}") for s in shares]
    return Series(name, points, style, marked=False)


def _point(cluster: str, name: str, style: str) -> Series:
    share, rate = found(cluster)
    return Series(name, [(share, rate, f"R = {share:.3f}: {rate:.1f}")], style, joined=False)


def figure_6() -> Html:
    paper, unequal = CLUSTERS
    # The paper prints no GFLOPS: where its curve begins, has its top and ends follows from what
    # both together save of the time of either alone (Fig. 7), as parts of our top.
    top = max(rate for _, rate, _ in _sweep(paper, "", "s0").points)
    of_gpu, of_cpu = report_papers.LINPACK_SAVED.values()
    printed = [
        (0.0, top * (1 - of_gpu), "paper: GPU alone"),
        (report_papers.LINPACK_SHARE["found"], top, "paper: best R"),
        (1.0, top * (1 - of_cpu), "paper: CPU alone"),
    ]
    series = [
        Series("paper 3, as printed (its top is ours)", printed, "s7", joined=False),
        _sweep(paper, "its node, simulated", "s0"),
        _point(paper, "R measured", "s1"),
        _sweep(unequal, "two unequal devices, simulated", "s2"),
        _point(unequal, "R measured there", "s3"),
    ]
    most = [rate for one in series for _, rate, _ in one.points]
    svg = lines("Fig. 6 beside ours", "GFLOPS by R", _axis(), linear_axis("GFLOPS", most), series)
    return figure(
        svg, f"One dgemm of {EDGE}: paper 3's Fig. 6, and the same beside two unequal devices."
    )


def marks_12() -> list[Series]:
    """For Fig. 12: R measured beside messages."""
    marks = []
    for i, transfers in enumerate(("overlap", "first")):
        run = measured("w3520-c1060x16", "skeleton", "full", transfers)
        share, rate = run["cpu_shares"]["overlapped"], run["flops_per_s"] / 1e9
        name = "R measured" + (", transfers first" if transfers == "first" else "")
        tip = f"R = {share:.3f}: {rate:.0f} GFLOPS"
        marks.append(Series(name, [(share, rate, tip)], f"s{i + 2}", joined=False))
    return marks

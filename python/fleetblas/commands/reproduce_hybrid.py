# SPDX-License-Identifier: BSD-3-Clause
"""Paper 3 (Linpack overlap) on `w3520-c1060`: the CPU's share of a product, by its formula and as
plans have it."""

from __future__ import annotations

from . import report_papers
from .report_figures import Axis, Series, linear_axis, lines
from .report_page import Html, figure
from .reproduce_runs import Results, Run, gemm
from .reproduce_tables import Experiment, Table, number, percent

MACHINE = "w3520-c1060"
SIZES = (2048, 4096, 8192)
QUICK_SIZES = (2048, 4096)
PAPERS_SIZE = 4096
ROUTINES = ("dgemm", "dtrsm")
STEP = 0.05
SWEEP = tuple(round(STEP * step, 2) for step in range(1, 13))
MULTIPLE = 64  # of rows: products of the GPU are fastest then (III)


def cpu_share(cpu: float, gpu: float) -> float:
    """R = P_cpu / (P_cpu + P_gpu): both ends at the same time (III, 3.3)."""
    return cpu / (cpu + gpu)


def whole_rows(share: float, rows: int) -> int:
    """The CPU's rows as the nearest multiple of 64."""
    return min(rows, round(share * rows / MULTIPLE) * MULTIPLE)


def _run(routine: str, n: int, share: float | str) -> Run:
    """share: of the CPU; "off" or "auto"."""
    problem = gemm(n, n, n, "h,h,h") if routine == "dgemm" else f"dtrsm m={n} n={n} a@h c@h"
    return Run(problem, MACHINE, (("devices", "all"), ("cpu_share", share)))


def _sizes(quick: bool) -> tuple[int, ...]:
    return QUICK_SIZES if quick else SIZES


def runs(quick: bool) -> list[Run]:
    shares = ["off", "auto", *SWEEP]
    return [
        _run(routine, n, share) for routine in ROUTINES for n in _sizes(quick) for share in shares
    ]


def _saved(share: float, cpu: float, gpu: float) -> tuple[float, float]:
    """The time that both save over the GPU and over the CPU alone, transfers left out."""
    seconds = max(share / cpu, (1 - share) / gpu)
    return 1 - seconds * gpu, 1 - seconds * cpu


def tables(results: Results) -> list[Table]:
    cpu, gpu = report_papers.LINPACK_CPU, report_papers.LINPACK_GPU
    share = cpu_share(cpu, gpu)
    rows = whole_rows(share, PAPERS_SIZE) / PAPERS_SIZE
    saved = _saved(share, cpu, gpu)
    printed = report_papers.LINPACK_SHARE
    formula = Table(
        f"The formula with the printed peaks, dgemm of {PAPERS_SIZE}",
        ["", "paper", "formula"],
        [
            ["R predicted", number(printed["predicted"]), number(share, 3)],
            ["R found, and in rows of 64", number(printed["found"]), number(rows, 3)],
            ["R found for dtrsm (Table 5)", number(printed["dtrsm"]), "-"],
            [
                "time saved over the GPU alone",
                percent(report_papers.LINPACK_SAVED["GPU alone"], 0),
                percent(saved[0], 0),
            ],
            [
                "time saved over the CPU alone",
                percent(report_papers.LINPACK_SAVED["CPU alone"], 0),
                percent(saved[1], 0),
            ],
        ],
    )
    return [formula, _swept(results)]


def _flops(routine: str, n: int) -> int:
    return 2 * n**3 if routine == "dgemm" else n**3


def _best(results: Results, routine: str, n: int) -> tuple[float, float]:
    """The share of the sweep with the least time, and that time."""
    seconds = {share: results.seconds(_run(routine, n, share)) for share in SWEEP}
    share = min(seconds, key=seconds.__getitem__)
    return share, seconds[share]


def _swept(results: Results) -> Table:
    """What the model takes, beside the best of all shares."""
    rows = []
    for routine in ROUTINES:
        for n in _sizes(results.quick):
            alone = results.seconds(_run(routine, n, "off"))
            chosen = _run(routine, n, "auto")
            cpu_s = results[chosen]["host_s"]
            share, seconds = results[chosen]["cpu_share"], results.seconds(chosen)
            best_share, best_s = _best(results, routine, n)
            rates = [_flops(routine, n) / s / 1e9 for s in (cpu_s, alone, seconds, best_s)]
            rows.append(
                [
                    routine,
                    str(n),
                    *(number(rate, 1) for rate in rates[:2]),
                    number(cpu_share(1 / cpu_s, 1 / alone), 3),
                    f"{share:.3f}",
                    number(rates[2], 1),
                    f"{best_share:.2f}",
                    number(rates[3], 1),
                    percent(1 - seconds / alone, 0),
                    percent(1 - seconds / cpu_s, 0),
                ]
            )
    head = [
        *("routine", "N", "CPU GFLOPS", "GPU GFLOPS with copies", "R from these"),
        *("R of the plan", "GFLOPS", "best R of a sweep", "GFLOPS"),
        *("saved over the GPU", "over the CPU"),
    ]
    note = (
        f"The sweep has steps of {STEP:g}. Printed for one node: 34 % saved over the GPU, 64 % "
        "over the CPU."
    )
    return Table(
        "Fig. 6 and 7: plans with the CPU's share, copies simulated", head, rows, 2, [note]
    )


def figures(results: Results) -> list[Html]:
    cpu, gpu = report_papers.LINPACK_CPU, report_papers.LINPACK_GPU
    points = []
    for rows in range(0, PAPERS_SIZE + 1, 2 * MULTIPLE):
        share = rows / PAPERS_SIZE
        rate = 1 / max(share / cpu, (1 - share) / gpu)
        points.append((share, rate, f"R = {share:.2f}: {rate:.1f} GFLOPS"))
    found = report_papers.LINPACK_SHARE["found"]
    series = [
        Series("formula, transfers left out", points, "s0", marked=False),
        Series("R that the paper found", [(found, 0, ""), (found, cpu + gpu, "")], "s7", "dashed",
               marked=False),
    ]  # fmt: skip
    for style, n in zip(("s1", "s2", "s3"), _sizes(results.quick)):
        points = []
        for share in SWEEP:
            rate = _flops("dgemm", n) / results.seconds(_run("dgemm", n, share)) / 1e9
            points.append((share, rate, f"{n}, R = {share:g}: {rate:.1f} GFLOPS"))
        series.append(Series(f"simulated, {n}", points, style))
    axis = Axis("R, the CPU's share", 0, 1, [(i / 10, f"{i / 10:g}") for i in range(0, 11, 2)])
    svg = lines("Fig. 6", "GFLOPS by R", axis, linear_axis("GFLOPS", [cpu + gpu]), series)
    return [
        figure(
            svg,
            f"dgemm on CPU and GPU, by the rates of Table 1: the formula for {PAPERS_SIZE}; plans.",
        )
    ]


EXPERIMENTS = [
    Experiment(
        3,
        "share",
        "III: the CPU's share R of a dgemm",
        runs,
        tables,
        figures,
        (
            "Copies take time of the GPU, more of it for small products, so R is above the "
            "formula's there; the paper's R is of 4096.",
            "dtrsm in Linpack has a short side (R = 0.31 found); here it is square.",
            "The peaks of Table 1 are used for rates, as the paper does; what its BLAS libraries "
            "reached is not printed.",
            "Linpack itself (sections IV to VI) is the experiment `linpack`.",
        ),
    ),
]

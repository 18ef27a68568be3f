# SPDX-License-Identifier: BSD-3-Clause
"""Paper 3 (Linpack overlap) on `w3520-c1060`: the CPU's share of a product by its formula."""

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
MULTIPLE = 64  # of rows: products of the GPU are fastest then (III)


def cpu_share(cpu: float, gpu: float) -> float:
    """R = P_cpu / (P_cpu + P_gpu): both ends at the same time (III, 3.3)."""
    return cpu / (cpu + gpu)


def whole_rows(share: float, rows: int) -> int:
    """The CPU's rows as the nearest multiple of 64."""
    return min(rows, round(share * rows / MULTIPLE) * MULTIPLE)


def _run(n: int) -> Run:
    return Run(gemm(n, n, n, "h,h,h"), MACHINE, (("devices", "all"),))


def runs(quick: bool) -> list[Run]:
    return [_run(n) for n in (QUICK_SIZES if quick else SIZES)]


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
    rows_of = []
    for run, n in zip(runs(results.quick), QUICK_SIZES if results.quick else SIZES):
        row = results[run]
        flops = 2 * n**3
        alone_gpu, alone_cpu = flops / row["predicted_s"] / 1e9, flops / row["host_s"] / 1e9
        share = cpu_share(alone_cpu, alone_gpu)
        rows_of.append(
            [str(n), number(alone_cpu, 1), number(alone_gpu, 1), number(share, 3), "not yet"]
        )
    simulated = Table(
        "With the GPU's copies simulated",
        ["N", "CPU GFLOPS", "GPU GFLOPS with copies", "R from these", "best R of a sweep"],
        rows_of,
    )
    return [formula, simulated]


def figures(_: Results) -> list[Html]:
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
    axis = Axis("R, the CPU's share", 0, 1, [(i / 10, f"{i / 10:g}") for i in range(0, 11, 2)])
    svg = lines("Fig. 6", "GFLOPS by R", axis, linear_axis("GFLOPS", [cpu + gpu]), series)
    return [figure(svg, f"dgemm of {PAPERS_SIZE} on CPU and GPU, by the rates of Table 1.")]


EXPERIMENTS = [
    Experiment(
        3,
        "share",
        "III: the CPU's share R of a dgemm",
        runs,
        tables,
        figures,
        (
            "Fig. 6 and 7 as simulations need the CPU's share in plans, which FleetBLAS does not "
            "have yet; so only the formula is shown, and the rates that it takes.",
            "The formula knows products only; the rates of dtrsm are not printed.",
            "The peaks of Table 1 are used for rates, as the paper does; what its BLAS libraries "
            "reached is not printed.",
            "Linpack itself (sections IV to VI) is no experiment here.",
        ),
    ),
]

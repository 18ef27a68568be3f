# SPDX-License-Identifier: BSD-3-Clause
"""Paper 5 (XKBlas heuristics) on `dgx1`: Table II and Fig. 3, Fig. 5, 6 and 8.

Data on devices, a column of Table II, are in reproduce_distributed.
"""

from __future__ import annotations

from .._context import problem_text
from . import common, report_papers
from .report_figures import Series, linear_axis, lines, size_axis
from .report_page import Html, figure
from .reproduce_runs import Results, Run, gemm
from .reproduce_tables import (
    OURS,
    POLICIES,
    STYLES,
    Experiment,
    Table,
    no_figures,
    number,
    percent,
    usage_table,
)

MACHINE = "dgx1"
SIZES = tuple(range(16384, 49152 + 1, 4096))
PAPERS_SIZE = 24000  # "about 54 TFLOPS" of DGEMM
TRACED_SIZE = 32768  # of its Fig. 6
VARIED = 3  # number of sizes, from the smallest, where losses are largest
TILES = (1024, 2048, 4096)
PROBLEMS = {
    "DGEMM": ("dgemm m={n} n={n} k={n} a@h b@h c@h", 2),
    "DSYR2K": ("dsyr2k n={n} k={n} a@h b@h c@h", 2),
    "DTRSM": ("dtrsm m={n} n={n} a@h c@h", 1),
}

# ---- Table II -----------------------------------------------------------------------------------

# XKBlas without its two heuristics: tiles stay where they were fetched, each pair of places has a
# queue, and a product runs when its inputs have arrived. The best of our grids assigns parts of C
# to GPUs, in place of XKBlas's work stealing; the preset `xkblas` steals.
BASE = "outofcore,caching,overlap,order,grid"
AS_IT_IS = ""
TWO, ONE = f"{BASE},bandwidth,forwarding", f"{BASE},bandwidth"
BOTH_ON, NO_FORWARDING, NO_TOPOLOGY = "both on", "optimistic off", "both off"
RULES, TUNED, PRESET = "all our rules", "all our rules and tiles", "preset xkblas"
# Variants with their rules, and the criterion by which a GPU chooses among the holders of a tile.
# The paper does not name XKBlas's criterion without the heuristic, so there are several readings.
VARIANTS = {
    BOTH_ON: (TWO, "sources by links"),
    NO_FORWARDING: (ONE, "sources by links"),
    NO_TOPOLOGY: (ONE, "sources by lowest number"),
    "both off, another order": (ONE, "sources by shuffled"),
    "both off, slowest link": (ONE, "sources by slowest"),
    "both off, from the host": (BASE, AS_IT_IS),
    RULES: ("all", AS_IT_IS),
    TUNED: ("all", AS_IT_IS),
    PRESET: (None, AS_IT_IS),
}
SHOWN = (BOTH_ON, PRESET, RULES, TUNED)
COLUMNS = (NO_FORWARDING, *(name for name in VARIANTS if name.startswith(NO_TOPOLOGY)))
AS_SHIPPED = "as shipped"
# Assumed values, and the order of products: a change of the machine, and a rule that is left out.
ASSUMED = {
    AS_SHIPPED: ("", ""),
    "half the latency": ("half the latency", ""),
    "twice the latency": ("twice the latency", ""),
    "PCIe at 10 GB/s": ("PCIe at 10 GB/s", ""),
    "PCIe at 14 GB/s": ("PCIe at 14 GB/s", ""),
    "row by row": ("", ",order"),
    "grid 4x2": ("", ",grid"),
}


def _tiles(variant: str) -> tuple[int | None, ...]:
    """The best of the paper's tiles, or our tile in the variant that tests it."""
    return (None,) if variant in (TUNED, PRESET) else TILES


def _run(routine: str, n: int, variant: str, tile: int | None, assumed: str = AS_SHIPPED) -> Run:
    rules, by = VARIANTS[variant]
    change, without = ASSUMED[assumed]
    options: tuple[tuple[str, object], ...] = (("devices", "all"),)
    if rules is None:
        options += (("preset", "xkblas"),)
    else:
        options += (("rules", rules.replace(without, "") if without else rules),)
    if tile:
        options += (("tile", tile),)
    changes = " + ".join(filter(None, (change, by)))
    used = assumed == AS_SHIPPED and routine == "DGEMM" and n == TRACED_SIZE and variant in SHOWN
    return Run(PROBLEMS[routine][0].format(n=n), MACHINE, options, changes, used)


def _sizes(quick: bool, assumed: str) -> tuple[int, ...]:
    if quick:
        return SIZES[:1]
    return SIZES if assumed == AS_SHIPPED else SIZES[:VARIED]


def _assumed(quick: bool) -> list[str]:
    return list(ASSUMED)[:1] if quick else list(ASSUMED)


def heuristics_runs(quick: bool) -> list[Run]:
    found = []
    for assumed in _assumed(quick):
        variants = VARIANTS if assumed == AS_SHIPPED else (BOTH_ON, *COLUMNS)
        for routine in PROBLEMS:
            for n in _sizes(quick, assumed):
                for variant in variants:
                    found += [_run(routine, n, variant, t, assumed) for t in _tiles(variant)]
    if not quick:
        for variant in SHOWN:
            found += [_run("DGEMM", PAPERS_SIZE, variant, t) for t in _tiles(variant)]
    return found


def best(results: Results, routine: str, n: int, variant: str, assumed: str = AS_SHIPPED) -> dict:
    """The row of the best tile, with its TFLOPS."""
    rows = [results[_run(routine, n, variant, t, assumed)] for t in _tiles(variant)]
    row = min((r for r in rows if "predicted_s" in r), key=lambda r: r["predicted_s"])
    return row | {"tflops": PROBLEMS[routine][1] * n**3 / row["predicted_s"] / 1e12}


def loss(results: Results, routine: str, variant: str, assumed: str = AS_SHIPPED) -> float:
    """The largest loss over all sizes, relative to both heuristics on."""
    return min(
        best(results, routine, n, variant, assumed)["tflops"]
        / best(results, routine, n, BOTH_ON, assumed)["tflops"]
        - 1
        for n in _sizes(results.quick, assumed)
    )


def heuristics_tables(results: Results) -> list[Table]:
    rows = []
    for routine in PROBLEMS:
        row = [routine]
        for variant in COLUMNS:
            name = NO_FORWARDING if variant == NO_FORWARDING else NO_TOPOLOGY
            found = [loss(results, routine, variant, a) for a in _assumed(results.quick)]
            if variant in (NO_FORWARDING, NO_TOPOLOGY):
                row.append(percent(report_papers.HEURISTICS[routine][name]))
            row += [percent(found[0]), f"{100 * min(found):.0f} to {100 * max(found):.0f}"]
        rows.append(row)
    head = ["most lost at N >= 16384"]
    for variant in COLUMNS:
        head += (
            [f"{variant}: paper", "ours"] if variant in (NO_FORWARDING, NO_TOPOLOGY) else [variant]
        )
        head.append("range")
    speeds = []
    for routine in PROBLEMS:
        sizes = list(_sizes(results.quick, AS_SHIPPED))
        if routine == "DGEMM" and not results.quick:
            sizes.append(PAPERS_SIZE)
        for n in sorted(sizes):
            speeds.append(
                [routine, str(n), _printed_speed(routine, n)]
                + [number(best(results, routine, n, variant)["tflops"], 1) for variant in SHOWN]
            )
    made = [
        Table(
            "Table II: what the heuristics are worth",
            head,
            rows,
            notes=["The range covers " + ", ".join(list(ASSUMED)[1:]) + "."],
        ),
        Table("TFLOPS", ["routine", "N", "paper", *SHOWN], speeds, 2),
    ]
    if not results.quick:
        made.append(_copying(results))
    return made


def _printed_speed(routine: str, n: int) -> str:
    if routine != "DGEMM":
        return "-"
    if n == PAPERS_SIZE:
        return f"about {report_papers.XKBLAS_AT_24000:g}"
    return f"{report_papers.XKBLAS_BEST:g} at most" if n == SIZES[-1] else "-"


def _copying(results: Results) -> Table:
    """Fig. 6: copies among copies and kernels of DGEMM."""
    rows = [["Chameleon Tile", percent(report_papers.CHAMELEON_COPYING), "-"]]
    for variant in SHOWN:
        printed = report_papers.XKBLAS_COPYING if variant in (BOTH_ON, PRESET) else None
        share = best(results, "DGEMM", TRACED_SIZE, variant)["copying_share"]
        rows.append([variant, percent(printed), percent(share)])
    note = "A copy that shares a bus counts with all of its time."
    title = f"Fig. 6: copies among all seconds of copies and kernels, DGEMM {TRACED_SIZE}"
    return Table(title, ["", "paper", "ours"], rows, notes=[note])


def heuristics_figures(results: Results) -> list[Html]:
    made = []
    sizes = _sizes(results.quick, AS_SHIPPED)
    for routine in PROBLEMS:
        series = []
        for i, variant in enumerate((BOTH_ON, NO_FORWARDING, NO_TOPOLOGY, PRESET, TUNED)):
            points = []
            for n in sizes:
                rate = best(results, routine, n, variant)["tflops"]
                points.append((n, rate, f"{variant}, {n}: {rate:.1f} TFLOPS"))
            series.append(Series(variant, points, f"s{i}"))
        values = [y for one in series for _, y, _ in one.points]
        svg = lines(
            f"Fig. 3, {routine}",
            f"TFLOPS of {routine}",
            size_axis("N", sizes, common.edge_text),
            linear_axis("TFLOPS", values),
            series,
        )
        made.append(figure(svg, "Operands on the host, best tile, simulated."))
    return made


# ---- Fig. 5 -------------------------------------------------------------------------------------

ROUTINES = ("gemm", "symm", "syr2k", "syrk", "trmm", "trsm")
FIG_5_SIZES = (8192, 16384, 24000, 32768, 40960, 49152)
COMPARED = (OURS, "xkblas", "cublasxt")


def _fig_5_sizes(quick: bool) -> tuple[int, ...]:
    return FIG_5_SIZES[:1] if quick else FIG_5_SIZES


def _policies(routine: str) -> tuple[str, ...]:
    return (*COMPARED, "blasx") if routine == "gemm" else COMPARED


def _level3(routine: str, n: int, policy: str) -> Run:
    text = problem_text(routine=routine, size=n, place="h")
    if routine == "gemm":
        text = gemm(n, n, n, "h,h,h")
    used = routine in ("gemm", "syr2k") and n == TRACED_SIZE
    return Run(text, MACHINE, POLICIES[policy], used=used)


def squares_runs(quick: bool) -> list[Run]:
    return [
        _level3(routine, n, policy)
        for routine in ROUTINES
        for n in _fig_5_sizes(quick)
        for policy in _policies(routine)
    ]


def _speed(results: Results, routine: str, n: int, policy: str) -> float | None:
    seconds = results.seconds(_level3(routine, n, policy))
    return common.tflops(routine, "d", n, n, n, seconds)


def squares_tables(results: Results) -> list[Table]:
    sizes = _fig_5_sizes(results.quick)
    rows = []
    for routine in ROUTINES:
        for n in sizes:
            speeds = {p: _speed(results, routine, n, p) for p in _policies(routine)}
            over = speeds["xkblas"] / speeds["cublasxt"]
            printed = _printed_speed("DGEMM" if routine == "gemm" else routine, n)
            rows.append(
                [
                    "d" + routine,
                    str(n),
                    printed,
                    *(number(speeds.get(p), 1) for p in (*COMPARED, "blasx")),
                    number(over),
                ]
            )
    head = ["routine", "N", "xkblas: paper", *COMPARED, "blasx", "xkblas over cublasxt"]
    note = (
        f"The paper prints DGEMM {report_papers.XKBLAS_OVER_CUBLASXT:g}x as fast as cuBLASXt at "
        "its best size."
    )
    groups = [
        (f"d{routine}, {policy}", [_level3(routine, TRACED_SIZE, policy)])
        for routine in ("gemm", "syr2k")
        for policy in _policies(routine)
    ]
    made = [Table("Fig. 5: TFLOPS, operands on the host", head, rows, 2, [note])]
    return made if results.quick else [*made, usage_table(results, groups)]


def squares_figures(results: Results) -> list[Html]:
    made = []
    sizes = _fig_5_sizes(results.quick)
    for routine in ROUTINES:
        series = []
        for policy in _policies(routine):
            points = []
            for n in sizes:
                rate = _speed(results, routine, n, policy)
                if rate:
                    points.append((n, rate, f"{policy}, {n}: {rate:.1f} TFLOPS"))
            series.append(Series(policy, points, STYLES[policy]))
        values = [y for one in series for _, y, _ in one.points]
        svg = lines(
            f"Fig. 5, d{routine}",
            f"TFLOPS of d{routine}",
            size_axis("N", sizes, common.edge_text),
            linear_axis("TFLOPS", values),
            series,
        )
        made.append(figure(svg, "8 V100, operands on the host, simulated."))
    return made


# ---- Fig. 8 -------------------------------------------------------------------------------------

COMPOSED_SIZES = (8192, 16384, 24576, 32768, 40960)
TRSM, GEMM = "dtrsm m={n} n={n} a=T@h c=X@h", "dgemm m={n} n={n} k={n} a=D@h b=X@h c=C@h"
BLOCK = 2048  # of the paper


def _composed_sizes(quick: bool) -> tuple[int, ...]:
    return COMPOSED_SIZES[:2] if quick else COMPOSED_SIZES


def _composed(n: int, block: int | None = None) -> Run:
    options = (("devices", "all"), *((("tile", block),) if block else ()))
    used = n == TRACED_SIZE and block is None
    return Run(f"{TRSM}\n{GEMM}".format(n=n), MACHINE, options, used=used)


def _one_by_one(n: int) -> list[Run]:
    options = (("devices", "all"),)
    return [
        Run(PROBLEMS["DTRSM"][0].format(n=n), MACHINE, options),
        Run(gemm(n, n, n, "h,h,h"), MACHINE, options),
    ]


def composition_runs(quick: bool) -> list[Run]:
    found = []
    for n in _composed_sizes(quick):
        found += [_composed(n), _composed(n, BLOCK), *_one_by_one(n)]
    return found


def composition_tables(results: Results) -> list[Table]:
    rows = []
    for n in _composed_sizes(results.quick):
        flops = 3 * n**3
        apart = sum(results.seconds(run) for run in _one_by_one(n))
        ours, blocks = results[_composed(n)], results.seconds(_composed(n, BLOCK))
        printed = n == TRACED_SIZE
        speeds = [
            number(report_papers.CHAMELEON_COMPOSED if printed else None, 1),
            number(report_papers.XKBLAS_COMPOSED if printed else None, 1),
            *(number(flops / s / 1e12, 1) for s in (blocks, ours["predicted_s"], apart)),
        ]
        rows.append([str(n), *speeds, percent(ours["bound_s"] / ours["predicted_s"])])
    head = ["N", "Chameleon Tile: paper", "xkblas: paper"]
    head += [f"as one plan, tiles of {BLOCK}", "as one plan", "one by one", "of the bound"]
    note = "The bound is of both calls: all arithmetic, and each matrix once to and from the host."
    return [Table("Fig. 8: TFLOPS of TRSM and GEMM on its result", head, rows, notes=[note])]


EXPERIMENTS = [
    Experiment(
        5,
        "heuristics",
        "Table II, Fig. 3 and 6: the two heuristics",
        heuristics_runs,
        heuristics_tables,
        heuristics_figures,
        (
            "The losses of DGEMM and DTRSM are smaller than printed: with both heuristics on the "
            "simulation is slower than XKBlas was (about 54 TFLOPS at 24000), so there is less to "
            "lose.",
            "The paper does not name XKBlas's criterion without the links: `both off` is the GPU "
            "with the lowest number, or the first in a shuffled order, or the one behind the "
            "slowest link, or no GPU.",
        ),
    ),
    Experiment(
        5,
        "squares",
        "Fig. 5: six routines on a DGX-1",
        squares_runs,
        squares_tables,
        squares_figures,
        (
            "The rates of kernels in the machine file were set so that the paper's best results "
            "are possible; so the agreement at the largest sizes proves nothing.",
            "cuBLAS-MG, PaRSEC, Slate and Chameleon have no preset: their printed numbers (DGEMM "
            "1.13x and 2.52x over the first two) stand alone.",
        ),
    ),
    Experiment(
        5,
        "composition",
        "Fig. 8: TRSM and GEMM on its result",
        composition_runs,
        composition_tables,
        no_figures,
        (
            "XKBlas's runs end when both results are on the host, as ours do; the paper does not "
            "say whether its times contain that.",
            "Chameleon has no preset, and waits between the calls; calls one by one are planned "
            "well here, and no model of it.",
        ),
    ),
]

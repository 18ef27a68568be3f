# SPDX-License-Identifier: BSD-3-Clause
"""Paper 1 (Uncut-GEMMs) on `karolina`: Fig. 8 to 12."""

from __future__ import annotations

import functools

from .. import Context
from . import common, datasets, report_papers
from .report_figures import Axis, Bar, Series, bars, boxes, linear_axis, lines, log_axis, size_axis
from .report_page import Html, figure
from .report_rows import Summary
from .reproduce_runs import PLAIN, Results, Run, gemm
from .reproduce_tables import (
    OURS,
    POLICIES,
    STYLES,
    Experiment,
    Table,
    mean_ratio,
    number,
    usage_table,
)

MACHINE = "karolina"
PEERS = ("cublasxt", "xkblas", "paralia")  # in the order of report_papers.PEERS
COMPARED = (OURS, "uncut", *PEERS)
PLACES = datasets.HOST_AND_DEVICE
QUICK_SQUARES = (5 * 1024, 16 * 1024)
USED_SQUARES = (8 * 1024, 16 * 1024, 32 * 1024)


def _squares(quick: bool) -> tuple[int, ...]:
    return QUICK_SQUARES if quick else datasets.SQUARES


# ---- Fig. 8 -------------------------------------------------------------------------------------

VARIANTS = (
    "",
    "half the latency",
    "twice the latency",
    "small tiles at full rate",
    "issuing free",
    "host 96 GB/s each way",
)
AS_NUMBERS = {"almost 2x": 2.0, "no effect": 1.0}


def _printed_factors(place: str) -> list[float]:
    """The printed gains of the bars after the first."""
    printed = [report_papers.ABLATION[place][bar] for bar, _ in datasets.BARS[1:]]
    return [AS_NUMBERS.get(text) or float(text.removesuffix("x")) for text in printed]


def _bar(n: int, place: str, rules: str, change: str) -> Run:
    """A bar of one size; all bars have one tile, as in the paper."""
    return Run(
        gemm(n, n, n, place),
        MACHINE,
        (("devices", "all"), ("rules", rules), ("tile", tile_of(n))),
        change,
        used=not change and n in USED_SQUARES,
    )


@functools.cache
def tile_of(n: int) -> int:
    """The tile that the preset `uncut` takes on all GPUs."""
    with Context(**{**PLAIN, "machine": MACHINE, **dict(POLICIES["uncut"])}) as context:
        return context.plan(gemm(n, n, n, "h,h,h"))["tile"]


def _variants(quick: bool) -> tuple[str, ...]:
    return VARIANTS[:2] if quick else VARIANTS


def ablation_runs(quick: bool) -> list[Run]:
    return [
        _bar(n, place, rules, change)
        for change in _variants(quick)
        for place in PLACES
        for _, rules in datasets.BARS
        for n in _squares(quick)
    ]


def _factors(results: Results, place: str, change: str) -> list[float]:
    columns = [
        [_bar(n, place, rules, change) for n in _squares(results.quick)]
        for _, rules in datasets.BARS
    ]
    return [mean_ratio(results, before, after) for before, after in zip(columns, columns[1:])]


def ablation_tables(results: Results) -> list[Table]:
    rows = []
    of = {
        (place, change): _factors(results, place, change)
        for place in PLACES
        for change in _variants(results.quick)
    }
    for i, (bar, _) in enumerate(datasets.BARS[1:]):
        row = [bar]
        for place in PLACES:
            found = [of[place, change][i] for change in _variants(results.quick)]
            printed = report_papers.ABLATION[place][bar]
            row += [printed, number(of[place, ""][i]), f"{min(found):.2f}-{max(found):.2f}"]
        rows.append(row)
    head = ["each bar over the one before"]
    for place in PLACES:
        head += [f"{place}: paper", "ours", "range"]
    squares = [n for n in _squares(results.quick) if n in USED_SQUARES]
    groups = [
        (f"{bar}, {place}", [_bar(n, place, rules, "") for n in squares])
        for place in PLACES
        for bar, rules in datasets.BARS
    ]
    range_of = "The range covers what the machine file assumes: " + ", ".join(
        filter(None, _variants(results.quick))
    )
    return [
        Table("Fig. 8: rules one after another, FP64", head, rows, notes=[range_of + "."]),
        usage_table(results, groups),
    ]


def ablation_figures(results: Results) -> list[Html]:
    made = []
    for place in PLACES:
        factors = _factors(results, place, "")
        all_printed = _printed_factors(place)
        values = [*factors, *all_printed]
        drawn = []
        for (bar, _), ours, printed in zip(datasets.BARS[1:], factors, all_printed):
            drawn += [
                Bar(f"{bar}, paper", printed, f"{printed:g}x", "s7"),
                Bar(f"{bar}, ours", ours, f"{ours:.2f}x", "s0"),
            ]
        svg = bars(
            f"Fig. 8, {place}", "Gain of each bar", linear_axis("x", values), drawn, mark=1.0
        )
        made.append(figure(svg, "Each bar over the one before it, FP64, 8 GPUs, simulated."))
    return made


# ---- Fig. 9, 10 and 12 --------------------------------------------------------------------------


def _policy_run(case: tuple[int, int, int, str], policy: str, kind: str = "d") -> Run:
    m, n, k, place = case
    used = kind == "d" and m == n == k and m in USED_SQUARES and place in PLACES
    return Run(gemm(m, n, k, place, kind), MACHINE, POLICIES[policy], used=used)


def _square_cases(quick: bool, place: str) -> list[tuple[int, int, int, str]]:
    return [(n, n, n, place) for n in _squares(quick)]


def regular_runs(quick: bool) -> list[Run]:
    return [
        _policy_run(case, policy, kind)
        for kind in "ds"
        for place in PLACES
        for policy in COMPARED
        for case in _square_cases(quick, place)
    ]


def _ratio_row(results: Results, cases: list, kind: str, printed: tuple | None) -> list[str]:
    runs = {policy: [_policy_run(case, policy, kind) for case in cases] for policy in COMPARED}
    row = []
    for i, peer in enumerate(PEERS):
        row += [
            number(printed[i]) if printed else "-",
            number(mean_ratio(results, runs[peer], runs["uncut"])),
            number(mean_ratio(results, runs[peer], runs[OURS])),
        ]
    return [*row, number(mean_ratio(results, runs["uncut"], runs[OURS]))]


def _ratio_head(first: list[str]) -> list[str]:
    head = list(first)
    for peer in PEERS:
        head += [f"over {peer}: paper", "uncut", OURS]
    return [*head, f"{OURS} over uncut"]


def regular_tables(results: Results) -> list[Table]:
    rows = [
        [
            {"d": "FP64", "s": "FP32"}[kind],
            place,
            *_ratio_row(
                results,
                _square_cases(results.quick, place),
                kind,
                report_papers.REGULAR[kind, place],
            ),
        ]
        for kind in "ds"
        for place in PLACES
    ]
    groups = [
        (
            f"{policy}, {place}",
            [
                _policy_run((n, n, n, place), policy)
                for n in _squares(results.quick)
                if n in USED_SQUARES
            ],
        )
        for place in PLACES
        for policy in COMPARED
    ]
    title = "Fig. 9 and 10: geometric means of speedups, squares of 5K to 32K"
    return [Table(title, _ratio_head(["type", "place"]), rows, 2), usage_table(results, groups)]


def regular_figures(results: Results) -> list[Html]:
    made = []
    for kind, number_of in (("d", 9), ("s", 10)):
        for place in PLACES:
            series = []
            for policy in COMPARED:
                points = []
                for case in _square_cases(results.quick, place):
                    seconds = results.seconds(_policy_run(case, policy, kind))
                    if seconds:
                        rate = 2 * case[0] ** 3 / seconds / 1e12
                        points.append((case[0], rate, f"{policy}, {case[0]}: {rate:.1f} TFLOPS"))
                series.append(Series(policy, points, STYLES[policy]))
            values = [y for one in series for _, y, _ in one.points]
            svg = lines(
                f"Fig. {number_of}, {place}",
                f"TFLOPS by size, {place}",
                size_axis("M = N = K", _squares(results.quick), common.edge_text),
                linear_axis("TFLOPS", values),
                series,
            )
            made.append(figure(svg, f"{'FP64' if kind == 'd' else 'FP32'}, 8 A100, simulated."))
    return made


def _irregular(quick: bool) -> dict[str, list[tuple[int, int, int, str]]]:
    cases: dict[str, list] = {"square": [], "fat-thin": [], "thin-fat": []}
    for case, place in datasets.cases_of("irregular", datasets.GPUS_OF_PAPERS):
        cases[case.shape].append((case.m, case.n, case.k, place))
    return {shape: found[:: len(found) // 4] if quick else found for shape, found in cases.items()}


def irregular_runs(quick: bool) -> list[Run]:
    return [
        _policy_run(case, policy)
        for cases in _irregular(quick).values()
        for policy in COMPARED
        for case in cases
    ]


def irregular_tables(results: Results) -> list[Table]:
    shapes = _irregular(results.quick)
    whole = [case for cases in shapes.values() for case in cases]
    rows = [
        [shape or "all", str(len(cases)), *_ratio_row(results, cases, "d", printed)]
        for shape, printed in report_papers.IRREGULAR.items()
        for cases in [shapes[shape] if shape else whole]
    ]
    title = "Fig. 12: geometric means of speedups, FP64"
    return [Table(title, _ratio_head(["shape", "problems"]), rows)]


def irregular_figures(results: Results) -> list[Html]:
    made = []
    for shape, cases in _irregular(results.quick).items():
        items, most = [], 1.0
        for policy in COMPARED:
            rates, tips = [], []
            for case in cases:
                seconds = results.seconds(_policy_run(case, policy))
                if seconds:
                    m, n, k, place = case
                    rates.append(2 * m * n * k / seconds / 1e12)
                    tips.append(f"{m} x {n} x {k}, {place}: {rates[-1]:.1f}")
            if rates:
                items.append((policy, Summary(rates), tips))
                most = max(most, *rates)
        svg = boxes(f"Fig. 12, {shape}", "TFLOPS", linear_axis("TFLOPS", [most]), items)
        made.append(figure(svg, "FP64, five placements, simulated. Diamonds: geometric means."))
    return made


# ---- Fig. 11 ------------------------------------------------------------------------------------

SCALED = (1, 2, 4, 8)
PRINTED_NAMES = {
    "uncut": report_papers.GEMMS,
    "cublasxt": "cublasxt",
    "xkblas": "XKBLAS",
    "paralia": "PARALiA",
}


def _scaling_sizes(quick: bool) -> tuple[int, ...]:
    return datasets.SCALING_SIZES[:1] if quick else datasets.SCALING_SIZES


def _on(n: int, place: str, devices: int, policy: str) -> Run:
    # 1 -> [0], 2 -> [0, 2], 4 -> [0, 2, 4, 6]: no two share their PCIe.
    ids = range(8) if devices == 8 else range(0, 2 * devices, 2)
    words = dict(POLICIES[policy]) | {"devices": ",".join(map(str, ids)) + ("," * (devices == 1))}
    return Run(gemm(n, n, n, place), MACHINE, tuple(words.items()))


def scaling_runs(quick: bool) -> list[Run]:
    return [
        _on(n, place, devices, policy)
        for place in PLACES
        for n in _scaling_sizes(quick)
        for policy in COMPARED
        for devices in SCALED
    ]


def _speedups(results: Results, n: int, place: str, policy: str) -> list[float | None]:
    times = [results.seconds(_on(n, place, devices, policy)) for devices in SCALED]
    return [times[0] / t if times[0] and t else None for t in times[1:]]


def scaling_tables(results: Results) -> list[Table]:
    rows = []
    for place in PLACES:
        for n in _scaling_sizes(results.quick):
            for policy in COMPARED:
                printed = report_papers.SCALING[place][n].get(PRINTED_NAMES.get(policy, ""))
                ours = _speedups(results, n, place, policy)
                row = [place, common.edge_text(n), policy]
                for i in range(len(ours)):
                    row += [number(printed[i]) if printed else "-", number(ours[i])]
                rows.append(row)
    head = ["place", "N", "policy"]
    for devices in SCALED[1:]:
        head += [f"{devices} GPUs: paper", "simulated"]
    return [Table("Fig. 11: times as fast as one GPU, FP64", head, rows, 3)]


def scaling_figures(results: Results) -> list[Html]:
    made = []
    for place in PLACES:
        series = []
        for n in _scaling_sizes(results.quick):
            style = f"s{_scaling_sizes(results.quick).index(n)}"
            printed = report_papers.SCALING[place][n][report_papers.GEMMS]
            ours = _speedups(results, n, place, "uncut")
            for name, values, dash in (("paper", printed, "dashed"), ("uncut", ours, "")):
                points = [(d, v, f"{d} GPUs: {v:.2f}") for d, v in zip(SCALED[1:], values) if v]
                label = f"{common.edge_text(n)}, {name}"
                series.append(Series(label, [(1, 1, "1"), *points], style, dash))
        axis = Axis("GPUs", 0.9, 9, [(d, str(d)) for d in SCALED], logarithmic=True)
        svg = lines(f"Fig. 11, {place}", "Speedup by GPUs", axis, log_axis("x", [1, 8]), series)
        made.append(figure(svg, "Times as fast as one GPU; dashed: as printed."))
    return made


# ---- all ----------------------------------------------------------------------------------------

NOT_OTHERS = (
    "The other libraries are presets: what the papers tell of their policies, on our simulator. "
    "Their host threads, locks and allocations are not simulated, and of their tiles the best of "
    "1024, 2048 and 4096 is taken for each problem; so most come out faster here than measured."
)

EXPERIMENTS = [
    Experiment(
        1,
        "ablation",
        "Fig. 8: what each rule is worth",
        ablation_runs,
        ablation_tables,
        ablation_figures,
        (
            "Caching and overlap at 0,0,0: the naive bar here fetches A and B from home for every "
            "tile product, with one queue per device; the paper prints no volume for its own.",
            "Bandwidth routing, then ETA routing and batching: the product of the two agrees, the "
            "split does not. In the bandwidth bar here copies that are under way count as sources, "
            "so fetches queue behind one holder, which ETA routing then cures. At 0,0,0 all links "
            "are equal.",
            "Lazy C and ETA order at 0,0,0: the simulated kernels of other tiles fill the wait for "
            "C.",
        ),
    ),
    Experiment(
        1,
        "regular",
        "Fig. 9 and 10: squares beside other libraries",
        regular_runs,
        regular_tables,
        regular_figures,
        (
            NOT_OTHERS,
            "paralia at h,h,h loses more here than printed: its sub-kernels run in their order, k "
            "innermost, so the first tile of C waits for a whole row of A and column of B.",
            "cublasxt at 0,0,0: its copies pass through the host, as the paper assumes (IV-D). In "
            "FP32 they are half as many bytes, but the paper prints as large a factor as in FP64.",
        ),
    ),
    Experiment(
        1,
        "scaling",
        "Fig. 11: 1, 2, 4 and 8 GPUs",
        scaling_runs,
        scaling_tables,
        scaling_figures,
        (
            "Printed speedups beyond the number of GPUs mean single GPUs below their share of the "
            "time, which the simulation does not have.",
            NOT_OTHERS,
        ),
    ),
    Experiment(
        1,
        "irregular",
        "Fig. 12: three shapes, five placements",
        irregular_runs,
        irregular_tables,
        irregular_figures,
        (NOT_OTHERS,),
    ),
]

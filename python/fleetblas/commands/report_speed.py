# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a report on speed: rates by size, ratios over other libraries, first calls, energy.

Every function draws what the rows allow, and ignores rows that failed.
"""

from __future__ import annotations

from . import common, report_papers
from .report_figures import Bar, Series, bars, linear_axis, lines, size_axis
from .report_page import (
    Html,
    Section,
    as_printed,
    counted,
    factor,
    figure,
    figures,
    heading,
    paragraph,
    share,
    table,
)
from .report_rows import OURS, PLAIN, Row, Setup, engines, geometric_mean, grouped, pairs, ratios

ENGINE_NAMES = {
    OURS: "FleetBLAS",
    "cublasxt": "cuBLASXt",
    "cublas": "cuBLAS",
    "nvblas": "NVBLAS",
    "hostblas": "CPU BLAS",
}
BY_SIZE = ("regular", PLAIN, "small", "level3")  # data sets drawn as lines over sizes
OTHERS = ("s5", "s6", "s7")  # styles of other engines


def engine_name(name: str) -> str:
    return ENGINE_NAMES.get(name, name)


def engine_style(name: str) -> str:
    known = list(ENGINE_NAMES)
    return f"s{known.index(name)}" if name in known else OTHERS[sum(name.encode()) % len(OTHERS)]


def engine_label(row: Row) -> str:
    """The engine, with the places of its operands and its GPUs if they differ from the
    problem's."""
    aside = []
    if row.engine != OURS and row.number("devices") == 1:
        aside.append("1 GPU")
    if row.text("place") not in (None, row.place):
        aside.append(row.text("place"))
    return engine_name(row.engine) + (f" ({', '.join(aside)})" if aside else "")


def tip(row: Row) -> str:
    """The tooltip of a point."""
    words = [f"{engine_name(row.engine)}, {row.case_text} at {row.place_text}"]
    words.append(f"{common.duration(row.median_s)}, {common.rate_text(row.rate())}")
    if row.fraction is not None:
        words.append(f"{share(row.fraction)} of the bound")
    if row.text("limited_by"):
        words.append(f"limited by {row.text('limited_by')}")
    return "; ".join(words)


def failures_text(rows: list[Row]) -> str:
    failed = sum(row.failed for row in rows)
    return f" {counted(failed, 'row')} failed and {'is' if failed == 1 else 'are'} not drawn." * (
        failed > 0
    )


def rate_axis(rates: list[float]):
    """TFLOPS, or GFLOPS if all rates are below one TFLOPS; with the factor for the values."""
    if max(rates) >= 1:
        return linear_axis("TFLOPS", rates), 1.0
    return linear_axis("GFLOPS", [1e3 * rate for rate in rates]), 1e3


# ---- rates over sizes ---------------------------------------------------------------------------


def _over_sizes(setup: Setup, rows: list[Row]) -> Html | None:
    """Squares of one type at one place; None if there is nothing to draw."""
    timed = [row for row in rows if row.edge is not None and row.rate() is not None]
    if not timed:
        return None
    sizes = sorted({row.edge for row in timed})
    ours = [row for row in timed if row.engine == OURS]
    bounds = {row.edge: row for row in timed if row.rate("bound_s") is not None}
    bounds.update({row.edge: row for row in ours if row.rate("bound_s") is not None})
    predicted = [row for row in ours if row.misprediction is not None]
    rates = [row.rate() for row in timed] + [row.rate("bound_s") for row in bounds.values()]
    y, scale = rate_axis(rates + [row.rate("predicted_s") for row in predicted])
    title = f"{timed[0].kind} at {timed[0].place_text}"
    caption = (
        f"{setup.origin}: {title}, {counted(len(sizes), 'size')}, medians."
        + " Black: the bound, which links and arithmetic allow." * bool(bounds)
        + " Dashed: as predicted by the simulator." * bool(predicted)
        + failures_text(rows)
    )
    if len(sizes) == 1:
        made = [
            Bar(engine_label(row), scale * row.rate(), common.rate_text(row.rate()), tip=tip(row),
                style=engine_style(row.engine))
            for row in sorted(timed, key=lambda row: row.engine != OURS)
        ]  # fmt: skip
        mark = scale * bounds[sizes[0]].rate("bound_s") if bounds else None
        title += f", N = {common.edge_text(int(sizes[0]))}"
        return figure(bars(title, f"{title}: rate of each engine", y, made, mark), caption)
    series = []
    for engine in engines(timed):
        mine = [row for row in timed if row.engine == engine]
        points = [(row.edge, scale * row.rate(), tip(row)) for row in mine]
        series.append(Series(engine_label(mine[0]), points, engine_style(engine)))
    limit = [(edge, scale * row.rate("bound_s"), "") for edge, row in bounds.items()]
    series.append(Series("bound", limit, "ink", marked=False))
    guess = [(row.edge, scale * row.rate("predicted_s"), "") for row in predicted]
    series.append(Series("predicted", guess, "s0", "dashed", marked=False))
    x = size_axis("N", sizes, common.edge_text)
    label = f"{title}: {y.name} over N, a line per engine and the bound"
    return figure(lines(title, label, x, y, series), caption)


def over_sizes(setup: Setup, rows: list[Row]) -> list[Html]:
    """A figure per type and place."""
    groups = grouped(rows, lambda row: (row.kind, row.place_text)).values()
    return [made for made in (_over_sizes(setup, group) for group in groups) if made]


def fractions_by_size(rows: list[Row]) -> list[Html]:
    """Time and fraction of the bound of squares: a line per size, a column per type and place."""
    known = [row for row in rows if row.edge is not None and row.fraction is not None]
    columns = list(dict.fromkeys((row.kind, row.place_text) for row in known))
    if not known:
        return []
    lines_ = []
    for edge, some in sorted(grouped(known, lambda row: row.edge).items()):
        at = {(row.kind, row.place_text): row for row in some}
        cells = [
            f"{share(at[one].fraction, 1)} ({common.duration(at[one].median_s)})"
            if one in at
            else "-"
            for one in columns
        ]
        lines_.append([common.edge_text(int(edge)), *cells])
    head = ["N", *(f"{kind} at {place}" for kind, place in columns)]
    return [heading("Fraction of the bound by size, and the time"), table(head, lines_)]


# ---- ratios -------------------------------------------------------------------------------------


def _ratio_row(rows: list[Row], words: list[str], peer: str, printed) -> list | None:
    values = ratios(rows, peer)
    if not values and printed is None:
        return None
    numbers = ["-"] * 4
    if values:
        extremes = [factor(min(values)), factor(max(values))]
        numbers = [str(len(values)), factor(geometric_mean(values)), *extremes]
    return [*words, engine_name(peer), *numbers, as_printed(printed)]


def ratio_table(groups: dict, printed_of, names: list[str], every: bool = True) -> Html | None:
    """FleetBLAS over each peer. `groups` has rows by a tuple of texts, one per name; `printed_of`
    maps a key to the ratios of paper 1 over its PEERS, or None. `every`: also peers without rows.
    """
    lines_ = []
    for key, rows in groups.items():
        printed = dict(zip(report_papers.PEERS, printed_of(key) or ()))
        found = [name for name in engines(rows) if name != OURS]
        for peer in dict.fromkeys([*found, *(printed if every else ())]):
            line = _ratio_row(rows, list(key), peer, printed.get(peer))
            if line is not None:
                lines_.append(line)
    if not lines_:
        return None
    head = [*names, "over", "cases", "FleetBLAS is faster by", "least", "most", "paper 1 prints"]
    return table(head, lines_, left=len(names) + 1)


PAPER_1_NOTE = (
    f"Geometric means over the cases that both have. Paper 1 ({report_papers.GEMMS}, printed, on "
    f"{report_papers.GEMMS_WHERE}) is its own implementation over the same library there"
)


def square_ratios(rows: list[Row], every: bool) -> list[Html]:
    squares = [row for row in rows if row.edge is not None]
    types = {row.kind: row.type for row in squares if row.routine == "gemm"}
    made = ratio_table(
        grouped(squares, lambda row: (row.kind, row.named_place)),
        lambda key: report_papers.REGULAR.get((types.get(key[0]), key[1])),
        ["type", "place"],
        every,
    )
    if made is None:
        return []
    note = PAPER_1_NOTE + ", over its 19 squares from 5120 to 32768."
    return [heading("FleetBLAS over other libraries"), made, paragraph(note, soft=True)]


# ---- balance ------------------------------------------------------------------------------------


def balances(rows: list[Row]) -> list[Html]:
    """The balance of the devices, for rows that have it."""
    known = [row for row in rows if row.number("balance") is not None and not row.failed]
    lines_ = []
    for (kind, place), group in grouped(known, lambda row: (row.kind, row.place_text)).items():
        worst = max(group, key=lambda row: row.number("balance"))
        mean = sum(row.number("balance") for row in group) / len(group)
        words = [kind, place, str(len(group)), share(mean, 1), share(worst.number("balance"), 1)]
        lines_.append([*words, worst.edges_text])
    if not lines_:
        return []
    head = ["type", "place", "cases", "mean", "most", "its case"]
    note = "(Most - least) / mean of the seconds in which each device computed; 0 is even."
    return [
        heading("Balance of the devices"),
        table(head, lines_, left=2),
        paragraph(note, soft=True),
    ]


# ---- first calls --------------------------------------------------------------------------------


def first_calls(rows: list[Row]) -> list[Html]:
    """The time of the first call of a problem relative to later calls."""
    lines_ = []
    ours = [row for row in rows if row.engine == OURS and row.median_s and row.positive("first_s")]
    for (kind, place), group in grouped(ours, lambda row: (row.kind, row.place_text)).items():
        values = {row.positive("first_s") / row.median_s: row for row in group}
        worst = values[max(values)]
        words = f"{worst.edges_text}: {common.duration(worst.positive('first_s'))}, then "
        words += common.duration(worst.median_s)
        mean = factor(geometric_mean([row.positive("first_s") / row.median_s for row in group]))
        lines_.append([kind, place, str(len(group)), mean, factor(max(values)), words])
    if not lines_:
        return []
    head = ["type", "place", "cases", "first call over the median", "worst", "its case"]
    return [heading("First calls of FleetBLAS"), table(head, lines_, left=2)]


# ---- energy -------------------------------------------------------------------------------------


def _energy_figure(setup: Setup, rows: list[Row]) -> Html | None:
    squares = [row for row in rows if row.edge is not None]
    sizes = {row.edge for row in squares}
    if len(sizes) < 2:
        return None
    series = []
    for engine in engines(squares):
        mine = [row for row in squares if row.engine == engine]
        points = [
            (row.edge, row.gflops_per_watt, f"{tip(row)}; {row.gflops_per_watt:.3g} GFLOPS/W")
            for row in mine
        ]
        series.append(Series(engine_label(mine[0]), points, engine_style(engine)))
    y = linear_axis("GFLOPS per watt", [row.gflops_per_watt for row in squares])
    title = f"Energy: {rows[0].kind} at {rows[0].place_text}"
    svg = lines(title, f"{title}: GFLOPS per watt over N", size_axis("N", sizes, common.edge_text),
                y, series)  # fmt: skip
    caption = f"{setup.origin}: {counted(len(sizes), 'size')}; joules of a call by the counters"
    return figure(svg, f"{caption} of the GPUs that an engine has, idle ones too.")


def energy(setups: list[Setup]) -> Section | None:
    """GFLOPS per watt by engine, for rows with measured joules."""
    parts = []
    for setup in setups:
        rows = [row for row in setup.rows if row.gflops_per_watt and not row.text("bar")]
        drawn, lines_ = [], []
        groups = grouped(rows, lambda row: (row.dataset, row.kind, row.place_text))
        for (dataset, kind, place), group in groups.items():
            if dataset in BY_SIZE:
                drawn.append(_energy_figure(setup, group))
            for engine in engines(group):
                mine = [row for row in group if row.engine == engine]
                both = [
                    b.positive("joules") / a.positive("joules") for a, b in pairs(group, engine)
                ]
                mean = geometric_mean([row.gflops_per_watt for row in mine])
                over = "" if engine == OURS else factor(geometric_mean(both))
                words = [dataset, kind, place, engine_name(engine)]
                lines_.append([*words, str(len(mine)), f"{mean:.3g}", over])
        if lines_:
            head = ["data set", "type", "place", "engine", "cases", "GFLOPS per watt"]
            drawn = [one for one in drawn if one]
            made = table([*head, "FleetBLAS needs less by"], lines_, left=4)
            parts += [heading(setup.origin), figures(drawn), made]
    if not parts:
        return None
    note = "Geometric means; the last column over the cases that both have."
    return Section("Energy", [*parts, paragraph(note, soft=True)])

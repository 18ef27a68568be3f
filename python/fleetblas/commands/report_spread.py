# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a report on uniformity: the fraction of the bound by shape and place, the worst cases,
strong scaling, and predictions against measurements.
"""

from __future__ import annotations

import math

from . import common, report_papers
from .report_figures import (
    Axis,
    Series,
    boxes,
    count_axis,
    linear_axis,
    lines,
    log_axis,
    nice_step,
    tick_text,
)
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
    signed_share,
    table,
)
from .report_rows import OURS, Row, Setup, Summary, engines, geometric_mean, grouped, quantile
from .report_speed import (
    PAPER_1_NOTE,
    engine_name,
    engine_style,
    failures_text,
    ratio_table,
    tip,
)

WORST = 12
LITTLE = 0.6  # cases below this share of the bound are counted
CLOSE = 0.1  # a prediction within this share is called close


def _shape(row: Row) -> str:
    is_square = row.edge is not None and len(row.sizes) > 1
    return row.text("shape") or ("square" if is_square else "-")


# ---- fractions of the bound ---------------------------------------------------------------------


def fraction_boxes(setup: Setup, rows: list[Row]) -> list[Html]:
    """A figure per type and shape, a box per place."""
    drawn = []
    for (kind, shape), group in grouped(rows, lambda r: (r.kind, _shape(r))).items():
        known = [row for row in group if row.fraction is not None]
        if not known:
            continue
        items = []
        for place, mine in grouped(known, lambda row: row.place_text).items():
            items.append((place, Summary([row.fraction for row in mine]), [tip(r) for r in mine]))
        title = f"{kind}, {shape}"
        most = max([1.0, *(row.fraction for row in known)])
        y = linear_axis("of the bound", [most], scale=100, unit=" %")
        caption = (
            f"{setup.origin}: {counted(len(known), 'case')} at {counted(len(items), 'place')}. "
            f"Box: quartiles and median; diamond: geometric mean.{failures_text(group)}"
        )
        label = f"{title}: fraction of the bound at each place"
        drawn.append(figure(boxes(title, label, y, items), caption))
    return drawn


def mean_fraction(rows: list[Row]) -> float | None:
    return geometric_mean([row.fraction for row in rows if row.fraction is not None])


def fraction_table(rows: list[Row]) -> list[Html]:
    """The boxes as numbers, with totals by shape and over everything."""
    known = [row for row in rows if row.fraction is not None]
    if not known:
        return []

    def line(words: list[str], mine: list[Row]) -> list[str]:
        of = Summary([row.fraction for row in mine])
        numbers = (of.mean, of.least, of.lower, of.median, of.upper, of.most)
        little = sum(value < LITTLE for value in of.values)
        return [*words, str(len(mine)), *(share(value, 1) for value in numbers), str(little)]

    lines_ = []
    for kind, of_kind in grouped(known, lambda row: row.kind).items():
        shapes = grouped(of_kind, _shape)
        for shape, mine in shapes.items():
            places = grouped(mine, lambda row: row.place_text)
            lines_ += [line([kind, shape, place], some) for place, some in places.items()]
            if len(places) > 1:
                lines_.append(line([kind, shape, "all places"], mine))
        if len(shapes) > 1:
            lines_.append(line([kind, "all shapes", "all places"], of_kind))
    head = ["type", "shape", "place", "cases", "geometric mean", "least", "1st quartile", "median"]
    head += ["3rd quartile", "most", f"below {share(LITTLE)}"]
    return [heading("Fraction of the bound"), table(head, lines_, left=3)]


def worst_cases(rows: list[Row]) -> list[Html]:
    known = sorted((row for row in rows if row.fraction is not None), key=lambda row: row.fraction)[
        :WORST
    ]
    if not known:
        return []
    lines_ = [
        [
            row.case_text,
            _shape(row),
            row.place_text,
            row.text("limited_by"),
            share(row.fraction, 1),
            common.duration(row.median_s),
            common.duration(row.positive("bound_s")),
            common.duration(row.positive("predicted_s")),
        ]
        for row in known
    ]
    head = ["case", "shape", "place", "limited by", "of the bound", "median", "bound", "predicted"]
    return [heading("Farthest from the bound"), table(head, lines_, left=4)]


def shape_ratios(rows: list[Row], dataset: str) -> list[Html]:
    """FleetBLAS over each peer by shape."""
    irregular = dataset == "irregular"
    groups = {}
    for kind, of_kind in grouped(rows, lambda row: row.kind).items():
        groups[(kind, "all shapes")] = of_kind
        groups.update({(kind, shape): mine for shape, mine in grouped(of_kind, _shape).items()})

    def printed(key):
        if not irregular or key[0] != "DGEMM":
            return None
        return report_papers.IRREGULAR.get(None if key[1] == "all shapes" else key[1])

    made = ratio_table(groups, printed, ["type", "shape"])
    if made is None:
        return []
    note = PAPER_1_NOTE + (", over its 305 cases." if irregular else ".")
    return [heading("FleetBLAS over other libraries"), made, paragraph(note, soft=True)]


def mean_rates(rows: list[Row]) -> list[Html]:
    """mean(flops) / mean(seconds) over halves of the cases by size, as in paper 2."""

    def text(some: list[Row]) -> str:
        seconds = math.fsum(row.median_s for row in some)
        return f"{math.fsum(r.flops for r in some) / seconds / 1e9:.0f}" if seconds else "-"

    lines_ = []
    timed = [row for row in rows if row.median_s is not None and row.flops is not None]
    doubles = [row for row in timed if row.kind == "DGEMM"]
    for engine in engines(doubles):
        mine = sorted((row for row in doubles if row.engine == engine), key=lambda row: row.flops)
        half = len(mine) // 2
        joules = [row.positive("joules") for row in mine]
        watt = "-"
        if all(joules):
            watt = f"{math.fsum(row.flops for row in mine) / math.fsum(joules) / 1e9:.2f}"
        parts = [text(mine[:half]), text(mine[half:]), text(mine)]
        lines_.append([engine_name(engine), "here", str(len(mine)), *parts, watt])
    if not lines_:
        return []
    where = f"printed, {report_papers.PARALIA_WHERE}"
    for name, numbers in report_papers.PARALIA_RATES.items():
        lines_.append([name, where, "630", *(f"{n:.0f}" for n in numbers[:3]), f"{numbers[3]:.2f}"])
    head = ["", "", "cases", "GFLOPS, small half", "large half", "all", "GFLOPS per watt, all"]
    note = "Mean flops over mean seconds, and over mean joules, as paper 2 (Table 4) has it; its "
    note += "watts are a model's."
    return [heading("Mean rates"), table(head, lines_, left=2), paragraph(note, soft=True)]


# ---- scaling ------------------------------------------------------------------------------------


def _scaling_of(setup: Setup, rows: list[Row], lines_: list) -> Html | None:
    """One problem on several numbers of devices."""
    timed = [row for row in rows if row.median_s is not None and row.devices is not None]
    ours = {row.devices: row for row in timed if row.engine == OURS}
    if len(ours) < 2:
        return None
    base = min(ours)
    one = ours[base]
    bound = {
        devices: one.positive("bound_s") / row.positive("bound_s")
        for devices, row in ours.items()
        if one.positive("bound_s") and row.positive("bound_s")
    }
    series = []
    for engine in engines(timed):
        mine = {row.devices: row for row in timed if row.engine == engine}
        if base in mine:
            ratio = {d: mine[base].median_s / row.median_s for d, row in mine.items()}
            points = [(d, value, f"{factor(value)}; {tip(mine[d])}") for d, value in ratio.items()]
            series.append(Series(engine_name(engine), points, engine_style(engine)))
            for devices, row in sorted(mine.items()):
                limit = bound.get(devices) if engine == OURS else None
                who = report_papers.GEMMS if engine == OURS else engine
                printed = None
                if base == 1:
                    place = row.named_place
                    printed = report_papers.speedup(row.kind, place, row.edge, devices, who)
                reached = ratio[devices] / limit if limit else None
                words = [row.case_text, row.place_text, engine_name(engine), str(devices)]
                numbers = [
                    factor(ratio[devices]),
                    factor(limit),
                    share(reached),
                    as_printed(printed),
                ]
                lines_.append([*words, common.duration(row.median_s), *numbers])
    printed = {
        devices: report_papers.speedup(one.kind, one.named_place, one.edge, devices)
        for devices in ours
        if base == 1
    }
    drawn = [(devices, value, as_printed(value)) for devices, value in printed.items() if value]
    if drawn:
        drawn = [(1, 1.0, ""), *drawn]
    series.append(Series("paper 1", drawn, "s3", "dotted"))
    series.append(Series("bound", [(d, v, "") for d, v in bound.items()], "ink", marked=False))
    ideal = [(devices, devices / base, "") for devices in ours]
    series.append(Series("ideal", ideal, "s7", "dashed", marked=False))
    title = f"{one.case_text} at {one.place_text}"
    x = count_axis("devices", [row.devices for row in timed])
    y = linear_axis(f"times as fast as on {base}", [v for s in series for _, v, _ in s.points])
    caption = (
        f"{setup.origin}: {counted(len(ours), 'count')} of devices. Black: how the bound scales."
        + f" Dotted: printed in paper 1 for {report_papers.GEMMS_WHERE}." * bool(drawn)
        + failures_text(rows)
    )
    label = f"{title}: speed-up over devices"
    return figure(lines(title, label, x, y, series, width=400, height=280), caption)


def scaling(setups: list[Setup]) -> Section | None:
    parts = []
    for setup in setups:
        lines_: list = []
        rows = [row for row in setup.rows if row.dataset == "scaling"]
        problems = grouped(rows, lambda row: (row.kind, row.place_text, row.edges)).values()
        drawn = [made for made in (_scaling_of(setup, p, lines_) for p in problems) if made]
        if drawn:
            head = [
                "case",
                "place",
                "engine",
                "devices",
                "median",
                "speed-up",
                "of the bound itself",
            ]
            head += ["reached of it", "paper 1"]
            parts += [heading(setup.origin), figures(drawn), table(head, lines_, left=3)]
    return Section("Strong scaling", parts) if parts else None


# ---- predictions --------------------------------------------------------------------------------


def _round_duration(seconds: float) -> str:
    """10 ms, not 10.0 ms."""
    return common.duration(seconds).replace(".00 ", " ").replace(".0 ", " ")


def _error_axis(errors: list[float]) -> Axis:
    limit = max([1.2 * CLOSE, *map(abs, errors)])
    step = nice_step(200 * limit, 6) / 100
    count = math.ceil(limit / step - 1e-9)
    at = [i * step for i in range(-count, count + 1)]
    ticks = [(value, tick_text(100 * value + 0.0, 100 * step, " %")) for value in at]
    return Axis("predicted over measured, less 1", at[0], at[-1], ticks)


def predictions(setups: list[Setup]) -> Section | None:
    """The simulator's times against the measured ones."""
    parts = []
    for setup in setups:
        rows = [row for row in setup.rows if row.misprediction is not None and row.engine == OURS]
        if not rows:
            continue
        groups = grouped(rows, lambda row: row.dataset)
        series, lines_ = [], []
        times = [row.median_s for row in rows]
        x = log_axis("measured time", times, _round_duration)
        y = _error_axis([row.misprediction for row in rows])
        for i, (dataset, mine) in enumerate(groups.items()):
            points = [
                (row.median_s, row.misprediction, f"{tip(row)}; {signed_share(row.misprediction)}")
                for row in mine
            ]
            series.append(Series(dataset, points, f"s{i % 7}", joined=False))
        for value, name in ((0.0, "exact"), (CLOSE, "10 % off"), (-CLOSE, "")):
            ends = [(x.low, value, ""), (x.high, value, "")]
            series.append(Series(name, ends, "ink", "dotted" if value else "", marked=False))
        for (dataset, kind), mine in grouped(rows, lambda r: (r.dataset, r.kind)).items():
            errors = [abs(row.misprediction) for row in mine]
            middle = quantile([row.misprediction for row in mine], 0.5)
            close = sum(error <= CLOSE for error in errors)
            numbers = [share(quantile(errors, 0.5), 1), share(quantile(errors, 0.9), 1)]
            numbers += [share(max(errors), 1), signed_share(middle), f"{close} of {len(mine)}"]
            lines_.append([dataset, kind, str(len(mine)), *numbers])
        overall = quantile([abs(row.misprediction) for row in rows], 0.5)
        caption = (
            f"{setup.origin}: {counted(len(rows), 'case')}, median error {share(overall, 1)}. "
            "Above 0 the simulator is slower than the machine."
        )
        svg = lines("Predicted against measured", "Error of each prediction over the measured time",
                    x, y, series)  # fmt: skip
        head = ["data set", "type", "cases", "median error", "90 % are below", "largest"]
        head += ["median with its sign", f"within {share(CLOSE)}"]
        parts += [
            heading(setup.origin),
            figures([figure(svg, caption)]),
            table(head, lines_, left=2),
        ]
    return Section("Predicted against measured", parts) if parts else None

# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a report on the gain of each rule of the planner, as bars relative to each other."""

from __future__ import annotations

from . import report_papers
from .report_figures import Bar, bars, linear_axis
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
from .report_rows import OURS, Row, Setup, Source, geometric_mean, grouped
from .report_speed import failures_text, rate_axis

ALL = "all"
WITHOUT = "without "


def _cumulative(setup: Setup, by_bar: dict, title: str, place: str, failed: str) -> list[Html]:
    """The bars up to all rules, each with its factor over the previous bar, for the sizes that all
    bars have.
    """
    names = [name for name in by_bar if name != ALL and not name.startswith(WITHOUT)]
    names += [ALL] if ALL in by_bar and names else []
    cases = [{row.edges: row for row in by_bar[name]} for name in names]
    common_cases = [
        edges for edges in (cases[0] if cases else {}) if all(edges in c for c in cases)
    ]
    if not common_cases:
        return []
    means = [geometric_mean([c[edges].rate() for edges in common_cases]) for c in cases]
    axis, scale = rate_axis(means)
    printed = report_papers.ABLATION.get(place, {}) if title.startswith("DGEMM") else {}
    made, lines = [], []
    for i, name in enumerate(names):
        over = means[i] / means[i - 1] if i else None
        paper = printed.get(name)
        text = f"{scale * means[i]:.3g}" + (f", {factor(over)}" if i else "")
        text += f" (paper: {paper})" if i and paper else ""
        style = "s0" if name == ALL or i == len(names) - 1 else "s6"
        shown = "all rules" if name == ALL else name
        made.append(Bar(shown, scale * means[i], text, style, f"{shown}: {text} {axis.name}"))
        lines.append([shown, f"{scale * means[i]:.3g}", factor(over), paper])
    caption = (
        f"{setup.origin}: {title}, geometric means over {counted(len(common_cases), 'size')}; each "
        f"factor is against the bar above. In brackets: as paper 1 prints it for "
        f"{report_papers.GEMMS_WHERE}.{failed}"
    )
    label = f"{title}: rate with more and more rules"
    drawn = figure(bars(f"{title}: rules added one after another", label, axis, made), caption)
    return [drawn, table(["rules", axis.name, "factor", "paper 1"], lines)]


def _left_out(setup: Setup, by_bar: dict, title: str, failed: str) -> list[Html]:
    """Each rule left out alone, relative to all rules, for the sizes that both have."""
    whole = {row.edges: row for row in by_bar.get(ALL, [])}
    made, counts = [], set()
    for name, rows in by_bar.items():
        values = [whole[r.edges].median_s / r.median_s for r in rows if r.edges in whole]
        if not name.startswith(WITHOUT) or not values:
            continue
        mean = geometric_mean(values)
        spread = f"{share(min(values))} to {share(max(values))}"
        tip = f"{name}: {spread} of the speed with all rules, {counted(len(values), 'size')}"
        made.append(Bar(name, mean, f"{share(mean, 1)} ({spread})", "s6", tip))
        counts.add(len(values))
    if not made:
        return []
    sizes = counted(max(counts), "size")
    sizes = sizes if len(counts) == 1 else f"{min(counts)} to {sizes}"
    caption = (
        f"{setup.origin}: {title}, speed without one rule relative to that with all (dashed), "
        f"geometric means over {sizes}; in brackets the least and the most.{failed}"
    )
    axis = linear_axis("of the speed with all rules", [bar.value for bar in made] + [1.0],
                       scale=100, unit=" %")  # fmt: skip
    label = f"{title}: speed without one rule, relative to all rules"
    return [figure(bars(f"{title}: one rule left out", label, axis, made, 1.0), caption)]


def ablation(setups: list[Setup]) -> Section | None:
    parts = []
    for setup in setups:
        rows = [row for row in setup.rows if row.text("bar") and row.engine == OURS]
        drawn = []
        for (kind, place), group in grouped(rows, lambda r: (r.kind, r.place_text)).items():
            title, failed = f"{kind} at {place}", failures_text(group)
            timed: list[Row] = [row for row in group if row.rate() is not None]
            by_bar = grouped(timed, lambda row: row.text("bar"))
            named = group[0].named_place
            drawn += [
                *_cumulative(setup, by_bar, title, named, failed),
                *_left_out(setup, by_bar, title, failed),
            ]
        if drawn:
            parts += [heading(setup.origin), figures(drawn)]
    return Section("Ablation: what each rule is worth", parts) if parts else None


def factor_rows(sources: list[Source]) -> Section | None:
    """Files whose rows have `factors` of each bar of rules over the previous one, made by other
    tools."""
    parts = []
    for source in sources:
        names = source.header.get("bars")
        names = [str(name) for name in names[1:]] if isinstance(names, list) else []
        lines = []
        for row in source.rows:
            values = row.words.get("factors")
            if isinstance(values, list) and all(isinstance(v, (int, float)) for v in values):
                words = [row.text("variant") or "-", row.place, row.measured]
                printed = row.words.get("paper")
                printed = printed if isinstance(printed, list) else []
                cells = []
                for i in range(len(names)):
                    ours = values[i] if i < len(values) else None
                    theirs = printed[i] if i < len(printed) else None
                    known = isinstance(theirs, (int, float))
                    cells.append(
                        factor(ours) + (f" (paper: {as_printed(theirs)})" if known else "")
                    )
                lines.append([*words, *cells])
        if lines and names:
            parts += [
                heading(source.name),
                table(["variant", "place", "how", *names], lines, left=3),
            ]
    if not parts:
        return None
    note = "Each factor is against the rules at its left; in brackets as paper 1 prints it for "
    note += report_papers.GEMMS_WHERE + "."
    return Section("Factors of rules", [*parts, paragraph(note, soft=True)])

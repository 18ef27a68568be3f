# SPDX-License-Identifier: BSD-3-Clause
"""Draws results of benchmarks as one page: speeds, the bound, and the papers' numbers for
comparison.

Knows the contents of the page and their order; needs neither NumPy nor a device.
"""

from __future__ import annotations

import datetime

from .. import __version__
from . import common, report_rules, report_speed, report_spread
from .report_page import (
    Html,
    Section,
    counted,
    element,
    figures,
    heading,
    html_of,
    join,
    page,
    paragraph,
    share,
    table,
)
from .report_rows import OURS, PLAIN, Row, Setup, Source, grouped, read, setups

EXAMPLE = """examples: fleetblas report results.json -o report.html
          fleetblas report regular.json irregular.json scaling.json -o report.html

Each file is the output of `fleetblas bench ... --json FILE`, measured or simulated. Results of
different machines are not compared. The page needs no network."""

# Data sets drawn as boxes of the fraction of the bound by shape and place; others by size.
SHAPED = ("irregular", "paralia", "skinny", "small")
APART = ("ablation", "scaling")  # with sections of their own
TITLES = {
    "regular": "Regular data set: squares",
    PLAIN: "Single calls",
    "irregular": "Irregular data set: squares, fat-thin and thin-fat, five placements",
    "paralia": "PARALiA's data set: three shapes, ten placements",
    "skinny": "Skinny data set: tall, flat, deep and thin",
    "small": "Small data set: 512 to 4096",
    "level3": "Level 3: nine routines, squares of 4K to 48K",
}


def add_arguments(parser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULTS.json", help="output of bench --json")
    parser.add_argument(
        "-o", "--output", required=True, metavar="REPORT.html", help="the page to write; - stdout"
    )


# ---- data sets ----------------------------------------------------------------------------------


def _of_dataset(setup: Setup, dataset: str) -> list[Html]:
    rows = [row for row in setup.rows if row.dataset == dataset]
    ours = [row for row in rows if row.engine == OURS]
    parts: list[Html] = []
    if dataset in SHAPED:
        parts.append(figures(report_spread.fraction_boxes(setup, ours)))
        if dataset == "small":
            parts.append(figures(report_speed.over_sizes(setup, rows)))
            parts += report_speed.fractions_by_size(ours)
        parts += report_spread.fraction_table(ours)
        parts += report_spread.shape_ratios(rows, dataset)
        if dataset == "paralia":
            parts += report_spread.mean_rates(rows)
        parts += report_spread.worst_cases(ours)
    else:
        parts.append(figures(report_speed.over_sizes(setup, rows)))
        parts += report_speed.square_ratios(rows, every=dataset == "regular")
        parts += report_speed.fractions_by_size(ours)
        parts += report_spread.fraction_table(ours)
    parts += report_speed.balances(ours)
    parts += report_speed.first_calls(ours)
    parts = [part for part in parts if part]
    return [heading(setup.origin), *parts] if parts else []


def _datasets(made: list[Setup]) -> list[Section]:
    found = list(dict.fromkeys(row.dataset for setup in made for row in setup.rows))
    order = [name for name in TITLES if name in found]
    order += [name for name in found if name not in (*order, *APART)]
    sections = []
    for name in order:
        parts = [part for setup in made for part in _of_dataset(setup, name)]
        if parts:
            sections.append(Section(TITLES.get(name, f"Data set {name}"), parts))
    return sections


# ---- files and rows -----------------------------------------------------------------------------


def _method(source: Source) -> str:
    method = source.header.get("method")
    if not isinstance(method, dict):
        return "-"
    return ", ".join(f"{name} {value}" for name, value in method.items() if value is not None)


def _files(sources: list[Source]) -> Section:
    lines, notes = [], []
    for source in sources:
        rows = source.rows

        def of_rows(name: str, rows=rows) -> str:
            return ", ".join(dict.fromkeys(filter(None, (row.text(name) for row in rows)))) or "-"

        lines.append(
            [
                source.name,
                source.text("dataset") or PLAIN,
                source.machine,
                source.text("gpus") or "-",
                ", ".join(dict.fromkeys(row.measured for row in rows)),
                source.text("date") or "-",
                source.text("commit") or of_rows("commit"),
                source.text("version") or of_rows("version"),
                _method(source),
                str(len(rows)),
                str(sum(row.failed for row in rows)),
                source.text("unfinished") or "-",
            ]
        )
        said = source.header.get("notes")
        for note in said if isinstance(said, list) else [said]:
            if isinstance(note, str):
                notes.append(element("li", f"{source.name}: {note}"))
        if source.unreadable:
            words = counted(source.unreadable, "result is no row", "results are no rows")
            notes.append(element("li", f"{source.name}: {words} and left out"))
    head = ["file", "data set", "machine", "GPUs", "how", "date", "commit", "version", "method"]
    head += ["rows", "failed", "cases not reached"]
    return Section("Files", [table(head, lines, left=9, wrapped=2), element("ul", *notes)])


def _failures(rows: list[Row]) -> Section | None:
    lines = [
        [
            row.source.name,
            report_speed.engine_name(row.engine),
            row.case_text,
            row.place_text,
            row.text("bar"),
            element("span", row.text("status"), class_="bad"),
            row.text("message"),
        ]
        for row in rows
        if row.failed
    ]
    head = ["file", "engine", "case", "place", "rules", "status", "message"]
    note = paragraph("None of these rows has a number in a figure or a mean above.", soft=True)
    return Section("Failures", [note, table(head, lines, left=7, wrapped=6)]) if lines else None


def _row(row: Row) -> list:
    grid = row.words.get("grid")
    duration = common.duration

    def number(name: str, form: str = ".3g") -> str:
        value = row.number(name)
        return "-" if value is None else f"{value:{form}}"

    status = row.text("status") or "-"
    words = [row.source.name, row.dataset, report_speed.engine_name(row.engine), row.case_text]
    words += [row.place_text, row.text("place"), row.text("bar"), row.text("limited_by")]
    return [
        *words,
        element("span", status, class_="bad") if row.failed else html_of(status),
        row.measured,
        number("devices", ".0f"),
        " x ".join(map(str, grid)) if isinstance(grid, list) else "-",
        number("tile", ".0f"),
        *(duration(row.positive(name)) for name in ("first_s", "median_s", "min_s", "p95_s")),
        number("runs", ".0f"),
        share(row.number("interval"), 1),
        common.rate_text(row.rate()),
        duration(row.positive("bound_s")),
        share(row.fraction, 1),
        duration(row.positive("predicted_s")),
        share(row.number("balance"), 1),
        number("joules"),
        number("watts"),
        number("error"),
    ]


def _all_rows(rows: list[Row]) -> Section:
    head = ["file", "data set", "engine", "case", "place", "its operands", "rules", "limited by"]
    head += ["status", "how", "devices", "grid", "tile", "first", "median", "min", "p95", "runs"]
    head += ["95 % interval", "rate", "bound", "of bound", "predicted", "balance", "J", "W"]
    head += ["error"]
    made = table(head, [_row(row) for row in rows], left=10)
    inside = element("details", element("summary", counted(len(rows), "row")), made)
    return Section("All rows", [inside])


# ---- the page -----------------------------------------------------------------------------------


def _cards(made: list[Setup], rows: list[Row]) -> list[tuple[str, str]]:
    cards = [(str(len(rows)), "rows"), (str(sum(row.failed for row in rows)), "failed")]
    if len(made) > 1:
        return cards  # a mean over several machines would describe none of them
    ours = [row for setup in made for row in setup.rows if row.engine == OURS]
    for dataset, some in grouped(ours, lambda row: row.dataset).items():
        mean = report_spread.mean_fraction(some)
        if dataset not in APART and mean is not None:
            name = f"of the bound, {dataset}: geometric mean, {made[0].measured}"
            cards.append((share(mean), name))
    return cards


def page_of(sources: list[Source]) -> str:
    """The whole page. Deterministic except for its date."""
    made = setups(sources)
    rows = [row for source in sources for row in source.rows if "factors" not in row.words]
    sections: list[Section | None] = [*_datasets(made)]
    sections += [
        report_rules.ablation(made),
        report_rules.factor_rows(sources),
        report_spread.scaling(made),
        report_spread.predictions(made),
        report_speed.energy(made),
        _files(sources),
        _failures(rows),
        _all_rows(rows) if rows else None,
    ]
    machines = list(dict.fromkeys(setup.origin for setup in made))
    intro = [
        paragraph("; ".join(machines) + "." if machines else "", soft=True),
        paragraph(
            f"Made by fleetblas {__version__} report on {datetime.date.today().isoformat()}. Rates "
            "are of medians; the bound is the least time that links and arithmetic allow.",
            soft=True,
        ),
    ]
    shown = [section for section in sections if section is not None]
    return page("FleetBLAS report", [join(*intro)], _cards(made, rows), shown)


def execute(arguments) -> int:
    common.require_writable(arguments.output)
    sources = [read(path) for path in arguments.results]
    common.write_text(arguments.output, page_of(sources))
    return 0

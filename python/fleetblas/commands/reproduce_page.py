# SPDX-License-Identifier: BSD-3-Clause
"""The experiments as one HTML page and as Markdown. Knows no paper's numbers."""

from __future__ import annotations

import datetime

from .. import __version__
from . import common
from .report_page import Html, Section, element, figures, heading, join, page, paragraph, table
from .reproduce_runs import Results
from .reproduce_tables import Experiment, Table

PAPERS = {
    1: "Uncut-GEMMs",
    2: "PARALiA",
    3: "Linpack overlap",
    4: "uneven links",
    5: "XKBlas heuristics",
}
DIFFERS = "What does not agree, or cannot, and why"
QUICK = "A quick sample: fewer problems than the paper's, so means differ from the whole."

Shown = tuple[Experiment, Results, list[Table]]


def _title(experiment: Experiment) -> str:
    return f"{experiment.paper} {experiment.name}: {experiment.title}"


def _html_table(shown: Table) -> Html:
    notes = [paragraph(note, soft=True) for note in shown.notes]
    return join(heading(shown.title), table(shown.head, shown.rows, shown.left), *notes)


def _section(experiment: Experiment, results: Results, tables: list[Table]) -> Section:
    parts = [paragraph(QUICK, soft=True)] if results.quick else []
    parts.append(figures(experiment.figures(results)))
    parts += [_html_table(one) for one in tables]
    reasons = [element("li", reason) for reason in experiment.differs]
    parts.append(join(heading(DIFFERS), element("ul", *reasons)))
    return Section(_title(experiment), parts)


def html_of(shown: list[Shown]) -> str:
    simulated = sum(len(results.rows) for _, results, _ in shown)
    papers = sorted({experiment.paper for experiment, _, _ in shown})
    intro = [
        paragraph(
            "Experiments of papers on their machines, in simulation: nothing here was measured. "
            "Printed numbers stand beside those of FleetBLAS and of other libraries' policies."
        ),
        paragraph(
            f"FleetBLAS {__version__} ({common.commit() or 'installed'}), {datetime.date.today()}",
            soft=True,
        ),
    ]
    cards = [
        (", ".join(f"{paper} {PAPERS[paper]}" for paper in papers), "papers"),
        (str(len(shown)), "experiments"),
        (str(simulated), "simulated calls"),
    ]
    return page("Papers, reproduced", intro, cards, [_section(*one) for one in shown])


def text_of(experiment: Experiment, results: Results, tables: list[Table]) -> str:
    parts = [f"== {_title(experiment)}" + (" (quick sample)" if results.quick else "")]
    parts += [one.text() for one in tables]
    parts.append("\n".join([DIFFERS + ":", *(f"- {reason}" for reason in experiment.differs)]))
    return "\n\n".join(parts) + "\n"


def markdown_of(shown: list[Shown]) -> str:
    parts = []
    for experiment, results, tables in shown:
        parts.append(f"## {_title(experiment)}")
        if results.quick:
            parts.append(QUICK)
        parts += [one.markdown() for one in tables]
        parts.append("\n".join(["Differences:", "", *(f"- {r}" for r in experiment.differs)]))
    return "\n\n".join(parts) + "\n"


def json_of(shown: list[Shown]) -> dict:
    return {
        "schema": 1,
        "measured": "simulated",
        "commit": common.commit(),
        "date": str(datetime.date.today()),
        "experiments": [
            {
                "paper": experiment.paper,
                "experiment": experiment.name,
                "title": experiment.title,
                "quick": results.quick,
                "calls": len(results.rows),
                "tables": [
                    {"title": one.title, "head": one.head, "rows": one.rows, "notes": one.notes}
                    for one in tables
                ],
                "differs": list(experiment.differs),
            }
            for experiment, results, tables in shown
        ],
    }

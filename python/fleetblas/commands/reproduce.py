# SPDX-License-Identifier: BSD-3-Clause
"""Runs the experiments of papers on their machines, in simulation, beside the printed numbers.

Needs no device and no NumPy. Knows which experiments there are, and no number of theirs.
"""

from __future__ import annotations

import pathlib

from . import (
    common,
    reproduce_distributed,
    reproduce_hybrid,
    reproduce_linpack,
    reproduce_paralia,
    reproduce_uncut,
    reproduce_uneven,
    reproduce_xkblas,
)
from .reproduce_page import PAPERS, Shown, html_of, json_of, markdown_of, text_of
from .reproduce_runs import run_all
from .reproduce_tables import Experiment

EXPERIMENTS: list[Experiment] = [
    *reproduce_uncut.EXPERIMENTS,
    *reproduce_paralia.EXPERIMENTS,
    *reproduce_hybrid.EXPERIMENTS,
    *reproduce_linpack.EXPERIMENTS,
    *reproduce_uneven.EXPERIMENTS,
    *reproduce_xkblas.EXPERIMENTS,
    *reproduce_distributed.EXPERIMENTS,
]
FOLDER = "reproduced"
NAMES = {"uncut": 1, "paralia": 2, "hybrid": 3, "uneven": 4, "xkblas": 5}
# Experiments that have a name beside that of their paper.
SHORT = {"linpack": "3-linpack"}


def _listed() -> str:
    lines = []
    for (paper, title), name in zip(PAPERS.items(), NAMES):
        lines.append(f"  {paper}  {name} ({title})")
        lines += [f"       {e.name:<11} {e.title}" for e in EXPERIMENTS if e.paper == paper]
    return "\n".join(lines)


EXAMPLE = f"""examples: fleetblas reproduce 1 ablation --quick
          fleetblas reproduce 2 table4 -o papers
          fleetblas reproduce linpack
          fleetblas reproduce all

Papers and experiments:
{_listed()}

Other libraries are presets: what the papers tell of their policies, on our simulator (see
docs/reference/settings.md, preset). Each simulated call is kept in the folder of -o at once: the
same command goes on with what an interrupted one left out, and reads the rest. The folder also gets
the tables as reproduced.json and, with the papers' figures redrawn, as reproduced.html, which needs
no network. Nothing is measured."""


def add_arguments(parser) -> None:
    papers = [*map(str, PAPERS), *NAMES, *SHORT, "all"]
    meaning = f"1 to 5, {', '.join(NAMES)}, {', '.join(SHORT)}, or all"
    parser.add_argument("paper", choices=papers, metavar="PAPER", help=meaning)
    parser.add_argument(
        "experiment", nargs="?", metavar="EXPERIMENT", help="one of the paper's; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="a sample that takes seconds")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default=FOLDER, help=f"default: {FOLDER}"
    )
    parser.add_argument("--markdown", metavar="FILE", help="the tables as Markdown; - stdout")


def chosen(paper: str, name: str | None) -> list[Experiment]:
    if paper in SHORT:
        if name is not None:
            raise common.UsageError(f"{paper} is one experiment: name no other")
        return [e for e in EXPERIMENTS if e.label == SHORT[paper]]
    number = NAMES.get(paper) or (0 if paper == "all" else int(paper))
    found = [e for e in EXPERIMENTS if number in (0, e.paper)]
    if name is None:
        return found
    if paper == "all":
        raise common.UsageError("name one paper for one experiment")
    of_name = [e for e in found if e.name == name]
    if not of_name:
        known = ", ".join(e.name for e in found)
        raise common.UsageError(f"paper {paper} has no experiment {name!r}; it has {known}")
    return of_name


def execute(arguments) -> int:
    experiments = chosen(arguments.paper, arguments.experiment)
    common.require_writable(arguments.markdown)
    folder = pathlib.Path(arguments.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise common.Failure(f"cannot write {folder}: {error.strerror}") from None
    shown: list[Shown] = []
    quick = "quick-" if arguments.quick else ""
    for experiment in experiments:
        runs = experiment.runs(arguments.quick)
        file = folder / f"{quick}{experiment.label}.jsonl"
        results = run_all(experiment.label, runs, file, arguments.quick)
        tables = experiment.tables(results)
        shown.append((experiment, results, tables))
        if arguments.markdown != "-":
            print(text_of(experiment, results, tables), flush=True)
    common.write_json(str(folder / "reproduced.json"), json_of(shown))
    common.write_text(str(folder / "reproduced.html"), html_of(shown))
    if arguments.markdown:
        common.write_text(arguments.markdown, markdown_of(shown))
    return 0

# SPDX-License-Identifier: BSD-3-Clause
"""What an experiment is, and its tables as text, Markdown and HTML. Knows no paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from . import common
from .report_page import Html
from .reproduce_runs import KINDS, Results, Run


@dataclass
class Table:
    """Texts under a head; the first `left` columns are words."""

    title: str
    head: list[str]
    rows: list[list[str]]
    left: int = 1
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        body = common.table([self.head, *self.rows], self.left)
        return "\n".join([self.title, body, *self.notes])

    def markdown(self) -> str:
        def line(words: list[str]) -> str:
            return "| " + " | ".join(words) + " |"

        rule = line(["---"] * len(self.head))
        parts = [f"**{self.title}**", "", line(self.head), rule, *map(line, self.rows)]
        for note in self.notes:
            parts += ["", note]
        return "\n".join(parts)


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper.

    runs(quick): the simulated calls; quick: a sample that takes seconds. tables(results) and
    figures(results) show them beside the printed numbers, `differs` says what cannot agree or does
    not, and why.
    """

    paper: int
    name: str
    title: str
    runs: Callable[[bool], list[Run]]
    tables: Callable[[Results], list[Table]]
    figures: Callable[[Results], list[Html]]
    differs: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.paper}-{self.name}"


def no_runs(_: bool) -> list[Run]:
    return []


def no_figures(_: Results) -> list[Html]:
    return []


# ---- policies -----------------------------------------------------------------------------------

OURS = "FleetBLAS"
# What a context is told for each policy: the device choice of the papers' comparisons.
POLICIES: dict[str, tuple[tuple[str, object], ...]] = {
    OURS: (("devices", "auto"),),
    "uncut": (("devices", "all"), ("preset", "uncut")),
    "paralia": (("devices", "auto"), ("preset", "paralia")),
    "xkblas": (("devices", "all"), ("preset", "xkblas")),
    "blasx": (("devices", "all"), ("preset", "blasx")),
    "cublasxt": (("devices", "all"), ("preset", "cublasxt")),
}
STYLES = {name: f"s{i}" for i, name in enumerate(POLICIES)}


# ---- numbers ------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def mean_ratio(results: Results, slower: list[Run], faster: list[Run]) -> float | None:
    """The geometric mean of the times of `slower` over those of `faster`, pair by pair; pairs of
    which one has no plan are left out."""
    pairs = [(results.seconds(a), results.seconds(b)) for a, b in zip(slower, faster)]
    return common.geometric_mean([a / b for a, b in pairs if a and b])


def usage_table(results: Results, groups: list[tuple[str, list[Run]]]) -> Table:
    """How devices and links were used: means over the runs of each group (paper 1, Fig. 3)."""
    rows = []
    for name, runs in groups:
        used = [results[run] for run in runs if "idle_share" in results[run]]
        if not used:
            continue
        rates = []
        for kind in KINDS.values():
            of_kind = [row["rates"][kind] for row in used if kind in row["rates"]]
            rates.append(number(statistics.fmean(of_kind) / 1e9, 1) if of_kind else "-")
        idle = statistics.fmean(row["idle_share"] for row in used)
        spread = statistics.fmean(row["first_spread_s"] for row in used)
        rows.append([name, str(len(used)), percent(idle), number(spread * 1e3), *rates])
    head = ["policy", "problems", "idle", "first products, ms apart"]
    return Table(
        "How devices and links were used (means)",
        [*head, *(f"GB/s {kind}" for kind in KINDS.values())],
        rows,
        notes=[
            "idle: the time of the call that a worker has no kernel; GB/s: bytes of a link over "
            "the time that it copies. No paper prints these numbers."
        ],
    )

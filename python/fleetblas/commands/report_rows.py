# SPDX-License-Identifier: BSD-3-Clause
"""Rows of benchmarks, read from files and matched with each other, and the statistics of a report.

A key that is missing, null or of an unexpected kind is None, so that a report can be made from any
file. Knows nothing of pages and figures.
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
from dataclasses import dataclass, field

from .. import _types
from .._routines import KNOWN, LETTERS
from . import common
from .common import geometric_mean

OURS = "fleetblas"
PLAIN = "bench"  # the data set of rows that name none
TYPE_NAMES = {"h": "fp16 GEMM", "bf16": "bf16 GEMM", "tf32": "TF32 GEMM"}
OVERLINED = {"measured": "Measured", "simulated": "Simulated"}


@dataclass(eq=False)
class Source:
    """A file: its keys, and its rows that are objects."""

    name: str
    header: dict
    rows: list[Row] = field(default_factory=list)
    unreadable: int = 0

    def text(self, name: str) -> str | None:
        return _text(self.header.get(name))

    @property
    def machine(self) -> str:
        """The machine, from the header, else from the rows, else the name of the file."""
        named = [row.text("machine") for row in self.rows]
        return next(filter(None, [self.text("machine"), *named]), self.name)


def _text(value) -> str | None:
    """A text, or a number as text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _number(value) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


@dataclass(eq=False)
class Row:
    words: dict
    source: Source

    def text(self, name: str) -> str | None:
        return _text(self.words.get(name))

    def number(self, name: str) -> float | None:
        return _number(self.words.get(name))

    def positive(self, name: str) -> float | None:
        value = self.number(name)
        return value if value is not None and value > 0 else None

    @property
    def engine(self) -> str:
        return self.text("engine") or "-"

    @property
    def type(self) -> str:
        return self.text("type") or "-"

    @property
    def kind(self) -> str:
        """Routine and type, such as DGEMM or bf16 GEMM."""
        routine = self.routine.upper()
        named = TYPE_NAMES.get(self.type, self.type.upper() + "GEMM")
        return named.replace("GEMM", routine)

    @property
    def dataset(self) -> str:
        return self.text("dataset") or self.source.text("dataset") or PLAIN

    @property
    def place(self) -> str:
        """The place of the problem; the operands of a peer may be at another (`place`)."""
        place = self.text("beside") or self.text("place") or "-"
        return f"{place} resident" if self.words.get("resident") is True else place

    @property
    def named_place(self) -> str:
        """The place as a paper names it, for eight GPUs."""
        return self.text("named_place") or self.place

    @property
    def place_text(self) -> str:
        folded = self.named_place != self.place
        return f"{self.place} (for {self.named_place})" if folded else self.place

    @property
    def edges(self) -> tuple:
        return tuple(self.positive(name) for name in "mnk")

    @property
    def sizes(self) -> tuple:
        """The edges of the routine; vector routines have fewer than products."""
        ones = KNOWN[self.routine].without if self.routine in KNOWN else ""
        return tuple(edge for name, edge in zip("mnk", self.edges) if name not in ones)

    @property
    def edge(self) -> float | None:
        """The edge of a square, or the length of a vector."""
        return self.sizes[0] if len(set(self.sizes)) == 1 else None

    @property
    def edges_text(self) -> str:
        words = ["-" if edge is None else common.edge_text(int(edge)) for edge in self.sizes]
        return words[0] if len(set(words)) == 1 else " x ".join(words)

    @property
    def routine(self) -> str:
        return self.text("routine") or "gemm"

    @property
    def flags(self) -> dict:
        """The flags of the routine, by name; defaults if they are not given."""
        known = KNOWN.get(self.routine, KNOWN["gemm"]).flags
        return {name: self.text(name) or LETTERS[name][0] for name in known}

    @property
    def case_text(self) -> str:
        routine = self.routine if self.routine in KNOWN else "gemm"
        flags = common.flags_text({"routine": routine, **self.flags})
        return f"{self.kind} {self.edges_text}{flags}"

    @property
    def case(self) -> tuple:
        """The key of the problem, independent of engine and rules."""
        words = (self.text("routine") or "", *self.flags.values())
        devices = self.devices if self.dataset == "scaling" else None
        return (self.dataset, self.type, self.edges, self.place, self.named_place, words, devices)

    @property
    def devices(self) -> int | None:
        """The number of devices that it may use; a plan may leave some idle."""
        count = self.positive("gpus")
        count = self.positive("devices") if count is None else count
        return None if count is None else int(count)

    @property
    def measured(self) -> str:
        return self.text("measured") or "-"

    @property
    def failed(self) -> bool:
        return self.text("status") not in (None, "ok")

    @property
    def median_s(self) -> float | None:
        """The median time; None for failed rows, whose numbers are not drawn."""
        return None if self.failed else self.positive("median_s")

    @property
    def flops(self) -> float | None:
        if self.type in _types.TYPES and None not in self.edges and self.routine in KNOWN:
            return common.tflops(self.routine, self.type, *self.edges, 1.0) * 1e12
        rate, seconds = self.positive("tflops"), self.median_s
        return rate * seconds * 1e12 if rate and seconds else None

    def rate(self, name: str = "median_s") -> float | None:
        """The rate in TFLOPS."""
        seconds, flops = self.positive(name), self.flops
        return flops / seconds / 1e12 if seconds and flops and not self.failed else None

    @property
    def fraction(self) -> float | None:
        """The fraction of the bound."""
        bound = self.positive("bound_s")
        return bound / self.median_s if bound and self.median_s else self._given_fraction

    @property
    def _given_fraction(self) -> float | None:
        return None if self.failed else self.positive("bound_fraction")

    @property
    def misprediction(self) -> float | None:
        """(predicted - measured) / measured; None for simulated rows."""
        predicted = self.positive("predicted_s")
        if predicted is None or self.median_s is None or self.measured != "measured":
            return None
        return predicted / self.median_s - 1

    @property
    def gflops_per_watt(self) -> float | None:
        joules, flops = self.positive("joules"), self.flops
        return flops / joules / 1e9 if joules and flops and not self.failed else None


# ---- files --------------------------------------------------------------------------------------


def read(path: str) -> Source:
    """Reads a file. Raises Failure if it holds no results."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise common.Failure(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise common.Failure(f"{path} is not JSON: not a text") from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise common.Failure(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise common.Failure(f'{path} has no results: {{"results": [...]}} is expected')
    source = Source(pathlib.Path(path).name, {k: v for k, v in content.items() if k != "results"})
    listed = content["results"]
    source.rows = [Row(words, source) for words in listed if isinstance(words, dict)]
    source.unreadable = len(listed) - len(source.rows)
    if not source.rows:
        raise common.Failure(f"{path} has no results: its list is empty")
    return source


@dataclass(eq=False)
class Setup:
    """Rows that may be compared: of one machine, all measured or all simulated."""

    machine: str
    measured: str
    rows: list[Row] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    alone: bool = True  # no other setup has the same name

    @property
    def origin(self) -> str:
        how = OVERLINED.get(self.measured, "Not said whether measured or simulated,")
        files = "" if self.alone else f" ({', '.join(source.name for source in self.sources)})"
        return f"{how} on {self.machine}{files}"


def _identity(row: Row) -> tuple:
    return (row.engine, row.case, row.text("bar"))


def setups(sources: list[Source]) -> list[Setup]:
    """Groups files of the same machine, unless one repeats measurements of another.

    Within a file the last successful row of a case is used.
    """
    made: list[Setup] = []
    for source in sources:
        for measured in dict.fromkeys(row.measured for row in source.rows):
            rows = {}
            for row in source.rows:
                if row.measured == measured and "factors" not in row.words:
                    kept = rows.get(_identity(row))
                    if kept is None or kept.failed or not row.failed:
                        rows[_identity(row)] = row
            if not rows:
                continue
            for setup in made:
                same = (setup.machine, setup.measured) == (source.machine, measured)
                if same and not rows.keys() & set(map(_identity, setup.rows)):
                    break
            else:
                setup = Setup(source.machine, measured)
                made.append(setup)
            setup.rows += rows.values()
            setup.sources.append(source)
    names = [(setup.machine, setup.measured) for setup in made]
    for setup, name in zip(made, names):
        setup.alone = names.count(name) == 1
    return made


def grouped(rows: list[Row], key) -> dict:
    """Rows by key(row), in the order in which the keys first appear."""
    groups: dict = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def pairs(rows: list[Row], engine: str) -> list[tuple[Row, Row]]:
    """Rows of FleetBLAS and the engine for each case that both have timed."""
    timed = [row for row in rows if row.median_s is not None]
    ours = {row.case: row for row in timed if row.engine == OURS and not row.text("bar")}
    return [(ours[row.case], row) for row in timed if row.engine == engine and row.case in ours]


def ratios(rows: list[Row], engine: str) -> list[float]:
    """The speedup of FleetBLAS over the engine, case by case."""
    return [theirs.median_s / mine.median_s for mine, theirs in pairs(rows, engine)]


def engines(rows: list[Row]) -> list[str]:
    """FleetBLAS first."""
    names = list(dict.fromkeys(row.engine for row in rows))
    return sorted(names, key=lambda name: name != OURS)


# ---- statistics ---------------------------------------------------------------------------------


def quantile(values: list[float], share: float) -> float:
    """The quantile, interpolated linearly, as in NumPy."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


@dataclass
class Summary:
    """The summary of at least one number."""

    values: list[float]

    def __post_init__(self):
        self.least, self.most = min(self.values), max(self.values)
        self.lower, self.upper = quantile(self.values, 0.25), quantile(self.values, 0.75)
        self.median = statistics.median(self.values)
        self.mean = geometric_mean(self.values)

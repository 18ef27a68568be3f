# SPDX-License-Identifier: BSD-3-Clause
"""Simulated calls of the experiments, kept in files as they come: an interrupted run goes on.

Knows no paper. A run is one call on one machine with one set of options; its row has what the
simulator says of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import statistics
import sys
import tempfile
from dataclasses import dataclass

from .. import Context, Error, __version__
from . import common, reproduce_changes
from .plan_lines import link_kind

SCHEMA = 1
BAR_LENGTH = 30
KINDS = {
    "host -> devices": "to devices",
    "devices -> host": "from devices",
    "device -> device": "between devices",
}
# What plans depend on, so that no setting of whoever runs this has a part in them.
PLAIN = {
    "backend": "sim",
    "devices": "all",
    "objective": "time",
    "rules": "all",
    "preset": "none",
    "tile": 0,
    "grid": 0,
    "max_hops": 1,
    "cpu_share": "off",
    "memory_cap": 0,
    "device_memory": 0,
    "deterministic": 0,
    "inject": "",
}
PLAN_KEYS = (
    *("predicted_s", "host_s", "bound_s", "joules"),
    *("tile", "row_tiles", "col_tiles", "grid", "workers", "cpu_share", "tasks"),
)


@dataclass(frozen=True)
class Run:
    """One simulated call, or several as one plan.

    problem: as the library writes it, a line for each call of a program. change: the name of a
    change of what the machine file assumes (reproduce_changes), or empty. options: those of a
    context. used: whether the simulated timeline is examined too (see usage).
    """

    problem: str
    machine: str
    options: tuple[tuple[str, object], ...] = ()
    change: str = ""
    used: bool = False

    @property
    def is_program(self) -> bool:
        """A call on block-cyclic matrices is planned as a program of one call."""
        return "\n" in self.problem or "@c" in self.problem

    def key(self, digest: str) -> str:
        """Tells runs apart; `digest` is that of the machine."""
        words = [f"{name}={value}" for name, value in self.options]
        machine = f"{self.machine}{'+' if self.change else ''}{self.change} {digest}"
        return " | ".join(
            [self.problem.replace("\n", "; "), machine, *words, *(["used"] if self.used else [])]
        )


def gemm(m: int, n: int, k: int, place: str, kind: str = "d", beta: int = 1) -> str:
    """A product with one place for each matrix, as in h,h,0."""
    a, b, c = place.split(",")
    text = f"{kind}gemm m={m} n={n} k={k} a@{a} b@{b} c@{c}"
    return text if beta else text + " beta=0"


def usage(timeline: dict) -> dict:
    """How devices and links were used (paper 1, Fig. 3 and III-E1).

    idle_share: of the time of the call, the mean over the workers without a running kernel.
    first_spread_s: from the first product on the first worker to the first on the last one.
    rates: bytes per second of the time that a link is copying, by kind of link; links: the same of
    each link. copying_share: of the seconds of all copies and kernels, those of copies.
    """
    page = timeline["fleetblas"]
    seconds, busy = page["seconds"], page["busy_s"]
    first_us: dict[int, float] = {}
    spent_us = {"compute": 0.0, "fetch": 0.0, "writeback": 0.0}
    for event in timeline["traceEvents"]:
        if event.get("cat") in spent_us:
            spent_us[event["cat"]] += event["dur"]
        if event.get("cat") == "compute":
            first_us[event["pid"]] = min(event["ts"], first_us.get(event["pid"], event["ts"]))
    shares = [busy["devices"].get(str(worker), 0.0) / seconds for worker in page["workers"]]
    links = {
        link: number / busy["links"][link]
        for link, number in page["bytes_by_link"].items()
        if busy["links"].get(link)
    }
    rates = {}
    for kind, name in KINDS.items():
        of_kind = [link for link in links if link_kind(link) == kind]
        if of_kind:
            moved = sum(page["bytes_by_link"][link] for link in of_kind)
            rates[name] = moved / sum(busy["links"][link] for link in of_kind)
    spent = sum(spent_us.values())
    return {
        "idle_share": 1 - statistics.fmean(shares) if shares else None,
        "first_spread_s": (max(first_us.values()) - min(first_us.values())) * 1e-6
        if first_us
        else None,
        "rates": rates,
        "links": links,
        "copying_share": 1 - spent_us["compute"] / spent if spent else None,
    }


class Machines:
    """Files of machines with their assumed values changed, made when they are first asked for."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.shipped: dict[str, dict] = {}
        self.digests: dict[tuple[str, str], str] = {}

    def _shipped(self, name: str) -> dict:
        if name not in self.shipped:
            with Context(**PLAIN, machine=name) as context:
                self.shipped[name] = context.machine()
        return self.shipped[name]

    def file_of(self, run: Run) -> pathlib.Path:
        key = (run.machine, run.change)
        name = hashlib.sha256(run.change.encode()).hexdigest()[:8]
        path = self.folder / f"{run.machine} {name}.json"
        if key not in self.digests:
            changed = reproduce_changes.changed(self._shipped(run.machine), run.change)
            text = json.dumps(changed)
            path.write_text(text, encoding="utf-8")
            self.digests[key] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return path

    def digest_of(self, run: Run) -> str:
        self.file_of(run)
        return self.digests[run.machine, run.change]


def simulate(run: Run, machines: Machines) -> dict:
    """The row of a run. A plan that the policy does not find (no memory, no way) is a row too."""
    options = {**PLAIN, "machine": str(machines.file_of(run)), **dict(run.options)}
    try:
        with Context(**options) as context:
            plan = (context.plan_program if run.is_program else context.plan)(run.problem)
            row = {name: plan[name] for name in PLAN_KEYS if name in plan}
            for kind, name in KINDS.items():
                links = plan["bytes_by_link"].items()
                row[f"bytes {name}"] = sum(n for link, n in links if link_kind(link) == kind)
            if run.used:
                timeline = context.simulate_program if run.is_program else context.simulate
                row |= usage(timeline(run.problem))
    except Error as error:
        if error.status not in ("no_memory", "unreachable", "unsupported"):
            raise
        row = {"error": error.status}
    return row


class Progress:
    """A bar on stderr, on a terminal only."""

    def __init__(self, name: str, whole: int):
        self.name, self.whole, self.done = name, whole, 0
        self.shown = sys.stderr.isatty() and whole > 0

    def step(self, count: int = 1) -> None:
        self.done += count
        if not self.shown:
            return
        filled = BAR_LENGTH * self.done // self.whole
        bar = "#" * filled + "." * (BAR_LENGTH - filled)
        sys.stderr.write(f"\r{self.name} [{bar}] {self.done}/{self.whole}")
        sys.stderr.flush()

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")


class Results:
    """Rows by run."""

    def __init__(self, rows: dict[Run, dict], quick: bool):
        self.rows, self.quick = rows, quick

    def __getitem__(self, run: Run) -> dict:
        return self.rows[run]

    def seconds(self, run: Run) -> float | None:
        """Predicted; None where the policy has no plan."""
        return self.rows[run].get("predicted_s")


def _kept(file: pathlib.Path, head: dict) -> dict[str, dict]:
    """The rows of an earlier run, of which the last line may be cut off."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = {}
    for i, line in enumerate(lines):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            if i + 1 == len(lines):
                break  # interrupted while it was written
            raise common.Failure(f"{file}, line {i + 1}: no JSON; remove the file") from None
        if i == 0 and row != head:
            raise common.Failure(
                f"{file} has results of {row.get('fleetblas')}, this is {head['fleetblas']}: "
                "remove it, or give another folder"
            )
        if i > 0:
            rows[row["key"]] = row
    return rows


def run_all(name: str, runs: list[Run], file: pathlib.Path, quick: bool) -> Results:
    """Simulates what the file does not have yet, and adds each row to it at once.

    Raises Failure if the file has results of another version.
    """
    head = {"schema": SCHEMA, "experiment": name, "fleetblas": common.commit() or __version__}
    kept = _kept(file, head)
    rows: dict[Run, dict] = {}
    unique = list(dict.fromkeys(runs))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        machines = Machines(pathlib.Path(folder))
        keys = {run: run.key(machines.digest_of(run)) for run in unique}
        missing = [run for run in unique if keys[run] not in kept]
        progress = Progress(name, len(unique))
        stack.callback(progress.end)
        progress.step(len(unique) - len(missing))
        # Written anew first: a line that was cut off is not joined to the next.
        lines = [head, *kept.values()]
        stream = stack.enter_context(open(file, "w", encoding="utf-8"))
        stream.writelines(json.dumps(line) + "\n" for line in lines)
        for run in unique:
            row = kept.get(keys[run])
            if row is None:
                row = {"key": keys[run], **simulate(run, machines)}
                stream.write(json.dumps(row) + "\n")
                stream.flush()
                progress.step()
            rows[run] = row
    return Results(rows, quick)

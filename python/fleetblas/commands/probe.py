# SPDX-License-Identifier: BSD-3-Clause
"""Measures this machine carefully, and writes a file for --machine.

Knows the progress bar and the words of the file; the library does the measuring.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pathlib
import signal
import sys
import time

from .. import _native
from .._context import option_text
from . import common

EXAMPLE = """example: fleetblas probe -o node.json --budget 600
         fleetblas bench gemm --size 16K --machine node.json

Each value is repeated at least 10 times and until its 95 % confidence interval is within 5 % of the
mean, or until its share of the budget is spent; the notes in the file list the values that are less
certain. The file is complete after each part: after Ctrl-C the same command goes on."""

BAR_WIDTH = 30
DRAW_EVERY_S = 0.2
HOST = ("host", "pageable")
STOPPED = 130  # 128 + SIGINT, as shells have it


def seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is not a time in seconds, as in 300")
    return value


def add_arguments(parser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the machine file")
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument(
        "--budget", type=seconds, default=300.0, metavar="SECONDS", help="time limit (default 300)"
    )
    parser.add_argument(
        "--types", metavar="LIST", help="types of kernels to measure, as in d,s (default: all)"
    )
    parser.add_argument("--machine", metavar="FILE", help="machine to simulate, with --backend sim")


class Bar:
    """Progress on a terminal, silent elsewhere. It tells the library to stop after a signal."""

    def __init__(self, stream):
        self.stream = stream if stream.isatty() else None
        self.stopped = False
        self.started = time.monotonic()
        self.drawn = 0.0

    def stop(self, *_signal) -> None:
        self.stopped = True

    def show(self, share: float, what: str) -> None:
        now = time.monotonic()
        if self.stream is None or now - self.drawn < DRAW_EVERY_S:
            return
        self.drawn = now
        full = round(share * BAR_WIDTH)
        bar = "#" * full + "." * (BAR_WIDTH - full)
        line = f"[{bar}] {100 * share:3.0f} % {now - self.started:5.0f} s  {what:.40}"
        self.stream.write(f"\r\x1b[K{line}")
        self.stream.flush()

    def close(self) -> None:
        if self.stream is not None and self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


@contextlib.contextmanager
def signals_to(stop):
    """During measurements a signal only requests a stop, so that the results so far are kept."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def measure(options: bytes, types: str | None, file: str, budget_s: float, bar: Bar) -> dict:
    @_native.PROGRESS
    def progress(_user, share, what):
        bar.show(share, what.decode("utf-8", "replace"))
        return int(bar.stopped)

    words = (types or "").encode()
    path = str(pathlib.Path(file).absolute()).encode()
    with signals_to(bar.stop):
        text = _native.text_of(
            _native.library.fleet_probe_json, options, words, path, budget_s, progress, None
        )
    return json.loads(text)


def _span(rates: list[float]) -> str:
    least, most = (f"{rate / 1e9:.1f}" for rate in (min(rates), max(rates)))
    return f"{least} GB/s" if least == most else f"{least} to {most} GB/s"


def text_of(machine: dict) -> str:
    links: dict[str, list[float]] = {}
    for link in machine["links"]:
        ends = ["host" if link[end] in HOST else "devices" for end in ("from", "to")]
        links.setdefault(" -> ".join(ends), []).append(link["bytes_per_s"])
    lines = [(f"{ends}", _span(rates)) for ends, rates in links.items()]
    best: dict[str, float] = {}
    for device in machine["devices"][2:]:
        for rate in device["kernels"]:
            word = rate["type"]
            if f"kernels {word}" not in machine["notes"]["probe"]["done"]:
                continue
            best[word] = max(best.get(word, 0), rate["flops_per_s"])
    lines += [
        (f"multiply {word}", f"{common.rate_text(rate / 1e12)} each, at best")
        for word, rate in best.items()
    ]
    probe = machine["notes"]["probe"]
    vague = machine["notes"]["unsettled"]
    lines.append(("values", f"{len(probe['values'])}, {len(vague)} less certain than 5 %"))
    values = [value for value in probe["values"] if value.get("spread") is not None]
    if values:
        worst = max(values, key=lambda value: value["spread"])
        lines.append(("spread", f"{common.percent(worst['spread'])} at most: {worst['name']}"))
    lines.append(("spent", f"{common.duration(probe['spent_s'])}"))
    body = "\n".join(f"  {name:<18} {text}" for name, text in lines)
    return f"{machine['name']}\n{body}"


def execute(arguments) -> int:
    if arguments.output == "-":
        raise common.UsageError("-o needs a file: it is replaced after each part")
    common.require_writable(arguments.output)
    options = option_text(common.context_options(arguments))
    bar = Bar(sys.stderr)
    try:
        machine = measure(options, arguments.types, arguments.output, arguments.budget, bar)
    finally:
        bar.close()
    print(text_of(machine))
    if machine["notes"]["probe"]["complete"]:
        print(f"written to {arguments.output}")
        return 0
    done = ", ".join(machine["notes"]["probe"]["done"]) or "nothing"
    print(f"stopped: {arguments.output} has {done}; the same command goes on")
    return STOPPED

# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program with its matrix products on the devices, and prints a summary of the products.

Knows nothing of the program: the drop-in library does the work, this module sets it up.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from . import common

EXAMPLE = """example: fleetblas run --backend host --devices 4 -- python script.py

The exit status is that of the program (128 + n if signal n ended it). A summary goes to stderr:
calls, the devices that ran them and why, bytes moved per kind of link, time."""
TAKES_PROGRAM = True

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it
LINK_KINDS = {
    "h2d": "host->device",
    "p2p": "device->device",
    "d2h": "device->host",
    "h2h": "pageable<->pinned",
}


def add_arguments(parser) -> None:
    parser.usage = "fleetblas run [--devices N|LIST] [--backend auto|cuda|host] -- COMMAND..."
    common.add_backend_arguments(parser, ("auto", "cuda", "host"))


def run_program(words: list[str], environment: dict[str, str]) -> int:
    """The exit status of the program, as a shell would report it."""
    try:
        child = subprocess.Popen(words, env=environment)
    except FileNotFoundError:
        sys.stderr.write(f"fleetblas: {words[0]}: command not found\n")
        return NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"fleetblas: {words[0]}: {error.strerror}\n")
        return NOT_EXECUTABLE
    # Ctrl-C also reaches the program, which decides what to do, so we only wait. SIGTERM reaches
    # only us.
    kept = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number)),
    }
    try:
        status = child.wait()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


def read_summaries(folder: pathlib.Path) -> list[dict]:
    """The summaries that the processes of the program wrote; one that was killed wrote none."""
    found = []
    for file in sorted(folder.glob("*.json")):
        try:
            found.append(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
    return found


def merged(summaries: list[dict]) -> dict:
    """The sums over the processes."""
    total: dict = {"calls": 0, "failed": 0, "seconds": 0.0, "flops": 0.0}
    ran: dict = {}
    lapack: dict = {}
    kinds = dict.fromkeys(LINK_KINDS, 0)
    pool: dict = {}
    for summary in summaries:
        for key in total:
            total[key] += summary.get(key, 0)
        for row in summary.get("ran", []):
            entry = ran.setdefault((row["where"], row["reason"]), dict(row, calls=0, seconds=0.0))
            entry["calls"] += row["calls"]
            entry["seconds"] += row["seconds"]
        for row in summary.get("lapack", []):
            entry = lapack.setdefault(row["symbol"], dict(row, calls=0, behind=0, seconds=0.0))
            for key in ("calls", "behind", "seconds"):
                entry[key] += row[key]
        for kind, moved in summary.get("bytes_by_kind", {}).items():
            kinds[kind] = kinds.get(kind, 0) + moved
        for key, number in summary.get("pool", {}).items():
            pool[key] = pool.get(key, 0) + number
    rows = {"ran": list(ran.values()), "lapack": list(lapack.values())}
    return {**total, **rows, "bytes_by_kind": kinds, "pool": pool}


def pool_text(pool: dict) -> str:
    """What the pool of large blocks did."""
    count = pool["blocks"]
    text = f"{common.byte_text(pool['given'])} in {count:,} large block{'' if count == 1 else 's'}"
    if pool["reused"]:
        text += f", {common.byte_text(pool['reused'])} of it used again"
    text += f", {common.byte_text(pool['pinned'])} pinned"
    if pool["beyond"]:
        text += f", {common.byte_text(pool['beyond'])} left to malloc"
    return text


def summary_text(summary: dict, wall_s: float) -> str:
    calls = summary["calls"]
    line = f"fleetblas: {calls:,} matrix product{'' if calls == 1 else 's'}"
    if calls == 0:
        return line + f" in {common.duration(wall_s)}: the program called no routine of level 3\n"
    line += f", {common.duration(summary['seconds'])} of {common.duration(wall_s)}"
    if summary["seconds"] > 0:
        line += f", {common.rate_text(summary['flops'] / summary['seconds'] / 1e12)}"
    if summary["failed"]:
        line += f", {summary['failed']:,} FAILED"
    lines = [line]
    for row in sorted(summary["ran"], key=lambda row: -row["seconds"]):
        spent = common.duration(row["seconds"])
        lines.append(f"  {row['where']:<8} {row['calls']:>8,} calls {spent:>9}  {row['reason']}")
    for row in sorted(summary.get("lapack", []), key=lambda row: -row["seconds"]):
        behind = f", {row['behind']:,} by the LAPACK behind" if row["behind"] else ""
        spent = common.duration(row["seconds"])
        lines.append(
            f"  {'LAPACK':<8} {row['calls']:>8,} calls {spent:>9}  {row['symbol']}{behind}"
        )
    if summary.get("pool", {}).get("blocks"):
        lines.append("  pool     " + pool_text(summary["pool"]))
    moved = (
        f"{LINK_KINDS.get(kind, kind)} {common.byte_text(number)}"
        for kind, number in summary["bytes_by_kind"].items()
    )
    lines.append("  moved    " + ", ".join(moved))
    return "\n".join(lines) + "\n"


def execute(arguments) -> int:
    if not arguments.program:
        raise common.UsageError("give the program after --, as in: fleetblas run -- python x.py")
    environment = common.program_environment(arguments, os.environ)
    with tempfile.TemporaryDirectory(prefix="fleetblas-") as folder:
        environment["FLEETBLAS_SUMMARY"] = str(pathlib.Path(folder, "%p.json"))
        start = time.perf_counter()
        status = run_program(arguments.program, environment)
        wall_s = time.perf_counter() - start
        summary = merged(read_summaries(pathlib.Path(folder)))
    if status not in (NOT_FOUND, NOT_EXECUTABLE) or summary["calls"]:
        sys.stdout.flush()
        sys.stderr.write(summary_text(summary, wall_s))
    return status

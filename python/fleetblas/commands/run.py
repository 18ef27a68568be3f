# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program with its matrix products on the devices, and prints a summary of the products.

Knows nothing of the program: the drop-in library does the work, this module sets it up.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .. import Context, _native
from . import common

EXAMPLE = """example: fleetblas run --backend host --devices 4 -- python script.py

The exit status is that of the program (128 + n if signal n ended it). A summary goes to stderr:
calls, the devices that ran them and why, bytes moved per kind of link, time. With
FLEETBLAS_SUMMARY=FILE it goes to that file too."""
TAKES_PROGRAM = True
PROGRAM_HINT = "give the program after --, as in: fleetblas run -- python x.py"

# As pool/cap.cpp reads it, which belongs to the drop-in: contexts do not.
POOL = r"|[01]|on|off|true|false|yes|no|0?\.\d*[1-9]\d*|\d{1,18}|\d{1,9}[KMGkmg]"
SHELL = "/bin/sh"
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it
LINK_KINDS = {
    "h2d": "host->device",
    "p2p": "device->device",
    "d2h": "device->host",
    "h2h": "pageable<->pinned",
}


def add_arguments(parser) -> None:
    parser.usage = (
        "fleetblas run [--devices N|LIST] [--objective WORD] [--backend auto|cuda|host] "
        "-- COMMAND..."
    )
    common.add_backend_arguments(parser, ("auto", "cuda", "host"))


def _refuse_bad_settings(options: dict) -> None:
    """Raises what a context says of a bad value, which the drop-in would leave out in silence.

    No device is started for this: virtual ones begin with their first call. A BLAS that nobody
    named cannot be a bad value; one is searched for.
    """
    quiet = {"backend": "host", "summary": "", "trace": "", "log_level": 0}
    if _native.named_blas:
        quiet["cpu_blas"] = ""
    with Context(**{**options, **quiet}):
        pass
    pool = os.environ.get("FLEETBLAS_POOL", "")
    if not re.fullmatch(POOL, pool):
        raise _native.BadOption(
            f"FLEETBLAS_POOL={pool}: expected 0, 1, a share of memory such as 0.25 or a size such "
            "as 16G",
            "bad_option",
        )


def program_environment(arguments) -> dict[str, str]:
    """The environment in which a program runs under the drop-in."""
    preload = str(_native.find_library("libfleetblas_preload.so"))
    if " " in preload or ":" in preload:
        raise common.Failure(f"{preload}: LD_PRELOAD takes no blanks and no ':' in a path")
    options = common.context_options(arguments)
    _refuse_bad_settings(options)
    before = os.environ.get("LD_PRELOAD")
    extra = {"LD_PRELOAD": f"{preload}:{before}" if before else preload}
    hooks, path = str(_native.PACKAGE / "hooks"), os.environ.get("PYTHONPATH")
    if os.pathsep not in hooks:
        extra["PYTHONPATH"] = f"{hooks}{os.pathsep}{path}" if path else hooks
    for name, value in options.items():
        extra["FLEETBLAS_" + name.upper()] = str(value)
    return {**os.environ, **extra}


def run_program(words: list[str], environment: dict[str, str]) -> int:
    """The exit status of the program, as a shell would report it."""
    try:
        child = subprocess.Popen(words, env=environment)
    except FileNotFoundError:
        sys.stderr.write(f"fleetblas: {words[0]}: command not found\n")
        return NOT_FOUND
    except OSError as error:
        if error.errno == errno.ENOEXEC and words[0] != SHELL:
            script = shutil.which(words[0], path=environment.get("PATH"))
            return run_program([SHELL, script, *words[1:]], environment)  # it names no interpreter
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


# Rows of a summary, and the keys by which they are grouped. Of other texts the last one stays, and
# numbers are added up.
ROWS = {"ran": ("where", "reason"), "left_out": ("device",), "lapack": ("symbol",)}


def _add(total: dict, more: dict, keys: tuple[str, ...] = ()) -> None:
    for key, value in more.items():
        is_sum = key not in keys and not isinstance(value, str)
        total[key] = total.get(key, 0) + value if is_sum else value


def merged(summaries: list[dict]) -> dict:
    """The sums over the processes, as fleet_stats_json has them of one.

    What has no sum is left out: the last call, the corrections of a model, the share of the CPU.
    """
    total: dict = dict.fromkeys(("calls", "failed", "planned_ahead", "at_once"), 0)
    total.update(seconds=0.0, flops=0.0)
    rows: dict[str, dict] = {name: {} for name in ROWS}
    sums: dict[str, dict] = {"pool": {}, "bytes_by_kind": dict.fromkeys(LINK_KINDS, 0)}
    sums["bytes_by_link"] = {}
    for summary in summaries:
        _add(total, {key: summary.get(key, 0) for key in total})
        for name, keys in ROWS.items():
            for row in summary.get(name, []):
                entry = rows[name].setdefault(tuple(row[key] for key in keys), {})
                _add(entry, row, keys)
        for name, sum_of in sums.items():
            _add(sum_of, summary.get(name, {}))
    return {**total, **{name: list(found.values()) for name, found in rows.items()}, **sums}


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
    for row in sorted(summary.get("left_out", []), key=lambda row: row["device"]):
        count = f"{row['calls']:,} call{'' if row['calls'] == 1 else 's'}"
        lines.append(f"  without device {row['device']}: {count} ({row['why']})")
    if summary.get("pool", {}).get("blocks"):
        lines.append("  pool     " + pool_text(summary["pool"]))
    moved = (
        f"{LINK_KINDS.get(kind, kind)} {common.byte_text(number)}"
        for kind, number in summary["bytes_by_kind"].items()
    )
    lines.append("  moved    " + ", ".join(moved))
    return "\n".join(lines) + "\n"


def write_summary(place: str, summary: dict, wall_s: float) -> None:
    """Writes the file that FLEETBLAS_SUMMARY names, as the library does for one process."""
    file = place.replace("%p", str(os.getpid()))
    is_json = file.endswith(".json")
    text = json.dumps(summary) + "\n" if is_json else summary_text(summary, wall_s)
    try:
        pathlib.Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"fleetblas run: cannot write {file}: {error.strerror}\n")


def execute(arguments) -> int:
    if not arguments.program:
        raise common.UsageError(PROGRAM_HINT)
    environment = program_environment(arguments)
    with tempfile.TemporaryDirectory(prefix="fleetblas-") as folder:
        environment["FLEETBLAS_SUMMARY"] = str(pathlib.Path(folder, "%p.json"))
        start = time.perf_counter()
        status = run_program(arguments.program, environment)
        wall_s = time.perf_counter() - start
        summary = merged(read_summaries(pathlib.Path(folder)))
    if status not in (NOT_FOUND, NOT_EXECUTABLE) or summary["calls"]:
        sys.stdout.flush()
        sys.stderr.write(summary_text(summary, wall_s))
        place = os.environ.get("FLEETBLAS_SUMMARY", "").strip()
        if place not in ("", "0", "1"):
            write_summary(place, summary, wall_s)
    return status

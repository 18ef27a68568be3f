# SPDX-License-Identifier: BSD-3-Clause
"""The books of what was computed in place of NumPy's and SciPy's functions, and the summary of them
when the process ends. Knows nothing of how calls are computed.

The core counts the products and factorizations that these calls are made of, not their names.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading

from . import _checked

_process = os.getpid()  # a forked child's calls are in no summary
_lock = threading.Lock()
_rows: dict[str, dict] = {}


def note(name: str, seconds: float) -> None:
    """Adds a call that was computed."""
    if os.getpid() != _process:
        return  # where a lost thread may hold the lock
    with _lock:
        row = _rows.setdefault(name, {"symbol": name, "calls": 0, "behind": 0, "seconds": 0.0})
        row["calls"] += 1
        row["seconds"] += seconds


def report() -> None:
    """Writes the summary where the setting of that name says."""
    if os.getpid() != _process or not _rows:
        return
    try:
        place = _checked.context_of(None).config()["options"]["summary"]["value"]
        if place:
            _write(place, list(_rows.values()))
    except Exception:
        pass  # the process ends: no one can be told


def _write(place: str, rows: list[dict]) -> None:
    if place == "1":
        sys.stderr.write(_text(rows))
        return
    # Not the core's own file, which it writes later.
    file = pathlib.Path(place.replace("%p", str(os.getpid())))
    file = file.with_name(f"{file.stem}.linalg{file.suffix}")
    text = json.dumps({"lapack": rows}) + "\n" if file.suffix == ".json" else _text(rows)
    file.write_text(text, encoding="utf-8")


def _text(rows: list[dict]) -> str:
    lines = ["fleetblas: in place of NumPy's and SciPy's functions\n"]
    for row in sorted(rows, key=lambda row: row["symbol"]):
        calls = f"{row['calls']} call{'' if row['calls'] == 1 else 's'}"
        lines.append(f"fleetblas:   {row['symbol']}: {calls}, {1e3 * row['seconds']:.1f} ms\n")
    return "".join(lines)

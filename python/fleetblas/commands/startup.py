# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of the first products of a process goes, for `fleetblas doctor --startup`.

Knows no hardware: the library names the phases.
"""

from __future__ import annotations

import time

from .. import _native
from .._context import Context
from . import common

CALLS = 3
DOES = {
    "driver": "CUDA's driver loaded, GPUs counted",
    "contexts": "a context on each GPU, side by side, while libraries are loaded",
    "libraries": "cuBLAS and cuSOLVER loaded",
    "peer access": "pairs of GPUs connected and tried with data",
    "machine": "rates measured, or read from the cache folder",
    "memory": "memory of devices for tiles",
    "handles": "cuBLAS handles, with kernels that are still being loaded",
    "copy threads": "threads that copy pageable memory",
}


def operands(context: Context, size: int, place: str) -> list:
    """Three matrices at one place, which may be wrong only where there are devices."""
    import numpy as np

    if place == "p":
        return [np.empty((size, size), order="F") for _ in range(3)]
    try:
        return [context.empty((size, size), location=place, order="F") for _ in range(3)]
    except _native.BadArgument as error:
        if context.config()["devices"]:  # they have started by now
            raise
        raise _native.Unsupported(str(error), "unsupported") from None


def measure(options: dict, size: int, place: str) -> dict:
    """Seconds of phases and of the first calls of dgemm, square, with operands at one place."""
    import numpy as np

    begin = time.perf_counter()
    with Context(**options, offload="always") as context:
        made_s = time.perf_counter() - begin
        arrays = operands(context, size, place)
        numbers = np.full((size, size), 0.5, order="F")
        for array in arrays:
            context.copy(array, numbers)  # NumPy cannot write to a device
        ready_s = time.perf_counter() - begin
        calls, phases = [], {}
        for _ in range(CALLS):
            context.gemm(*arrays[:2], out=arrays[2])
            last = context.stats()["last"]
            calls.append({name: last[name] for name in ("seconds", "prepare_s", "plan_s")})
            for name, seconds in last["phases"].items():
                phases[name] = phases.get(name, 0) + seconds
        where = last["where"]
    return {
        "size": size, "place": place, "where": where, "context_s": made_s,
        "operands_s": ready_s - made_s, "phases": phases, "calls": calls,
    }  # fmt: skip


def found(options: dict, size: int, place: str) -> dict:
    """The same, or why there is nothing to measure: a doctor goes on then.

    Raises BadArgument for a device that is none of those that there are.
    """
    try:
        return measure(options, size, place)
    except _native.BadArgument:
        raise
    except (ImportError, _native.Error) as error:
        return {"size": size, "place": place, "error": str(error)}


def text_of(found: dict) -> str:
    if "error" in found:
        return f"start of dgemm {found['size']}: not measured, {found['error']}"
    rows = [[name, common.duration(seconds), DOES.get(name, "")]
            for name, seconds in found["phases"].items()]  # fmt: skip
    begin = found["context_s"] + found["operands_s"]
    rows.append(
        ["before calls", common.duration(begin), "context and operands, with what it starts"]
    )
    for number, call in enumerate(found["calls"], 1):
        said = f"{common.duration(call['prepare_s'])} of it before its first task"
        if call["plan_s"] > 0:
            said += f", {common.duration(call['plan_s'])} of that planning"
        rows.append([f"call {number}", common.duration(call["seconds"]), said])
    title = f"start of dgemm {found['size']} at {found['place']}, by {found['where']}"
    width = max(len(row[0]) for row in rows)
    return "\n".join(
        [title, *(f"  {name:<{width}}  {time:>8}  {said}".rstrip() for name, time, said in rows)]
    )

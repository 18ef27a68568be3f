# SPDX-License-Identifier: BSD-3-Clause
"""Shows the plan of a call, the reasons for it, and how close it is to the lower bound.

Needs no device: a machine file is enough. Knows only the plan's JSON.
"""

from __future__ import annotations

import json

from .. import Context
from .._routines import LAPACK, VECTORS
from . import common, plan_factors, plan_lines

EXAMPLE = """examples: fleetblas plan gemm --type d --size 16K --machine h200x8
          fleetblas plan potrf --size 32K --machine h200x4 --uplo u --why
          printf 'dtrsm size=16384 a=T@h c=X@h\\ndgemm size=16384 a=D@h b=X@h c=C@h\\n' |
            fleetblas plan --program - --machine h200x4

Without --machine it plans for this machine, and measures it first (a few seconds). --program plans
calls that follow each other as one: operands with one name are one matrix."""

UNEVEN = 1.1  # smaller ratios come from rounding to tiles


def add_arguments(parser) -> None:
    common.add_problem_arguments(parser, routine_nargs="?")
    common.add_calls_argument(parser)
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument("--json", metavar="FILE", help="write the plan; - for stdout")
    parser.add_argument(
        "--why", action="store_true", help="list the considered plans, and why one was chosen"
    )
    parser.add_argument("--trace", metavar="FILE", help="write the simulated timeline (Chrome)")


def _cut(edges: dict) -> str:
    """The cuts of one dimension: 8 x 2048, or 9 x 1808..2048."""
    least, most = edges["least"], edges["most"]
    span = str(most) if least == most else f"{least}..{most}"
    return f"{edges['tiles']} x {span}"


def _own_edges(tiling: dict) -> str:
    """The tile edges of each row or column of the grid: ", edges along m 1024/2048"."""
    text = ""
    for name, dimension in (("row", "m"), ("col", "n")):
        if edges := tiling[f"{name}_tiles"]:
            text += f", edges along {dimension} {'/'.join(map(str, edges))}"
    return text


def _dealt(plan: dict, routine: str) -> str:
    """What the rows and columns of the grid are."""
    if routine in VECTORS:
        return "parts of sums x workers that take the tiles of the result in turn"
    if plan["split_k"]:
        return "parts of k x parts of C's columns; the sums of the parts are added in order"
    if plan["owners"] != "blocks":
        steals = ", idle workers steal" if plan["steals"] else ""
        return f"tiles of C dealt {plan['owners'].replace('_', ' ')}{steals}"
    least, most = min(plan["shares"]), max(plan["shares"])
    uneven = f", {100 * least:.0f} to {100 * most:.0f} % of it" if most > UNEVEN * least else ""
    return f"each worker has its own block of C{uneven}"


def _tiles(plan: dict, routine: str) -> list[tuple[str, str]]:
    """The grid and the tiles."""
    (rows, columns), cuts = plan["grid"], plan["cuts"]
    if routine in VECTORS:
        parts = f"result {_cut(cuts['n'])}, sums {_cut(cuts['k'])}"
    else:
        parts = ", ".join(f"{name} {_cut(cuts[name])}" for name in "mnk") + _own_edges(plan)
    lines = [
        ("grid", f"{rows} x {columns}: {_dealt(plan, routine)}"),
        ("tile", f"{plan['tile']}: {parts}"),
    ]
    if plan["in_place"]:
        letters = " and ".join(plan["in_place"]).upper()
        lines.append(("in place", f"{letters}, in memory shared with the host"))
    return lines


def _left_out(plan: dict) -> list[tuple[str, str]]:
    """The devices that do not compute, those with the same reason on one line."""
    devices: dict[str, list[int]] = {}
    for left in plan["left_out"]:
        devices.setdefault(left["why"], []).append(left["device"])
    return [("left out", f"{plan_lines.ids(ids)}: {why}") for why, ids in devices.items()]


def _cpu(plan: dict) -> list[tuple[str, str]]:
    """The part of the CPU beside the devices."""
    share = plan["cpu_share"]
    return [("CPU beside", f"{common.percent(share)} of the product, in place")] if share else []


def _schedule(plan: dict, routine: str) -> list[tuple[str, str]]:
    """Workers, grid, tiles, tasks and memory, which only a plan for devices has."""
    return [
        plan_lines.workers(plan),
        *_left_out(plan),
        *_cpu(plan),
        *_tiles(plan, routine),
        plan_lines.tasks(plan),
        *plan_lines.memory(plan),
    ]


def _has_devices(plan: dict) -> bool:
    """Whether there is any device; one that is there computes nothing of an empty product."""
    return bool(plan.get("memory"))


def text_of(plan: dict, words: dict) -> str:
    predicted = plan["predicted_s"]
    edges = (words[name] for name in "mnk")
    rate = common.tflops(words["routine"], words["type"], *edges, predicted)
    offload = plan["offload"]
    lines = [("where", f"{offload['where']} ({offload['reason']})")]
    if plan["workers"]:
        lines += _schedule(plan, words["routine"])
    lines += plan_lines.moved(plan)
    if plan["workers"]:
        lines.append(plan_lines.planned_in(plan))
    lines.append(("predicted", f"{common.duration(predicted)}, {common.rate_text(rate)}"))
    lines += plan_lines.bound(plan)
    lines += plan_lines.energy(plan)
    lines.append(("CPU alone", common.duration(plan["host_s"])))
    lines.append(("rules", str(plan["rules"])))
    if plan["preset"]:
        lines.append(("preset", str(plan["preset"])))
    hint = "" if _has_devices(plan) else "\n  (no device: try --machine h200x8, or --backend host)"
    return plan_lines.laid_out(plan_lines.head_of(plan), lines) + hint


def program_text(plan: dict) -> str:
    """The plan of several calls as one, beside the sum of their own plans."""
    lines = []
    for i, call in enumerate(plan["calls"]):
        cuts = ", ".join(f"{name} {_cut(call['cuts'][name])}" for name in "mnk")
        alone = common.duration(call["alone_s"])
        lines += [(f"call {i + 1}", call["call"]), ("", f"{cuts}; alone {alone}")]
    rows, columns = plan["grid"]
    lines += [
        plan_lines.workers(plan),
        *_left_out(plan),
        ("grid", f"{rows} x {columns}"),
        plan_lines.tasks(plan),
        *plan_lines.memory(plan),
        *plan_lines.moved(plan),
        plan_lines.planned_in(plan),
        ("predicted", common.duration(plan["predicted_s"])),
        ("one by one", common.duration(plan["alone_s"])),
        *plan_lines.bound(plan),
        *plan_lines.energy({**plan, "bound_value": None}),
    ]
    count = len(plan["calls"])
    head = f"{count} {'call' if count == 1 else 'calls'} as one plan\n"
    head += f"on {plan['machine']} ({plan['machine_source']}{plan_lines.corrected(plan)})\n"
    return plan_lines.laid_out(head, lines)


def _tuning(tried: dict, routine: str) -> str:
    """One candidate in words: 2 x 4, tiles 4096 x 2048 x 4096, ramp 3, groups of 8192."""
    (rows, columns), tile = tried["grid"], tried["tile"]
    edges = f"{tile} x {tried['tile_k']}"
    if routine not in VECTORS:
        edges = f"{tried['tile_m']} x {edges}"
    text = f"{rows} x {columns}, tiles {edges}{_own_edges(tried)}"
    if tried["cpu_share"]:
        text += f", CPU {common.percent(tried['cpu_share'])}"
    if tried["split_k"]:
        text += ", k split"
    if tried["in_place"]:
        text += f", {' and '.join(tried['in_place']).upper()} in place"
    if tried["ramp"]:
        text += f", ramp {tried['ramp']}"
    for name in ("row", "col"):
        parts = tried[f"{name}_shares"]
        if parts and max(parts) > min(parts):
            whole = sum(parts)
            text += f", {name}s " + ":".join(f"{100 * part / whole:.0f}" for part in parts) + " %"
    if tried["out_of_core"] != "none":
        text += f", {tried['out_of_core']}"
    if tried["group"]:
        rows, columns = tried["group_m"], tried["group"]
        text += f", groups of {rows}" + (f" x {columns}" if rows != columns else "")
    if tried["both_sides"]:
        text += ", both sides at once"
    if tried["inputs_first"]:
        text += ", inputs first"
    return text


def why_text(plan: dict, routine: str) -> str:
    """The considered plans, best first, and why each was not chosen."""
    if not plan["why"]:
        return "\n  (no device, so there was nothing to choose from)"
    several = len({tuple(tried["workers"]) for tried in plan["why"]}) > 1
    energy = any(tried["joules"] is not None for tried in plan["why"])
    head = ["considered", "estimate", "simulated", "worst", *(["energy"] if energy else [])]
    rows = [[*head, "tasks", ""]]
    for tried in plan["why"]:
        joules = tried["joules"]
        by = f"by {plan_lines.ids(tried['workers'])}: " if several else ""
        rows.append(
            [
                by + _tuning(tried, routine),
                common.duration(tried["estimate_s"]),
                common.duration(tried["predicted_s"]),
                common.duration(tried["worst_s"]),
                *(["-" if joules is None else f"{joules:.3g} J"] if energy else []),
                f"{tried['tasks']:,}",
                tried["reason"],
            ]
        )
    reasons = [row.pop() for row in rows]
    lines = common.table(rows).splitlines()
    text = "\n".join(f"  {line}  {reason}".rstrip() for line, reason in zip(lines, reasons))
    left_out = plan["why_left_out"]
    more = f"\n  and {left_out:,} more" if left_out else ""
    cpu = plan.get("cpu_left_out")
    return f"\n{text}{more}" + (f"\n  without the CPU beside the devices: {cpu}" if cpu else "")


def _page_of(plan: dict, words: dict, why: bool) -> str:
    """The plan of a call, or without words that of a program; and why it was chosen, if asked."""
    if words.get("routine") in LAPACK:
        text = plan_factors.text_of(plan, words)
        return f"{text}\n{plan_factors.why_text(plan)}" if why else text
    text = text_of(plan, words) if words else program_text(plan)
    return f"{text}\n{why_text(plan, words.get('routine', 'gemm'))}" if why else text


def execute(arguments) -> int:
    calls = common.calls_text(arguments)
    words = common.problem_words(arguments) if calls is None else {}
    if arguments.json == "-" and arguments.trace == "-":
        raise common.UsageError("--json and --trace cannot both go to stdout")
    common.require_writable(arguments.json, arguments.trace)
    with Context(**common.context_options(arguments)) as context:
        plan = context.plan_program(calls) if calls is not None else context.plan(**words)
        if not arguments.trace:
            timeline = None
        elif calls is not None:
            timeline = context.simulate_program(calls)
        else:
            timeline = context.simulate(**words)
    if "-" not in (arguments.json, arguments.trace):
        print(_page_of(plan, words, arguments.why))
    if arguments.json:
        common.write_json(arguments.json, plan)
    if arguments.trace:
        common.write_text(arguments.trace, json.dumps(timeline) + "\n")
    return 0

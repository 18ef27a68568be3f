# SPDX-License-Identifier: BSD-3-Clause
"""The plan of a factorization in words. Knows only the plan's JSON and its keys."""

from __future__ import annotations

from . import common, plan_lines

EVEN = 1.04  # ratios of shares that are not worth a word


def _strips(plan: dict) -> list[tuple[str, str]]:
    """How the matrix is cut, and what of it the devices hold at a time."""
    panels = plan["panels"]
    lines = [("strips", f"{plan['strips']} of {plan['tile']} columns, {panels} with a panel")]
    least, most = min(plan["shares"]), max(plan["shares"])
    part = f"{100 * least:.0f}" + (f" to {100 * most:.0f}" if most > least * EVEN else "")
    dealt = f"each worker updates and factors its own, {part} % of the arithmetic"
    lines.append(("", dealt))
    if plan["stages"] > 1:
        text = "the matrix is not held as a whole; kinds of tasks and memory are of stage 1"
        lines.append(("stages", f"{plan['stages']}: {text}"))
    return lines


def _tasks(plan: dict) -> tuple[str, str]:
    name, text = plan_lines.tasks(plan)
    if plan["stages"] > 1:
        text = text.replace(":", " in all stages, in stage 1:", 1)
    return name, text


def text_of(plan: dict, words: dict) -> str:
    predicted, offload = plan["predicted_s"], plan["offload"]
    edges = (words[name] for name in "mnk")
    rate = common.tflops(words["routine"], words["type"], *edges, predicted)
    lines = [
        ("where", f"{offload['where']} ({offload['reason']})"),
        plan_lines.workers(plan),
        *_strips(plan),
        _tasks(plan),
        *plan_lines.memory(plan),
        *plan_lines.moved(plan),
        plan_lines.planned_in(plan),
        ("predicted", f"{common.duration(predicted)}, {common.rate_text(rate)}"),
        *plan_lines.bound(plan),
        *plan_lines.energy(plan),
        ("CPU alone", common.duration(plan["host_s"])),
        ("rules", str(plan["rules"])),
    ]
    return plan_lines.laid_out(plan_lines.head_of(plan), lines)


def why_text(plan: dict) -> str:
    """The widths of strips that were tried, by as many workers, best first."""
    energy = any(tried["joules"] is not None for tried in plan["why"])
    head = ["considered", "workers", "stages", "simulated", *(["energy"] if energy else [])]
    rows = [[*head, "tasks", ""]]
    for tried in plan["why"]:
        joules, is_planned = tried["joules"], tried["predicted_s"] is not None
        rows.append(
            [
                f"strips of {tried['tile']}",
                plan_lines.ids(tried["workers"]),
                str(tried["stages"]) if is_planned else "-",
                common.duration(tried["predicted_s"]),
                *(["-" if joules is None else f"{joules:.3g} J"] if energy else []),
                f"{tried['tasks']:,}" if is_planned else "-",
                tried["reason"],
            ]
        )
    reasons = [row.pop() for row in rows]
    lines = common.table(rows).splitlines()
    return "\n" + "\n".join(f"  {line}  {why}".rstrip() for line, why in zip(lines, reasons))

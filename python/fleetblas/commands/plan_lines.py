# SPDX-License-Identifier: BSD-3-Clause
"""Lines that the pages of plans share: workers, tasks, memory, bytes, bound and energy.

Knows only the plan's JSON, and not whether it is of a product or of a factorization.
"""

from __future__ import annotations

from . import common

LINKS_SHOWN = 8


def link_kind(link: str) -> str:
    source, target = link.split("->")
    host = ("host", "pageable")
    if source in host:
        return "within the host" if target in host else "host -> devices"
    return "devices -> host" if target in host else "device -> device"


def ids(numbers: list[int]) -> str:
    """0-3,6"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def moved(plan: dict) -> list[tuple[str, str]]:
    links = plan["bytes_by_link"]
    if not links:
        return [("moved", "nothing")]
    kinds: dict[str, int] = {}
    for link, number in links.items():
        kinds[link_kind(link)] = kinds.get(link_kind(link), 0) + number
    lines = [f"{kind} {common.byte_text(number)}" for kind, number in kinds.items()]
    rows = [("moved", ", ".join(lines))]
    busiest = sorted(links.items(), key=lambda item: -item[1])
    for link, number in busiest[:LINKS_SHOWN]:
        rows.append(("", f"{link:<14} {common.byte_text(number):>9}"))
    if len(busiest) > LINKS_SHOWN:
        rows.append(("", f"and {len(busiest) - LINKS_SHOWN} more links (--json has them all)"))
    return rows


def memory(plan: dict) -> list[tuple[str, str]]:
    """The fullest device, and groups where not everything fits."""
    lines = []
    used = [device for device in plan["memory"] if device["bytes"]]
    if used:
        fullest = max(used, key=lambda device: device["bytes"])
        used, cap = (common.byte_text(fullest[name]) for name in ("bytes", "cap_bytes"))
        lines.append(("memory", f"at most {used} of staging per device (cap {cap})"))
    if plan.get("out_of_core", "none") != "none":
        group = f", groups of {plan['group']}" if plan["group"] else ""
        lines.append(("out of core", plan["out_of_core"] + group))
    return lines


def tasks(plan: dict) -> tuple[str, str]:
    kinds = ", ".join(f"{name} {n:,}" for name, n in plan["tasks_by_kind"].items() if n)
    return "tasks", f"{plan['tasks']:,}: {kinds}"


def planned_in(plan: dict) -> tuple[str, str]:
    text = f"{common.duration(plan['plan_s'])}, {plan['candidates']} plans simulated"
    return "planned in", text


def bound(plan: dict) -> list[tuple[str, str]]:
    predicted, least = plan["predicted_s"], plan["bound_s"]
    lines = [("bound", f"{common.duration(least)}, limited by {plan['limited_by']}")]
    if predicted and least is not None:
        lines.append(("of bound", common.percent(least / predicted)))
    return lines


def laid_out(head: str, lines: list[tuple[str, str]]) -> str:
    return head + "\n".join(f"  {name:<12} {text}".rstrip() for name, text in lines)


def workers(plan: dict) -> tuple[str, str]:
    return "workers", f"{len(plan['workers'])} ({ids(plan['workers'])})"


def energy(plan: dict) -> list[tuple[str, str]]:
    """Joules, if watts are known, and the objective, if it is not time."""
    lines = []
    joules, node = plan["joules"], plan["joules_node"]
    if joules is not None:
        whole = f", {node:.3g} J with all devices of the node" if node is not None else ""
        lines.append(("energy", f"{joules:.3g} J on devices that take part{whole}"))
    if plan["objective"] == "time":
        return lines
    value, least = plan["predicted_value"], plan.get("bound_value")
    text = plan["objective"]
    if value is not None:
        text += f": {value:.3g}" + ("" if joules is not None else ", every device counted as 1 W")
    if value and least is not None:
        text += f", {common.percent(least / value)} of its bound"
    return [*lines, ("objective", text)]


def corrected(plan: dict) -> str:
    """ "; corrected by runs: products d of device 0 x0.75", or nothing."""
    rates = ", ".join(f"{each['rate']} x{each['factor']:.2f}" for each in plan["corrections"])
    return f"; corrected by runs: {rates}" if rates else ""


def head_of(plan: dict) -> str:
    """The problem, and the machine that it is planned for."""
    source = plan["machine_source"] + corrected(plan)
    return f"{plan['problem']}\non {plan['machine']} ({source})\n"

# SPDX-License-Identifier: BSD-3-Clause
"""Machines with other values where their files assume some: how far do results depend on these?

A change is a name; several are joined by " + ". Knows the JSON of machines, and no experiment.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

AS_SHIPPED = ""
# Paper 2, 4.4: double-precision peaks of the GPUs of CLX-AI beside other processes, TFLOPS of 7.
UNEVEN_TFLOPS = {0: 3.5, 1: 3.5, 2: 5.0, 3: 5.0, 4: 3.5, 5: 7.0, 6: 3.5, 7: 7.0}
UNEVEN_PEAK = 7.0


def _latency(machine: dict, factor: float) -> None:
    for link in machine["links"]:
        for key in {"latency_s", "sent_latency_s"} & link.keys():
            link[key] *= factor


def _small_tiles(machine: dict, factor: float) -> None:
    """Scales what small tiles lose against the peak of each type."""
    for device in machine["devices"]:
        kernels = device.get("kernels", [])
        for one in {k["type"] for k in kernels}:
            peak = max(k["flops_per_s"] for k in kernels if k["type"] == one)
            for k in kernels:
                if k["type"] == one:
                    k["flops_per_s"] = peak - factor * (peak - k["flops_per_s"])


def _issue(machine: dict, factor: float) -> None:
    machine["issue_s"] *= factor


def _host_each_way(machine: dict, _: float) -> None:
    """Karolina: 96 GB/s in each direction; in the file it is the sum of both."""
    machine["ports"].append({"name": "host memory, in", "capacity": 96e9})
    for link in machine["links"]:
        for share in link.get("ports", []):
            if share["port"] == "host memory" and link["to"] == "host":
                share["port"] = "host memory, in"


def _pcie(machine: dict, bytes_per_s: float) -> None:
    for link in machine["links"]:
        if "host" in (link["from"], link["to"]) and "pageable" not in link.values():
            link["bytes_per_s"] = bytes_per_s
    for port in machine["ports"]:
        if port["name"] != "copy threads":
            port["capacity"] = bytes_per_s


def _slow_links(machine: dict, factor: float) -> None:
    """The links between devices that are slower than the fastest, and the ports that they share."""
    peers = [x for x in machine["links"] if x["from"].isdigit() and x["to"].isdigit()]
    fastest = max(x["bytes_per_s"] for x in peers)
    ports = set()
    for link in peers:
        if link["bytes_per_s"] < fastest:
            link["bytes_per_s"] *= factor
            ports |= {share["port"] for share in link.get("ports", [])}
    for port in machine["ports"]:
        if port["name"] in ports:
            port["capacity"] *= factor


def _uneven(machine: dict, _: float) -> None:
    for device in machine["devices"]:
        if device["name"].isdigit():
            for kernel in device["kernels"]:
                kernel["flops_per_s"] *= UNEVEN_TFLOPS[int(device["name"])] / UNEVEN_PEAK


def _sources(by: str) -> Callable[[dict, float], None]:
    """The same machine for the simulator; for the planner, which goes by the rates of links, one
    with link rates that make GPUs choose their sources as wanted: the true rate of a link becomes
    the capacity of a port of its own. As in XKBlas, any GPU that holds a tile is preferred to the
    host."""

    def change(machine: dict, _: float) -> None:
        shuffled = random.Random(5)
        of_host = [x for x in machine["links"] if x["from"] == "host" and x["to"].isdigit()]
        of_gpus = [x for x in machine["links"] if x["from"].isdigit() and x["to"].isdigit()]
        before_host = 1.01 * max(x["bytes_per_s"] for x in of_host)
        fastest = max(x["bytes_per_s"] for x in of_gpus)
        for link in of_gpus:
            real = link["bytes_per_s"]
            name = f"{link['from']} to {link['to']}"
            machine["ports"].append({"name": name, "capacity": real})
            link["ports"] = [*link.get("ports", []), {"port": name, "weight": 1}]
            link["bytes_per_s"] = {
                "links": max(real, before_host),
                "lowest number": fastest,
                "shuffled": fastest * (1 + shuffled.random()),
                "slowest": 2 * fastest - real,
            }[by]

    return change


SOURCES = ("links", "lowest number", "shuffled", "slowest")
CHANGES: dict[str, tuple[Callable[[dict, float], None], float]] = {
    "half the latency": (_latency, 0.5),
    "twice the latency": (_latency, 2.0),
    "small tiles at full rate": (_small_tiles, 0.0),
    "issuing free": (_issue, 0.0),
    "issuing on 8 threads": (_issue, 1 / 8),
    "host 96 GB/s each way": (_host_each_way, 0.0),
    "PCIe at 10 GB/s": (_pcie, 10e9),
    "PCIe at 14 GB/s": (_pcie, 14e9),
    "slow links at 0.8": (_slow_links, 0.8),
    "slow links at 1.25": (_slow_links, 1.25),
    "uneven devices": (_uneven, 0.0),
    **{f"sources by {by}": (_sources(by), 0.0) for by in SOURCES},
}


def changed(machine: dict, names: str) -> dict:
    """A copy with all changes of `names`, in their order. Raises KeyError for an unknown one."""
    made = copy.deepcopy(machine)
    for name in names.split(" + ") if names else ():
        change, value = CHANGES[name]
        change(made, value)
    return made

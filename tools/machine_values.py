# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a machine file, and its text. Knows the schema of machine_json.cpp, no machine."""

import json

GB = 1e9
TFLOPS = 1e12
US = 1e-6
TIB = 2**40
LANES = 8  # compute queues per GPU, as in Uncut-GEMMs, III-B


def number(value):
    """A float rounded to ten digits, without the rounding errors of multiplication."""
    return float(f"{value:.10g}")


def link(source, target, latency_s, bytes_per_s, weights):
    """A link. `weights`: units of each port per byte."""
    made = {"from": source, "to": target, "latency_s": number(latency_s)}
    made["bytes_per_s"] = number(bytes_per_s)
    if weights:
        made["ports"] = [{"port": name, "weight": weight} for name, weight in weights.items()]
    return made


def gpus(count, memory_bytes, launch_s, memory_bytes_per_s, rates, **others):
    """Equal GPUs. `rates`: for each type {edge: TFLOPS}."""
    kernels = [
        {"type": t, "edge": edge, "flops_per_s": number(round(rate, 3) * TFLOPS)}
        for t, by_edge in rates.items()
        for edge, rate in by_edge.items()
    ]
    return [
        {
            "name": str(d),
            "memory_bytes": memory_bytes,
            "lanes": LANES,
            "launch_s": number(launch_s),
            "memory_bytes_per_s": number(memory_bytes_per_s),
            **others,
            "kernels": kernels,
        }
        for d in range(count)
    ]


def watts(idle, wait, copy=None, exchange=None, stream=None, multiply=None):
    """Watts by kind of work; what is not given is as `wait`."""
    others = {"copy": copy, "exchange": exchange, "stream": stream, "multiply": multiply}
    return {"idle": idle, "wait": wait} | {n: wait if w is None else w for n, w in others.items()}


def machine(name, source, notes, issue_s, ports, host_bytes, devices, links):
    hosts = [{"name": place, "memory_bytes": host_bytes} for place in ("host", "pageable")]
    return {
        "schema": 2,
        "name": name,
        "source": source,
        "notes": notes,
        "issue_s": number(issue_s),
        "ports": [{"name": p, "capacity": number(capacity)} for p, capacity in ports.items()],
        "devices": hosts + devices,
        "links": links,
    }


def all_links(count, copying, host, peers):
    """Links between pageable and pinned memory, between host and GPUs, and between GPUs.

    `copying` is (latency_s, bytes_per_s, weights); host(d, inward) and peers(a, b) return the same.
    """
    links = [link("pageable", "host", *copying), link("host", "pageable", *copying)]
    for d in range(count):
        links.append(link("host", str(d), *host(d, True)))
        links.append(link(str(d), "host", *host(d, False)))
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    return links + [link(str(a), str(b), *peers(a, b)) for a, b in pairs]


def device_text(device):
    """A device on one line, except for its kernels: two of one type per line."""
    kernels = device.get("kernels")
    if not kernels:
        return json.dumps(device)
    lines = []
    for t in dict.fromkeys(k["type"] for k in kernels):
        of_type = [json.dumps(k) for k in kernels if k["type"] == t]
        lines += [", ".join(of_type[i : i + 2]) for i in range(0, len(of_type), 2)]
    rows = "[\n    " + ",\n    ".join(lines) + "\n  ]"
    return json.dumps(device | {"kernels": "\0"}).replace(json.dumps("\0"), rows)


def text_of(made):
    """JSON that is easy to read and to compare: one line per note, port, device and link."""

    def row_text(key, row):
        return device_text(row) if key == "devices" else json.dumps(row)

    members = []
    for key, value in made.items():
        if isinstance(value, dict):
            rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
        elif isinstance(value, list):
            rows = [row_text(key, row) for row in value]
        else:
            members.append(f" {json.dumps(key)}: {json.dumps(value)}")
            continue
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        body = ",\n".join("  " + row for row in rows)
        members.append(f" {json.dumps(key)}: {opening}\n{body}\n {closing}")
    return "{\n" + ",\n".join(members) + "\n}\n"

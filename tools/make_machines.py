#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes machines/*.json: measured nodes and the machines of papers, every number with its source.

Standard library only. `make_machines.py` rewrites the files; `--check` names those that differ and
fails if any does. It knows the schema of machine_json.cpp, and nothing of the planner.
"""

import argparse
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "machines"
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


# --- H200 nodes: measured 2026-11-21 ---------------------------------------------------------

H200_MEMORY_BYTES = 150109880320
H200_MEMORY_RATE = 4.8e12
H200_LAUNCH_S = 3.6 * US
H200_ISSUE_S = 2.1 * US
H200_PEER_LATENCY_S = 11.2 * US
H200_HOST_LATENCY_S = 22 * US
H200_PEER_RATE = 390 * GB
H200_OUT, H200_IN = 395 * GB, 398 * GB
# TFLOPS per GPU by edge.
H200_S = {256: 9, 512: 26, 1024: 40, 2048: 48.8, 4096: 50.5, 8192: 50.6, 16384: 51.7}
H200_D = {256: 10, 512: 30, 1024: 50.7, 2048: 57.5, 4096: 52.6, 8192: 52.8, 16384: 56.4}
H200_H = {256: 11, 512: 78, 1024: 338, 2048: 639.8, 4096: 654.3, 8192: 703.5, 16384: 651.8}
H200_TF32 = {256: 11, 512: 71, 1024: 237, 2048: 334, 4096: 355.1, 16384: 324.8}
# The highest sustained rates per GPU of the node with four GPUs: 205 and 224 in total.
H200X4_S, H200X4_D = 51.25, 56.0

H200_NOTES = {
    "launch_s": "measured: 3.6 us host time per kernel launch.",
    "issue_s": "measured: 1,024 nodes (896 chunk copies, 128 kernels) replayed as one CUDA graph "
    "take 2.18 ms to launch and 2.31 ms to run. Issued through streams it would be 6.3 us.",
    "memory_bytes": "GPUs measured (150,109,880,320); host assumed 1 TiB.",
    "memory_bytes_per_s": "assumed: 4.8 TB/s nominal of the H200.",
}


# Energy counters of two H200 (22 Nov 2026), rounded to watts.
H200_WATTS = {
    "idle": 127,
    "wait": 138,
    "copy": 139,
    "exchange": 207,
    "stream": 586,
    "multiply": 690,
}
H200_POWER = (
    "measured on another node with two H200 by their energy counters, each 1 s or more: idle with "
    "a context 127 W (80 without one), kernels that wait 138, copies from and to the host 139, "
    "copies between GPUs 221 at the source and 193 at the target, copies within a GPU 586, "
    "products of any type 685 to 700. The host's power is not known."
)


def h200_gpus(count, most_s, most_d):
    s = {edge: min(rate, most_s) for edge, rate in H200_S.items()}
    d = {edge: min(rate, most_d) for edge, rate in H200_D.items()}
    rates = {"s": s, "d": d, "c": s, "z": d, "h": H200_H, "bf16": H200_H, "tf32": H200_TF32}
    return gpus(
        count, H200_MEMORY_BYTES, H200_LAUNCH_S, H200_MEMORY_RATE, rates, watts=watts(**H200_WATTS)
    )


def h200_ports(count, host_ports, pcie, copying):
    ports = dict(host_ports)
    for d in range(count):
        ports |= {f"out of {d}": H200_OUT, f"into {d}": H200_IN, f"pcie {d}": pcie}
    return ports | {"copy threads": copying}


def h200_links(count, copying, host_rate, host_weights):
    return all_links(
        count,
        (H200_HOST_LATENCY_S, copying, {"copy threads": 1, "host memory": 1}),
        lambda d, inward: (
            H200_HOST_LATENCY_S,
            host_rate,
            {f"pcie {d}": 1} | host_weights(d, inward),
        ),
        lambda a, b: (H200_PEER_LATENCY_S, H200_PEER_RATE, {f"out of {a}": 1, f"into {b}": 1}),
    )


def h200x8():
    notes = {
        "kernels": "d and s: cuBLAS 13.1, random data, all eight busy (h200x8-probe: 2048 57.5, "
        "4096 52.6, 8192 52.8, 16384 56.4 TFLOPS FP64; 4096 50.5, 8192 50.6, 16384 51.7 FP32). d "
        "at 1024 and s at 2048 are of one GPU alone (50.7, 48.8): started on all eight from one "
        "thread they are bound by issuing (24.3, 42.4), which issue_s accounts for. Assumed: d and "
        "s at 256 and 512, s at 1024 (not measured); c takes the rates of s and z those of d, in "
        "flops (8mnk). h and tf32: measured in the same way (4096 654.3, 8192 703.5, 16384 651.8 "
        "TFLOPS FP16 with sums in FP32; 4096 355.1, 16384 324.8 TF32), h at 2048 on one GPU alone "
        "(639.8; all eight from one thread: 283.4). Assumed: h below 2048 and tf32 below 4096, "
        "their arithmetic at 640 and 355 TFLOPS and 3 us more; bf16 as h.",
        **H200_NOTES,
        "latency_s": "fitted to 2D copies of FP64 tiles T = 512, 1024, 2048, 4096: GPU to GPU 11.2 "
        "us gives 126, 256, 345, 378 GB/s (measured 125, 256, 343, 382); host to GPU 22 us gives "
        "35, 48, 53, 55 (measured 33, 49, 48, 55).",
        "nvlink": "measured: every pair 387 to 393 GB/s, out of one GPU to all seven 395, into one "
        "from all seven 398. All at once the model gives 3,120 for a ring of eight (measured "
        "3,012) and 3,160 for all-to-all (2,942 to 3,066). A ring in both directions at once "
        "measured only 2,053: not modelled.",
        "power": H200_POWER,
        "host": "measured GB/s against this model: to all eight GPUs 163 (163), from all eight 92 "
        "(92; another run 112), both ways 118 (121); to {4,5,6,7} 163 (163), {0,2,4,6} 163 (155), "
        "{0,1,4,5} 163 (156), {0,1,2,3} 100 (99); pairs 0+1, 0+2, 0+3 100 (108 to 109), 0+4 to 0+7 "
        "110 (104 to 109); from {0,1,2,3} 68 (66), from {0,1} 68 (72); both ways {0,1,2,3} 100 "
        "(94), {0,1} 100 (101.5); one GPU 55 each way (55), both ways 100 (101.5). In short: "
        "errors at most 9 %. Sets of five to seven GPUs starting at 0 measured 121 to 135 by their "
        "slowest member, which gets 19 to 24 here too; which GPU gets how much of the sum when all "
        "eight copy (measured 19 for 0-3, 27 for 4-7) is max-min fair here, so 20 each.",
        "ports": "host memory: 163e9 units/s, a byte to a GPU takes 1, a byte from a GPU 1.77 "
        "(163/92). host memory 0-3: 100e9, what GPUs 0-3 get of it in both directions together. "
        "from 0-3: 68e9, what they can write. pcie i: 101.5e9 both ways together. Writes by GPUs "
        "4-7 alone were not measured: only host memory limits them here.",
        "pageable": "measured: 16 threads copy 65 GB/s into pinned memory (8 threads 57, 32 "
        "threads 81); cudaMemcpy of pageable memory 7 to 9. Assumed: the way back is as fast, both "
        "share the threads, and a byte takes one unit of host memory.",
    }

    def host_weights(d, inward):
        weights = {"host memory": 1 if inward else 1.77}
        if d < 4:
            weights |= {"host memory 0-3": 1} | ({} if inward else {"from 0-3": 1})
        return weights

    host_ports = {"host memory": 163 * GB, "host memory 0-3": 100 * GB, "from 0-3": 68 * GB}
    return machine(
        "h200x8",
        "measured 2026-11-21 on a node with 8 H200 (NVSwitch, one VM, 128 cores); host sums "
        "reproduced within 9 %; what is assumed is marked in notes",
        notes,
        H200_ISSUE_S,
        h200_ports(8, host_ports, pcie=101.5 * GB, copying=65 * GB),
        TIB,
        h200_gpus(8, max(H200_S.values()), max(H200_D.values())),
        h200_links(8, 65 * GB, 55.3 * GB, host_weights),
    )


def h200x4():
    notes = {
        "kernels": "measured: all four together 224 TFLOPS FP64, 205 FP32. Assumed: the shape of "
        "the table, taken from h200x8 (see its notes) and capped at 56 TFLOPS (FP64) and 51.25 "
        "(FP32); h, bf16 and tf32, of which none was measured on this node, as on h200x8.",
        **H200_NOTES,
        "issue_s": H200_NOTES["issue_s"] + " Measured on h200x8.",
        "latency_s": "assumed as on h200x8 (fitted there).",
        "nvlink": "assumed as on h200x8 (390 per pair, 395 out, 398 in); not measured on this "
        "node.",
        "power": H200_POWER,
        "host": "measured GB/s against this model: to all four GPUs 140 (139.7), from all four 126 "
        "(126.1), both ways 155 (154.9); pairs to 105 (103.7 to 105.7), from 105 (104.7), both "
        "ways 133 (132.9). One GPU was not measured alone: assumed half of a pair.",
        "ports": "host reads 139.7e9, host writes 126.1e9, host memory 154.9e9 for both together "
        "(weight 1 each), pcie i 66.5e9 for both directions of one GPU (half of the 132.9 of a "
        "pair).",
        "pageable": "assumed as on h200x8 with 8 threads (57 GB/s): this VM has half the cores; "
        "cudaMemcpy of pageable memory measured 6.6. Assumed: both directions share the threads, "
        "and a byte takes one unit of host memory.",
    }
    host_ports = {"host memory": 154.9 * GB, "host reads": 139.7 * GB, "host writes": 126.1 * GB}
    return machine(
        "h200x4",
        "measured 2026-11-21 on a node with 4 H200 (one VM, 64 cores), host sums reproduced within "
        "2 %; links between GPUs, latencies and the shape of the kernel table taken from h200x8; "
        "what is assumed is marked in notes",
        notes,
        H200_ISSUE_S,
        h200_ports(4, host_ports, pcie=66.5 * GB, copying=57 * GB),
        TIB,
        h200_gpus(4, H200X4_S, H200X4_D),
        h200_links(
            4,
            57 * GB,
            52.5 * GB,
            lambda _, inward: {"host memory": 1, "host reads" if inward else "host writes": 1},
        ),
    )


# --- Testbeds of papers ----------------------------------------------------------------------

PAPER_LAUNCH_S = 4 * US
PAPER_ISSUE_S = 5 * US
PAPER_PEER_LATENCY_S = 11 * US
PAPER_HOST_LATENCY_S = 20 * US
PAPER_COPYING = 34 * GB
SHARE_OF_PEAK = {256: 0.25, 512: 0.55, 1024: 0.85, 2048: 0.94, 4096: 0.97, 8192: 0.98}

SHARES_TEXT = "(256: 0.25, 512: 0.55, 1024: 0.85, 2048: 0.94, 4096: 0.97, 8192: 0.98"
# The shares for the DGX-1, for which its paper gives more values.
DGX1_SHARE = SHARE_OF_PEAK | {2048: 0.97, 4096: 0.98, 8192: 0.985}
COMPLEX_TEXT = "; c takes the rates of s and z those of d."
PAPER_NOTES = {
    "launch_s": "assumed: 4 us.",
    "issue_s": "assumed: 5 us per task, as issuing through streams costs on newer nodes (kernel "
    "3.6 us, copy between GPUs 5.3 us).",
    "latency_s": "assumed: 11 us between GPUs, 20 us to and from the host, as fitted on an H200 "
    "node.",
    "pageable": "assumed: CPU threads copy 34 GB/s between pageable and pinned memory, both "
    "directions together.",
}

# Fig. 2 of paper 5, GB/s, from row to column, both directions together.
DGX1_PRINTED = [
    [744.05, 48.37, 48.39, 96.49, 96.45, 17.11, 17.74, 17.97],
    [48.38, 750.48, 96.50, 48.38, 16.98, 96.44, 17.32, 16.97],
    [48.34, 96.28, 750.48, 96.47, 17.62, 16.93, 48.39, 17.75],
    [96.26, 48.34, 96.28, 750.48, 17.58, 17.22, 17.60, 48.39],
    [96.46, 16.98, 17.65, 17.53, 746.89, 48.39, 48.40, 96.49],
    [16.94, 96.42, 16.88, 17.21, 48.39, 745.47, 96.51, 48.40],
    [17.65, 16.90, 48.40, 17.51, 48.34, 96.47, 750.48, 96.47],
    [17.80, 16.91, 17.77, 48.39, 96.28, 48.38, 96.28, 747.61],
]


def cube_mesh(a, b, two, one, none):
    """The number of NVLinks between a and b in the hybrid cube mesh: the colours of Fig. 2."""
    return two if DGX1_PRINTED[a][b] > 90 else one if DGX1_PRINTED[a][b] > 40 else none


def paper_gpus(memory_bytes, memory_bytes_per_s, peak_s, peak_d, shares=SHARE_OF_PEAK, **others):
    s, d = ({e: part * peak for e, part in shares.items()} for peak in (peak_s, peak_d))
    rates = {"s": s, "d": d, "c": s, "z": d}
    return gpus(8, memory_bytes, PAPER_LAUNCH_S, memory_bytes_per_s, rates, **others)


def pair_of(d):
    return f"{d - d % 2}-{d - d % 2 + 1}"


def pair_ports(bytes_per_s):
    """GPUs 0 and 1, 2 and 3, ... share one PCIe connection, with a port per direction."""
    return {f"{way} {pair_of(d)}": bytes_per_s for d in range(0, 8, 2) for way in ("to", "from")}


def paper_links(pcie, host_weights, peers):
    """`peers(a, b)`: GB/s of NVLink and its ports, or GB/s and None if PCIe connects them."""

    def host(d, inward):
        way = f"{'to' if inward else 'from'} {pair_of(d)}"
        return PAPER_HOST_LATENCY_S, pcie, {way: 1} | host_weights

    def peer(a, b):
        rate, weights = peers(a, b)
        if weights is None:
            weights = {f"from {pair_of(a)}": 1, f"to {pair_of(b)}": 1}
        return PAPER_PEER_LATENCY_S, rate * GB, weights

    return all_links(8, (PAPER_HOST_LATENCY_S, PAPER_COPYING, {"copy threads": 1}), host, peer)


def karolina():
    notes = {
        "paper": "Uncut-GEMMs (GEMMex), Table I and section IV-A.",
        "kernels": "Paper: 17.2 TFLOPS peak, FP64 and FP32 alike (clocks tuned for energy; FP32 "
        "without TF32). Assumed: shares of that peak by tile edge "
        + SHARES_TEXT
        + ")"
        + COMPLEX_TEXT,
        "memory": "Paper: 40 GB and 1.56 TB/s per GPU, 1 TB host memory (interleaved across NUMA "
        "nodes).",
        "nvlink": "Paper: 600 GB/s bidirectional per GPU, 4.8 TB/s in all; read as 300 GB/s out of "
        "and into each GPU, and as much for one pair alone.",
        "host": "Paper: 96 GB/s for all CPU-GPU communication, 12 GB/s per GPU; pairs (0-1, 2-3, "
        "...) share their PCIe, so GPUs 0, 2, 4, 6 get what all eight get. Read as: each pair 24 "
        "GB/s in each direction (PCIe 4 is full duplex), and 96 GB/s for both directions together "
        "(port 'host memory'). That reading also agrees with its scaling: h,h,h at 16K on 8 GPUs "
        "5.3 times one GPU means about 99 ms; all bytes at 96 GB/s take 89 ms, one direction only "
        "67 ms.",
        **PAPER_NOTES,
        "power": "not known.",
    }
    nvlink = {f"{way} {d}": 300 * GB for d in range(8) for way in ("out of", "into")}
    return machine(
        "karolina",
        "paper 1 (Uncut-GEMMs): Karolina, 8 A100-40GB behind NVSwitch; what the paper does not "
        "give is assumed and marked in notes",
        notes,
        PAPER_ISSUE_S,
        {"host memory": 96 * GB} | pair_ports(24 * GB) | nvlink | {"copy threads": PAPER_COPYING},
        10**12,
        paper_gpus(40 * 10**9, 1.56e12, peak_s=17.2, peak_d=17.2),
        paper_links(
            24 * GB,
            {"host memory": 1},
            lambda a, b: (300, {f"out of {a}": 1, f"into {b}": 1}),
        ),
    )


def clx_ai():
    notes = {
        "paper": "PARALiA, Table 3 and section 4.1.",
        "kernels": "Paper: 7 TFLOPS FP64, 14 FP32 peak per V100. Assumed: shares of that peak by "
        "tile edge " + SHARES_TEXT + ")" + COMPLEX_TEXT,
        "memory": "Paper: 32 GB and 760 GB/s per GPU, 768 GB host memory.",
        "links": "Paper: NVLink 24 or 48 GB/s between GPUs, below 6 GB/s between distant ones, "
        "PCIe 12 GB/s. Its link matrix is only in a picture (Fig. 6). Assumed: which pairs have "
        "which, the hybrid cube mesh of the DGX-1 (paper 5, Fig. 2); distant pairs 5.5 GB/s, "
        "crossing the PCIe of both pairs.",
        "host": "Paper: 12 GB/s to and from the host, shared by pairs of GPUs (0-1, 2-3, ...). "
        "Assumed: per direction.",
        "power": "Derived: the paper's GFLOPS per W behave as 289.5 W per selected GPU, idle ones "
        "at zero.",
        **PAPER_NOTES,
    }
    return machine(
        "clx-ai",
        "paper 2 (PARALiA): Vulcan clx-ai, 8 V100-32GB with NVLink; the pairs of the link matrix "
        "and what else the paper does not give are assumed and marked in notes",
        notes,
        PAPER_ISSUE_S,
        pair_ports(12 * GB) | {"copy threads": PAPER_COPYING},
        768 * 10**9,
        paper_gpus(32 * 10**9, 760e9, peak_s=14, peak_d=7, watts=watts(idle=0, wait=289.5)),
        paper_links(12 * GB, {}, lambda a, b: cube_mesh(a, b, (48, {}), (24, {}), (5.5, None))),
    )


def dgx1():
    notes = {
        "paper": "XKBlas heuristics, Table I, Fig. 2 and section IV.",
        "kernels": "Paper: 7.8 TFLOPS FP64 per GPU; its best DGEMM, 56.9 TFLOPS on eight, is 7.1 "
        "each, its TRSM and GEMM one after the other in tiles of 2048 reach 56.6 with all "
        "transfers, so tiles of 2048 must be at 7.1 or more. Assumed: 15.7 TFLOPS FP32 peak, and "
        "shares of that peak by tile edge ("
        + ", ".join(f"{edge}: {share}" for edge, share in DGX1_SHARE.items())
        + ", all times 0.95: V100s hold less than their peak)"
        + COMPLEX_TEXT,
        "memory": "Paper: 32 GB per GPU, 512 GB host memory; memory rate 748 GB/s, the mean of the "
        "diagonal of Fig. 2.",
        "links": "Paper, Fig. 2: GB/s of both directions together, so each direction has half: 48 "
        "over two NVLinks, 24 over one, 8.5 over PCIe. The last cross the PCIe of both pairs "
        "(assumed).",
        "host": "Paper: four PCIe 3 buses of 16 GB/s nominal, each shared by two GPUs, are the "
        "limit. Assumed: 12 GB/s in each direction for each pair (0-1, 2-3, ...), at once with all "
        "others.",
        **PAPER_NOTES,
        "power": "not known.",
    }

    def peers(a, b):
        return DGX1_PRINTED[a][b] / 2, cube_mesh(a, b, {}, {}, None)

    return machine(
        "dgx1",
        "paper 5 (XKBlas heuristics): NVIDIA DGX-1, 8 V100-SXM2-32GB, bandwidths of its Fig. 2; "
        "what the paper does not give is assumed and marked in notes",
        notes,
        PAPER_ISSUE_S,
        pair_ports(12 * GB) | {"copy threads": PAPER_COPYING},
        512 * 10**9,
        paper_gpus(32 * 10**9, 748e9, peak_s=0.95 * 15.7, peak_d=0.95 * 7.8, shares=DGX1_SHARE),
        paper_links(12 * GB, {}, peers),
    )


# --- Files -----------------------------------------------------------------------------------


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, list the files that differ"
    )
    check = parser.parse_args().check
    differing = 0
    for made in (h200x8(), h200x4(), karolina(), clx_ai(), dgx1()):
        file = FOLDER / (made["name"] + ".json")
        text = text_of(made)
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        differing += 1
        print(f"{file.name}: {'differs' if check else 'written'}")
        if not check:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())

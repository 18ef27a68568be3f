#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes machines/*.json: measured nodes and the machines of papers, every number with its source.

Standard library only. `make_machines.py` rewrites the files; `--check` names those that differ and
fails if any does. It knows nothing of the planner.
"""

import argparse
import pathlib
import sys

from machine_values import GB, TFLOPS, TIB, US, all_links, gpus, machine, number, text_of, watts
from paper_machines import (
    ac922,
    charisma_4v100,
    charisma_8a100,
    clx_ai,
    dgx1,
    karolina,
    w3520_c1060,
)

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "machines"

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

# Of doubles on an H100 (24 Nov 2026), fitted at 512 columns, and potrf at six orders of squares:
# seconds for each column and element.
H200_PANELS = {
    "potrf": {"column_s": 3.9e-07, "element_s": 1.8e-11, "widest": 16384},
    "getrf": {"column_s": 2.3e-06, "element_s": 3e-11},
    "geqrf": {"column_s": 4.6e-06, "element_s": 4.5e-11},
}
H200_PANELS_NOTE = (
    "measured on one H100, beside nothing else: doubles of 1024 to 65,536 rows and 512 columns; "
    "potrf by cuSOLVER, orders 128 to 16,384 (bench/results/panels-h100.json, factors-h100.json). "
    "Assumed to be the same on an H200, and for the other types."
)

H200_NOTES = {
    "launch_s": "measured: 3.6 us host time per kernel launch.",
    "issue_s": "measured: 1,024 nodes (896 chunk copies, 128 kernels) replayed as one CUDA graph "
    "take 2.18 ms to launch and 2.31 ms to run. Issued through streams it would be 6.3 us.",
    "memory_bytes": "GPUs measured (150,109,880,320); host assumed 1 TiB.",
    "memory_bytes_per_s": "assumed: 4.8 TB/s nominal of the H200.",
    "panels": H200_PANELS_NOTE,
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
        count,
        H200_MEMORY_BYTES,
        H200_LAUNCH_S,
        H200_MEMORY_RATE,
        rates,
        panels=H200_PANELS,
        watts=watts(**H200_WATTS),
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


# --- GH200: public figures, nothing measured --------------------------------------------------

C2C = 450 * GB
GRACE_MEMORY = 512 * GB


def gh200():
    notes = {
        "kernels": "assumed as on one H200 of h200x4 (its notes), which has the same processors.",
        "memory": "public figures of the GH200 with 96 GB of HBM3 at 4 TB/s and 480 GB of LPDDR5X "
        "at up to 512 GB/s.",
        "links": "public figure: NVLink-C2C, 450 GB/s in each direction. Assumed: all of it "
        "reached as far as the memory of the host allows, a latency of 5 us per copy.",
        "shares_host": "public: one page table for both, so that kernels of the GPU read and write "
        "any memory of the host in place. Assumed: at 0.8 of the rate of copies.",
        "host": "public figure: 7.1 TFLOPS FP64 for two Grace CPUs of 72 cores; assumed: 80 % of "
        "the half, twice that in FP32.",
        "pageable": "assumed: 72 cores copy 150 GB/s between pageable and pinned memory.",
        "power": "not known.",
    }
    rates = {"s": H200_S, "d": H200_D, "c": H200_S, "z": H200_D}
    rates |= {"h": H200_H, "bf16": H200_H, "tf32": H200_TF32}
    made = machine(
        "gh200",
        "public figures of a Grace Hopper superchip, nothing measured; what is assumed is marked "
        "in notes",
        notes,
        H200_ISSUE_S,
        {"host memory": GRACE_MEMORY, "copy threads": 150 * GB},
        480 * 10**9,
        gpus(1, 96 * 10**9, H200_LAUNCH_S, 4e12, rates, shares_host=True, in_place_share=0.8),
        all_links(
            1,
            (5 * US, 150 * GB, {"copy threads": 1}),
            lambda _, __: (5 * US, C2C, {"host memory": 1}),
            lambda _, __: None,
        ),
    )
    made["devices"][0] |= {
        "memory_bytes_per_s": GRACE_MEMORY,
        "kernels": [
            {"type": t, "edge": 1024, "flops_per_s": number(rate * TFLOPS)}
            for t, rate in {"s": 5.68, "d": 2.84, "c": 5.68, "z": 2.84}.items()
        ],
    }
    return made


# --- Files -----------------------------------------------------------------------------------


def all_machines():
    of_papers = (karolina, clx_ai, dgx1, ac922, charisma_4v100, charisma_8a100, w3520_c1060)
    return [make() for make in (h200x8, h200x4, gh200, *of_papers)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, list the files that differ"
    )
    check = parser.parse_args().check
    differing = 0
    for made in all_machines():
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

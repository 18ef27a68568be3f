#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes machines/clusters/*.json: clusters for Linpack's simulator, every number with its source.

Standard library only. `make_clusters.py` rewrites the files; `--check` names those that differ and
fails if any does. It knows nothing of the simulator, and no result of a paper's Linpack runs.
"""

import argparse
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "machines" / "clusters"
OPEN_MPI = "Open MPI 1.6.5's source, assumed to be as in 1.4.1 (Table 2)"


def of(value, source):
    return {"value": value, "source": source}


# ---- paper 3: 16 nodes with a Xeon W3520 and a Tesla C1060 --------------------------------------

C1060_RATE = 75e9
# machines/w3520-c1060.json, as parts of the rate of large products.
C1060_PARTS = {256: 20 / 78, 512: 44 / 78, 1024: 68 / 78, 2048: 76 / 78, 4096: 1.0}
PINNED, STAGED = 5.5e9, 6e9
PAGEABLE = 1 / (1 / PINNED + 1 / STAGED)
EDGE = 4096  # of Fig. 7


def cpu_rate():
    """From Fig. 7: one product on CPU and GPU takes 0.66 of the GPU's time and 0.36 of the CPU's,
    so the CPU has 0.36/0.66 of the rate that the GPU has with its transfers."""
    flops = 2 * EDGE**3
    gpu_s = flops / C1060_RATE + 4 * 8 * EDGE**2 / PAGEABLE
    return 0.36 / 0.66 * flops / gpu_s


def ethernet():
    """Bytes of data per second over one link: 1448 of the 1538 bytes of a frame on the wire."""
    return round(1e9 / 8 * 1448 / 1538, -5)


def w3520_c1060x16():
    return {
        "schema": 1,
        "name": "w3520-c1060x16",
        "about": "Paper 3: 16 nodes of a Xeon W3520 and a Tesla C1060, two gigabit links each. "
        "No constant was chosen by the paper's Linpack results.",
        "node": {
            "count": of(16, "paper 3, 6: 16-node cluster"),
            "rank_rows": of(1, "paper 3, 6.2: one process a node"),
            "rank_cols": of(1, "paper 3, 6.2: one process a node"),
        },
        "rank": {
            "cores": of(4, "paper 3, Table 1"),
            "core_peak_flops_per_s": of(42.72e9 / 4, "paper 3, Table 1: 42.72 GFLOPS by 4 cores"),
            "core_rates": of(
                [[64, round(cpu_rate() / 4, -7)]],
                "paper 3, Fig. 7 (one node): 34 % of the GPU's time saved and 64 % of the CPU's, "
                "so the CPU has 0.36/0.66 of the GPU's rate with transfers. Assumed: the same at "
                "every size",
            ),
            "memory_bytes_per_s": of(12e9, "machines/w3520-c1060.json: assumed there"),
            "gpus": of(1, "paper 3, Table 1"),
            "gpu_peak_flops_per_s": of(78e9, "paper 3, Table 1"),
            "gpu_rates": of(
                [[edge, round(part * C1060_RATE, -8)] for edge, part in C1060_PARTS.items()],
                "75 GFLOPS: dgemm of a GTX 280, the same chip, Volkov and Demmel (SC08) and Nath, "
                "Tomov and Dongarra (VECPAR 2010), quoted from memory. The smaller sizes: parts of "
                "it as machines/w3520-c1060.json assumes them",
            ),
            "transfer_latency_s": of(2e-5, "machines/w3520-c1060.json: assumed there"),
            "transfer_bytes_per_s": of(
                round(PAGEABLE, -7),
                "ordinary memory, as paper 3's Fig. 5 has it (cublasSetMatrix; 4.6: a core works "
                "meanwhile): staged at 6 GB/s, then sent at 5.5 GB/s, both assumed in "
                "machines/w3520-c1060.json",
            ),
        },
        "links": {
            "per_node": of(2, "paper 3, Fig. 11: two gigabit links"),
            "latency_s": of(5e-5, "assumed: Open MPI over TCP and gigabit Ethernet"),
            "bytes_per_s": of(
                ethernet(), "IEEE 802.3 and TCP: 1448 bytes of data in 1538 bytes on the wire"
            ),
            "segment_bytes": of(
                131072,
                f"{OPEN_MPI}: coll_tuned_decision_fixed.c, long broadcasts are a chain in segments "
                "of 128 KB",
            ),
            "segment_link_share": of(
                1,
                f"{OPEN_MPI}: pml_ob1_rdma.c, a segment of 128 KB that lies in one piece goes by "
                "both links, half each",
            ),
            "segment_trips": of(
                2,
                f"{OPEN_MPI}: pml_ob1_sendreq.c, start_rdma, sends a header first and data once "
                "the receiver has answered; coll_tuned_bcast.c waits for that before the next one",
            ),
        },
        "run": {
            "n": 90000,
            "nb": 576,
            "rows": 4,
            "cols": 4,
            "overlap": "full",
            "tasks": "skeleton",
            "transfers": "overlap",
            "solve_share": 0.31,
            "ahead_share": 0.35,
            "product_share": 0.31,
            "source": "paper 3, 6.1 and 6.2, Table 5",
        },
    }


# ---- two unequal devices a node -----------------------------------------------------------------


def unequal():
    made = w3520_c1060x16()
    made["name"] = "w3520-unequal"
    made["about"] = (
        "Assumed: four nodes as paper 3 has them, with a second card of half the speed, to show "
        "how the CPU's share is found beside unequal devices."
    )
    made["node"]["count"] = of(4, "assumed")
    made["rank"]["gpus"] = of([1, 0.5], "assumed: a second card of half the first one's speed")
    source = "assumed: a size of a minute or less"
    made["run"] |= {"n": 20000, "nb": 256, "rows": 2, "cols": 2, "tasks": "pivoted"}
    made["run"] |= {"solve_share": None, "ahead_share": None, "product_share": None}
    made["run"]["source"] = source
    return made


# ---- four nodes that one machine emulates -------------------------------------------------------

RATES = "bench/results/linpack-constants.txt, the middle of five runs"
# Of a message of a pivot, two rows of 192 columns and three numbers.
PIVOT_S, PIVOT_BYTES = 5.43e-5, 8 * (2 * 192 + 3)
GIGABIT, EXCHANGED = 1.164e8, 1.081e8
SOLVED, MULTIPLIED = 2.58e10, 4.80e10


def emulated_gigabit():
    rates = {66: 41.3, 105: 43.0, 166: 47.7, 264: 49.4, 288: 47.3, 458: 48.2, 727: 51.7}
    rates |= {1154: 52.6, 1454: 53.2}
    return {
        "schema": 1,
        "name": "emulated-gigabit",
        "about": "Measured: four network namespaces on a virtual machine with two cores, links of "
        "1 Gbit/s each way (bench/cluster.sh), where bench/results/linpack-cluster.txt was "
        "measured. No constant was chosen by these runs.",
        "node": {
            "count": of(4, "bench/cluster.sh up 4 1gbit"),
            "rank_rows": of(1, "one rank a node"),
            "rank_cols": of(1, "one rank a node"),
            "shared_cores": of(2, "the machine's: all nodes are on it"),
            "message_cores": of(
                0.34,
                RATES + ": CPU time of all processes and of interrupts during broadcasts, by rank "
                "and second",
            ),
        },
        "rank": {
            "cores": of(1, "bench/linpack.py: --cores=1"),
            "core_peak_flops_per_s": of(53.2e9, "the largest of core_rates"),
            "core_rates": of([[edge, rate * 1e9] for edge, rate in rates.items()], RATES),
            "memory_bytes_per_s": of(2.0e10, RATES),
            "rows_bytes_per_s": of(2.28e9, RATES),
            "solve_share": of(
                round(SOLVED / MULTIPLIED, 2),
                RATES + ": solve_rate over the rate at that edge, 419",
            ),
            "gpus": of(0, "there are none"),
        },
        "links": {
            "per_node": of(1, "bench/cluster.sh"),
            "latency_s": of(
                round(PIVOT_S - PIVOT_BYTES / GIGABIT, 6),
                RATES + ": a message of a pivot without the time of its bytes",
            ),
            "bytes_per_s": of(GIGABIT, RATES + ": broadcasts of 8 MB"),
            "segment_bytes": of(1e9, "groups of two ranks have no chain"),
            "segment_link_share": of(1, "bytes_per_s is that of broadcasts"),
            "segment_trips": of(2, "Open MPI: long messages wait for the receiver's answer"),
            "exchange_share": of(
                round(EXCHANGED / GIGABIT, 2), RATES + ": exchange_bytes_per_s over bytes_per_s"
            ),
        },
        "run": {
            "n": 8000,
            "nb": 192,
            "rows": 2,
            "cols": 2,
            "overlap": "full",
            "tasks": "pivoted",
            "transfers": "overlap",
            "source": "bench/results/linpack-cluster.txt",
        },
    }


# ---- 1,000 nodes of 8 H200 ----------------------------------------------------------------------

HGX = "NVIDIA, DGX H200 data sheet: "
MEASURED = "machines/h200x8.json: "


def h200x8x1000():
    rates = {256: 10, 512: 30, 1024: 50.7, 2048: 57.5, 4096: 52.6, 8192: 52.8, 16384: 56.4}
    return {
        "schema": 1,
        "name": "h200x8x1000",
        "about": "Assumed: 1,000 nodes of 8 H200, one rank a GPU, a 400 Gbit link a GPU.",
        "node": {
            "count": of(1000, "assumed"),
            "rank_rows": of(8, "assumed: the ranks of a node are one under another"),
            "rank_cols": of(1, "assumed: the ranks of a node are one under another"),
        },
        "rank": {
            "cores": of(14, HGX + "112 cores a node"),
            "core_peak_flops_per_s": of(0, "left out of the peak: the GPUs do all the work"),
            "memory_bytes_per_s": of(3e11, "assumed; not used, since matrices stay on GPUs"),
            "gpus": of(1, "assumed: one rank a GPU"),
            "gpu_peak_flops_per_s": of(67e12, "NVIDIA, H200 data sheet: FP64 Tensor Core"),
            "gpu_rates": of(
                [[edge, rate * 1e12] for edge, rate in rates.items()],
                MEASURED + "d, all eight GPUs busy; below 1024 assumed there",
            ),
            "gpu_memory_bytes_per_s": of(4.8e12, MEASURED + "nominal"),
            "resident": of(True, "assumed: matrices stay on GPUs (141 GB each)"),
            "gpu_panel_column_s": of(2.3e-6, MEASURED + "getrf, measured on one H100"),
            "gpu_panel_element_s": of(3e-11, MEASURED + "getrf, measured on one H100"),
        },
        "links": {
            "per_node": of(8, HGX + "8 ConnectX-7 of 400 Gbit/s"),
            "latency_s": of(5e-6, "assumed: a message from GPU memory, across three switches"),
            "bytes_per_s": of(45e9, HGX + "50e9 nominal; assumed: 90 % of it"),
            "local_latency_s": of(11.2e-6, MEASURED + "GPU to GPU"),
            "local_bytes_per_s": of(390e9, MEASURED + "GPU to GPU"),
            "segment_bytes": of(4194304, "assumed"),
            "segment_link_share": of(1, "one link a rank"),
            "segment_trips": of(1, "assumed: receivers have posted"),
        },
        "run": {
            "n": 10_000_000,
            "nb": 1024,
            "rows": 80,
            "cols": 100,
            "overlap": "full",
            "tasks": "pivoted",
            "transfers": "overlap",
            "solve_share": None,
            "ahead_share": None,
            "product_share": None,
            "source": "assumed: 100 GB of matrix a GPU",
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, list what differs")
    check = parser.parse_args().check
    differing = 0
    for made in (w3520_c1060x16(), unequal(), emulated_gigabit(), h200x8x1000()):
        file = FOLDER / (made["name"] + ".json")
        text = json.dumps(made, indent=1) + "\n"
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        differing += 1
        print(f"{file.name}: {'differs' if check else 'written'}")
        if not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())

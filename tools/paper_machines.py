# SPDX-License-Identifier: BSD-3-Clause
"""The machines of the papers: what each paper gives, and what is assumed, which its file says."""

from machine_values import GB, US, all_links, gpus, machine, number, watts

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


# --- Nodes with two kinds of links (paper 4) ---------------------------------------------------

UNEVEN_NOTES = PAPER_NOTES | {
    "kernels": "Paper: what products really reach (marked below), taken as the rate of the largest "
    "tiles. Assumed: smaller tiles have the shares of it that "
    + SHARES_TEXT
    + " of a peak) are of 0.98; c takes the rates of s and z those of d.",
    "power": "not known.",
}


def of_largest(rate):
    """Rates by edge, of which the largest tiles reach `rate`."""
    return {e: part / SHARE_OF_PEAK[8192] * rate for e, part in SHARE_OF_PEAK.items()}


def uneven_node(name, source, notes, count, memory, rates, fast, slow, slow_ports, host):
    """GPUs in pairs (0-1, 2-3, ...) with fast links inside a pair and slow ones between pairs.

    memory: (bytes, bytes per second) of a GPU, bytes of the host. fast, slow, host: GB/s of a copy.
    slow_ports: GB/s, in each direction, of what copies between pairs and with the host share.
    """

    def peer(a, b):
        if a // 2 == b // 2:
            return PAPER_PEER_LATENCY_S, fast * GB, {}
        weights = {f"from {pair_of(a)}": 1, f"to {pair_of(b)}": 1}
        return PAPER_PEER_LATENCY_S, slow * GB, weights

    def of_host(d, inward):
        way = f"{'to' if inward else 'from'} {pair_of(d)}"
        return PAPER_HOST_LATENCY_S, host * GB, {way: 1}

    ports = {
        f"{way} {pair_of(d)}": slow_ports * GB for d in range(0, count, 2) for way in ("to", "from")
    }
    bytes_, rate, host_bytes = memory
    return machine(
        name,
        source,
        notes,
        PAPER_ISSUE_S,
        ports | {"copy threads": PAPER_COPYING},
        host_bytes,
        gpus(count, bytes_, PAPER_LAUNCH_S, rate, rates),
        all_links(count, (PAPER_HOST_LATENCY_S, PAPER_COPYING, {"copy threads": 1}), of_host, peer),
    )


V100_FP32, V100_FP64 = 14.8, 7.4
V100_RATES = {t: of_largest(V100_FP32 if t in "sc" else V100_FP64) for t in ("s", "d", "c", "z")}


def ac922():
    notes = UNEVEN_NOTES | {
        "paper": "Multi-GPU GEMM for uneven links, table of testing platforms: IBM Power System "
        "AC922 8335-GTH, 4 V100-SXM2-32GB.",
        "rates": "Paper: 14.8 TFLOPS FP32 (peak 14.899). Assumed: half of it in FP64.",
        "links": "Paper: 72.68 GB/s between the GPUs of a socket (peak 75), 33.24 between sockets "
        "(X-Bus, peak 64). Assumed: GPUs 0 and 1 are of one socket, 2 and 3 of the other; all "
        "copies between the sockets share 64 GB/s in each direction.",
        "host": "Assumed: NVLink to the CPU as fast as between two GPUs (72.68 GB/s) as far as "
        "64 GB/s per socket and direction allow, 512 GB of memory.",
        "memory": "Paper: 32 GB and 900 GB/s per GPU.",
    }
    return uneven_node(
        "ac922",
        "paper 4 (uneven links): IBM AC922, 4 V100 in two sockets; what the paper does not give is "
        "assumed and marked in notes",
        notes,
        4,
        (32 * 10**9, 900e9, 512 * 10**9),
        V100_RATES,
        fast=72.68,
        slow=33.24,
        slow_ports=64,
        host=72.68,
    )


def charisma_4v100():
    notes = UNEVEN_NOTES | {
        "paper": "Multi-GPU GEMM for uneven links, table of testing platforms: a node of cHARISMa "
        "with 4 V100.",
        "rates": "Paper: 14.8 TFLOPS FP32 (peak 14.899). Assumed: half of it in FP64.",
        "links": "Paper: 48.33 GB/s over NVLink (peak 50), 9.74 over PCIe 3 (peak 15.754), whose "
        "indirect copies it finds synchronous. Assumed: NVLink inside the pairs 0-1 and 2-3 (it "
        "counts two slow and one fast link per GPU); the PCIe of a pair carries 12 GB/s in each "
        "direction.",
        "host": "Assumed: 12 GB/s in each direction per pair, 768 GB of memory.",
        "memory": "Paper: 900 GB/s per GPU. Assumed: 32 GB.",
    }
    return uneven_node(
        "charisma-4v100",
        "paper 4 (uneven links): node of cHARISMa with 4 V100, NVLink in pairs and PCIe 3; what "
        "the paper does not give is assumed and marked in notes",
        notes,
        4,
        (32 * 10**9, 900e9, 768 * 10**9),
        V100_RATES,
        fast=48.33,
        slow=9.74,
        slow_ports=12,
        host=12,
    )


def charisma_8a100():
    notes = UNEVEN_NOTES | {
        "paper": "Multi-GPU GEMM for uneven links, table of testing platforms: a node of cHARISMa "
        "with 8 A100.",
        "rates": "Paper: 124 TFLOPS TF32 (peak 156). Assumed: 19.5 in FP32 and FP64 (public peaks "
        "of an A100).",
        "links": "Paper: 281 GB/s over NVLink (peak 300), 17.42 over PCIe 4 (peak 31.508). "
        "Assumed: NVLink inside the pairs 0-1, 2-3, ... (it counts six slow and one fast link per "
        "GPU); the PCIe of a pair carries 24 GB/s in each direction.",
        "host": "Assumed: 24 GB/s in each direction per pair, 1 TB of memory.",
        "memory": "Paper: 2039 GB/s per GPU. Assumed: 80 GB, which have that rate.",
    }
    fp = of_largest(19.5)
    rates = {"s": fp, "d": fp, "c": fp, "z": fp, "tf32": of_largest(124)}
    return uneven_node(
        "charisma-8a100",
        "paper 4 (uneven links): node of cHARISMa with 8 A100, NVLink in pairs and PCIe 4; what "
        "the paper does not give is assumed and marked in notes",
        notes,
        8,
        (80 * 10**9, 2039e9, 10**12),
        rates,
        fast=281,
        slow=17.42,
        slow_ports=24,
        host=24,
    )


def w3520_c1060():
    notes = PAPER_NOTES | {
        "paper": "Computation-communication overlap of Linpack, Table 1: Intel Xeon W3520 (4 "
        "cores) and Tesla C1060.",
        "kernels": "Paper: peaks of 42.72 GFLOPS (CPU) and 78 (GPU), FP64. Assumed: both reach "
        "their peaks in tiles of 4096 and " + SHARES_TEXT + ") of it in smaller ones on the GPU; "
        "FP32 twice that of FP64 on the CPU, 622 GFLOPS on the GPU" + COMPLEX_TEXT,
        "links": "Paper: PCI-Express 2.0. Assumed: 5.5 GB/s in each direction of the 8 nominal.",
        "memory": "Paper: 4 GB on the GPU, 6 GB on the host. Assumed: 102 GB/s on the GPU (public "
        "figure), 12 GB/s on the host.",
        "pageable": "assumed: CPU threads copy 6 GB/s between pageable and pinned memory.",
        "power": "not known.",
    }

    def share_of(peak):
        return {e: min(1.0, part / SHARE_OF_PEAK[4096]) * peak for e, part in SHARE_OF_PEAK.items()}

    s, d = share_of(0.622), share_of(0.078)
    made = machine(
        "w3520-c1060",
        "paper 3 (Linpack overlap): a node with a Xeon W3520 and a Tesla C1060; what the paper "
        "does not give is assumed and marked in notes",
        notes,
        PAPER_ISSUE_S,
        {"copy threads": 6 * GB},
        6 * 10**9,
        gpus(1, 4 * 10**9, PAPER_LAUNCH_S, 102e9, {"s": s, "d": d, "c": s, "z": d}),
        all_links(
            1,
            (PAPER_HOST_LATENCY_S, 6 * GB, {"copy threads": 1}),
            lambda _, __: (PAPER_HOST_LATENCY_S, 5.5 * GB, {}),
            lambda _, __: None,
        ),
    )
    made["devices"][0] |= {
        "memory_bytes_per_s": 12e9,
        "kernels": [
            {"type": t, "edge": 1024, "flops_per_s": number(rate * GB)}
            for t, rate in {"s": 85.44, "d": 42.72, "c": 85.44, "z": 42.72}.items()
        ],
    }
    return made

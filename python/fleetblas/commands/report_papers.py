# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of the papers, for comparison with ours. None of them was measured with FleetBLAS.

[1] "Uncut-GEMMs", section IV: 8 NVIDIA A100-40GB (node of Karolina), 10 warm-ups, medians of 100.
[2] "PARALiA", sections 4.3 and 4.4, Tables 4 and 5: 8 NVIDIA V100-32GB (node CLX-AI).
[3] "Linpack overlap", section III: one node with a Xeon W3520 and a Tesla C1060.
[4] "Uneven links": an IBM AC922, and two nodes of cHARISMa.
[5] "XKBlas heuristics", section IV: a DGX-1 with 8 V100.
"""

from __future__ import annotations

GEMMS = "Uncut-GEMMs"
GEMMS_WHERE = "8 A100 of Karolina"
PARALIA = "PARALiA"
PARALIA_WHERE = "8 V100 of CLX-AI"

# The engines of [1], by the names in our rows if FleetBLAS is compared with them too.
PEERS = ("cublasxt", "XKBLAS", "PARALiA")

# [1] figures 9 and 10: the speedup of its implementation, in the order of PEERS.
REGULAR = {
    ("d", "h,h,h"): (3.42, 1.4, 1.31),
    ("d", "0,0,0"): (10.3, 1.23, 1.26),
    ("s", "h,h,h"): (2.7, 1.37, 1.28),
    ("s", "0,0,0"): (10.8, 1.42, 1.31),
}

# [1] figure 12, FP64, by shape; None is the whole of the irregular data set.
IRREGULAR = {
    None: (11.8, 1.45, 1.37),
    "square": (8.7, 1.35, 1.4),
    "fat-thin": (17.6, 1.6, 1.28),
    "thin-fat": (7.31, 1.38, 1.42),
}

# [1] figure 8, FP64: each bar relative to the bar on its left, as printed. Except for bandwidth
# routing, both places have one number.
ABLATION = {
    "h,h,h": {
        "+ caching, overlap": "almost 2x",
        "+ bandwidth routing": "1.33x",
        "ETA routing, batching": "1.18x",
        "+ lazy C, ETA order": "1.1x",
    },
    "0,0,0": {
        "+ caching, overlap": "almost 2x",
        "+ bandwidth routing": "no effect",
        "ETA routing, batching": "1.18x",
        "+ lazy C, ETA order": "1.1x",
    },
}

# [1] figure 11, FP64: speed-up on 2, 4 and 8 GPUs over one, by N; None is a run that failed.
SCALING_DEVICES = (2, 4, 8)
SCALING = {
    "h,h,h": {
        8192: {
            GEMMS: (1.7, 3.0, 3.6),
            "cublasxt": (1.8, 2.5, 2.2),
            "XKBLAS": (1.8, 3.0, 3.6),
            "PARALiA": (1.6, 1.8, 2.5),
        },
        16384: {
            GEMMS: (2.0, 3.5, 5.3),
            "cublasxt": (1.9, 2.9, 2.1),
            "XKBLAS": (2.2, 4.1, 5.7),
            "PARALiA": (1.8, 2.9, 4.0),
        },
        32768: {
            GEMMS: (2.2, 4.2, 7.5),
            "cublasxt": (1.9, 3.2, 3.1),
            "XKBLAS": (None, None, None),
            "PARALiA": (1.9, 3.8, 6.4),
        },
    },
    "0,0,0": {
        8192: {
            GEMMS: (1.9, 3.5, 5.8),
            "cublasxt": (0.6, 0.3, 0.15),
            "XKBLAS": (1.8, 2.7, 3.8),
            "PARALiA": (1.9, 2.8, 3.1),
        },
        16384: {
            GEMMS: (2.0, 4.0, 7.4),
            "cublasxt": (1.1, 0.8, 0.62),
            "XKBLAS": (2.3, 4.5, 5.0),
            "PARALiA": (2.1, 4.0, 6.5),
        },
        32768: {
            GEMMS: (2.0, 3.9, 7.8),
            "cublasxt": (1.9, 1.4, 1.3),
            "XKBLAS": (None, None, None),
            "PARALiA": (2.0, 3.9, 7.8),
        },
    },
}

# [2] tables 4 and 5, dgemm: mean(flops) / mean(seconds) in GFLOPS, and GFLOPS per watt, by variant
# and part of the problems: the small half of the 630 (S), the large half (L), all (T). The row HT
# of table 5 and its EDP on HS contradict the rest, and are left out.
PARALIA_TABLE_4 = {
    "cublasxt": {"S": (1827, 0.79), "L": (8516, 3.68), "T": (7484, 3.23)},
    "blasx": {"S": (4913, 2.12), "L": (24755, 10.69), "T": (21486, 9.28)},
    "xkblas": {"S": (3569, 1.54), "L": (18572, 8.02), "T": (15895, 6.86)},
    "paralia comm_opt": {"S": (9396, 4.06), "L": (45840, 19.79), "T": (39996, 17.27)},
    "paralia PERF": {"S": (10641, 5.32), "L": (46066, 19.94), "T": (40933, 18.06)},
    "paralia EDP": {"S": (9453, 6.30), "L": (45433, 20.16), "T": (39804, 18.64)},
    "paralia PDP": {"S": (3970, 13.71), "L": (6700, 23.14), "T": (6530, 22.56)},
}

# The watts of both tables behave as this number for each selected GPU, the others at zero.
PARALIA_WATTS = 289.5
PARALIA_TABLE_5 = {
    "blasx": {"S": (5036, 2.21), "L": (18621, 8.2)},
    "xkblas": {"S": (5379, 2.36), "L": (16782, 7.4)},
    "paralia comm_opt": {"S": (12056, 5.5), "L": (24892, 10.9)},
    "paralia PERF": {"S": (12160, 6.2), "L": (27221, 14.7)},
    "paralia EDP": {"L": (26154, 15.3)},
}

# [2] table 4 as the page of `report` shows it: GFLOPS of S, L and T, and GFLOPS per watt over all.
PARALIA_NAMES = {
    "cublasxt": "cuBLASXt",
    "blasx": "BLASX",
    "xkblas": "XKBLAS",
    "paralia comm_opt": "PARALiA, routes only",
    "paralia PERF": "PARALiA, select(PERF)",
    "paralia EDP": "PARALiA, select(EDP)",
    "paralia PDP": "PARALiA, select(PDP)",
}
PARALIA_RATES = {
    PARALIA_NAMES[variant]: (*(parts[p][0] for p in "SLT"), parts["T"][1])
    for variant, parts in PARALIA_TABLE_4.items()
}

# [3] table 1 in GFLOPS, the share of the CPU that the rates predict and that was found best, for a
# dgemm of 4096, and the time that the parallel one saves over GPU and CPU alone.
LINPACK_CPU, LINPACK_GPU = 42.72, 78.0
LINPACK_SHARE = {"predicted": 0.35, "found": 0.34, "dtrsm": 0.31}
LINPACK_SAVED = {"GPU alone": 0.34, "CPU alone": 0.64}
# [3] 6.2: shares of the peak on 16 nodes at N = 90,000; the gain of its own over the others; the
# gain of computing during transfers. Best shares of the CPU in Fig. 6 and 12.
LINPACK_PEAK_SHARES = {"none": 0.48, "dedicated": 0.54, "full": 0.62}
LINPACK_GAINS = {"none": 1.28, "dedicated": 1.15}
LINPACK_TRANSFERS = 0.03
LINPACK_OVERLAPPED_SHARE = 0.31

# [4] the tile edges of its rules, and TFLOPS at A, B, C on GPUs 1, 2, 0: (edges, TFLOPS), the first
# edge for slow links. 6690 is not printed; it follows from the rule.
UNEVEN_EDGES = {"ac922": 2189, "charisma-4v100": 6690, "charisma-8a100": 86301}
UNEVEN_IDLE = {
    "ac922": ((1024, 512), 16.97),
    "charisma-4v100": ((4096, 1024), 9.97),
    "charisma-8a100": ((8192, 1024), 15.56),
}
UNEVEN_ONE_SIZE = {
    "ac922": (4096, 38.39),
    "charisma-4v100": (8192, 32.76),
    "charisma-8a100": (4096, 53.97),
}
UNEVEN_TWO_SIZES = {"ac922": ((4096, 2048), 45.48)}

# [5] table II: the most lost, and gained with data on devices, at N >= 16384; and single numbers of
# section IV.
HEURISTICS = {
    "DGEMM": {"optimistic off": -0.435, "both off": -0.43},
    "DSYR2K": {"optimistic off": -0.194, "both off": -0.535},
    "DTRSM": {"optimistic off": -0.296, "both off": -0.293},
}
DISTRIBUTED = {"DGEMM": 1.117, "DSYR2K": 0.711, "DTRSM": 0.526}
DISTRIBUTED_AT_10000 = 50.0  # TFLOPS at N of about 10000
XKBLAS_BEST, XKBLAS_AT_24000 = 56.9, 54.0  # TFLOPS of DGEMM
XKBLAS_PEAK = 62.4  # TFLOPS of the 8 GPUs
XKBLAS_OVER_CUBLASXT = 2.84
XKBLAS_COMPOSED, CHAMELEON_COMPOSED = 56.6, 36.6  # TFLOPS of TRSM and GEMM, N = 32768
XKBLAS_COPYING, CHAMELEON_COPYING = 0.254, 0.412


def speedup(kind: str, place: str, edge: float | None, devices: int | None, who: str = GEMMS):
    """The printed number, or None."""
    printed = SCALING.get(place, {}).get(edge, {}).get(who) if kind == "DGEMM" else None
    if printed is None or devices not in SCALING_DEVICES:
        return None
    return printed[SCALING_DEVICES.index(devices)]

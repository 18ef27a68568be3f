# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of the papers, for comparison with ours. None of them was measured with FleetBLAS.

[1] "Uncut-GEMMs", section IV: 8 NVIDIA A100-40GB (node of Karolina), 10 warm-ups, medians of 100.
[2] "PARALiA", section 4.3, Table 4: 8 NVIDIA V100-32GB (node CLX-AI).
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

# [2] table 4, dgemm: mean(flops) / mean(seconds) in GFLOPS over the small half of the 630 problems,
# the large half, and all; then GFLOPS per watt over all.
PARALIA_RATES = {
    "cuBLASXt": (1827, 8516, 7484, 3.23),
    "BLASX": (4913, 24755, 21486, 9.28),
    "XKBLAS": (3569, 18572, 15895, 6.86),
    "PARALiA, routes only": (9396, 45840, 39996, 17.27),
    "PARALiA, select(PERF)": (10641, 46066, 40933, 18.06),
    "PARALiA, select(EDP)": (9453, 45433, 39804, 18.64),
    "PARALiA, select(PDP)": (3970, 6700, 6530, 22.56),
}


def speedup(kind: str, place: str, edge: float | None, devices: int | None, who: str = GEMMS):
    """The printed number, or None."""
    printed = SCALING.get(place, {}).get(edge, {}).get(who) if kind == "DGEMM" else None
    if printed is None or devices not in SCALING_DEVICES:
        return None
    return printed[SCALING_DEVICES.index(devices)]

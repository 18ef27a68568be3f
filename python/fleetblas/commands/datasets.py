# SPDX-License-Identifier: BSD-3-Clause
"""The sets of problems of `bench --dataset`: those of the papers, and shapes that they omit. Knows
nothing of how they are timed.

Sources: paper 1 (Uncut-GEMMs) section IV-A3, IV-B, IV-D and IV-E; paper 2 (PARALiA) sections 4.2
and 4.4; paper 3 (Linpack overlap) sections III and VI; paper 4 (uneven links); paper 5 (XKBlas)
figure 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._routines import ROUTINES

K = 1024
GPUS_OF_PAPERS = 8  # places refer to nodes with this many GPUs

SQUARES = (*range(5 * K, 16 * K + 1, K), *range(20 * K, 32 * K + 1, 2 * K))
IRREGULAR_PLACES = ("h,h,h", "0,0,0", "4,2,h", "h,h,0", "4,2,7")
PARALIA_PLACES = (
    *("h,h,h", "0,0,h", "2,4,h", "h,h,0", "h,0,5", "0,0,0", "0,1,2", "0,3,6", "4,2,5", "1,6,7"),
)
SCALING_SIZES = (8 * K, 16 * K, 32 * K)
SCALING_DEVICES = (1, 2, 4, 8)
SKINNY_RATIOS = (4, 8, 16, 32, 64)
SKINNY_EDGE = 8 * K  # the cube root of m*n*k, so that all have equal arithmetic
SMALL_SIZES = (512, 768, 1024, 1536, 2048, 3072, 4096)
UNEVEN_SIZES = (8 * K, 16 * K, 32 * K, 64 * K)
# Paper 3, III and VI: sizes of its dgemm; block size, and local updates of N = 90,000 on a 4 x 4
# grid of processes, as many blocks wide.
HYBRID_SIZES = (2 * K, 4 * K, 8 * K)
LINPACK_NB = 576
LINPACK_UPDATES = tuple(blocks * LINPACK_NB for blocks in (5, 10, 20, 39))
HOST_AND_DEVICE = ("h,h,h", "0,0,0")
# Paper 5, figure 5, and the Hermitian ones among its nine routines (IV-A).
LEVEL3_ROUTINES = ("gemm", "symm", "syr2k", "syrk", "trmm", "trsm", "hemm", "her2k", "herk")
LEVEL3_SIZES = (4 * K, *range(8 * K, 48 * K + 1, 8 * K))

# Rules of paper 1, Fig. 8: each bar adds rules to the bar on its left, except that ETA routing
# replaces routing by bandwidth. All bars have the rules for tiles and out-of-core problems.
BASE_RULES = "outofcore,tile"
BARS = (
    ("naive SUMMA", BASE_RULES),
    ("+ caching, overlap", f"{BASE_RULES},caching,overlap"),
    ("+ bandwidth routing", f"{BASE_RULES},caching,overlap,bandwidth,forwarding"),
    ("ETA routing, batching", f"{BASE_RULES},caching,overlap,eta,batching"),
    ("+ lazy C, ETA order", f"{BASE_RULES},caching,overlap,eta,batching,lazy,order"),
)
# Rules whose absence matters if all others are in force: without `eta`, routing by bandwidth
# replaces it.
ALONE = ("caching", "overlap", "eta", "forwarding", "batching", "lazy", "order", "grid", "tile")


@dataclass(frozen=True)
class Case:
    """One problem of a set, with places for a node with eight GPUs."""

    m: int
    n: int
    k: int
    place: str
    shape: str = "square"
    devices: int | None = None  # number of devices; None: all
    rules: str = "all"
    bar: str | None = None  # name of the bar in an ablation
    routine: str = "gemm"


def fold(place: str, gpus: int) -> str:
    """The place on a node with `gpus` GPUs: GPU d of eight becomes d * gpus // 8."""

    def one(word: str) -> str:
        return str(int(word) * gpus // GPUS_OF_PAPERS) if word.isdigit() else word

    if gpus >= GPUS_OF_PAPERS:
        return place
    return ",".join(map(one, place.split(",")))


def spread(count: int, gpus: int) -> list[int]:
    """`count` GPUs of a node, as far apart as possible: neighbours may share a port to the host
    (paper 1, IV-D)."""
    return [index * gpus // count for index in range(count)]


def _squares(edges, places) -> list[Case]:
    return [Case(edge, edge, edge, place) for edge in edges for place in places]


def _fat_thin(edges, ratios, places) -> list[Case]:
    """Products with a large C and a short k."""
    return [
        Case(edge, edge, edge // ratio, place, "fat-thin")
        for edge in edges
        for ratio in ratios
        for place in places
    ]


def regular() -> list[Case]:
    return _squares(SQUARES, HOST_AND_DEVICE)


def irregular() -> list[Case]:
    ratios = (4, 8, 16)
    thin_fat = [
        Case(edge, edge, edge * ratio, place, "thin-fat")
        for edge in range(5 * K, 11 * K + 1, K)
        for ratio in ratios
        for place in IRREGULAR_PLACES
    ]
    fat_thin = _fat_thin(range(16 * K, 40 * K + 1, 4 * K), ratios, IRREGULAR_PLACES)
    return _squares(SQUARES, IRREGULAR_PLACES) + fat_thin + thin_fat


def paralia() -> list[Case]:
    ratios = (2, 8, 32)
    thin_fat = [
        Case(edge // ratio, edge // ratio, edge, place, "thin-fat")
        for edge in range(12 * K, 36 * K + 1, 4 * K)
        for ratio in ratios
        for place in PARALIA_PLACES
    ]
    fat_thin = _fat_thin(range(8 * K, 32 * K + 1, 4 * K), ratios, PARALIA_PLACES)
    return _squares(range(2 * K, 22 * K + 1, K), PARALIA_PLACES) + fat_thin + thin_fat


def uneven() -> list[Case]:
    """Paper 4: A, B and C on GPUs 1, 2 and 0 of four."""
    return _squares(UNEVEN_SIZES, ("2,4,0",))


def hetero() -> list[Case]:
    """Paper 2, 4.4: the set `paralia` from twice its least sizes, in twice its steps."""
    ratios = (2, 8, 32)
    thin_fat = [
        Case(edge // ratio, edge // ratio, edge, place, "thin-fat")
        for edge in range(24 * K, 36 * K + 1, 8 * K)
        for ratio in ratios
        for place in PARALIA_PLACES
    ]
    fat_thin = _fat_thin(range(16 * K, 32 * K + 1, 8 * K), ratios, PARALIA_PLACES)
    return _squares(range(4 * K, 22 * K + 1, 2 * K), PARALIA_PLACES) + fat_thin + thin_fat


def hybrid() -> list[Case]:
    """Paper 3: squares for CPU and GPU together, and the updates of its Linpack."""
    updates = [Case(edge, edge, LINPACK_NB, "h,h,h", "update") for edge in LINPACK_UPDATES]
    return _squares(HYBRID_SIZES, ("h,h,h",)) + updates


def scaling() -> list[Case]:
    return [
        Case(edge, edge, edge, place, devices=devices)
        for devices in SCALING_DEVICES
        for edge in SCALING_SIZES
        for place in HOST_AND_DEVICE
    ]


def ablation() -> list[Case]:
    """The paper's five bars, then all rules, then all but one."""
    bars = [*BARS, ("all", "all"), *((f"without {rule}", f"all,-{rule}") for rule in ALONE)]
    return [
        Case(edge, edge, edge, place, rules=rules, bar=bar)
        for bar, rules in bars
        for edge in SQUARES
        for place in HOST_AND_DEVICE
    ]


def skinny() -> list[Case]:
    """One edge is longer or shorter than the others by each ratio; all have the same arithmetic."""

    def edges(ratio: float) -> tuple[int, int]:
        odd = SKINNY_EDGE * ratio ** (2 / 3)
        others = SKINNY_EDGE / ratio ** (1 / 3)
        return round(odd / 64) * 64, round(others / 64) * 64

    cases = []
    for ratio in SKINNY_RATIOS:
        long, short = edges(ratio)
        thin, wide = edges(1 / ratio)
        for shape, sizes in (
            ("tall", (long, short, short)),
            ("flat", (short, long, short)),
            ("deep", (short, short, long)),
            ("thin", (wide, wide, thin)),
        ):
            cases += [Case(*sizes, place, shape) for place in HOST_AND_DEVICE]
    return cases


def small() -> list[Case]:
    return _squares(SMALL_SIZES, (*HOST_AND_DEVICE, "p,p,p"))


def level3() -> list[Case]:
    """Squares of every routine, with all matrices at one place."""
    return [
        Case(edge, edge, edge, place, routine=word)
        for edge in LEVEL3_SIZES
        for word in LEVEL3_ROUTINES
        for place in HOST_AND_DEVICE
    ]


SETS = {
    "regular": regular,
    "irregular": irregular,
    "paralia": paralia,
    "hetero": hetero,
    "uneven": uneven,
    "hybrid": hybrid,
    "scaling": scaling,
    "ablation": ablation,
    "skinny": skinny,
    "small": small,
    "level3": level3,
}


def cases_of(name: str, gpus: int) -> list[tuple[Case, str]]:
    """The cases of a set for a node with this many GPUs, each with its place there; places that
    coincide there are measured once. Cases are sorted by devices and rules, then by type, then by
    cost, so that an interrupted run has not spent all its time on setup."""
    found: dict[tuple, tuple[Case, str]] = {}
    for case in SETS[name]():
        routine = ROUTINES[case.routine]
        place = ",".join(routine.places(fold(case.place, gpus)))
        key = (case.routine, case.m, case.n, case.k, place, case.devices, case.rules)
        if (case.devices or 1) <= gpus:
            found.setdefault(key, (case, place))
    bars = list(dict.fromkeys(case.bar for case, _ in found.values()))
    return sorted(
        found.values(),
        key=lambda pair: (
            pair[0].devices or 0,
            bars.index(pair[0].bar),
            ROUTINES[pair[0].routine].hermitian,
            pair[0].m * pair[0].n * pair[0].k,
        ),
    )


def sets_of(gpus: list[int], place: str) -> list[list[int]]:
    """One set of each size that has all homes of operands."""
    homes = sorted({int(word) for word in place.split(",") if word.isdigit()})
    others = [gpu for gpu in gpus if gpu not in homes]
    least = max(1, len(homes))
    return [sorted(homes + others[: size - len(homes)]) for size in range(least, len(gpus) + 1)]

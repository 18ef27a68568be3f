# SPDX-License-Identifier: BSD-3-Clause
"""Paper 5 (XKBlas heuristics) on `dgx1`: data on devices, a column of Table II and Fig. 4."""

from __future__ import annotations

from dataclasses import dataclass

from . import common, report_papers
from .report_figures import Series, linear_axis, lines, size_axis
from .report_page import Html, figure
from .reproduce_runs import Results, Run
from .reproduce_tables import Experiment, Table, number, percent
from .reproduce_xkblas import (
    BOTH_ON,
    MACHINE,
    PRESET,
    PROBLEMS,
    SIZES,
    TILES,
    TUNED,
    TWO,
    VARIANTS,
    VARIED,
)

GPUS, GRID = 8, "4x2"
SMALL = 10000  # "about 10000", for which the paper prints a speed
AS_SHIPPED, EIGHT_ISSUE = "", "issuing on 8 threads"
FULL_RATE = f"{EIGHT_ISSUE} + small tiles at full rate"
# More that the machine file assumes.
VARIATIONS = ("half the latency", "twice the latency", "PCIe at 10 GB/s", "PCIe at 14 GB/s")


@dataclass(frozen=True)
class Reading:
    """A change of the machine, and the edges of blocks of which the best counts; none: the
    paper's. Results are computed where they lie, or by the best of our grids. Rules of XKBlas with
    both heuristics, or all of ours, which choose the grid too."""

    change: str = AS_SHIPPED
    blocks: tuple[int, ...] = ()
    any_grid: bool = False
    ours: bool = False


PAPERS_TILES, EIGHT_THREADS = "paper's tiles", f"+ {EIGHT_ISSUE}"
BEST, ANY_GRID = "+ small tiles at full rate", "+ any grid"
OTHER_TILES = "tiles of 1024 to 4096"
# Each name with a + adds to the line before.
READINGS = {
    PAPERS_TILES: Reading(),
    EIGHT_THREADS: Reading(EIGHT_ISSUE),
    BEST: Reading(FULL_RATE),
    ANY_GRID: Reading(FULL_RATE, any_grid=True),
    OTHER_TILES: Reading(blocks=TILES),
    f"{OTHER_TILES}, all our rules": Reading(blocks=TILES, ours=True),
}


def papers_tile(n: int) -> int:
    return -(-n // (4 * GPUS))


def _routines(quick: bool) -> tuple[str, ...]:
    return tuple(PROBLEMS)[:1] if quick else tuple(PROBLEMS)


def _sizes(quick: bool) -> tuple[int, ...]:
    return SIZES[:1] if quick else SIZES


def _readings(quick: bool) -> dict[str, Reading]:
    """Plans by any grid take longest, so a quick sample has none."""
    return {name: r for name, r in READINGS.items() if not (quick and r.any_grid)}


def _changed(*names: str) -> str:
    return " + ".join(filter(None, names))


def on_devices(routine: str, n: int, reading: Reading, varied: str = "") -> list[Run]:
    """One run for each edge of blocks."""
    options: tuple[tuple[str, object], ...] = (("devices", "all"),)
    by = ""
    if not reading.ours:
        options += (("rules", TWO),)
        by = VARIANTS[BOTH_ON][1]
        if not reading.any_grid:
            # XKBlas computes a tile where it lies: the workers' grid is that of the distribution.
            options += (("grid", GRID),)
    found = []
    for block in reading.blocks or (papers_tile(n),):
        text = PROBLEMS[routine][0].format(n=n).replace("@h", f"@c{GRID}:{block}")
        found.append(Run(text, MACHINE, options, _changed(reading.change, varied, by)))
    return found


def _on_host(routine: str, n: int, variant: str, change: str) -> list[Run]:
    """One run for each tile."""
    rules, by = VARIANTS[variant]
    options: tuple[tuple[str, object], ...] = (("devices", "all"),)
    options += (("rules", rules),) if rules else (("preset", "xkblas"),)
    tiles = TILES if variant == BOTH_ON else (None,)
    return [
        Run(
            PROBLEMS[routine][0].format(n=n),
            MACHINE,
            options + ((("tile", tile),) if tile else ()),
            _changed(change, by),
        )
        for tile in tiles
    ]


def _host_variants(reading: Reading) -> tuple[str, ...]:
    """From the host: what the reading is compared with."""
    return (TUNED,) if reading.ours else (BOTH_ON, PRESET)


def distributed_runs(quick: bool) -> list[Run]:
    found = []
    for routine in _routines(quick):
        for reading in _readings(quick).values():
            for n in (SMALL, *_sizes(quick)):
                found += on_devices(routine, n, reading)
                for variant in _host_variants(reading):
                    found += _on_host(routine, n, variant, reading.change)
        for varied in () if quick else VARIATIONS:
            for n in SIZES[:VARIED]:
                found += on_devices(routine, n, READINGS[BEST], varied)
                found += _on_host(routine, n, BOTH_ON, _changed(FULL_RATE, varied))
    return found


def _tflops(results: Results, routine: str, n: int, runs: list[Run]) -> float | None:
    """Of the fastest; None where there is no plan."""
    least_s = min(filter(None, map(results.seconds, runs)), default=None)
    return PROBLEMS[routine][1] * n**3 / least_s / 1e12 if least_s else None


def speed(results: Results, routine: str, n: int, name: str) -> float | None:
    """TFLOPS on devices in a reading; None where there is no plan."""
    return _tflops(results, routine, n, on_devices(routine, n, READINGS[name]))


def host_speed(
    results: Results, routine: str, n: int, variant: str, change: str = AS_SHIPPED
) -> float | None:
    return _tflops(results, routine, n, _on_host(routine, n, variant, change))


def gain(
    results: Results, routine: str, name: str, variant: str, varied: str = ""
) -> tuple[float, int]:
    """The largest over all sizes, relative to operands on the host on the same machine; its N."""
    reading = READINGS[name]
    gains = []
    for n in SIZES[:VARIED] if varied else _sizes(results.quick):
        there = _tflops(results, routine, n, on_devices(routine, n, reading, varied))
        here = host_speed(results, routine, n, variant, _changed(reading.change, varied))
        if there and here:
            gains.append((there / here - 1, n))
    return max(gains)


def most_from_host(routine: str) -> float:
    """TFLOPS that XKBlas can have had from the host where data on devices gained as printed: GPUs
    do not exceed their peak."""
    return report_papers.XKBLAS_PEAK / (1 + report_papers.DISTRIBUTED[routine])


def _gains(results: Results) -> Table:
    rows = []
    for routine in _routines(results.quick):
        for name, reading in _readings(results.quick).items():
            row = [routine, name, percent(report_papers.DISTRIBUTED[routine])]
            first, *others = _host_variants(reading)
            most, at = gain(results, routine, name, first)
            spread = [most]
            if name == BEST and not results.quick:
                spread += [gain(results, routine, name, first, v)[0] for v in VARIATIONS]
            several = f"{100 * min(spread):.0f} to {100 * max(spread):.0f}"
            row += [percent(most), several if len(spread) > 1 else "-", str(at)]
            over = gain(results, routine, name, others[0]) if others else (None, "-")
            rows.append([*row, percent(over[0]), str(over[1])])
    head = ["most gained at N >= 16384", "reading", "paper", "ours", "range", "at N"]
    notes = [
        f"Ours: over operands on the host, {BOTH_ON}, best tile (all our rules: over {TUNED}), on "
        "the machine with the same changes, of which each + adds one. The range covers "
        + ", ".join(VARIATIONS)
        + "."
    ]
    return Table(
        "Table II: what data on devices gain",
        [*head, "over preset xkblas", "at N"],
        rows,
        2,
        notes,
    )


def _speeds(results: Results) -> Table:
    rows = []
    for routine in _routines(results.quick):
        for n in (SMALL, *_sizes(results.quick)):
            printed = f"about {report_papers.DISTRIBUTED_AT_10000:g}" if n == SMALL else "-"
            from_host = [
                host_speed(results, routine, n, BOTH_ON),
                host_speed(results, routine, n, BOTH_ON, FULL_RATE),
                host_speed(results, routine, n, PRESET),
                host_speed(results, routine, n, TUNED),
            ]
            there = [speed(results, routine, n, name) for name in _readings(results.quick)]
            rows.append([routine, str(n), printed, *(number(v, 1) for v in from_host + there)])
    head = ["routine", "N", "on devices: paper", f"from the host: {BOTH_ON}"]
    head += [f"{BOTH_ON}, {BEST}", PRESET, TUNED]
    first, *others = _readings(results.quick)
    return Table("Fig. 4: TFLOPS", [*head, f"on devices: {first}", *others], rows, 2)


def _small(results: Results) -> Table:
    """What each task of the small product costs; the paper's from its speed and its products."""
    flops = PROBLEMS["DGEMM"][1] * SMALL**3
    products = (-(-SMALL // papers_tile(SMALL))) ** 3
    seconds = flops / (report_papers.DISTRIBUTED_AT_10000 * 1e12)
    cells = [str(products), f"{seconds * 1e3:.0f}", number(seconds / products * 1e6)]
    rows = [["paper: products alone", str(papers_tile(SMALL)), *cells]]
    for name, reading in _readings(results.quick).items():
        if not reading.blocks and not reading.any_grid:
            (run,) = on_devices("DGEMM", SMALL, reading)
            row = results[run]
            seconds, tasks = row["predicted_s"], row["tasks"]
            cells = [str(tasks), f"{seconds * 1e3:.0f}", number(seconds / tasks * 1e6)]
            rows.append([name, str(papers_tile(SMALL)), *cells])
    head = ["reading", "tile", "tasks", "ms", "us per task"]
    return Table(f"DGEMM {SMALL} on devices: how long tasks take", head, rows)


def distributed_tables(results: Results) -> list[Table]:
    return [_gains(results), _speeds(results), _small(results)]


def distributed_figures(results: Results) -> list[Html]:
    made = []
    sizes = (SMALL, *_sizes(results.quick))
    for routine in _routines(results.quick):
        curves = {"from the host": {n: host_speed(results, routine, n, BOTH_ON) for n in sizes}}
        for name in _readings(results.quick):
            curves[name] = {n: speed(results, routine, n, name) for n in sizes}
        series = []
        for i, (name, rates) in enumerate(curves.items()):
            points = [
                (n, rate, f"{name}, {n}: {rate:.1f} TFLOPS") for n, rate in rates.items() if rate
            ]
            series.append(Series(name, points, f"s{i}"))
        svg = lines(
            f"Fig. 4, {routine}",
            f"TFLOPS of {routine}",
            size_axis("N", sizes, common.edge_text),
            linear_axis("TFLOPS", [y for one in series for _, y, _ in one.points]),
            series,
        )
        made.append(figure(svg, f"Matrices block-cyclic over {GRID} GPUs, simulated."))
    return made


def _at_most() -> str:
    return ", ".join(f"{most_from_host(routine):.1f} ({routine})" for routine in PROBLEMS)


EXPERIMENTS = [
    Experiment(
        5,
        "distributed",
        "Table II, Fig. 4: data on devices",
        distributed_runs,
        distributed_tables,
        distributed_figures,
        (
            "In the machine file one thread issues tasks at 5 us each, and a tile of 512 has 0.55 "
            "of the peak. Both are assumed, and the paper contradicts both: about 50 TFLOPS at "
            "10000 in tiles of 313 are 1.2 us for each product, and 6.2 TFLOPS per GPU. Its "
            "kernels run side by side in several streams; how many threads issue, it does not "
            "say. So the readings with + are nearer to it.",
            "The printed gains need a slow host: GPUs do not exceed their peak of "
            f"{report_papers.XKBLAS_PEAK:g} TFLOPS, so at the N of the largest gain XKBlas had at "
            f"most {_at_most()} from the host. With both heuristics on the simulation has more of "
            "DGEMM and DSYR2K at every N, so data on devices gain less.",
            "No rate of the buses explains this for DGEMM: 29.5 TFLOPS at 16384 are 144 ms more "
            "than 57 TFLOPS would take, but about 54 at 24000, as printed, only 27 ms more. The "
            "paper does not print the N of the largest gain.",
            "DTRSM where its result lies: later rows of tiles have more products, so the last of "
            "the grid's four rows has 9 % more than the mean, and 53 TFLOPS are the most. `+ any "
            "grid` gives each GPU whole columns; XKBlas steals work.",
        ),
    ),
]

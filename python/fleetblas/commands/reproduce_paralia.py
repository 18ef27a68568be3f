# SPDX-License-Identifier: BSD-3-Clause
"""Paper 2 (PARALiA) on `clx-ai`: Tables 4 and 5, and Fig. 7 and 9."""

from __future__ import annotations

import statistics

from . import common, datasets, report_papers
from .report_figures import boxes, linear_axis
from .report_page import Html, figure
from .report_rows import Summary
from .reproduce_runs import Results, Run, gemm
from .reproduce_tables import OURS, POLICIES, Experiment, Table, number, usage_table

MACHINE = "clx-ai"
UNEVEN = "uneven devices"
SMALL = "S"
# One problem of so many; no divisor of the number of placements, so that all are in the samples.
QUICK_STEP = 43
USED_STEP = 13
# The paper's variants, and the same choices of FleetBLAS: devices, objective, preset.
VARIANTS: dict[str, tuple[tuple[str, object], ...]] = {
    "cublasxt": POLICIES["cublasxt"],
    "blasx": POLICIES["blasx"],
    "xkblas": POLICIES["xkblas"],
    "paralia comm_opt": (("devices", "all"), ("preset", "paralia")),
    "paralia PERF": (("devices", "auto"), ("preset", "paralia")),
    "paralia EDP": (("devices", "auto"), ("preset", "paralia"), ("objective", "edp")),
    "paralia PDP": (("devices", "auto"), ("preset", "paralia"), ("objective", "energy")),
    f"{OURS}, all devices": (("devices", "all"),),
    f"{OURS}, time": (("devices", "auto"),),
    f"{OURS}, edp": (("devices", "auto"), ("objective", "edp")),
    f"{OURS}, energy": (("devices", "auto"), ("objective", "energy")),
}
# All devices of FleetBLAS have parts by their speeds; without the rule `grid` they are equal.
EQUAL_PARTS = f"{OURS}, all devices, equal parts"
# The variant of the paper that each is compared with.
LIKE = {
    EQUAL_PARTS: "paralia comm_opt",
    f"{OURS}, all devices": "paralia comm_opt",
    f"{OURS}, time": "paralia PERF",
    f"{OURS}, edp": "paralia EDP",
    f"{OURS}, energy": "paralia PDP",
}
OF_TABLE_5 = {
    "blasx": VARIANTS["blasx"],
    "xkblas": VARIANTS["xkblas"],
    "paralia comm_opt": VARIANTS["paralia comm_opt"],
    "paralia PERF": VARIANTS["paralia PERF"],
    "paralia EDP": VARIANTS["paralia EDP"],
    EQUAL_PARTS: (("devices", "all"), ("rules", "all,-grid")),
    f"{OURS}, all devices": VARIANTS[f"{OURS}, all devices"],
    f"{OURS}, time": VARIANTS[f"{OURS}, time"],
    f"{OURS}, edp": VARIANTS[f"{OURS}, edp"],
}
COMM_OPT = "paralia comm_opt"

Problem = tuple[int, int, int, str]


def _joules(row: dict) -> float:
    """As the paper's watts behave: of selected GPUs, whatever they do."""
    return report_papers.PARALIA_WATTS * len(row["workers"]) * row["predicted_s"]


def _volume(problem: Problem) -> int:
    return problem[0] * problem[1] * problem[2]


def _sorted(dataset: str) -> list[Problem]:
    """The problems of a set by their flops; the half of the cheaper ones first."""
    cases = datasets.cases_of(dataset, datasets.GPUS_OF_PAPERS)
    return sorted(((c.m, c.n, c.k, place) for c, place in cases), key=_volume)


def _parts(dataset: str, small: int, quick: bool) -> dict[str, list[Problem]]:
    problems = _sorted(dataset)
    step = QUICK_STEP if quick else 1
    parts = {SMALL: problems[:small:step], "L": problems[small::step]}
    return parts | {"T": parts[SMALL] + parts["L"]}


class Setting:
    """One table: its problems, the machine's change, the variants, the printed numbers, and the
    variant of FleetBLAS with which its choices are compared."""

    def __init__(self, dataset: str, small: int, change: str, variants, printed, base: str):
        self.dataset, self.small, self.change = dataset, small, change
        self.variants, self.printed = variants, printed
        self.bases = {"paralia": COMM_OPT, OURS: base}

    def base_of(self, variant: str) -> str | None:
        """The same library with all devices and equal parts; None for that itself and others."""
        base = self.bases.get(OURS if variant.startswith(OURS) else variant.split()[0])
        return None if variant == base else base

    def parts(self, quick: bool) -> dict[str, list[Problem]]:
        return _parts(self.dataset, self.small, quick)

    def run(self, problem: Problem, variant: str, used: bool) -> Run:
        m, n, k, place = problem
        options = self.variants[variant]
        return Run(gemm(m, n, k, place), MACHINE, options, self.change, used)

    def runs(self, quick: bool) -> list[Run]:
        whole = self.parts(quick)["T"]
        sampled = set(whole if quick else whole[::USED_STEP])
        return [
            self.run(problem, variant, problem in sampled)
            for variant in self.variants
            for problem in whole
        ]

    def by_variant(self, results: Results) -> dict[str, dict[Problem, dict]]:
        runs = self.runs(results.quick)
        whole = self.parts(results.quick)["T"]
        found = {}
        for i, variant in enumerate(self.variants):
            of_variant = runs[i * len(whole) : (i + 1) * len(whole)]
            found[variant] = {p: results[run] for p, run in zip(whole, of_variant)}
        return found

    # ---- numbers --------------------------------------------------------------------------------

    def rates(self, results: Results) -> dict[tuple[str, str], tuple[float, float]]:
        """GFLOPS and GFLOPS per watt as Table 4 has them: mean flops over mean seconds, and over
        mean joules (289.5 W for each selected GPU)."""
        found = {}
        rows = self.by_variant(results)
        for part, problems in self.parts(results.quick).items():
            flops = statistics.fmean(2.0 * _volume(p) for p in problems)
            for variant in self.variants:
                of_part = [rows[variant][p] for p in problems]
                seconds = statistics.fmean(row["predicted_s"] for row in of_part)
                joules = statistics.fmean(map(_joules, of_part))
                found[variant, part] = (flops / seconds / 1e9, flops / joules / 1e9)
        return found

    def geometric(self, results: Results, variant: str, part: str) -> float | None:
        """The geometric mean of the speedups over the base of the variant."""
        base = self.base_of(variant)
        rows = self.by_variant(results)
        problems = self.parts(results.quick)[part]
        return common.geometric_mean(
            [rows[base][p]["predicted_s"] / rows[variant][p]["predicted_s"] for p in problems]
        )

    # ---- tables ---------------------------------------------------------------------------------

    def main_table(self, results: Results, title: str) -> Table:
        rates = self.rates(results)
        rows = []
        for variant in self.variants:
            printed = self.printed.get(LIKE.get(variant, variant))
            row = [variant]
            for part in self.parts(results.quick):
                gflops, per_watt = rates[variant, part]
                of_paper = printed.get(part) if printed else None
                row += [
                    f"{of_paper[0]:.0f}" if of_paper else "-",
                    f"{gflops:.0f}",
                    number(of_paper[1]) if of_paper else "-",
                    number(per_watt),
                ]
            rows.append(row)
        head = ["policy"]
        for part in self.parts(results.quick):
            head += [f"{part} GFLOPS: paper", "ours", f"{part} GFLOPS/W: paper", "ours"]
        note = (
            "FleetBLAS stands beside the paper's variant with the same choice: all devices beside "
            "comm_opt, time beside PERF, edp beside EDP, energy beside PDP."
        )
        return Table(title, head, rows, notes=[note])

    def gain_table(self, results: Results) -> Table:
        """What choosing devices brings: over all devices with equal shares."""
        rates = self.rates(results)
        rows = []
        for variant in self.variants:
            base = self.base_of(variant)
            if base is None:
                continue
            row = [variant]
            for part in self.parts(results.quick):
                printed = self._printed_gain(LIKE.get(variant, variant), part)
                mine = [a / b for a, b in zip(rates[variant, part], rates[base, part])]
                row += [
                    number(printed[0]),
                    number(mine[0]),
                    number(self.geometric(results, variant, part)),
                    number(printed[1]),
                    number(mine[1]),
                ]
            rows.append(row)
        head = ["over all devices"]
        for part in self.parts(results.quick):
            head += [f"{part} time: paper", "ours", "geometric", f"{part} per W: paper", "ours"]
        note = f"FleetBLAS is over `{self.bases[OURS]}`, PARALiA over `{COMM_OPT}`."
        return Table("What the choice of devices brings", head, rows, notes=[note])

    def _printed_gain(self, variant: str, part: str) -> tuple[float | None, float | None]:
        base = self.printed[COMM_OPT].get(part)
        mine = self.printed[variant].get(part)
        return (mine[0] / base[0], mine[1] / base[1]) if base and mine else (None, None)

    def place_table(self, results: Results) -> Table:
        """Geometric means of the rates by placement, as Fig. 7 groups them."""
        found = self.by_variant(results)
        problems = self.parts(results.quick)["T"]
        rows = []
        for place in datasets.PARALIA_PLACES:
            here = [p for p in problems if p[3] == place]
            row = [place]
            for variant in self.variants:
                rates = [2 * _volume(p) / found[variant][p]["predicted_s"] / 1e12 for p in here]
                row.append(number(common.geometric_mean(rates), 1))
            rows.append(row)
        return Table("TFLOPS by placement (geometric means)", ["A,B,C", *self.variants], rows)

    def tables(self, results: Results, title: str) -> list[Table]:
        whole = self.parts(results.quick)["T"]
        sampled = whole if results.quick else whole[::USED_STEP]
        groups = [
            (variant, [self.run(p, variant, True) for p in sampled]) for variant in self.variants
        ]
        return [
            self.main_table(results, title),
            self.gain_table(results),
            self.place_table(results),
            usage_table(results, groups),
        ]

    def figures(self, results: Results, title: str) -> list[Html]:
        rows = self.by_variant(results)
        problems = self.parts(results.quick)["T"]
        made = []
        for name, unit, value in (
            ("TFLOPS", "TFLOPS", lambda p, row: 2 * _volume(p) / row["predicted_s"] / 1e12),
            ("GFLOPS/W", "GFLOPS/W", lambda p, row: 2 * _volume(p) / _joules(row) / 1e9),
        ):
            items, most = [], 1.0
            for variant in self.variants:
                values = [value(p, rows[variant][p]) for p in problems]
                tips = [f"{p[0]} x {p[1]} x {p[2]}, {p[3]}" for p in problems]
                items.append((variant, Summary(values), tips))
                most = max(most, *values)
            svg = boxes(f"{title}: {name}", name, linear_axis(unit, [most]), items)
            made.append(figure(svg, "All problems, simulated. Diamonds: geometric means."))
        return made


TABLE_4 = Setting(
    "paralia", 315, "", VARIANTS, report_papers.PARALIA_TABLE_4, f"{OURS}, all devices"
)
TABLE_5 = Setting("hetero", 90, UNEVEN, OF_TABLE_5, report_papers.PARALIA_TABLE_5, EQUAL_PARTS)

EXPERIMENTS = [
    Experiment(
        2,
        "table4",
        "Table 4, Fig. 7 and 8: 630 products, libraries and choices of devices",
        TABLE_4.runs,
        lambda results: TABLE_4.tables(results, "Table 4: mean(Gflop)/mean(metric), DGEMM"),
        lambda results: TABLE_4.figures(results, "Fig. 7 and 8"),
        (
            "The link matrix of CLX-AI is printed as a picture only (Fig. 6); the file assumes the "
            "pairs of a DGX-1, so single placements may differ either way.",
            "BLASX and XKBlas are far faster here than measured: host threads, locks and "
            "allocations are not simulated, and at placements on GPUs the paper finds copies over "
            "the slowest links (Fig. 3), which our presets avoid because links are ranked.",
            "comm_opt is slower here on L: its sub-kernels run in their order, k innermost, and "
            "copies queue behind the fastest holder.",
            "PERF over comm_opt on S is smaller than printed (1.13x): what one more device costs "
            "the real library beside copies, in launches, threads and synchronisation, is not in "
            "the model, so all eight are rarely much slower than fewer.",
        ),
    ),
    Experiment(
        2,
        "table5",
        "Table 5 and Fig. 9: 250 products on unequal GPUs",
        TABLE_5.runs,
        lambda results: TABLE_5.tables(results, "Table 5: mean(Gflop)/mean(metric), uneven GPUs"),
        lambda results: TABLE_5.figures(results, "Fig. 9"),
        (
            "The printed row HT contradicts HS and HL (its PERF is above both), and so does the "
            "HS of EDP; they are not compared.",
            "HS are the 90 cheapest of the 250 problems: which ones the paper counts is not "
            "printed.",
            "The slower GPUs are other processes' load there, and lower rates here.",
        ),
    ),
]

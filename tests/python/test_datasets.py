# SPDX-License-Identifier: BSD-3-Clause
"""The sets of problems of `bench --dataset`, and how a run over a set is timed, cut off and gone on
with."""

import collections
import csv
import json
import math
import subprocess
import sys

import pytest
from fleetblas._routines import ROUTINES
from fleetblas.commands import datasets
from fleetblas.commands.bench_method import Method, interval

# ---- which problems -----------------------------------------------------------------------------


def shapes(name):
    return collections.Counter(case.shape for case, _ in datasets.cases_of(name, 8))


def test_sets_have_as_many_problems_as_the_papers_say():
    assert shapes("regular") == {"square": 38}
    assert shapes("ablation") == {"square": 38 * 15}
    assert shapes("irregular") == {"square": 95, "fat-thin": 105, "thin-fat": 105}
    assert shapes("paralia") == {"square": 210, "fat-thin": 210, "thin-fat": 210}
    assert shapes("scaling") == {"square": 24}
    assert shapes("hetero") == {"square": 100, "fat-thin": 90, "thin-fat": 60}
    assert shapes("uneven") == {"square": 4}
    assert shapes("hybrid") == {"square": 3, "update": 4}
    # Five bars, all rules, and all but one of nine.
    assert shapes("ablation") == {"square": 38 * (5 + 1 + 9)}


def test_squares_are_those_of_paper_1():
    edges = sorted({case.m for case, _ in datasets.cases_of("regular", 8)})
    assert (edges[0], edges[11], edges[12], edges[-1], len(edges)) == (
        5120,
        16384,
        20480,
        32768,
        19,
    )
    assert {case.place for case, _ in datasets.cases_of("regular", 8)} == {"h,h,h", "0,0,0"}


def test_fat_thin_and_thin_fat_are_those_of_the_papers():
    cases = [case for case, _ in datasets.cases_of("irregular", 8)]
    assert {(c.m, c.n, c.k) for c in cases if c.m == 16384 and c.shape == "fat-thin"} == {
        (16384, 16384, 4096),
        (16384, 16384, 2048),
        (16384, 16384, 1024),
    }
    assert (11264, 11264, 11264 * 16) in {(c.m, c.n, c.k) for c in cases if c.shape == "thin-fat"}
    cases = [case for case, _ in datasets.cases_of("paralia", 8)]
    assert (384, 384, 12288) in {(c.m, c.n, c.k) for c in cases if c.shape == "thin-fat"}


def test_skinny_products_cost_the_same_and_have_the_ratios_that_they_claim():
    long_edge = {"tall": "m", "flat": "n", "deep": "k", "thin": "k"}
    cases = [case for case, _ in datasets.cases_of("skinny", 4)]
    assert len(cases) == 5 * 4 * 2
    ratios = set()
    for case in cases:
        assert case.m * case.n * case.k == pytest.approx(8192**3, rel=0.06)
        odd = getattr(case, long_edge[case.shape])
        (other,) = {"m": case.m, "n": case.n, "k": case.k}.items() - {
            (long_edge[case.shape], odd)
        } and {value for name, value in vars(case).items() if name in "mnk" and value != odd}
        ratio = other / odd if case.shape == "thin" else odd / other
        nearest = min(datasets.SKINNY_RATIOS, key=lambda r: abs(math.log(r / ratio)))
        assert ratio == pytest.approx(nearest, rel=0.06)
        ratios.add((case.shape, nearest))
    assert len(ratios) == 20


def test_the_uneven_set_is_that_of_paper_4_on_four_gpus():
    assert {place for _, place in datasets.cases_of("uneven", 4)} == {"1,2,0"}
    assert 39 * 576 == max(case.m for case, _ in datasets.cases_of("hybrid", 1)) == 22464


@pytest.mark.parametrize(
    ("place", "gpus", "folded"),
    [
        ("4,2,h", 8, "4,2,h"),
        ("4,2,h", 4, "2,1,h"),
        ("4,2,5", 4, "2,1,2"),
        ("1,6,7", 4, "0,3,3"),
        ("4,2,7", 2, "1,0,1"),
        ("1,6,7", 1, "0,0,0"),
    ],
)
def test_places_are_folded_onto_fewer_gpus(place, gpus, folded):
    assert datasets.fold(place, gpus) == folded


def test_places_that_are_the_same_on_a_node_are_measured_once():
    places = {place for _, place in datasets.cases_of("irregular", 1)}
    assert places == {"h,h,h", "0,0,0", "0,0,h", "h,h,0"}
    # 4,2,7 is 0,0,0 there.
    assert len(datasets.cases_of("irregular", 1)) == 61 * 4


def test_scaling_spreads_the_gpus_and_leaves_out_more_than_there_are():
    assert datasets.spread(2, 8) == [0, 4]
    assert datasets.spread(4, 8) == [0, 2, 4, 6]
    assert {case.devices for case, _ in datasets.cases_of("scaling", 4)} == {1, 2, 4}


# ---- how often ----------------------------------------------------------------------------------


def test_the_interval_is_that_of_a_t_distribution():
    # Mean 2, deviation 1, three values: 4.303 / sqrt(3) / 2.
    assert interval([1.0, 2.0, 3.0]) == pytest.approx(4.303 / math.sqrt(3) / 2)
    assert interval([1.0]) is None


def test_timing_ends_with_precision_or_seconds_or_calls_but_not_before_the_least():
    steady, shaky = [1.0, 1.001, 0.999, 1.0, 1.0], [1.0, 2.0, 1.0, 2.0, 1.0]
    method = Method(warmup=2, most=7, least=5, precision=0.02)
    assert not method.is_timed(steady[:4])
    assert method.is_timed(steady)
    assert not method.is_timed(shaky)
    assert method.is_timed([*shaky, 2.0, 1.0])
    assert Method(warmup=2, most=7, least=5, seconds=6, precision=0.02).is_timed(shaky)
    assert not Method(warmup=2, most=7, least=3).is_timed(steady)


def test_warming_up_ends_with_calls_or_seconds_but_not_before_the_first():
    assert not Method(warmup=2, most=1, seconds=0.5).is_warm([])
    assert Method(warmup=2, most=1, seconds=0.5).is_warm([1.0])
    assert not Method(warmup=2, most=1).is_warm([1.0])
    short = Method(warmup=10, most=1, enough_warm_s=0.5)
    assert not short.is_warm([0.01] * 9) and short.is_warm([0.01] * 10)
    assert not short.is_warm([0.4] * 2) and short.is_warm([0.4] * 3)
    assert Method(warmup=0, most=1).is_warm([])


# ---- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(cli):
    def run(words, status=0):
        done = cli(f"bench gemm {words}", timeout=300)
        assert done.returncode == status, done.stderr
        return done

    return run


SMALL = "--dataset small --backend host --devices 2 --repeat 5 --warmup 1"


def test_what_a_budget_cuts_off_is_gone_on_with(run, tmp_path):
    words = f"{SMALL} --json small.json --csv small.csv --budget 0.3"
    first = run(words)
    assert "problems are not measured; run the same command again to measure them" in first.stderr
    before = json.loads((tmp_path / "small.json").read_text())
    run(words)
    after = json.loads((tmp_path / "small.json").read_text())

    assert before["dataset"] == "small"
    assert 0 < len(before["results"]) < len(after["results"])
    assert after["results"][: len(before["results"])] == before["results"]
    assert before["unfinished"] == 21 - len(before["results"])
    assert after["unfinished"] == 21 - len(after["results"])
    for row in after["results"]:
        assert (row["status"], row["measured"]) == ("ok", "measured")
        assert row["repeat"] >= 5
        assert row["interval"] > 0
    with open(tmp_path / "small.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["m"]) for line in lines] == [row["m"] for row in after["results"]]
    assert [line["place"] for line in lines] == [row["place"] for row in after["results"]]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("--type s", "type"),
        ("--devices 1", "machine"),
        ("--repeat 6", "method"),
        ("--tile 500", "options"),
    ],
)
def test_results_of_something_else_are_not_mixed_in(run, tmp_path, change, word):
    run(f"{SMALL} --json small.json --budget 0.01")
    done = run(f"{SMALL} {change} --json small.json --budget 0.01", status=1)
    assert f"small.json has another {word}" in done.stderr
    (tmp_path / "small.json").write_text("[]")
    assert "has no results of bench" in run(f"{SMALL} --json small.json", status=1).stderr


def test_rules_and_devices_of_a_case_are_those_of_its_run(run, tmp_path):
    run("--dataset scaling --backend sim --devices 4 --machine h200x4 --json scaling.json")
    rows = json.loads((tmp_path / "scaling.json").read_text())["results"]
    assert [row["wanted_devices"] for row in rows[::6]] == [[0], [0, 2], [0, 1, 2, 3]]
    assert all(set(row["workers"]) <= set(row["wanted_devices"]) for row in rows)
    one, two, four = (rows[index]["median_s"] for index in (4, 10, 16))  # 32K, h,h,h
    assert one > two > four

    run(
        "--dataset ablation --size 16K --backend sim --devices 4 --machine h200x4 --no-balance "
        "--json ablation.json"
    )
    rows = json.loads((tmp_path / "ablation.json").read_text())["results"]
    of = {(row["bar"], row["m"], row["place"]): row["median_s"] for row in rows}
    assert len(of) == len(rows) == 2 * 15  # places and bars
    naive, whole = (of[bar, 16384, "h,h,h"] for bar in ("naive SUMMA", "all"))
    assert naive > 1.2 * whole


def test_a_report_reads_what_a_set_writes(run, cli):
    for name in ("scaling", "small"):
        run(f"--dataset {name} --backend sim --devices 4 --machine h200x4 --json {name}.json")
    done = cli("report scaling.json small.json -o -")
    assert done.returncode == 0, done.stderr
    assert "Strong scaling" in done.stdout
    assert "39 rows" in done.stdout  # 18 and 21
    assert "Failures" not in done.stdout


def test_a_set_says_which_problems(run):
    for words in ("--rules all", "--m 8"):
        assert "--dataset has its own" in run(f"--dataset small {words}", status=2).stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("gemm --size 4K --place h,h,h", {("gemm", 4096, "h,h,h")}),
        ("gemm,herk --size 4K,8K --place h,h,h",
         {("gemm", 4096, "h,h,h"), ("gemm", 8192, "h,h,h"),
          ("herk", 4096, "h,h"), ("herk", 8192, "h,h")}),
        ("gemm,herk --size 4K --place h", {("gemm", 4096, "h,h,h"), ("herk", 4096, "h,h")}),
        ("trsm --size 16K", {("trsm", 16384, "h,h"), ("trsm", 16384, "0,0")}),
        ("trmm --size 16K --place 0,0", {("trmm", 16384, "0,0")}),
        ("all --type c --size 48K --place h,h,h",
         {(word, 49152, "h,h,h" if ROUTINES[word].has_b else "h,h")
          for word in datasets.LEVEL3_ROUTINES}),
    ],
)  # fmt: skip
def test_routines_sizes_and_places_pick_out_of_a_set(cli, tmp_path, words, wanted):
    done = cli(
        f"bench {words} --dataset level3 --backend sim --devices 4 --machine h200x4 --json x.json"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert {(row["routine"], row["m"], row["place"]) for row in rows} == wanted
    assert len(rows) == len(wanted)
    for row in rows:
        assert row["median_s"] >= row["bound_s"] > 0
        assert row["balance"] >= 0
        usual = "z" if row["routine"] == "herk" else "d"
        assert row["type"] == ("c" if "--type c" in words else usual)
    means = done.stdout.split("Geometric means\n")[1].splitlines()
    assert means[0].split() == ["routine", "place", "cases", "rate", "of", "bound", "balance"]
    assert len(means) == 1 + len({(row["routine"], row["place"]) for row in rows})


def test_what_is_not_in_a_set_is_wrong_usage(main):
    for words in (
        "trsm --dataset regular",
        "gemm --dataset level3 --size 5K",
        "herk --dataset level3 --type d",
    ):
        done = main(f"bench {words} --backend sim --machine h200x4")
        assert (done.returncode, done.stdout) == (2, "")
        assert "has no such problem" in done.stderr


def test_level_3_is_figure_5_of_paper_5_and_its_hermitian_routines():
    cases = datasets.cases_of("level3", 8)
    assert len(cases) == 9 * 7 * 2
    assert {case.m for case, _ in cases} == {4096, 8192, 16384, 24576, 32768, 40960, 49152}
    assert {place for _, place in cases} == {"h,h,h", "0,0,0", "h,h", "0,0"}
    hermitian = [ROUTINES[case.routine].hermitian for case, _ in cases]
    assert hermitian == sorted(hermitian)  # numbers of one type have one memory, then the other


def test_a_set_of_several_routines_and_types_is_measured_and_gone_on_with(script, tmp_path):
    program = (
        "from fleetblas.commands import datasets\n"
        "datasets.LEVEL3_SIZES = (224,)\n"
        "import sys; from fleetblas import cli\n"
        "sys.exit(cli.main('bench all --dataset level3 --backend host --devices 2 --repeat 5 '\n"
        "'--warmup 1 --vs hostblas --check --json x.json --budget {}'.split()))"
    )
    done = script(program.format(300))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert len(rows) == 2 * 2 * len(datasets.LEVEL3_ROUTINES)
    for row in rows:
        assert row["status"] == "ok"
        assert 0 < row["error"] < 4
        if row["engine"] == "fleetblas":
            assert row["balance"] >= 0
    # Nothing is left to do.
    assert script(program.format(300)).returncode == 0
    assert json.loads((tmp_path / "x.json").read_text())["results"] == rows


def test_without_devices_there_is_a_clear_word(cli):
    # No GPU is visible: `auto` is the CPU BLAS alone.
    done = cli("bench gemm --dataset small --backend auto --budget 1", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "needs devices" in done.stderr


def test_virtual_devices_of_a_case_get_operands_of_their_own(tmp_path):
    # One device of two: its memory is that of the context that has it alone.
    program = (
        "from fleetblas.commands import datasets\n"
        "datasets.SCALING_SIZES = (256,)\n"
        "import sys; from fleetblas import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    words = "bench gemm --dataset scaling --backend host --devices 2 --json x.json --budget 60"
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert [(row["wanted_devices"], row["place"]) for row in rows] == [
        ([0], "h,h,h"),
        ([0], "0,0,0"),
        ([0, 1], "h,h,h"),
        ([0, 1], "0,0,0"),
    ]
    # Operands that the context did not know would have been copied from pageable memory.
    assert all("p" not in "".join(row["bytes_by_link"]).split("->") for row in rows)

# SPDX-License-Identifier: BSD-3-Clause
"""`fleetblas reproduce`: each experiment's quick form, printed numbers, resumption, the page."""

import json
import math
import pathlib
import re

import pytest
from fleetblas.commands import (
    datasets,
    report_papers,
    reproduce,
    reproduce_changes,
    reproduce_distributed,
    reproduce_hybrid,
    reproduce_paralia,
    reproduce_uncut,
    reproduce_uneven,
    reproduce_xkblas,
)
from fleetblas.commands.reproduce_runs import Run, gemm, run_all
from fleetblas.commands.reproduce_tables import POLICIES

LABELS = [experiment.label for experiment in reproduce.EXPERIMENTS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduced")


@pytest.fixture(scope="module")
def shown(folder):
    """The results and tables of each experiment's quick form, by label."""
    made = {}
    for experiment in reproduce.EXPERIMENTS:
        runs = experiment.runs(True)
        results = run_all(experiment.label, runs, folder / f"{experiment.label}.jsonl", True)
        made[experiment.label] = (experiment, results, experiment.tables(results))
    return made


def table(shown, label, title):
    (found,) = [one for one in shown[label][2] if one.title.startswith(title)]
    return found


def cell(found, row, column):
    """The text in the row that begins with `row`, under the first head that is `column`."""
    (line,) = [one for one in found.rows if one[: len(row)] == row]
    return line[found.head.index(column)]


# ---- all of them --------------------------------------------------------------------------------


def test_the_experiments_are_those_of_the_five_papers():
    assert [
        *("1-ablation", "1-regular", "1-scaling", "1-irregular"),
        *(
            "2-table4",
            "2-table5",
            "3-share",
            "3-linpack",
            "4-sizes",
            "4-tiles",
            "5-heuristics",
            "5-squares",
        ),
        *("5-composition", "5-distributed"),
    ] == LABELS


@pytest.mark.parametrize("label", LABELS)
def test_every_table_is_full_and_says_what_differs(shown, label):
    experiment, results, tables = shown[label]
    assert experiment.differs
    assert tables
    for one in tables:
        assert one.rows
        assert {len(row) for row in one.rows} == {len(one.head)}, one.title
        assert all(isinstance(word, str) and word for row in one.rows for word in row)
    for row in results.rows.values():
        assert row["predicted_s"] >= row["bound_s"] > 0
    # Except where nothing is printed that could stand beside: how devices and links were used.
    assert any("paper" in name for one in tables for name in one.head)


@pytest.mark.parametrize("label", ["1-ablation", "1-regular", "2-table4", "2-table5", "4-tiles"])
def test_how_devices_and_links_were_used_is_shown(shown, label):
    used = table(shown, label, "How devices and links were used")
    assert used.head[2:] == [
        *("idle", "first products, ms apart"),
        *("GB/s to devices", "GB/s from devices", "GB/s between devices"),
    ]
    for row in used.rows:
        assert 0 <= float(row[2].removesuffix(" %")) <= 100
        assert float(row[3]) >= 0


def test_a_worker_without_kernels_is_idle(shown):
    _, results, _ = shown["1-ablation"]
    rows = [row for row in results.rows.values() if "idle_share" in row]
    assert rows
    for row in rows:
        assert 0 < row["idle_share"] < 1
        assert 0 < row["copying_share"] < 1
        # No link is faster than its machine has it (karolina: 300 GB/s, 24 to and from the host).
        assert max(row["links"].values()) < 300e9
        assert row["rates"].get("to devices", 0) < 24.1e9


# ---- printed numbers ----------------------------------------------------------------------------


def test_printed_numbers_of_paper_1_stand_in_its_tables(shown):
    bars = table(shown, "1-ablation", "Fig. 8")
    assert cell(bars, ["+ bandwidth routing"], "h,h,h: paper") == "1.33x"
    assert cell(bars, ["ETA routing, batching"], "0,0,0: paper") == "1.18x"
    regular = table(shown, "1-regular", "Fig. 9")
    assert cell(regular, ["FP64", "h,h,h"], "over cublasxt: paper") == "3.42"
    assert cell(regular, ["FP32", "0,0,0"], "over paralia: paper") == "1.31"
    irregular = table(shown, "1-irregular", "Fig. 12")
    assert cell(irregular, ["fat-thin"], "over cublasxt: paper") == "17.60"
    assert cell(irregular, ["all"], "over xkblas: paper") == "1.45"
    scaling = table(shown, "1-scaling", "Fig. 11")
    assert cell(scaling, ["h,h,h", "8K", "uncut"], "8 GPUs: paper") == "3.60"
    assert cell(scaling, ["0,0,0", "8K", "cublasxt"], "8 GPUs: paper") == "0.15"


def test_printed_numbers_of_paper_2_stand_in_its_tables(shown):
    table_4 = table(shown, "2-table4", "Table 4")
    assert cell(table_4, ["paralia PERF"], "S GFLOPS: paper") == "10641"
    assert cell(table_4, ["FleetBLAS, edp"], "T GFLOPS/W: paper") == "18.64"
    gains = table(shown, "2-table4", "What the choice")
    assert cell(gains, ["paralia PERF"], "S time: paper") == "1.13"
    assert cell(gains, ["paralia EDP"], "S per W: paper") == "1.55"
    table_5 = table(shown, "2-table5", "Table 5")
    assert cell(table_5, ["paralia PERF"], "L GFLOPS: paper") == "27221"
    assert cell(table_5, ["paralia EDP"], "S GFLOPS: paper") == "-"  # contradicts the rest


def test_printed_numbers_of_papers_3_to_5_stand_in_their_tables(shown):
    formula = table(shown, "3-share", "The formula")
    assert cell(formula, ["R predicted"], "paper") == "0.35"
    sizes = table(shown, "4-sizes", "Tile edges")
    assert cell(sizes, ["ac922"], "one size: paper") == "2189"
    assert cell(sizes, ["charisma-8a100"], "one size: paper") == "86301"
    tiles = table(shown, "4-tiles", "Two sizes")
    assert cell(tiles, ["ac922", "best found"], "TFLOPS: paper") == "45.48"
    assert cell(tiles, ["ac922", "best found"], "over one size: paper") == "1.18"
    heuristics = table(shown, "5-heuristics", "Table II")
    assert cell(heuristics, ["DGEMM"], "optimistic off: paper") == "-43.5 %"
    assert cell(heuristics, ["DSYR2K"], "both off: paper") == "-53.5 %"
    gains = table(shown, "5-distributed", "Table II")
    assert cell(gains, ["DGEMM", "paper's tiles"], "paper") == "111.7 %"
    speeds = table(shown, "5-distributed", "Fig. 4")
    assert cell(speeds, ["DGEMM", "10000"], "on devices: paper") == "about 50"


def test_calls_that_are_planned_as_one_are_faster(shown):
    composed = table(shown, "5-composition", "Fig. 8")
    assert [row[0] for row in composed.rows] == ["8192", "16384"]
    for n in ("8192", "16384"):
        one, apart = (float(cell(composed, [n], name)) for name in ("as one plan", "one by one"))
        assert one > apart


def test_plans_give_the_cpu_its_share_within_a_step_of_the_best(shown):
    swept = table(shown, "3-share", "Fig. 6 and 7")
    assert len(swept.rows) == 4
    for row in swept.rows:
        share, best = (
            float(row[swept.head.index(name)]) for name in ("R of the plan", "best R of a sweep")
        )
        assert abs(share - best) <= reproduce_hybrid.STEP
        assert 0.3 < share < 0.45


# ---- the arithmetic of papers 3 and 4 -----------------------------------------------------------


def test_tile_edges_follow_from_the_rules_of_paper_4():
    edges = {}
    for node in reproduce_uneven.NODES:
        links = [(node.fast_links, node.fast), (node.slow_links, node.slow)]
        edges[node.name] = reproduce_uneven.one_size(node.rate, links, node.kind)
    printed = report_papers.UNEVEN_EDGES
    assert edges == {name: pytest.approx(edge, abs=1) for name, edge in printed.items()}
    assert reproduce_uneven.power_of_two(edges["ac922"]) == 4096
    assert reproduce_uneven.power_of_two(edges["charisma-4v100"]) == 8192
    slow, fast = reproduce_uneven.idle_case(14.8e12, 33.24e9, 72.68e9, "s")
    assert (math.ceil(slow), round(fast)) == (891, 407)
    assert reproduce_uneven.idle_case(7.4e12, 33.24e9, 72.68e9, "d")[0] == pytest.approx(slow)


def test_the_cpu_gets_its_share_by_rate_in_whole_rows():
    share = reproduce_hybrid.cpu_share(42.72, 78.0)
    assert share == pytest.approx(0.354, abs=5e-4)
    assert reproduce_hybrid.whole_rows(share, 4096) == 23 * 64
    assert reproduce_hybrid.whole_rows(1.0, 100) == 100


def test_tables_4_and_5_have_as_many_problems_as_the_paper_says():
    of_4 = reproduce_paralia.TABLE_4.parts(False)
    assert [len(of_4[part]) for part in "SLT"] == [315, 315, 630]
    of_5 = reproduce_paralia.TABLE_5.parts(False)
    assert [len(of_5[part]) for part in "SLT"] == [90, 160, 250]
    assert {(c.m, c.n, c.k) for c in datasets.hetero()} < {
        (c.m, c.n, c.k) for c in datasets.paralia()
    }


def test_the_uneven_devices_add_up_to_38_tflops():
    assert sum(reproduce_changes.UNEVEN_TFLOPS.values()) == 38
    assert 8 * min(reproduce_changes.UNEVEN_TFLOPS.values()) == 28


# ---- what the presets do ------------------------------------------------------------------------


def row(run, tmp_path):
    return run_all("one", [run], tmp_path / "one.jsonl", True)[run]


def square(n, place, policy, machine="clx-ai", kind="d"):
    return Run(gemm(n, n, n, place, kind), machine, POLICIES[policy], used=True)


def test_cublasxt_keeps_nothing_and_passes_through_the_host(tmp_path):
    of_host = row(square(8192, "h,h,h", "cublasxt"), tmp_path)
    # Each product of tiles fetches both of its inputs, and C comes and goes.
    tiles = 8192 // of_host["tile"]
    assert of_host["bytes to devices"] == (2 * tiles + 1) * 8 * 8192**2
    of_gpu = row(square(8192, "0,0,0", "cublasxt"), tmp_path)
    assert of_gpu["bytes between devices"] == 0


def test_xkblas_reads_each_tile_once_from_the_host(tmp_path):
    found = row(square(8192, "h,h,h", "xkblas"), tmp_path)
    assert found["bytes to devices"] == 3 * 8 * 8192**2
    assert found["bytes between devices"] > 0


def test_paralia_leaves_out_devices_only_where_it_may_select(tmp_path):
    of = {}
    for name in ("paralia comm_opt", "paralia PDP"):
        options = reproduce_paralia.VARIANTS[name]
        run = Run(gemm(2048, 2048, 2048, "0,0,0"), "clx-ai", options)
        of[name] = run_all(name, [run], tmp_path / f"{name}.jsonl", True)[run]
    assert of["paralia comm_opt"]["workers"] == list(range(8))
    assert of["paralia PDP"]["workers"] == [0]


def test_uncut_takes_the_tiles_of_its_authors():
    # Ours are 4096 for these; theirs cost nothing for latency from 2048 on.
    for n in (20480, 24576, 28672, 32768):
        assert reproduce_uncut.tile_of(n) == 2048


def test_each_routine_loses_where_paper_5_says_it_does(shown):
    _, results, _ = shown["5-heuristics"]
    lost = {
        (routine, variant): reproduce_xkblas.loss(results, routine, variant)
        for routine in reproduce_xkblas.PROBLEMS
        for variant in reproduce_xkblas.COLUMNS
    }
    for routine in reproduce_xkblas.PROBLEMS:
        assert -0.6 < lost[routine, "optimistic off"] < -0.05, routine
    # Choosing the source by its link matters to DSYR2K alone.
    for routine in ("DGEMM", "DTRSM"):
        assert abs(lost[routine, "both off"] - lost[routine, "optimistic off"]) < 0.03, routine
    assert lost["DSYR2K", "both off, slowest link"] < lost["DSYR2K", "optimistic off"] - 0.1


def test_forwarding_reads_each_tile_once_from_the_host(shown):
    _, results, _ = shown["5-heuristics"]

    def of(routine, variant):
        return reproduce_xkblas.best(results, routine, 16384, variant)

    assert of("DGEMM", "both on")["bytes to devices"] == 3 * 8 * 16384**2
    assert of("DGEMM", "optimistic off")["bytes to devices"] > 1.5 * 3 * 8 * 16384**2
    # A's triangle in tiles, and all of C.
    assert of("DTRSM", "both on")["bytes to devices"] < 1.6 * 8 * 16384**2
    for routine in reproduce_xkblas.PROBLEMS:
        assert of(routine, "all our rules")["tflops"] > of(routine, "both on")["tflops"]


def test_data_on_devices_never_pass_the_host(shown):
    _, results, _ = shown["5-distributed"]
    on_devices = [row for run, row in results.rows.items() if "@c4x2:" in run.problem]
    on_host = [row for run, row in results.rows.items() if "@h" in run.problem]
    assert len(on_devices) + len(on_host) == len(results.rows)
    assert on_devices and on_host
    for row in on_devices:
        assert row["bytes to devices"] == row["bytes from devices"] == 0
        assert row["bytes between devices"] > 0
    for row in on_host:
        assert min(row["bytes to devices"], row["bytes from devices"]) > 0


def test_tiles_on_devices_are_those_of_paper_5(shown):
    _, results, _ = shown["5-distributed"]
    places = {re.search("c@([^ ]*)", run.problem)[1] for run in results.rows}
    # The paper's for 10000 and 16384, then those of its runs from the host.
    assert places == {"h", *(f"c4x2:{edge}" for edge in (313, 512, 1024, 2048, 4096))}


def test_small_tiles_on_devices_are_as_slow_as_issuing_them(shown):
    _, results, _ = shown["5-distributed"]
    (shipped,) = [
        row
        for run, row in results.rows.items()
        if "c4x2:313" in run.problem and run.change == "sources by links"
    ]
    assert shipped["tasks"] > 32**3  # a product for each three tiles, and copies
    # dgx1.json: one thread, 5 us each.
    assert shipped["predicted_s"] == pytest.approx(shipped["tasks"] * 5e-6, rel=0.05)
    speeds = [
        reproduce_distributed.speed(results, "DGEMM", 10000, name)
        for name in ("paper's tiles", "+ issuing on 8 threads", "+ small tiles at full rate")
    ]
    assert speeds[0] < speeds[1] < speeds[2]
    # Paper 5: about 50.
    assert speeds[1] < 0.85 * 50
    assert speeds[2] == pytest.approx(50, rel=0.15)


def test_a_solve_where_its_result_lies_waits_for_the_last_rows_of_the_grid(tmp_path):
    # 16 rows of tiles, row i with i products and a solve: the last of 4 workers has 3, 7, 11, 15.
    load = sum(i + 0.5 for i in (3, 7, 11, 15)) / (16 * 16 / 2 / 4)
    assert load == pytest.approx(1.19, abs=0.005)
    there, anywhere = (
        reproduce_distributed.Reading(blocks=(1024,), any_grid=any_grid)
        for any_grid in (False, True)
    )
    seconds = [
        row(*reproduce_distributed.on_devices("DTRSM", 16384, reading), tmp_path)["predicted_s"]
        for reading in (there, anywhere)
    ]
    assert seconds[0] / seconds[1] == pytest.approx(load, abs=0.05)


def test_data_on_devices_cannot_gain_as_printed_over_so_fast_a_host(shown):
    _, results, _ = shown["5-distributed"]
    best = reproduce_distributed.BEST
    most = {
        routine: reproduce_distributed.most_from_host(routine) for routine in ("DGEMM", "DTRSM")
    }
    here = reproduce_distributed.host_speed(results, "DGEMM", 16384, "both on")
    found, at = reproduce_distributed.gain(results, "DGEMM", best, "both on")
    assert most == {"DGEMM": pytest.approx(62.4 / 2.117), "DTRSM": pytest.approx(62.4 / 1.526)}
    assert here > 1.3 * most["DGEMM"]
    assert at == 16384
    assert 0.2 < found < report_papers.DISTRIBUTED["DGEMM"] - 0.15


# ---- changes of machines ------------------------------------------------------------------------


def test_how_sources_are_chosen_changes_no_link(tmp_path):
    # GPU 0 has the data, and the other, over two NVLinks, one or PCIe, mostly waits for its copies.
    n = 16384
    text = f"dgemm m={n} n={n} k=256 a@0 b@0 c@0"
    for devices, bytes_per_s in (("0,3", 48.2e9), ("0,1", 24.2e9), ("0,5", 8.6e9)):
        for by in ("", *(f"sources by {by}" for by in reproduce_changes.SOURCES)):
            options = (("devices", devices), ("rules", "caching,overlap"), ("tile", 2048))
            found = row(Run(text, "dgx1", options, by), tmp_path)
            # Half of C goes there and back.
            least_s = n * n / 2 * 8 / bytes_per_s
            assert least_s < found["predicted_s"] < 1.5 * least_s, (devices, by)


def test_changes_are_joined_and_leave_the_original_alone():
    machine = {"issue_s": 2.0, "links": [{"latency_s": 4.0}], "devices": [], "ports": []}
    made = reproduce_changes.changed(machine, "half the latency + issuing free")
    assert (made["issue_s"], made["links"][0]["latency_s"]) == (0.0, 2.0)
    assert (machine["issue_s"], machine["links"][0]["latency_s"]) == (2.0, 4.0)
    assert reproduce_changes.changed(machine, "issuing on 8 threads")["issue_s"] == 0.25
    assert reproduce_changes.changed(machine, "") == machine
    with pytest.raises(KeyError):
        reproduce_changes.changed(machine, "no such change")


# ---- the command --------------------------------------------------------------------------------


def test_papers_have_numbers_and_names():
    for number, name in enumerate(reproduce.NAMES, start=1):
        of_number = reproduce.chosen(str(number), None)
        assert of_number == reproduce.chosen(name, None)
        assert {experiment.paper for experiment in of_number} == {number}
    assert reproduce.chosen("all", None) == reproduce.EXPERIMENTS


def test_a_plan_says_which_library_it_follows(main):
    words = "plan gemm --size 4K --machine clx-ai --backend sim --devices all --preset"
    done = main(f"{words} xkblas")
    assert done.returncode == 0, done.stderr
    assert "tiles of C dealt cyclic 2d, idle workers steal" in done.stdout
    assert re.search(r"^  preset +xkblas$", done.stdout, re.MULTILINE)
    done = main(f"{words} magma")
    assert done.returncode == 2
    assert "expected one of none, cublasxt, blasx, xkblas, paralia, uncut" in done.stderr


def test_an_interrupted_run_goes_on(main, tmp_path):
    words = "reproduce 3 share --quick -o kept"
    whole = main(words)
    assert whole.returncode == 0, whole.stderr
    file = tmp_path / "kept" / "quick-3-share.jsonl"
    lines = file.read_text().splitlines()
    assert len(lines) > 1 + 2
    # The first row is changed, so that reading it can be told from simulating it; the last is cut.
    first = json.loads(lines[1])
    first["predicted_s"] *= 2
    file.write_text("\n".join([lines[0], json.dumps(first), lines[2][:40]]))
    again = main(words)
    assert again.returncode == 0, again.stderr
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[1] == first
    assert rows[2:] == [json.loads(line) for line in lines[2:]]
    assert again.stdout != whole.stdout


def test_results_of_another_version_are_not_mixed_in(main, tmp_path):
    assert main("reproduce 3 share --quick -o kept").returncode == 0
    file = tmp_path / "kept" / "quick-3-share.jsonl"
    lines = file.read_text().splitlines()
    head = json.loads(lines[0]) | {"fleetblas": "another"}
    file.write_text("\n".join([json.dumps(head), *lines[1:]]))
    done = main("reproduce 3 share --quick -o kept")
    assert done.returncode == 1
    assert "has results of another" in done.stderr
    file.write_text("no json\n" + "\n".join(lines))
    assert "line 1: no JSON" in main("reproduce 3 share --quick -o kept").stderr


def test_no_bar_is_drawn_where_stderr_is_no_terminal(main):
    done = main("reproduce 4 sizes --quick -o kept")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_bar_is_drawn_on_a_terminal(main, monkeypatch, capsys):
    from fleetblas.commands import reproduce_runs

    monkeypatch.setattr(reproduce_runs.sys.stderr, "isatty", lambda: True, raising=False)
    bar = reproduce_runs.Progress("1-ablation", 4)
    bar.step(2)
    bar.end()
    said = capsys.readouterr().err
    assert "1-ablation [" in said
    assert "2/4" in said


def test_wrong_papers_and_experiments_are_wrong_usage(main):
    for words, wanted in (
        ("6", "invalid choice"),
        ("1 table4", "it has ablation, regular, scaling, irregular"),
        ("all table4", "name one paper"),
    ):
        done = main(f"reproduce {words}")
        assert done.returncode == 2
        assert wanted in done.stderr


def test_the_page_has_figures_tables_and_no_outside_links(main, shown, tmp_path):
    done = main("reproduce 4 --quick -o kept --markdown tables.md")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "kept" / "reproduced.html").read_text()
    assert not re.findall(r"""(?:src|href)=["']?[^#"'\s>][^\s"'>]*""", page)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<svg") == 3
    assert "45.48" in page
    tables = json.loads((tmp_path / "kept" / "reproduced.json").read_text())
    assert [one["experiment"] for one in tables["experiments"]] == ["sizes", "tiles"]
    assert tables["measured"] == "simulated"
    assert "| ac922 | 2189 |" in (tmp_path / "tables.md").read_text()


@pytest.mark.parametrize("label", LABELS)
def test_every_figure_can_be_drawn(shown, label):
    experiment, results, _ = shown[label]
    for made in experiment.figures(results):
        assert made.count("<svg") == 1
        assert "nan" not in made


# ---- machines -----------------------------------------------------------------------------------


def test_new_machine_files_say_what_is_assumed():
    root = pathlib.Path(__file__).resolve().parents[2] / "machines"
    for name in ("ac922", "charisma-4v100", "charisma-8a100", "w3520-c1060"):
        machine = json.loads((root / f"{name}.json").read_text())
        assert machine["notes"]["paper"]
        assert any("ssumed" in note for note in machine["notes"].values())

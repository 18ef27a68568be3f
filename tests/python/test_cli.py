# SPDX-License-Identifier: BSD-3-Clause
"""The command line: words, exit statuses, JSON keys, programs under the drop-in, the page."""

import json
import os
import re
import signal

import pytest
from fleetblas import cli as cli_module

PRODUCT = "import numpy as np; a = np.ones((300, 300)); print(int((a @ a).sum()))"
BENCH_KEYS = (
    "engine routine type m n k place devices tile first_s median_s min_s p95_s tflops bound_s "
    "limited_by bound_fraction predicted_s error status measured"
)
PLAN_KEYS = (
    "workers grid tile tasks bytes_by_link plan_s predicted_s bound_s limited_by rules "
    "candidates why why_left_out corrections"
)


def only_json(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", cli_module.COMMANDS)
def test_every_command_has_help_with_a_whole_sentence_and_an_example(main, command):
    done = main(f"{command} --help")
    assert done.returncode == 0
    _, description, _ = done.stdout.split("\n\n", 2)
    assert re.fullmatch(r"[A-Z].*[.]", description, re.S)
    assert re.search(rf"examples?: .*fleetblas {command}", done.stdout)


def test_help_lists_the_commands_and_version_is_one_line(cli):
    done = cli("--help")
    assert done.returncode == 0
    for command in ("run", "bench", "plan", "trace", "report", "probe", "doctor", "paths"):
        assert f"\n    {command} " in done.stdout
    assert re.fullmatch(r"fleetblas \d+\.\d+\.\d+\n", cli("--version").stdout)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "fly",
        "bench",
        "bench gemm",
        "bench ger --size 4",
        "bench gemm --size 4Q",
        "bench gemm --size -4",
        "bench gemm --size 4 --m 3",
        "bench gemm --m 4 --n 4",
        "bench gemm --size 4 --type q",
        "bench gemm --size 4 --place h,h",
        "bench gemm --size 4 --place h,h,x",
        "bench gemm --size 4 --place h,h,9",
        "bench gemm --size 4 --place x",
        "bench gemm --size 4 --place 9",
        "bench gemm --size 4 --place h,",
        "bench syrk,syr2k --size 4 --place h,h",
        "bench gemm --size 4 --transa x",
        "bench gemm --size 4 --alpha one",
        "bench gemm --size 4 --alpha 1j",
        "bench gemm --size 4 --devices two",
        "bench gemm --size 4 --repeat 0",
        "bench gemm --size 4 --backend sim",
        "bench gemm --size 4 --backend sim --machine h200x4 --check",
        "bench gemm --size 4 --rules swiftly",
        "bench gemm --siz 4",
        "bench gemm,ger --size 4",
        "bench symm --size 4 --k 4",
        "bench symm --m 4",
        "bench symm --size 4 --transa t",
        "bench symm --m 4 --n 4 --k 5",
        "bench syrk --n 4 --k 4 --transa c",
        "bench syrk --size 4 --side l",
        "bench syrk --size 4 --place h,h,h,h",
        "bench syrk --size 4 --type h",
        "bench herk --size 4 --type d",
        "bench herk --size 4 --alpha 1j",
        "bench her2k --size 4 --beta 1j",
        "bench symm --size 4 --place h,h",
        "bench trmm --size 4 --beta 0",
        "bench trsm --size 4 --diag x",
        "bench trsm --size 4 --uplo b",
        "plan syrk,gemm --size 4",
        "plan all --size 4",
        "bench gemm --size 4 -- true",
        "plan gemm",
        "plan gemm --size 4 --json - --trace -",
        "plan gemm --size 64 --machine h200x4 --devices 9,",
        "plan syrk --size 64 --place g",
        "run",
        "run --",
        "run python x.py",
        "run --backend sim -- true",
        "run --objective foo -- true",
        "run --devices 0 -- true",
        "trace -o x.html --backend sim -- true",
        "trace -o x.html --grid 2 -- true",
        "trace -o x.html python x.py",
        "trace -o x.html",
        "trace gemm --size 4",
        "trace gemm --size 4 -o x.html -- true",
        "trace gemm --size 4 -o x.html --place x",
        "trace -o x.html --",
        "paths --here",
        "probe",
        "probe -o x.json --budget never",
        "probe -o x.json --budget 0",
        "probe -o -",
        "probe -o x.json --backend sim --machine h200x4 --types d,q",
        "doctor --backend fast",
        "doctor --devices two",
    ],
)
def test_wrong_usage_is_one_clear_line_and_status_2(main, words):
    done = main(words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"fleetblas[^\n]*\n", done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        "plan gemm --size 64 --machine nowhere.json",
        "plan gemm --size 64 --machine damaged.json",
        "plan gemm --size 64 --json no/such/folder/x.json",
        "trace gemm --size 64 -o .",
        "trace gemm --size 64 --backend cuda -o x.html",
        "trace -o x.html -- true",
    ],
)
def test_failures_are_one_clear_line_and_status_1(main, tmp_path, words):
    (tmp_path / "damaged.json").write_text('{"schema": 1, "name"')
    done = main(words)
    assert done.returncode == 1
    assert re.fullmatch(r"fleetblas[^\n]*\n", done.stderr)


def test_paths_exist(cli):
    paths = only_json(cli("paths"))
    parts = {"preload", "libblas", "core"}
    assert set(paths) == parts | {"include", "cmake", "pkgconfig", "version"}
    with open(paths["include"] + "/fleetblas/fleetblas.h") as header:
        assert "fleet_dgemm" in header.read()
    for part in parts:
        with open(paths[part], "rb") as library:
            assert library.read(4) == b"\x7fELF"


# ---- bench --------------------------------------------------------------------------------------


def test_bench_verifies_both_engines_and_has_every_key(cli):
    words = (
        "bench gemm --size 384 --place h,p,1 --repeat 3 --warmup 1 --check --vs hostblas --json -"
    )
    rows = only_json(cli(words))["results"]
    assert [row["engine"] for row in rows] == ["fleetblas", "hostblas"]
    for row in rows:
        assert set(BENCH_KEYS.split()) <= set(row)
        assert row["status"] == "ok"
        assert row["measured"] == "measured"
        assert 0 < row["error"] < 4
        assert 0 < row["min_s"] <= row["median_s"] <= row["p95_s"]
        assert row["tflops"] == pytest.approx(2 * 384**3 / row["median_s"] / 1e12)
    assert rows[0]["devices"] == 2
    assert rows[0]["place"] == "h,p,1"
    assert rows[0]["bound_fraction"] == pytest.approx(rows[0]["bound_s"] / rows[0]["median_s"])


def test_the_cpu_blas_is_no_peer_for_halves_but_is_for_tf32(cli):
    for word, status in (("h", "unsupported"), ("tf32", "ok")):
        words = f"bench gemm --type {word} --size 96 --repeat 1 --warmup 0 --vs hostblas --json -"
        ours, theirs = only_json(cli(words))["results"]
        assert (ours["status"], theirs["status"]) == ("ok", status)
        assert ours["problem"].startswith(f"{word}gemm ")


@pytest.mark.parametrize(
    "words",
    [
        "--type s --m 200 --n 130 --k 70 --transa t",
        "--type c --m 90 --n 130 --k 70 --transa c --transb t --alpha 1-2j --beta 0.5j",
        "--type z --size 100 --beta 0 --place 0,1,0",
        "--type d --size 64 --beta 3 --rules none --tile 32",
        "--type d --m 0 --n 5 --k 5",
        "--type d --size 256 --memory-cap 256K",
        "--type h --m 200 --n 90 --k 900 --transa t --tile 64",
        "--type h --size 150 --beta 0 --place 0,p,1",
        "--type tf32 --size 200 --transb t --place 0,1,h",
    ],
)
def test_bench_of_every_kind_of_product_passes(cli, words):
    words = f"bench gemm {words} --repeat 2 --warmup 0 --check --json -"
    (row,) = only_json(cli(words))["results"]
    assert row["status"] == "ok"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("gemmt --n 90 --k 70 --uplo u --transb t", "dgemmt n=90 k=70 a@h b@h c@h uplo=u transb=t"),
        ("symm --m 90 --n 70 --side r --uplo u --type s",
         "ssymm m=90 n=70 a@h b@h c@h side=r uplo=u"),
        ("hemm --size 100 --place 0,h,1 --beta 0", "zhemm m=100 n=100 a@0 b@h c@1 beta=0"),
        ("syrk --n 90 --k 70 --transa t --place h,0", "dsyrk n=90 k=70 a@h c@0 transa=t"),
        ("herk --n 90 --k 70 --transa c --uplo u --type c --alpha 2",
         "cherk n=90 k=70 a@h c@h uplo=u transa=c"),
        ("syr2k --n 90 --k 70 --place 1,h,p --beta 3", "dsyr2k n=90 k=70 a@1 b@h c@p"),
        ("her2k --n 90 --k 70 --alpha 1-2j --place p,p,p", "zher2k n=90 k=70 a@p b@p c@p"),
        ("trmm --m 90 --n 70 --side r --transa t --diag u --alpha 2",
         "dtrmm m=90 n=70 a@h c@h side=r uplo=l transa=t diag=u"),
        ("trsm --m 190 --n 70 --uplo u --place 0,0 --tile 64", "dtrsm m=190 n=70 a@0 c@0 uplo=u"),
        ("trsm --m 90 --n 170 --side r --transa c --diag u --type z --alpha 0.5j --place p,h,1",
         "ztrsm m=90 n=170 a@p c@1 side=r transa=c diag=u"),
    ],
)  # fmt: skip
def test_bench_of_every_routine_passes(cli, words, problem):
    (row,) = only_json(cli(f"bench {words} --repeat 3 --warmup 1 --check --json -"))["results"]
    assert row["status"] == "ok"
    assert row["problem"].split() == [word for word in problem.split() if word != "uplo=l"]
    assert row["routine"] == words.split()[0]
    assert row["balance"] >= 0
    flops = {"gemmt": 1, "symm": 2, "hemm": 2, "syrk": 1, "herk": 1, "syr2k": 2, "her2k": 2}
    flops = flops.get(row["routine"], 1) * (4 if row["type"] in "cz" else 1)
    products = row["m"] * row["n"] * row["k"]
    assert row["tflops"] == pytest.approx(flops * products / row["median_s"] / 1e12)
    assert set(PLAN_KEYS.split()[:9]) - {"tasks"} <= set(row)


def test_several_routines_take_of_the_flags_what_they_have(cli):
    words = "bench gemm,symm,trsm --size 100 --side r --transa t --repeat 1 --warmup 0 --json -"
    rows = only_json(cli(words))["results"]
    assert [row["problem"].split()[0] for row in rows] == ["dgemm", "dsymm", "dtrsm"]
    assert [("transa=t" in row["problem"], "side=r" in row["problem"]) for row in rows] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    assert [row["place"] for row in rows] == ["h,h,h", "h,h,h", "h,h"]


def test_one_place_stands_for_all_operands_of_every_routine(cli):
    words = "bench syrk,syr2k,dot,gemv --size 100 --place h;0 --repeat 1 --warmup 0 --json -"
    rows = only_json(cli(words))["results"]
    assert [row["place"] for row in rows] == ["h,h", "0,0", "h,h,h", "0,0,0"] * 2
    assert rows[3]["problem"] == "dsyr2k n=100 k=100 a@0 b@0 c@0"

    plan = only_json(cli("plan trmm --size 100 --place p --json -"))
    assert plan["problem"] == "dtrmm m=100 n=100 a@p c@p"
    trace = only_json(cli("trace symm --size 200 --place 1 --json -"))
    assert trace["fleetblas"]["problem"] == "dsymm m=200 n=200 a@1 b@1 c@1"


def test_a_wrong_result_of_any_routine_fails(script, tmp_path):
    done = script(
        "import sys\nfrom fleetblas import _arrays, _level3, cli\n"
        "_arrays.call = _level3.call = lambda *arguments: None\n"
        "sys.exit(cli.main('bench all --size 200 --repeat 1 --warmup 0 --json x.json'.split()))"
    )
    assert done.returncode == 1
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert len(rows) == 10
    assert {row["status"] for row in rows} == {"internal"}


def test_bench_of_a_wrong_result_fails(script, tmp_path):
    # A library that computes nothing: C stays C0.
    done = script(
        "import sys\nfrom fleetblas import _arrays, cli\n"
        "_arrays.call = lambda *arguments: None\n"
        "sys.exit(cli.main('bench gemm --size 300 --repeat 1 --warmup 0 --json x.json'.split()))"
    )
    assert done.returncode == 1
    assert "wrong" in done.stderr
    (row,) = json.loads((tmp_path / "x.json").read_text())["results"]
    assert row["status"] == "internal"


def test_bench_prints_a_table_and_writes_json_beside_it(cli, tmp_path):
    done = cli("bench gemm --size 128 --repeat 1 --warmup 0 --json x.json")
    assert done.returncode == 0
    head, row = done.stdout.splitlines()
    assert head.split()[:4] == ["engine", "problem", "place", "devices"]
    assert row.split()[:2] == ["fleetblas", "dgemm"]
    assert len(json.loads((tmp_path / "x.json").read_text())["results"]) == 1


def test_bench_on_the_simulator_is_marked_as_such_and_needs_no_memory(cli):
    words = "bench gemm --size 64K --backend sim --machine h200x8 --devices 4 --json -"
    (row,) = only_json(cli(words))["results"]
    assert row["measured"] == "simulated"
    assert row["devices"] == 4
    assert row["median_s"] == row["predicted_s"] >= row["bound_s"] > 0
    assert row["error"] is None


# ---- run ----------------------------------------------------------------------------------------


def test_run_takes_the_products_of_an_unmodified_script(cli):
    done = cli("run", "--backend", "host", "--devices", "3", "--", "python", "-c", PRODUCT)
    assert done.returncode == 0
    assert done.stdout == "27000000\n"
    assert "1 matrix product," in done.stderr
    assert re.search(r"devices +1 calls", done.stderr)
    assert re.search(r"host->device \d", done.stderr)


def test_run_adds_up_the_processes_of_a_program(cli, tmp_path):
    words = ("run", "--", "sh", "-c", 'python -c "$0"; python -c "$0"', PRODUCT)
    done = cli(*words, FLEETBLAS_SUMMARY="both.json")
    assert done.returncode == 0
    assert "2 matrix products," in done.stderr
    summary = json.loads((tmp_path / "both.json").read_text())
    (ran,) = summary["ran"]
    assert (summary["calls"], ran["calls"], ran["where"]) == (2, 2, "devices")
    assert summary["flops"] == ran["flops"] == 2 * 2 * 300**3
    into = sum(n for link, n in summary["bytes_by_link"].items() if link.startswith("host->"))
    assert into >= summary["bytes_by_kind"]["h2d"] > 0


def test_run_says_when_nothing_was_multiplied(cli, tmp_path):
    done = cli("run", "--", "python", "-c", "print(1)", FLEETBLAS_SUMMARY="%p.txt")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "called no routine of level 3" in done.stderr
    (file,) = tmp_path.glob("[0-9]*.txt")
    assert file.read_text() == done.stderr


def test_a_summary_that_cannot_be_written_is_one_line_and_not_the_status(main, monkeypatch):
    monkeypatch.setenv("FLEETBLAS_SUMMARY", "nowhere/x.json")
    done = main("run -- true")
    assert done.returncode == 0
    assert done.stderr.endswith("\nfleetblas run: cannot write nowhere/x.json: No such file or "
                                "directory\n")  # fmt: skip


@pytest.mark.parametrize("command", ["run", "trace -o x.html"])
def test_a_program_does_not_start_with_a_bad_setting(main, tmp_path, monkeypatch, command):
    done = main(f"{command} --objective foo -- touch started")
    assert done.returncode == 2
    assert "objective=foo: expected time, edp, energy, or energy@X" in done.stderr
    monkeypatch.setenv("FLEETBLAS_TILE", "soft")
    done = main(f"{command} -- touch started")
    assert done.returncode == 2
    assert "FLEETBLAS_TILE: tile=soft: expected a size" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("command", ["run", "trace -o page.html"])
def test_a_program_without_its_dashes_is_told_of_them(main, command):
    done = main(f"{command} python x.py")
    assert done.returncode == 2
    assert f"give the program after --, as in: fleetblas {command} -- python x.py" in done.stderr
    assert "after --" not in main(f"{command} --swiftly").stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["no-such-program"], 127),
        (["/"], 126),
    ],
)
def test_run_has_the_exit_status_of_its_command(cli, words, status):
    assert cli("run", "--", *words).returncode == status


def test_run_refuses_a_pool_that_is_none(cli):
    done = cli("run", "--", "true", FLEETBLAS_POOL="16GB")
    assert done.returncode == 2
    assert "FLEETBLAS_POOL=16GB: expected 0, 1, a share of memory" in done.stderr
    for word in ("", "0.25", "16G", "off"):
        assert cli("run", "--", "true", FLEETBLAS_POOL=word).returncode == 0


def test_run_takes_scripts_that_name_no_interpreter(cli, tmp_path):
    script = tmp_path / "says-nothing"
    script.write_text('exit "$1"\n', encoding="utf-8")
    script.chmod(0o755)
    assert cli("run", "--", str(script), "5").returncode == 5
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert cli("run", "--", "says-nothing", "6", PATH=path).returncode == 6


def test_run_gives_the_command_its_own_words_and_preloads_before_others(cli):
    show = "import os, sys; print(sys.argv[1:], os.environ['LD_PRELOAD'].split(':')[1:])"
    done = cli("run", "--", "python", "-c", show, "--", "--help", LD_PRELOAD="libm.so.6")
    assert done.stdout == "['--', '--help'] ['libm.so.6']\n"


# ---- trace --------------------------------------------------------------------------------------


def embedded(page):
    found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def test_trace_writes_one_page_that_contains_the_timeline(cli, tmp_path):
    done = cli("trace gemm --size 500 --place p,h,0 -o page.html --json trace.json")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert embedded(page) == trace
    assert trace["fleetblas"]["source"] == "measured"
    assert "https:" not in page
    assert "http:" not in page
    lanes = {queue["tid"] for queue in trace["fleetblas"]["queues"]}
    assert {e["tid"] for e in trace["traceEvents"] if e["ph"] == "X"} == lanes


def test_trace_of_a_routine_that_solves(cli, tmp_path):
    done = cli("trace trsm --size 300 --side r --tile 100 -o page.html")
    assert done.returncode == 0, done.stderr
    summary = embedded((tmp_path / "page.html").read_text())["fleetblas"]
    assert summary["problem"] == "dtrsm m=300 n=300 a@h c@h side=r"


def test_trace_of_a_simulation_is_marked_as_such(cli, tmp_path):
    words = "trace gemm --size 8K --backend sim --machine karolina -o page.html"
    assert cli(words).returncode == 0
    summary = embedded((tmp_path / "page.html").read_text())["fleetblas"]
    assert summary["source"] == "simulated"


def test_trace_of_a_program_puts_its_calls_on_one_clock(cli, tmp_path):
    twice = (
        "import numpy as np\nfor n in (200, 300): a = np.ones((n, n)); a @ a\nraise SystemExit(3)"
    )
    done = cli("trace", "-o", "page.html", "--", "python", "-c", twice)
    assert done.returncode == 3, done.stderr
    trace = embedded((tmp_path / "page.html").read_text())
    first, second = trace["fleetblas"]["calls"]
    assert second["start_s"] >= first["start_s"] + first["seconds"] * 0.99
    by_call = {0: [], 1: []}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            by_call[event["args"]["call"]].append(event)
    assert [len(by_call[i]) for i in (0, 1)] == [first["tasks"], second["tasks"]]
    assert max(e["ts"] for e in by_call[0]) <= min(e["ts"] for e in by_call[1])
    # A queue has one number and one name in the whole timeline.
    names = {}
    for call in (first, second):
        for queue in call["queues"]:
            assert names.setdefault(queue["tid"], queue["name"]) == queue["name"]
    assert len(set(names.values())) == len(names)


def test_trace_advises_offload_only_for_programs_that_ended_well(main):
    assert main("trace -o page.html -- true").stderr.endswith("(try FLEETBLAS_OFFLOAD=always)\n")
    for program, status in (("false", 1), ("no-such-program", 127)):
        done = main(f"trace -o page.html -- {program}")
        assert done.returncode == 1
        assert done.stderr.endswith(f"the program ended with {status}: there is no timeline\n")


def test_a_page_survives_markup_in_its_trace():
    from fleetblas.commands import trace

    nasty = {"fleetblas": {"problem": "</script><b>"}, "traceEvents": []}
    assert embedded(trace.page_of(nasty)) == nasty

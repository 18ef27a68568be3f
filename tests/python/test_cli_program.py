# SPDX-License-Identifier: BSD-3-Clause
"""Several calls as one: `fleetblas plan --program`, `fleetblas trace --program`, and in Python."""

import json
import subprocess
import sys

import fleetblas
import pytest
from test_cli import only_json

SOLVE = "dtrsm size=8192 a=T@h c=X@h\ndgemm size=8192 a=D@h b=X@h c=C@h  # on X\n"


@pytest.fixture
def solve(tmp_path):
    (tmp_path / "solve.txt").write_text(SOLVE)
    return "solve.txt"


def test_calls_as_one_move_each_matrix_once(main, solve):
    plan = only_json(main(f"plan --program {solve} --machine h200x4 --backend sim --json -"))
    matrix = 8192 * 8192 * 8
    moved = plan["bytes_by_link"].items()
    back = sum(n for link, n in moved if link.endswith("->host"))
    assert back == 2 * matrix
    # T is a triangle, and tiles on its diagonal are moved as triangles.
    into = sum(n for link, n in moved if link.startswith("host->"))
    assert into == pytest.approx(3.5 * matrix, rel=0.01)
    assert [call["call"] for call in plan["calls"]] == [
        "dtrsm size=8192 a=T@h c=X@h",
        "dgemm size=8192 a=D@h b=X@h c=C@h",
    ]
    assert plan["bound_s"] <= plan["predicted_s"] < plan["alone_s"]
    assert plan["alone_s"] == pytest.approx(sum(call["alone_s"] for call in plan["calls"]))


def test_the_words_say_what_the_json_says(main, solve):
    plan = only_json(main(f"plan --program {solve} --machine h200x4 --backend sim --json -"))
    done = main(f"plan --program {solve} --machine h200x4 --backend sim --why")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 calls as one plan\non h200x4 ")
    for words in ("dgemm size=8192 a=D@h b=X@h c=C@h", f"{plan['tasks']:,}: fetch", "one by one"):
        assert words in done.stdout
    assert "groups of" in done.stdout.partition("considered")[2]


def test_standard_input_and_a_page(tmp_path, solve):
    command = [sys.executable, "-m", "fleetblas", "plan", "--program", "-", "--machine", "dgx1"]
    done = subprocess.run(
        command, input=SOLVE, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "of bound" in done.stdout


def test_the_timeline_is_that_of_the_plan(main, solve, tmp_path):
    words = f"trace --program {solve} --machine h200x4 --backend sim -o page.html --json t.json"
    assert main(words).returncode == 0
    page = json.loads((tmp_path / "t.json").read_text())["fleetblas"]
    plan = only_json(main(f"plan --program {solve} --machine h200x4 --backend sim --json -"))
    assert page["seconds"] == pytest.approx(plan["predicted_s"])
    assert page["flops"] == 3 * 8192**3
    assert page["problem"].count(";") == 1
    assert "<html" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("plan --machine h200x4", "a routine with its options, or --program FILE"),
        ("plan gemm --size 4 --program solve.txt", "a routine with its options, or --program"),
        ("plan --program nowhere.txt --machine h200x4", "cannot read nowhere.txt"),
        ("plan --program wrong.txt --machine h200x4", "line 2 of the program: "),
        ("plan --program solve.txt --backend auto", "no device to plan for"),
        ("trace --program solve.txt -o page.html", "give --backend sim"),
        ("trace gemm --size 64 --program solve.txt -o page.html", "--program FILE, or a command"),
    ],
)
def test_wrong_words_are_named(main, solve, tmp_path, words, complaint):
    (tmp_path / "wrong.txt").write_text("dgemm size=8 a=X@h b@h c@h\ndgemm size=9 a=X@h b@h c@h")
    done = main(words)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert done.stdout == ""


def test_in_python():
    with fleetblas.Context(backend="sim", machine="h200x4", objective="edp") as context:
        plan = context.plan_program(
            "dgemm size=4096 a=A@0 b=B@0 c=C@0\ndsyrk size=4096 a=C@0 c=S@0"
        )
        assert plan["objective"] == "edp"
        assert plan["predicted_value"] == pytest.approx(plan["joules"] * plan["predicted_s"])
        timeline = context.simulate_program("dgemm size=4096 a=A@0 b=B@0 c=C@0")
        assert timeline["fleetblas"]["flops"] == 2 * 4096**3
        with pytest.raises(fleetblas.Error, match="line 1 of the program"):
            context.plan_program("dgemm size=8 a=X@h b@h c=X@h")


CYCLIC = "--devices 4 --machine h200x4 --backend sim --json -"


def test_a_call_on_block_cyclic_matrices_needs_no_host(main):
    plan = only_json(main(f"plan gemm --size 16K --place c2x2:2048 --beta 0 {CYCLIC}"))
    assert not any("host" in link for link in plan["bytes_by_link"])
    assert plan["bound_fraction"] > 0.97
    mixed = only_json(main(f"plan syrk --size 8K --place h,c:1024 {CYCLIC}"))
    assert any(link.startswith("host->") for link in mixed["bytes_by_link"])


def test_block_cyclic_places_that_are_none_are_named(main):
    done = main("plan gemm --size 8K --place c2 --machine h200x4 --backend sim")
    assert done.returncode != 0
    assert "place 'c2': the grid needs rows and columns" in done.stderr
    done = main("bench gemm --size 8K --place c2x2 --machine h200x4 --backend sim")
    assert done.returncode != 0
    assert "block-cyclic places are for plan and trace" in done.stderr

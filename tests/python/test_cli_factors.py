# SPDX-License-Identifier: BSD-3-Clause
"""`fleetblas plan` and `fleetblas trace` of factorizations: their words, JSON and timelines."""

import json
import pathlib
import re

import fleetblas
import pytest
from fleetblas.commands import common
from test_cli import only_json

KEYS = (
    "problem machine workers shares tile strips panels stages tasks tasks_by_kind memory "
    "bytes_by_link why why_left_out candidates plan_s predicted_s bound_s bound_fraction "
    "limited_by host_s offload rules corrections"
)


@pytest.mark.parametrize(
    ("words", "flops"),
    [
        ("potrf --size 8K --uplo u --place 0", 8192**3 / 3),
        ("getrf --m 8K --n 4K --type z", 4 * (8192 * 4096**2 - 4096**3 / 3)),
        ("geqrf --size 4K --place p --type s", 4 * 4096**3 / 3),
    ],
)
def test_a_plan_says_in_words_what_its_json_says(main, words, flops):
    done = main(f"plan {words} --machine h200x4 --json plan.json --trace timeline.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(pathlib.Path("plan.json").read_text())
    assert set(KEYS.split()) <= set(plan)
    assert done.stdout.startswith(f"{plan['problem']}\non h200x4 (")
    assert (
        f"{plan['strips']} of {plan['tile']} columns, {plan['panels']} with a panel" in done.stdout
    )
    assert f"  {plan['tasks']:,}: fetch {plan['tasks_by_kind']['fetch']:,}, " in done.stdout
    assert common.rate_text(flops / plan["predicted_s"] / 1e12) in done.stdout
    assert f"{common.duration(plan['bound_s'])}, limited by {plan['limited_by']}" in done.stdout
    assert plan["predicted_s"] >= plan["bound_s"] > 0
    assert re.search(r"\n  workers +\d \(0", done.stdout)
    assert "considered" not in done.stdout
    timeline = json.loads(pathlib.Path("timeline.json").read_text())
    events = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    assert len(events) == plan["tasks"]
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(plan["predicted_s"] * 1e6)


def test_a_plan_says_why_by_the_widths_that_were_tried(main):
    done = main("plan getrf --size 8K --machine h200x4 --devices auto --why --json plan.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(pathlib.Path("plan.json").read_text())
    head, *lines = done.stdout[done.stdout.index("  considered ") :].splitlines()
    assert head.split() == ["considered", "workers", "stages", "simulated", "energy", "tasks"]
    assert len(lines) == len(plan["why"]) == plan["candidates"]
    for line, tried in zip(lines, plan["why"]):
        assert line.startswith(f"  strips of {tried['tile']} ")
        assert f" {common.duration(tried['predicted_s'])} " in line
        assert line.endswith(f" {tried['tasks']:,}  {tried['reason']}")
    first = plan["why"][0]
    assert (first["reason"], first["tile"], first["workers"]) == (
        "chosen",
        plan["tile"],
        plan["workers"],
    )
    assert first["predicted_s"] == plan["predicted_s"]
    assert len({len(tried["workers"]) for tried in plan["why"]}) > 1
    for tried in plan["why"][1:]:
        percent = 100 * (tried["predicted_s"] / plan["predicted_s"] - 1)
        if tried["reason"] != "alike":
            said = float(re.fullmatch(r"slower by ([\d.e-]+) %", tried["reason"])[1])
            assert said == pytest.approx(percent, rel=0.06, abs=0.51)


def test_a_matrix_beyond_memory_has_stages_and_widths_that_do_not_fit(main):
    words = "plan getrf --size 8K --machine h200x4 --memory-cap 64M --devices all --why"
    done = main(f"{words} --json plan.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(pathlib.Path("plan.json").read_text())
    assert plan["stages"] > 1
    assert f"  stages       {plan['stages']}: " in done.stdout
    assert "kinds of tasks and memory are of stage 1\n" in done.stdout
    assert " in all stages, in stage 1: " in done.stdout
    assert all(device["bytes"] <= 2**26 for device in plan["memory"])
    refused = [tried for tried in plan["why"] if tried["predicted_s"] is None]
    assert refused
    assert plan["why"][-len(refused) :] == refused
    for tried in refused:
        assert "memory" in tried["reason"]
        assert tried["reason"] in done.stdout


def test_words_and_texts_ask_for_the_same_plan(main):
    with fleetblas.Context(backend="sim", machine="h200x4") as context:
        by_text = context.plan("dpotrf n=2048 a@1 uplo=u")
        by_words = context.plan(routine="potrf", size=2048, place="1", uplo="u")
        bound = context.bound(routine="potrf", n=2048, place="1", uplo="u")
    del by_text["plan_s"], by_words["plan_s"]
    assert by_text == by_words
    assert bound["bound_s"] == by_text["bound_s"]
    plan = only_json(main("plan potrf --size 2K --place 1 --uplo u --machine h200x4 --json -"))
    assert plan["problem"] == "dpotrf n=2048 a@1 uplo=u"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("plan potrf --size 8 --side l", "potrf has no --side"),
        ("plan potrf --size 8 --beta 0", "potrf has no --beta"),
        ("plan potrf --size 8 --place h,h", "potrf takes one word"),
        ("plan potrf --size 8 --place c2", "place 'c2': the grid needs rows and columns"),
        ("bench gemm,potrf --size 8 --place c2x2", "are for plan and trace, not for bench gemm"),
        ("plan geqrf --m 8 --n 0", "geqrf has nothing to do"),
        ("plan gesv --size 8", "invalid choice: 'gesv'"),
    ],
)
def test_words_that_mean_nothing_together(main, words, reason):
    done = main(words)
    assert done.returncode == 2
    assert reason in done.stderr


def test_block_cyclic_matrices_are_factored_on_their_devices(main):
    on = "--devices 4 --machine h200x4"
    plan = only_json(main(f"plan getrf --size 8K --place c2x2:1024 {on} --json -"))
    assert plan["problem"] == "dgetrf m=8192 n=8192 a@0+1+2+3"
    assert plan["workers"] == [0, 1, 2, 3]
    assert not any(link.startswith("host->") for link in plan["bytes_by_link"])
    done = main(f"plan potrf --size 8K --place c2x2 --uplo u {on}")
    assert done.returncode == 2
    assert "an upper triangle is cut into rows, and columns are dealt" in done.stderr
    done = main(f"plan getrf --size 8K --place c4x4 {on}")
    assert done.returncode == 2
    assert "a place of 4x4 devices: there are 4" in done.stderr
    two = only_json(
        main("plan getrf --size 8K --place c1x2 --devices 1,3 --machine h200x4 --json -")
    )
    assert two["problem"] == "dgetrf m=8192 n=8192 a@1+3"
    assert two["workers"] == [1, 3]
    by_model = only_json(main(f"plan geqrf --size 8K --place c {on} --json -"))
    assert by_model["problem"] == "dgeqrf m=8192 n=8192 a@0+1+2+3"


def test_unknown_routines_of_plans_in_python_are_named():
    with fleetblas.Context(backend="sim", machine="h200x4") as context:
        with pytest.raises(fleetblas.BadArgument, match="potrf has no side"):
            context.plan(routine="potrf", size=8, side="l")
        with pytest.raises(fleetblas.BadArgument, match="dgesv"):
            context.plan(routine="gesv", size=8)


@pytest.mark.parametrize("word", ["potrf", "getrf", "geqrf"])
def test_trace_draws_a_factorization_that_ran(cli, tmp_path, word):
    done = cli(f"trace {word} --size 300 --backend host -o page.html --json trace.json")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)
    assert (tmp_path / "page.html").stat().st_size > 10000


def test_trace_says_that_it_draws_one_of_several_stages(main):
    words = "getrf --size 8K --machine h200x4 --memory-cap 64M --devices all"
    stages = only_json(main(f"plan {words} --json -"))["stages"]
    done = main(f"trace {words} --backend sim --json trace.json")
    assert done.returncode == 0, done.stderr
    assert f"stage 1 of {stages} is drawn" in done.stderr
    trace = json.loads(pathlib.Path("trace.json").read_text())
    assert trace["traceEvents"]
    assert (trace["fleetblas"]["stage"], trace["fleetblas"]["stages"]) == (1, stages)


def test_trace_draws_the_last_stage_of_a_factorization_that_ran(cli, tmp_path):
    words = "getrf --size 512 --backend host --devices 2 --memory-cap 1M"
    stages = only_json(cli(f"plan {words} --json -"))["stages"]
    assert stages > 1
    done = cli(f"trace {words} -o page.html --json trace.json")
    assert done.returncode == 0, done.stderr
    drawn = int(re.search(r"stage (\d+) of \1 is drawn", done.stderr)[1])
    trace = json.loads((tmp_path / "trace.json").read_text())["fleetblas"]
    assert trace["stage"] == trace["stages"] == drawn > 1


def test_trace_names_no_stage_where_there_is_one(main):
    done = main("trace getrf --size 8K --backend sim --machine h200x4 --json trace.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "stage" not in json.loads(pathlib.Path("trace.json").read_text())["fleetblas"]

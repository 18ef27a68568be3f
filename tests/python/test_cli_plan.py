# SPDX-License-Identifier: BSD-3-Clause
"""`fleetblas plan`: its JSON, and that its words say the same."""

import json
import pathlib
import re

import pytest
from fleetblas._routines import ROUTINES
from fleetblas.commands import common
from test_cli import PLAN_KEYS, only_json

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("word", ["h", "bf16", "tf32"])
def test_plan_knows_the_rates_of_coarse_types(cli, word):
    plan = only_json(cli(f"plan gemm --type {word} --size 8K --machine h200x8 --json -"))
    double = only_json(cli("plan gemm --size 8K --machine h200x8 --json -"))
    assert plan["problem"].startswith(f"{word}gemm ")
    assert plan["predicted_s"] < double["predicted_s"]


def test_tiles_pass_as_many_workers_as_the_option_allows(cli):
    words = "plan gemm --size 8K --machine clx-ai --devices all --place 0,1,2 --json -"
    assert only_json(cli(words))["max_hops"] == 1
    assert only_json(cli(f"{words} --max-hops 0"))["max_hops"] == 0


@pytest.mark.parametrize("machine", ["h200x8", "h200x4", "karolina", "clx-ai", "dgx1"])
def test_plans_for_every_shipped_machine(main, machine):
    words = f"plan gemm --type d --size 8K --place h,h,h --machine {machine} --json -"
    plan = only_json(main(words))
    assert set(PLAN_KEYS.split()) <= set(plan)
    assert plan["grid"][0] * plan["grid"][1] == len(plan["workers"])
    assert plan["predicted_s"] >= plan["bound_s"] > 0
    # A, B and C go to the devices at least once, C comes back once.
    matrix = 8192 * 8192 * 8
    into = sum(n for link, n in plan["bytes_by_link"].items() if link.startswith("host->"))
    back = sum(n for link, n in plan["bytes_by_link"].items() if link.endswith("->host"))
    assert into >= 3 * matrix
    assert back == matrix


@pytest.mark.parametrize("word", [word for word in ROUTINES if word != "gemm"])
def test_plans_of_every_routine_count_their_flops(main, word):
    done = main(f"plan {word} --size 8K --machine h200x4 --json plan.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads((pathlib.Path.cwd() / "plan.json").read_text())
    assert plan["problem"].split()[0][1:] == word
    half = word in ("gemmt", "syrk", "herk", "trmm", "trsm")
    flops = 2 * (4 if word.startswith("he") else 1) * (0.5 if half else 1) * 8192**3
    assert common.rate_text(flops / plan["predicted_s"] / 1e12) in done.stdout
    assert plan["predicted_s"] >= plan["bound_s"] > 0


def test_plan_says_in_words_what_its_json_says(cli, tmp_path):
    words = (
        "plan gemm --size 4K --machine h200x4 --rules all --json plan.json --trace timeline.json"
    )
    done = cli(words)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert f"{plan['grid'][0]} x {plan['grid'][1]}" in done.stdout
    assert f"limited by {plan['limited_by']}" in done.stdout
    assert f"{plan['tasks']:,}: " in done.stdout
    timeline = json.loads((tmp_path / "timeline.json").read_text())
    events = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    assert len(events) == plan["tasks"]
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(plan["predicted_s"] * 1e6)


@pytest.mark.parametrize("words", ["gemm --size 8K", "axpy --size 16M", "trsm --m 8K --n 2K"])
def test_plan_says_why_with_the_numbers_of_its_json(main, words):
    done = main(
        f"plan {words} --place {'h,h,h' if 'gemm' in words else '0,h'} "
        "--machine h200x4 --why --json plan.json"
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(pathlib.Path("plan.json").read_text())
    head, *lines = done.stdout[done.stdout.index("  considered ") :].splitlines()
    assert head.split() == ["considered", "estimate", "simulated", "worst", "tasks"]
    assert len(lines) == len(plan["why"]) + (plan["why_left_out"] > 0) + (plan["cpu_left_out"] > "")
    for line, tried in zip(lines, plan["why"]):
        assert line.endswith(f"  {tried['reason']}")
        assert f"{tried['grid'][0]} x {tried['grid'][1]}, tiles " in line
        assert f" {common.duration(tried['predicted_s'])} " in line
        assert f" {common.duration(tried['estimate_s'])} " in line
        assert f" {tried['tasks']:,}  " in line
    assert [tried["verdict"] for tried in plan["why"]].count("chosen") == 1
    assert (plan["why"][0]["reason"], plan["why"][0]["tile"]) == ("chosen", plan["tile"])
    slower = [tried for tried in plan["why"] if tried["verdict"] == "slower"]
    assert slower
    for tried in slower:
        percent = 100 * (tried["predicted_s"] / plan["predicted_s"] - 1)
        said = float(re.match(r"slower by ([\d.]+) %", tried["reason"])[1])
        assert said == pytest.approx(percent, rel=0.06, abs=0.01)


@pytest.mark.parametrize(
    ("place", "key", "dimension"), [("0,1,2", "row_tiles", "m"), ("0,0,0", "col_tiles", "n")]
)
def test_plan_names_edges_that_rows_or_columns_of_the_grid_have_alone(main, place, key, dimension):
    done = main(
        f"plan gemm --size 8K --place {place} --machine ac922 --devices auto --why --json plan.json"
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(pathlib.Path("plan.json").read_text())
    head, lines = done.stdout.split("  considered ")
    (tile,) = [line for line in head.splitlines() if line.startswith("  tile ")]
    said = 0
    for line, edges in [
        (tile, plan[key]),
        *((line, tried[key]) for line, tried in zip(lines.splitlines()[1:], plan["why"])),
    ]:
        assert (f", edges along {dimension} {'/'.join(map(str, edges))}" in line) == bool(edges)
        said += bool(edges)
    assert said


def test_plan_says_how_a_preset_deals_tiles(main):
    done = main("plan gemm --size 4K --machine h200x4 --preset xkblas")
    assert re.search(
        r"grid +\d x \d: tiles of C dealt cyclic 2d, idle workers steal\n", done.stdout
    )
    assert re.search(r"preset +xkblas\n", done.stdout)
    plan = only_json(main("plan gemm --size 4K --machine h200x4 --preset cublasxt --json -"))
    assert (plan["preset"], plan["owners"], plan["steals"]) == ("cublasxt", "round_robin", False)


def test_plan_says_why_only_if_asked_or_in_json(main):
    words = "plan gemm --size 4K --machine h200x4"
    assert "considered" not in main(words).stdout
    assert only_json(main(f"{words} --why --json -"))["why"]


def test_plan_without_any_device_says_that_the_cpu_does_it(cli):
    done = cli("plan", "gemm", "--size", "1K", "--backend", "auto", "--why")
    assert done.returncode == 0, done.stderr
    assert re.search(r"where +cpu", done.stdout)
    assert "nothing to choose from" in done.stdout
    assert "no device: try --machine" in done.stdout


def test_plan_of_nothing_does_not_miss_the_devices_that_are_there(main):
    done = main("plan gemm --size 0 --machine h200x4")
    assert done.returncode == 0, done.stderr
    assert "no device" not in done.stdout


# Of a plan in words; of some only the beginning.
LINES = (r"workers .*", r"left out .*?:", r"(?:grid|tile|strips) {2,}.*", r"tasks .*?:")


def test_the_pages_show_the_plans_that_their_commands_print(main, tmp_path, monkeypatch):
    """Times depend on what the planner has learned since; devices and tasks are to be right."""
    for name in ("BACKEND", "DEVICES", "OFFLOAD"):
        monkeypatch.delenv(f"FLEETBLAS_{name}")
    page = (ROOT / "docs/how-to/plan.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^\$ cat solve.txt\n(.*?)^\$", page, re.M | re.S)
    (tmp_path / "solve.txt").write_text(program)
    blocks = re.findall(r"^\$ fleetblas (plan .*?)\n(.*?)^```$", page, re.M | re.S)
    assert len(blocks) >= 5
    for command, shown in blocks:
        done = main(command)
        assert done.returncode == 0, done.stderr
        seen = 0
        for line in LINES:
            lines = re.findall(rf"^  {line}", shown, re.M)
            assert lines in ([], re.findall(rf"^  {line}", done.stdout, re.M)), command
            seen += len(lines)
        assert seen > 0 or "--why" in command, command  # of that the page has the list alone

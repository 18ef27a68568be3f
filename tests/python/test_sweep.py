# SPDX-License-Identifier: BSD-3-Clause
"""bench/sweep.py: the tuner's plan against those of all grids and tiles; bench/cpu_share.py: calls
with and without the CPU beside devices; bench/compose.py: queued calls."""

import json
import os
import pathlib
import subprocess
import sys

import fleetblas

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(command, **settings):
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | settings,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def results_of(script, tmp_path, words, **settings):
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
    output_of([str(ROOT / "bench" / script), *words.split(), "-o", str(file)], **settings)
    return json.loads(file.read_text())["results"]


def test_the_tuner_is_near_the_best_of_all_grids_and_tiles_on_every_shipped_node(tmp_path):
    for machine, devices in (("h200x4", 4), ("h200x8", 8), ("karolina", 8)):
        words = f"--machine {machine} --devices {devices} --problems 20"
        problems = results_of("sweep.py", tmp_path, words)
        gaps = sorted(problem["gap"] for problem in problems)
        assert len(gaps) >= 15
        assert gaps[0] >= 0
        assert sum(gaps) / len(gaps) < 0.05, machine
        for problem in problems:
            assert problem["measured"] == "simulated"
            assert problem["best"]["median_s"] >= problem["bound_s"]


def test_virtual_devices_are_measured_and_verified(tmp_path):
    program = (
        "import runpy, sys\n"
        "from fleetblas.commands import datasets\n"
        "datasets.SETS = {name: lambda: datasets._squares((96,), ('h,h,h',))\n"
        "                 for name in datasets.SETS}\n"
        f"sys.argv[0] = {str(ROOT / 'bench' / 'sweep.py')!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    file = tmp_path / "sweep.json"
    command = ["-c", program, "--backend", "host", "--devices", "2", "-o", str(file)]
    said = output_of(command)
    (problem,) = json.loads(file.read_text())["results"]
    assert output_of(command) == said[1:]  # nothing is left to measure
    assert json.loads(file.read_text())["results"] == [problem]
    assert problem["measured"] == "measured"
    # One grid of one device and two of both; of the tiles none is smaller than the problem.
    assert problem["plans"] == 4
    assert [row["status"] for row in problem["again"]] == ["ok"] * 3
    assert problem["gap"] >= 0


def test_calls_with_and_without_the_cpu_are_measured_in_turn(tmp_path):
    with fleetblas.Context(backend="host", devices=1) as context:
        node = context.machine()
    # Rates that do not depend on what else the cores do: the CPU beside is as fast as the device.
    node["devices"][0]["kernels"] = node["devices"][2]["kernels"]
    file = tmp_path / "node.json"
    file.write_text(json.dumps(node))
    words = f"--backend host --devices 1 --largest 1000 --machine {file}"
    (square,) = results_of("cpu_share.py", tmp_path, words, FLEETBLAS_ONLINE="off")
    assert (square["m"], square["place"], square["status"]) == (768, "h,h,h", "ok")
    assert square["ratio"] == square["median_s"] / square["without_s"]
    assert 0.2 < square["cpu_share"] < 0.8


def test_queued_calls_are_measured_and_resident_products_move_nothing(tmp_path):
    # A node that is measured beside other work may fetch what is at home too from there.
    words = "--backend host --machine h200x4 --devices 2 --sizes 256,384 --edge 256"
    words += " --program 128 --repeat 3"
    rows = results_of("compose.py", tmp_path, f"{words} --commit abc")
    ways = ["returns", "idle, from the host", "idle, resident", "resident"]
    ways += ["one by one", "queued"] * 2 + ["alone"]
    assert [row["way"] for row in rows] == ways
    assert {row["commit"] for row in rows} == {"abc"}
    returns, cold, warm, resident, *chains = rows
    assert returns["calls"] == 1000
    assert 0 < returns["return_min_s"] <= returns["return_median_s"] <= returns["return_p99_s"]
    for idle in (cold, warm):
        assert idle["calls"] == 50
        assert 0 < idle["idle_share_of_wall"] < 1
    assert warm["error_of_columns"] < 1e-12
    assert (resident["bytes_by_kind"]["h2d"], resident["bytes_by_kind"]["d2h"]) == (0, 0)
    for row in (resident, *chains):
        assert row["error"] < 4
        assert row["min_s"] <= row["median_s"] <= row["max_s"]
    for one_by_one, queued in (chains[:2], chains[2:4]):
        matrix = 8 * queued["m"] ** 2
        assert queued["bytes_by_kind"]["h2d"] >= 2 * matrix
        assert queued["bytes_by_kind"]["d2h"] == 2 * matrix
        # The CPU may compute a part of a call by itself.
        assert 0 < one_by_one["bytes_by_kind"]["d2h"] <= 2 * matrix

# SPDX-License-Identifier: BSD-3-Clause
"""fleetblas probe: its file, its words, and what is left when it is stopped."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from fleetblas.commands import probe

SIM = "probe -o node.json --backend sim --machine h200x4"


def test_a_simulated_machine_comes_back_and_can_be_planned_for(cli, tmp_path):
    done = cli(SIM)
    assert done.returncode == 0, done.stderr
    assert "written to node.json" in done.stdout
    assert "host -> devices" in done.stdout
    assert done.stderr == ""  # no terminal, no bar
    found = json.loads((tmp_path / "node.json").read_text())
    assert found["source"] == "measured by probe"
    assert found["notes"]["unsettled"] == []
    assert all(value["repeats"] == 10 for value in found["notes"]["probe"]["values"])
    measured, shipped = (
        json.loads(cli(f"plan gemm --size 8K --machine {name} --json -").stdout)
        for name in ("node.json", "h200x4")
    )
    assert measured["bound_s"] == pytest.approx(shipped["bound_s"], rel=0.02)


def test_the_bar_is_for_terminals_only():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        bar = probe.Bar(stream)
        bar.show(0.5, "copy host->0 tile 512")
        bar.close()
    assert "[###############...............]  50 %" in terminal.getvalue()
    assert "copy host->0 tile 512" in terminal.getvalue()
    assert file.getvalue() == ""


def test_types_limit_what_is_measured(cli, tmp_path):
    assert cli(f"{SIM} --types d").returncode == 0
    found = json.loads((tmp_path / "node.json").read_text())
    assert "kernels d" in found["notes"]["probe"]["done"]
    assert "kernels s" not in found["notes"]["probe"]["done"]
    assert any(note.startswith("kernels s: not measured") for note in found["notes"]["unsettled"])


def test_a_file_that_cannot_be_written_is_a_failure(main):
    assert main("probe -o no/such/folder/x.json --backend sim --machine h200x4").returncode == 1


def test_without_a_device_it_says_so(cli):
    done = cli("probe -o x.json --backend sim")
    assert done.returncode == 2
    assert "machine" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_leaves_a_machine_and_the_same_command_goes_on(cli, tmp_path, number):
    words = "probe -o node.json --backend host --devices 2 --types d --budget"
    file = tmp_path / "node.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetblas", *words.split(), "300"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLEETBLAS_DEVICE_MEMORY": "4M"},
    )
    deadline = time.monotonic() + 100
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in said
    partly = json.loads(file.read_text())
    assert partly["source"].startswith("partly measured")
    assert cli("plan gemm --size 1K --machine node.json").returncode == 0
    before = partly["notes"]["probe"]["done"]

    done = cli(f"{words} 3", FLEETBLAS_DEVICE_MEMORY="4M")

    assert done.returncode == 0, done.stderr
    whole = json.loads(file.read_text())
    assert whole["notes"]["probe"]["complete"]
    assert whole["notes"]["probe"]["done"][: len(before)] == before
    names = [value["name"] for value in whole["notes"]["probe"]["values"]]
    assert len(names) == len(set(names))

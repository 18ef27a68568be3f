# SPDX-License-Identifier: BSD-3-Clause
"""bench calls: programs of every pattern run under the drop-in and by themselves, and what fails or
computes wrong results is named."""

import argparse
import json

import pytest
from fleetblas.commands import bench_calls, common

NO_BACKEND = argparse.Namespace()
SPEC = {"pattern": "again", "size": 64, "type": "d", "seconds": 0.01}


def test_each_program_is_measured_in_both_ways(cli, tmp_path):
    file = tmp_path / "calls.json"
    done = cli(
        "bench calls --size 96 --seconds 0.05 --processes 1,2 --backend host --devices 2 "
        f"--json {file}",
        FLEETBLAS_OFFLOAD="always",
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + len(bench_calls.PATTERNS) + 1
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = found["results"]
    assert found["unfinished"] == 0 and found["machine"]
    assert [row["engine"] for row in rows] == list(bench_calls.WAYS) * 4
    for row in rows:
        assert row["status"] == "ok"
        assert 0 < row["least_s"] <= row["product_s"] <= row["most_s"]
        assert row["round_s"] >= row["least_s"]
        assert row["rounds"] >= 2 * row["processes"]
        # The drop-in took the products, and nothing else did.
        assert row.get("on_devices") == (1 if row["engine"] == "fleetblas" else None)


@pytest.mark.parametrize("letter", bench_calls.TYPES)
def test_programs_of_all_types_are_right(letter):
    row = bench_calls.measured_row({**SPEC, "type": letter}, 1, "numpy", NO_BACKEND)
    assert row["status"] == "ok", row
    assert 0 < row["error"] < bench_calls.MOST_ERROR


def program(tmp_path, monkeypatch, text):
    file = tmp_path / "program.py"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(bench_calls, "PROGRAM", file)


def test_a_wrong_result_is_no_result(tmp_path, monkeypatch):
    plain = bench_calls.PROGRAM.read_text(encoding="utf-8")
    wrong = plain.replace("with_v, expected = self.c @ self.v,", "with_v, expected = 2 * self.v,")
    assert wrong != plain
    program(tmp_path, monkeypatch, wrong)
    row = bench_calls.measured_row(SPEC, 1, "numpy", NO_BACKEND)
    assert row["status"] == "wrong" and "a wrong result" in row["message"]

    def faster_by(numpy):
        right = {**row, "status": "ok", "engine": "fleetblas", "on_devices": 1}
        return bench_calls.table([right, numpy]).splitlines()[1].split()[-3]

    assert faster_by(row) == "-"
    assert faster_by({**row, "status": "ok"}) == "1.00"


def test_a_program_that_ends_early_is_named(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "raise SystemExit('out of memory')")
    row = bench_calls.measured_row(SPEC, 3, "numpy", NO_BACKEND)
    assert row["status"] == "failed" and row["message"] == "out of memory"
    program(tmp_path, monkeypatch, "print('ready', flush=True)")
    row = bench_calls.measured_row(SPEC, 1, "numpy", NO_BACKEND)
    assert row["status"] == "failed" and "status 0" in row["message"]


def test_a_program_that_hangs_is_ended(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "import time\ntime.sleep(60)")
    monkeypatch.setattr(bench_calls, "START_S", 0.3)
    with pytest.raises(common.Failure, match="status -9"):
        bench_calls.run_processes(SPEC, 2, {})


def test_programs_beyond_the_budget_are_counted(cli):
    done = cli("bench calls --size 64 --seconds 0.01 --backend host --budget 0.001")
    assert done.returncode == 0
    assert "programs are not measured" in done.stderr


def test_what_does_not_fit_into_memory_is_left_out(cli):
    done = cli("bench calls --size 8M --backend host --processes 1")
    assert done.returncode == 0
    for pattern in bench_calls.PATTERNS:
        assert f"{pattern} 8388608, 1 process: left out, as it needs" in done.stderr


def test_what_is_not_of_calls_is_refused(cli):
    for words in (
        "calls --place h",
        "calls --type h",
        "calls --vs cublasxt",
        "calls --backend sim --machine h200x4",
        "calls --processes 0",
        "calls,gemm",
        "gemm --processes 2",
    ):
        assert cli(f"bench {words} --size 64").returncode == 2, words

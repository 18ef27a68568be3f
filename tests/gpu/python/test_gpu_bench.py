# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark on real GPUs: every peer that is installed is measured and right."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def rows(gpus):
    words = "bench gemm --size 2K,3000 --repeat 3 --warmup 1 --check --json -"
    words += " --vs cublasxt,cublas,nvblas,hostblas --place"
    last = gpus[-1]
    places = f"h,h,h;{gpus[0]},{gpus[0]},{gpus[0]};p,p,p;h,{last},p"
    done = subprocess.run(
        [sys.executable, "-m", "fleetblas", *words.split(), places],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"]


@pytest.mark.parametrize("engine", ["fleetblas", "cublasxt", "cublas", "hostblas"])
def test_every_engine_is_measured_and_right(rows, engine):
    mine = [row for row in rows if row["engine"] == engine]
    assert len(mine) == 8
    if engine != "fleetblas" and all(row["status"] == "unsupported" for row in mine):
        pytest.skip(mine[0]["message"])
    for row in mine:
        assert row["status"] == "ok", row
        assert 0 < row["error"] < 4
        assert row["median_s"] > 0


def test_nvblas_is_measured_with_pageable_operands(rows):
    mine = [row for row in rows if row["engine"] == "nvblas" and row["beside"] == "p,p,p"]
    assert len(mine) == 2
    if mine[0]["status"] == "unsupported":
        pytest.skip(mine[0]["message"])
    for row in mine:
        assert row["status"] == "ok", row
        assert row["tile"] in (2048, 4096)


def test_the_gpus_count_what_they_draw(rows, gpus):
    mine = [row for row in rows if row["engine"] == "fleetblas"]
    if all(row["joules"] is None for row in mine):
        pytest.skip("these GPUs have no total-energy counter")
    for row in mine:
        # All GPUs of the context count: each draws more than 20 W, and less than 2 kW.
        assert 20 * len(gpus) < row["watts"] < 2000 * len(gpus)
        assert row["joules"] == pytest.approx(row["watts"] * row["median_s"], rel=1.0)


def test_the_doctor_starts_products_of_operands_on_a_gpu(gpus):
    words = f"doctor --json - --startup --size 512 --place {gpus[-1]}"
    done = subprocess.run(
        [sys.executable, "-m", "fleetblas", *words.split()],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["startup"]["phases"]["contexts"] > 0

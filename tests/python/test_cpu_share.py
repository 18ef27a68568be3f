# SPDX-License-Identifier: BSD-3-Clause
"""The part of a product that the CPU computes beside the devices."""

import json
import re
from pathlib import Path

import fleetblas
import numpy as np
import pytest

MACHINES = Path(__file__).resolve().parents[2] / "machines"


@pytest.fixture
def with_cpu(tmp_path):
    """h200x4 with a CPU of 10 TFLOPS."""
    machine = json.loads((MACHINES / "h200x4.json").read_text())
    rate = dict(machine["devices"][2]["kernels"][0], type="d", edge=4096, flops_per_s=1e13)
    machine["devices"][0]["kernels"] = [rate]
    path = tmp_path / "with_cpu.json"
    path.write_text(json.dumps(machine))
    return str(path)


def plan_of(cli, words):
    done = cli(f"plan gemm --size 8K --backend sim {words} --json -")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plan_shows_the_part_of_the_cpu(cli, with_cpu):
    done = cli(f"plan gemm --size 8K --backend sim --machine {with_cpu} --why")
    assert done.returncode == 0, done.stderr
    percent = int(re.search(r"CPU beside +(\d+) % of the product, in place", done.stdout)[1])
    assert 5 < percent < 60
    assert f"CPU {percent} %" in done.stdout
    plan = plan_of(cli, f"--machine {with_cpu}")
    assert round(100 * plan["cpu_share"]) == percent
    assert sum(plan["shares"]) + plan["cpu_share"] == pytest.approx(1)
    assert plan["workers"] == list(range(len(plan["shares"])))
    assert plan["predicted_s"] >= plan["bound_s"]
    without = plan_of(cli, f"--machine {with_cpu} --cpu-share off")
    assert without["cpu_share"] == 0 and without["cpu_left_out"] == "cpu_share is off"
    assert plan["predicted_s"] * 1.03 < without["predicted_s"]


def test_plan_takes_the_part_that_is_given(cli, with_cpu):
    plan = plan_of(cli, f"--machine {with_cpu} --cpu-share 0.125")
    assert plan["cpu_share"] == 0.125
    assert cli("plan gemm --size 8K --machine h200x4 --cpu-share 1").returncode == 2


def test_why_says_why_the_cpu_computes_nothing(cli):
    done = cli("plan gemm --size 8K --backend sim --machine h200x4 --why")
    reason = "its rate for this type was not measured"
    assert f"without the CPU beside the devices: {reason}" in done.stdout


@pytest.mark.parametrize("share", ["auto", "0.3"])
def test_why_says_what_leaves_the_cpu_out(cli, with_cpu, share):
    where = f"--machine {with_cpu} --cpu-share {share}"
    for words, reason in [
        ("--place h,p,h", "no backend says which cores copies of pageable memory leave it"),
        ("--preset cublasxt", "the preset leaves it out"),
    ]:
        plan = plan_of(cli, f"{where} {words}")
        assert (plan["cpu_share"], plan["cpu_left_out"]) == (0, reason)
        assert plan["bound_s"] > plan_of(cli, where)["bound_s"]


def test_the_summary_and_the_line_of_a_call_have_the_part(script, with_cpu):
    done = script(
        "import numpy as np, fleetblas\n"
        "a = np.eye(512, order='F')\n"
        "c = fleetblas.gemm(a, a)\n"
        "assert (c == a).all()\n",
        FLEETBLAS_MACHINE=with_cpu,
        FLEETBLAS_CPU_SHARE="0.25",
        FLEETBLAS_SUMMARY="1",
        FLEETBLAS_VERBOSE="1",
    )
    assert "fleetblas:   the CPU beside the devices: 25.0 % of the work of 1 call" in done.stderr
    assert re.search(r" gpus:\d cpu:0\.250 tile:", done.stderr)


@pytest.mark.parametrize("word", ["gemm", "syrk", "trsm"])
def test_results_are_right_with_a_part_for_the_cpu(word, with_cpu):
    random = np.random.default_rng(7)
    a = np.asfortranarray(random.standard_normal((300, 300)))
    b = np.asfortranarray(random.standard_normal((300, 300)))
    options = {"backend": "host", "machine": with_cpu, "offload": "always", "cpu_share": 0.4}
    with fleetblas.Context(**options) as context:
        if word == "gemm":
            assert np.allclose(context.gemm(a, b), a @ b)
        elif word == "syrk":
            assert np.allclose(np.tril(context.syrk(a)), np.tril(a @ a.T))
        else:
            a += 300 * np.eye(300)
            assert np.allclose(np.tril(a) @ context.trsm(a, b), b)
        assert context.stats()["last"]["cpu_share"] == pytest.approx(0.4, abs=0.03)

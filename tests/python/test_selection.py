# SPDX-License-Identifier: BSD-3-Clause
"""Devices that a call leaves out."""

import re

import fleetblas
import numpy as np
from fleetblas.commands import run


def test_plan_names_the_devices_that_a_call_leaves_out(cli):
    words = "plan gemm --size 1K --place 0,0,0 --machine h200x4 --devices"
    some = cli(f"{words} auto")
    assert some.returncode == 0, some.stderr
    assert re.search(r"workers +1 \(0\)\n +left out +1(-3)?: the best with it, on ", some.stdout)
    for devices in ("all", "4"):
        every = cli(f"{words} {devices}")
        assert "left out" not in every.stdout
        assert "workers      4 (0-3)" in every.stdout


# With online=off plans never change, so the first call has the best one.
def test_statistics_count_the_calls_that_did_without_a_device():
    options = {"backend": "host", "machine": "h200x4", "offload": "always", "devices": "auto"}
    with fleetblas.Context(**options, online="off") as context:
        a = context.empty((256, 256), location=0, order="F")
        context.copy(a, np.asfortranarray(np.eye(256)))
        for _ in range(2):
            context.gemm(a, a, out=context.empty((256, 256), location=0, order="F"))
        left_out = context.stats()["left_out"]
        assert [(left["device"], left["calls"]) for left in left_out] == [(1, 2), (2, 2), (3, 2)]
        assert all(left["why"].startswith("the best with it, on ") for left in left_out)


def test_the_summary_names_the_devices_that_calls_did_without(script):
    done = script(
        "import numpy as np, fleetblas\n"
        "a = fleetblas.empty((256, 256), location=0, order='F')\n"
        "fleetblas.copy(a, np.asfortranarray(np.eye(256)))\n"
        "fleetblas.gemm(a, a, out=fleetblas.empty((256, 256), location=0, order='F'))\n",
        FLEETBLAS_MACHINE="h200x4",
        FLEETBLAS_DEVICES="auto",
        FLEETBLAS_ONLINE="off",
        FLEETBLAS_SUMMARY="1",
    )
    assert re.search(r"fleetblas:   without device 3: 1 call \(the best with it, on ", done.stderr)


def test_the_summary_of_fleetblas_run_names_them_too():
    def process(why: str) -> dict:
        left_out = [{"device": 1, "calls": 2, "why": why}]
        return {"calls": 2, "seconds": 0.1, "flops": 1e9, "left_out": left_out}

    summary = run.merged([process("slower by 5 %"), process("slower by 7 %")])
    assert "\n  without device 1: 4 calls (slower by 7 %)\n" in run.summary_text(summary, 1)

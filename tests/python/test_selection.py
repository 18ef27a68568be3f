# SPDX-License-Identifier: BSD-3-Clause
"""Devices that a call leaves out."""

import re


def test_plan_names_the_devices_that_a_call_leaves_out(cli):
    words = "plan gemm --size 1K --place 0,0,0 --machine h200x4 --devices"
    some = cli(f"{words} auto")
    assert some.returncode == 0, some.stderr
    assert re.search(r"workers +1 \(0\)\n +left out +1-3: the best with it, on ", some.stdout)
    for devices in ("all", "4"):
        every = cli(f"{words} {devices}")
        assert "left out" not in every.stdout
        assert "workers      4 (0-3)" in every.stdout

# SPDX-License-Identifier: BSD-3-Clause
"""Large blocks come from the pool of the preload library, are memory like any other, and are pinned
once devices have used them; small blocks, and programs that multiply nothing, go their own way."""

import json

import pytest
from conftest import HOST_DEVICES

# Operands of 72 MB that take few flops; it ends when a product moved nothing through the ring of
# pinned memory, which is a matter of milliseconds.
PRODUCTS = """
import time
import numpy as np
a, b = np.ones((90000, 100)), np.ones((100, 100))
for attempt in range(20):
    c = a @ b
    assert c[7, 7] == 100 and c[-1, -1] == 100
    time.sleep(0.02)
"""


def pool_of(run, python, preload, tmp_path, **settings):
    """What the summary says of the pool, and of the bytes that had to be copied into pinned memory
    and out of it; of 20 products each of which has two operands of 72 MB."""
    summary = tmp_path / "summary.json"
    result = run(
        [python, "-c", PRODUCTS],
        preload=preload,
        FLEETBLAS_SUMMARY=summary,
        FLEETBLAS_CPU_SHARE="off",  # what the CPU computes in place is not staged
        **HOST_DEVICES,
        **settings,
    )
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(summary.read_text())
    assert found["calls"] == 20
    return found["pool"], found["bytes_by_kind"]["h2h"]


@pytest.mark.parametrize("cap", ["", "1", "128M", "0"])
def test_large_blocks_are_as_malloc_has_them(program, preload, run, cap):
    result = run([program("pool_blocks.c"), "where"], preload=preload, FLEETBLAS_POOL=cap)

    where = "malloc" if cap == "0" else "pool"
    assert (result.returncode, result.stdout, result.stderr) == (0, f"0 broken\n{where}\n", "")


def test_what_devices_use_is_pinned_and_used_again(python, preload, run, tmp_path):
    pool, staged = pool_of(run, python, preload, tmp_path)

    assert staged < 20 * 144e6 / 2, "most products had pinned operands"
    assert pool["given"] >= 21 * 72e6
    assert pool["reused"] > 10 * 72e6
    assert 3 * 72e6 <= pool["pinned"] < 10 * 72e6


def test_without_a_pool_every_operand_is_staged(python, preload, run, tmp_path):
    pool, staged = pool_of(run, python, preload, tmp_path, FLEETBLAS_POOL=0)

    assert pool == {"blocks": 0, "given": 0, "reused": 0, "pinned": 0, "beyond": 0}
    assert staged >= 20 * 144e6


def test_beyond_its_cap_the_pool_leaves_blocks_to_malloc(python, preload, run, tmp_path):
    pool, _ = pool_of(run, python, preload, tmp_path, FLEETBLAS_POOL="100M")

    assert pool["beyond"] >= 72e6


def test_a_program_that_never_multiplies_does_not_load_the_core(python, recorder, run):
    script = "import numpy as np; a = np.ones((9000, 1000)); b = a + a; print(b[5, 5])"
    result = run([python, "-c", script], preload=recorder, FLEETBLAS_OFFLOAD="always")

    assert (result.stdout, result.stderr, result.events) == ("2.0\n", "", [])


def test_a_bad_setting_is_reported_if_asked(program, preload, run):
    command = [program("pool_blocks.c"), "where"]
    silent = run(command, preload=preload, FLEETBLAS_POOL="half")
    result = run(command, preload=preload, FLEETBLAS_POOL="half", FLEETBLAS_LOG_LEVEL=2)

    assert (silent.stdout, silent.stderr) == ("0 broken\nmalloc\n", "")
    assert result.stderr.startswith("fleetblas: FLEETBLAS_POOL=half: expected 0, 1, a share")

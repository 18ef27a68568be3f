# SPDX-License-Identifier: BSD-3-Clause
"""Threads, forks and exits in the middle of calls. The programs check their own results; a limit on
time turns a hang into a failure."""

import pytest
from conftest import HOST_DEVICES

LIMIT_S = 120


def test_racing_first_calls_load_the_core_once_and_are_right(program, recorder, blas, run):
    result = run(
        [program("threads.c", *blas), 16, 20, 30],
        preload=recorder,
        limit_s=LIMIT_S,
        FLEETBLAS_OFFLOAD="always",
        RECORD_SLEEP_MS=20,
    )

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert result.count("loaded") == 1
    assert result.count("took") > 0


def test_sixteen_threads_on_four_virtual_devices_are_right(program, preload, blas, run, tmp_path):
    result = run(
        [program("threads.c", *blas), 16, 8, 60], preload=preload, limit_s=LIMIT_S, **HOST_DEVICES
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "0\n", "")


def test_children_of_forks_compute_without_the_core(program, recorder, blas, run, tmp_path):
    child_file = tmp_path / "children"
    result = run(
        [program("forks.c", *blas), 40],
        preload=recorder,
        limit_s=LIMIT_S,
        FLEETBLAS_OFFLOAD="always",
        CHILD_FILE=child_file,
    )

    assert (result.returncode, result.stdout) == (0, "0 failures\n")
    assert result.count("took") >= 3
    assert not child_file.exists()


def test_forks_around_calls_on_virtual_devices_are_right(program, preload, blas, run):
    result = run([program("forks.c", *blas), 90], preload=preload, limit_s=LIMIT_S, **HOST_DEVICES)

    assert (result.returncode, result.stdout) == (0, "0 failures\n")


@pytest.mark.parametrize("way", ["main", "thread", "atexit", "return"])
@pytest.mark.parametrize("core", ["recorder", "preload"])
def test_a_process_ends_silently_in_the_middle_of_calls(way, core, program, blas, run, request):
    library = request.getfixturevalue(core)
    result = run(
        [program("exits.c", *blas), way, 120], preload=library, limit_s=LIMIT_S, **HOST_DEVICES
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

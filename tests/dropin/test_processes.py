# SPDX-License-Identifier: BSD-3-Clause
"""Threads, forks and exits in the middle of calls. The programs check their own results; a limit on
time turns a hang into a failure."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import HOST_DEVICES, compile_c, link_flags

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


def test_sixteen_threads_on_four_virtual_devices_are_right(program, preload, blas, run, unmeasured):
    result = run(
        [program("threads.c", *blas), 16, 8, 60],
        preload=preload,
        limit_s=LIMIT_S,
        **HOST_DEVICES,
        **unmeasured,
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


def test_forks_around_calls_on_virtual_devices_are_right(program, preload, blas, run, unmeasured):
    result = run(
        [program("forks.c", *blas), 90],
        preload=preload,
        limit_s=LIMIT_S,
        **HOST_DEVICES,
        **unmeasured,
    )

    assert (result.returncode, result.stdout) == (0, "0 failures\n")


@pytest.mark.parametrize("way", ["main", "thread", "atexit", "return"])
@pytest.mark.parametrize("core", ["recorder", "preload"])
def test_a_process_ends_silently_in_the_middle_of_calls(way, core, program, blas, run, request):
    library = request.getfixturevalue(core)
    result = run(
        [program("exits.c", *blas), way, 120], preload=library, limit_s=LIMIT_S, **HOST_DEVICES
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def other_group():
    """A group that this user may give to files and is not the one it runs with."""
    groups = {65534} if os.geteuid() == 0 else set(os.getgroups())
    groups -= {os.getegid()}
    if not groups:
        pytest.skip("this user has one group only, so it can make no setgid program")
    return min(groups)


def require_setgid(folder):
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{folder} is mounted nosuid")
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no_new_privs is set: no program gets another group")


def test_a_setgid_program_takes_no_settings_from_its_caller(program, preload, run, tmp_path):
    """Above all no FLEETBLAS_CPU_BLAS, whose code would run with the rights of the program."""
    group = other_group()
    require_setgid(tmp_path)
    named = compile_c("small_blas.c", tmp_path / "small.so", ["-shared", "-fPIC", "-DSPEAKS"])
    plain = program("threads.c", *link_flags(preload))
    setgid = shutil.copy(plain, tmp_path / "setgid")
    os.chown(setgid, -1, group)
    os.chmod(setgid, 0o2755)
    # The edge from which on the core is loaded whatever the settings are.
    settings = {"FLEETBLAS_CPU_BLAS": named, "FLEETBLAS_VERBOSE": 1, **HOST_DEVICES}

    caller = run([plain, 1, 1, 256], **settings)
    privileged = run([setgid, 1, 1, 256], **settings)

    assert "small_blas is loaded\n" in caller.stdout
    assert (privileged.returncode, privileged.stdout, privileged.stderr) == (0, "0\n", "")

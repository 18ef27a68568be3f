# SPDX-License-Identifier: BSD-3-Clause
"""LAPACK's names: what reaches the core, with which arguments, and what a program gets back. The
recording core does calls by the reference LAPACK; where that is not there, these tests skip."""

import json
import re
import statistics
import sys

import pytest
from conftest import (
    HERE,
    HOST_DEVICES,
    LAPACK_NAMES,
    LAPACK_ROUTINES,
    SOURCE,
    compile_c,
    link_flags,
)

SCRIPTS = HERE / "scripts"
EXTRA_LIMIT_S = 0.3e-6
# Rounding differs where a workspace of another size is passed on.
TOLERANCE = {"s": 1e-3, "c": 1e-3, "d": 1e-10, "z": 1e-10}


@pytest.fixture
def lapack(reference_lapack, netlib):
    return [*link_flags(reference_lapack), *netlib]


@pytest.fixture
def forced(reference_lapack):
    return {"FLEETBLAS_OFFLOAD": "always", "RECORD_LAPACK": reference_lapack}


def names(result, event):
    return {words[1] for words in result.events if words[0] == event}


def assert_same(ours, reference):
    """Lines of a name, an info and numbers, the same to rounding."""
    ours, reference = ours.splitlines(), reference.splitlines()
    assert len(ours) == len(reference)
    for line, expected in zip(ours, reference, strict=True):
        words, expected_words = line.split(), expected.split()
        assert words[:2] == expected_words[:2]
        assert len(words) == len(expected_words), line
        if "-best" in words[0]:  # LAPACK says how much it used, or could use
            assert float(words[2]) >= float(expected_words[2])
            continue
        numbers = [[float(x) for x in row[2:]] for row in (words, expected_words)]
        scale = max([1.0, *map(abs, numbers[1])])
        tolerance = TOLERANCE.get(words[0][0], 0) * scale
        assert all(abs(x - y) <= tolerance for x, y in zip(*numbers, strict=True)), (line, expected)


def test_every_routine_is_done_by_the_core(program, recorder, lapack, forced, run):
    calls = program("lapack_calls.cpp", *lapack)

    reference = run([calls])
    ours = run([calls], preload=recorder, **forced)

    assert (ours.returncode, ours.stderr) == (0, "")
    assert "touched" not in ours.stdout
    assert_same(ours.stdout, reference.stdout)
    assert names(ours, "took-lapack") == {name + "_" for name in LAPACK_ROUTINES}
    # Queries of workspaces and calls with nothing to do are not offered, nor is anything that the
    # core's LAPACK calls.
    assert ours.count("took-lapack") == 186
    assert len(ours.events) == 187


def test_what_the_core_declines_is_done_by_the_lapack_behind(
    program, recorder, lapack, forced, run
):
    calls = program("lapack_calls.cpp", *lapack)

    reference = run([calls])
    ours = run([calls], preload=recorder, RECORD_TAKE=0, **forced)

    assert ours.stdout == reference.stdout
    assert ours.count("asked-lapack") == ours.count("host-lapack") == 186
    assert len(ours.events) == 2 * 186 + 1


def test_small_calls_are_not_offered(program, recorder, lapack, forced, run):
    calls = program("lapack_calls.cpp", *lapack)

    reference = run([calls])
    ours = run([calls], preload=recorder, RECORD_MIN_FLOPS=1e9, **forced)

    assert ours.stdout == reference.stdout
    assert ours.events == [["loaded"]]


@pytest.mark.parametrize("setting", [{"FLEETBLAS_LINALG": "0"}, {"RECORD_NO_LAPACK": "1"}])
def test_turned_off_level_3_within_lapack_is_offered(
    setting, program, recorder, lapack, forced, run
):
    calls = program("lapack_calls.cpp", *lapack)

    reference = run([calls, 100])
    ours = run([calls, 100], preload=recorder, **forced, **setting)

    assert_same(ours.stdout, reference.stdout)
    assert ours.count("took") > 100
    assert not any(words[0].endswith("lapack") for words in ours.events)


def flops(event):
    return float(event[-1])


def test_flops_are_those_of_lapack_s_own_timings(program, recorder, lapack, forced, run):
    result = run(
        [program("lapack_calls.cpp", *lapack), 30], preload=recorder, RECORD_TAKE=0, **forced
    )

    counted = {words[1]: flops(words) for words in result.events if words[0] == "host-lapack"}
    m, n, nrhs = 39, 30, 11
    expected = {
        "getrf": m * n**2 - n**3 / 3,
        "geqrf": 2 * m * n**2 - 2 * n**3 / 3,
        "potrf": n**3 / 3,
        "potri": 2 * n**3 / 3,
        "trtri": n**3 / 3,
        "lauum": n**3 / 3,
        "getri": 4 * n**3 / 3,
        "trtrs": n**2 * nrhs,
        "getrs": 2 * n**2 * nrhs,
        "gesv": 2 * n**3 / 3 + 2 * n**2 * nrhs,
        "posv": n**3 / 3 + 2 * n**2 * nrhs,
        "orgqr": 4 * m * n * n - 2 * (m + n) * n**2 + 4 * n**3 / 3,
        "ormqr": 4 * m * n * n - 2 * n * n**2,
    }
    for routine, value in expected.items():
        complex_routine = routine.replace("or", "un") if routine[:2] == "or" else routine
        assert counted[f"d{routine}_"] == pytest.approx(value), routine
        assert counted[f"z{complex_routine}_"] == pytest.approx(4 * value), routine


def test_the_program_sees_the_errors_that_the_reference_shows_it(
    program, recorder, lapack, forced, run
):
    illegal = program("lapack_illegal.cpp", "-rdynamic", *lapack)

    reference = run([illegal])
    ours = run([illegal], preload=recorder, **forced)

    assert (ours.returncode, ours.stdout, ours.stderr) == (0, reference.stdout, "")
    told = re.findall(
        r"^(\w+) (\w+) -?\d+\n  xerbla <(\w+) *> (\d+)\n  info -(\d+)$", ours.stdout, re.M
    )
    assert len(told) == reference.stdout.count("xerbla") > 500
    assert all(name.upper() == said and at == info for name, _, said, at, info in told)
    assert {name for name, *_ in told} == {
        name for name in LAPACK_ROUTINES if not name.endswith("larfb")
    }


def test_every_name_comes_to_the_core_where_there_is_no_lapack(program, recorder, forced, run):
    every = program("lapack_names.cpp", f"-L{recorder.parent}", "-lfleetblas_preload")

    result = run([every], LD_LIBRARY_PATH=recorder.parent, **forced)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{len(LAPACK_NAMES)} names\n"
    assert names(result, "took-lapack") | names(result, "computed-lapack") == LAPACK_NAMES
    for words in result.events[1:]:
        assert words[4] == ("64" if "64" in words[1] else "32")


def test_without_lapack_and_core_a_call_says_that_it_has_no_result(program, recorder, run):
    every = program("lapack_names.cpp", f"-L{recorder.parent}", "-lfleetblas_preload")

    result = run([every], LD_LIBRARY_PATH=recorder.parent, FLEETBLAS_OFFLOAD="never")

    assert result.returncode == 0
    assert "dgesv_: info 3, then -9" in result.stdout
    assert result.stderr.count("there is no LAPACK") == len(LAPACK_NAMES)


# Calls of Fortran by ctypes: a number goes by its address.
CALLS_WITHOUT_LAPACK = """
import ctypes, sys
preload = ctypes.CDLL(sys.argv[1])
def ints(*values): return (ctypes.c_int * len(values))(*values)
def doubles(*values): return (ctypes.c_double * len(values))(*values)
def call(name, *arguments):
    info = ints(-9)
    getattr(preload, name)(*(ints(x) if isinstance(x, int) else x for x in arguments), info)
    print(name, info[0], *(list(x) for x in arguments if isinstance(x, ctypes.Array)))
none, room = doubles(), doubles(0, 0)
call("dorgqr_", 3, 2, 0, doubles(7, 7, 7, 7, 7, 7), 3, none, room, 2)
call("dgesv_", 2, 0, doubles(1, 2, 1, 4), 2, ints(0, 0), none, 2)
call("dposv_", b"L", 2, 0, doubles(4, 2, 7, 2), 2, none, 2)
call("dtrtrs_", b"U", b"N", b"N", 2, 0, doubles(0, 7, 1, 1), 2, none, 2)
call("dtrtrs_", b"U", b"N", b"U", 2, 0, doubles(0, 7, 1, 1), 2, none, 2)
call("dsgesv_", 2, 0, doubles(1, 2, 1, 4), 2, ints(0, 0), none, 2, none, 2, none, none, ints(-9))
call("dsgesv_", 0, 1, none, 1, none, none, 1, none, 1, none, none, ints(-9))
call("dgetri_", 2, doubles(2, 0.5, 4, -1), 2, ints(2, 2), room, 2)
call("dgeqrf_", 2, 1, doubles(3, 0), 2, doubles(7), room, 1)
call("dormqr_", b"R", b"N", 2, 1, 0, none, 1, none, doubles(3, 4), 2, room, 2)
call("dgeqrf_", 0, 1, none, 1, none, room, 0)
"""
RESULTS_WITHOUT_LAPACK = """\
dorgqr_ 0 [1.0, 0.0, 0.0, 0.0, 1.0, 0.0] [] [2.0, 0.0]
dgesv_ 0 [2.0, 0.5, 4.0, -1.0] [2, 2] []
dposv_ 0 [2.0, 1.0, 7.0, 1.0] []
dtrtrs_ 1 [0.0, 7.0, 1.0, 1.0] []
dtrtrs_ 0 [0.0, 7.0, 1.0, 1.0] []
dsgesv_ 0 [1.0, 2.0, 1.0, 4.0] [2, 2] [] [] [] [] [0]
dsgesv_ 0 [] [] [] [] [] [] [0]
dgetri_ 0 [2.0, -1.0, -0.5, 0.5] [2, 2] [2.0, 0.0]
dgeqrf_ 0 [3.0, 0.0] [0.0] [1.0, 0.0]
dormqr_ 0 [] [] [3.0, 4.0] [2.0, 0.0]
dgeqrf_ 0 [] [] [2.0, 0.0]
"""


def test_a_call_of_no_flops_is_done_where_there_is_no_lapack(preload, run):
    result = run([sys.executable, "-c", CALLS_WITHOUT_LAPACK, preload], **HOST_DEVICES)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == RESULTS_WITHOUT_LAPACK


def test_integers_wider_than_the_name_says_stay_with_their_library(recorder, forced, run, tmp_path):
    library = compile_c("wide_lapack.c", tmp_path / "libwide.so", ["-shared", "-fPIC"])
    flags = ["-DPROGRAM", str(library), f"-Wl,-rpath,{tmp_path}"]
    wide = compile_c("wide_lapack.c", tmp_path / "wide", flags)

    result = run([wide], preload=recorder, **forced)

    assert result.stdout == "12 0\n"
    assert not any(words[0].endswith("lapack") for words in result.events)


def test_an_info_of_the_core_reaches_the_program(python, recorder, forced, run):
    solve = "import numpy as np; np.linalg.solve(np.eye(9), np.eye(9))"

    fine = run([python, "-c", solve], preload=recorder, **forced)
    failed = run([python, "-c", solve], preload=recorder, RECORD_INFO=10, **forced)

    assert (fine.returncode, fine.stderr) == (0, "")
    assert "Singular matrix" in failed.stderr


def python_names(python):
    """(of NumPy, of SciPy) with the wheels of this interpreter."""
    new = "numpy2" in str(python)
    return ("scipy_%s_64_", "scipy_%s_") if new else ("%s_64_", "%s_")


@pytest.mark.parametrize("mode", ["", "threads", "fork"])
def test_numpy_and_scipy_reach_the_core_under_their_own_names(mode, python, recorder, forced, run):
    result = run([python, SCRIPTS / "linalg.py", 40, mode], preload=recorder, **forced)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    by_numpy, by_scipy = python_names(python)
    called = {by_numpy % routine for routine in ("dgesv", "zgetrf", "dpotrf", "dgeqrf", "zungqr")}
    called |= {
        by_scipy % (t + word)
        for t in "sdcz"
        for word in (
            "getrf",
            "getrs",
            "getri",
            "potrf",
            "potrs",
            "potri",
            "trtrs",
            "trtri",
            "gesv",
            "posv",
            "lauum",
            "geqrf",
        )
    }
    called |= {by_scipy % name for name in ("dorgqr", "cungqr", "dormqr", "zunmqr")}
    assert names(result, "took-lapack") >= called
    assert result.count("asked-lapack") == 0


def test_loaded_libraries_are_patched(python, recorder, forced, run):
    patch = (
        "import ctypes, os, numpy as np, scipy.linalg as sl, sys\n"
        "def solve():\n"
        "    a = np.eye(9)\n"
        "    assert (np.linalg.solve(a, a) == sl.lu_solve(sl.lu_factor(a), a)).all()\n"
        "solve()\n"
        "ours = ctypes.CDLL(sys.argv[1])\n"
        "assert ours.fleetblas_preload_patch() > 0\n"
        "solve()\n"
        "assert ours.fleetblas_preload_unpatch() > 0\n"
        "solve()\n"
    )
    result = run([python, "-c", patch, recorder], **forced)

    assert (result.returncode, result.stderr) == (0, "")
    by_numpy, by_scipy = python_names(python)
    taken = [words[1] for words in result.events if words[0] == "took-lapack"]
    assert sorted(taken) == sorted([by_scipy % "dgetrf", by_scipy % "dgetrs", by_numpy % "dgesv"])


def lapack_in(summary):
    """The routine's symbol -> its numbers, as the summary has them."""
    return {row["symbol"]: row for row in json.loads(summary.read_text())["lapack"]}


def test_every_routine_is_right_on_four_virtual_devices(program, preload, lapack, run, tmp_path):
    calls = program("lapack_calls.cpp", *lapack)
    summary = tmp_path / "summary.json"

    reference = run([calls, 70])
    ours = run([calls, 70], preload=preload, FLEETBLAS_SUMMARY=summary, **HOST_DEVICES)

    assert (ours.returncode, ours.stderr) == (0, "")
    assert "touched" not in ours.stdout
    assert_same(ours.stdout, reference.stdout)
    done = lapack_in(summary)
    assert set(done) == {name + "_" for name in LAPACK_ROUTINES}
    assert all(row["behind"] == 0 and row["calls"] > 0 for row in done.values())


@pytest.mark.parametrize("mode", ["", "threads", "fork"])
def test_numpy_and_scipy_are_right_on_four_virtual_devices(mode, python, preload, run, tmp_path):
    result = run(
        [python, SCRIPTS / "linalg.py", 90, mode],
        preload=preload,
        FLEETBLAS_SUMMARY=tmp_path / "summary.json",
        RECORD_FILE=tmp_path / "unused",
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    by_numpy, by_scipy = python_names(python)
    done = lapack_in(tmp_path / "summary.json")
    assert {by_numpy % "dgesv", by_scipy % "dgetrf", by_scipy % "zpotri"} <= set(done)
    assert all(row["behind"] == 0 for row in done.values())


def test_a_call_by_the_lapack_behind_is_in_the_books(program, preload, lapack, run, tmp_path):
    calls = program("lapack_calls.cpp", *lapack)
    summary = tmp_path / "summary.json"

    reference = run([calls])
    ours = run([calls], preload=preload, FLEETBLAS_SUMMARY=summary, FLEETBLAS_OFFLOAD="never")

    assert ours.stdout == reference.stdout
    done = lapack_in(summary)
    assert set(done) == {name + "_" for name in LAPACK_ROUTINES}
    assert all(row["behind"] == row["calls"] for row in done.values())


@pytest.mark.parametrize("fault", ["alloc:2", "copy:3", "launch:5", "lost:1@2", "lost:0@1"])
def test_faults_of_devices_are_made_good(fault, python, preload, run, unmeasured, tmp_path):
    """And they do not concern what measures the devices before."""
    result = run(
        [python, SCRIPTS / "linalg.py", 60],
        preload=preload,
        FLEETBLAS_INJECT=fault,
        FLEETBLAS_SUMMARY=tmp_path / "summary.json",
        **HOST_DEVICES,
        **unmeasured,
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert all(row["behind"] == 0 for row in lapack_in(tmp_path / "summary.json").values())


def test_what_a_lost_device_leaves_undefined_is_an_info_that_lapack_never_gives(
    program, preload, lapack, run
):
    folder = preload.parent
    flags = [f"-I{SOURCE / 'include'}", f"-L{folder}", "-lfleetblas", f"-Wl,-rpath,{folder}"]
    lost = program("lapack_lost.c", *flags, *lapack)
    # Whatever was measured, device 0 computes more than the one tile after which it is lost.
    settings = {
        **HOST_DEVICES,
        "FLEETBLAS_DEVICES": "0,",
        "FLEETBLAS_TILE": 50,
        "FLEETBLAS_CPU_SHARE": "off",
    }

    fine = run([lost], preload=preload, **settings)
    undefined = run(
        [lost],
        preload=preload,
        FLEETBLAS_INJECT="lost:0@1",
        FLEETBLAS_LOG_LEVEL=1,
        **settings,
    )

    assert (fine.returncode, fine.stdout) == (0, "0\n")
    assert (undefined.returncode, undefined.stdout) == (0, "201\n")
    assert "undefined" in undefined.stderr


def test_a_small_call_costs_at_most_300_ns_more(program, preload, lapack, reference_lapack, run):
    overhead = program("overhead.c", "-DLAPACK", *lapack, "-O2")

    def extra_s():
        result = run([overhead, reference_lapack], preload=preload)
        assert result.returncode == 0, result.stderr
        return float(result.stdout.split()[2])

    assert statistics.median(extra_s() for _ in range(3)) <= EXTRA_LIMIT_S

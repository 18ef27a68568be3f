# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified Python programs with the wheels of NumPy and SciPy: results right, products really on
the devices, GOT entries patched and given back, forked pools, and NumPy's own tests."""

import re

from conftest import HERE, HOST_DEVICES, NUMPY_CASES, PLUGINS, where_calls_ran

SCRIPTS = HERE / "scripts"
LIMIT_S = 300


def symbols(result, event):
    return {words[1] for words in result.events if words[0] == event}


def names_called(python, types):
    """What products.py calls with the wheels of this interpreter: NumPy has gemm and syrk."""
    new = "numpy2" in str(python)
    numpy_name = "scipy_cblas_%s%s64_" if new else "cblas_%s%s64_"
    scipy_name = "scipy_%s%s_" if new else "%s%s_"
    names = set()
    for t in types:
        routines = ["gemm", "symm", "syrk", "syr2k", "trmm", "trsm"]
        routines += ["hemm", "herk", "her2k"] if t in "cz" else []
        names |= {numpy_name % (t, routine) for routine in ("gemm", "syrk")}
        names |= {scipy_name % (t, routine) for routine in routines}
    return names


def test_numpy_and_scipy_reach_the_core_under_their_own_names(python, recorder, run):
    result = run(
        [python, SCRIPTS / "products.py", 30], preload=recorder, FLEETBLAS_OFFLOAD="always"
    )

    assert (result.returncode, result.stdout) == (0, "")
    assert symbols(result, "took") == names_called(python, "sd")
    assert symbols(result, "host") == names_called(python, "cz")


def test_products_are_right_with_nothing_worth_offloading(python, recorder, run):
    result = run([python, SCRIPTS / "products.py", 30], preload=recorder)

    assert (result.returncode, result.stdout, result.events) == (0, "", [])


def events_by_mark(result):
    """mark -> the symbols that reached the core after it."""
    by_mark, mark = {}, None
    for words in result.events:
        if words[0] == "mark":
            mark = " ".join(words[1:])
            by_mark[mark] = set()
        elif len(words) > 1:
            by_mark[mark].add(words[1])
    return by_mark


def test_loaded_libraries_are_patched_and_given_back(python, recorder, run):
    result = run([python, SCRIPTS / "patched.py", recorder], FLEETBLAS_OFFLOAD="always")

    assert (result.returncode, result.stderr) == (0, "")
    new = "numpy2" in str(python)
    numpy_name = "scipy_cblas_dgemm64_" if new else "cblas_dgemm64_"
    scipy_name = "scipy_dgemm_" if new else "dgemm_"
    assert events_by_mark(result) == {
        "before": set(),
        "patched": {numpy_name},
        "once undone": {numpy_name},
        "undone": set(),
        "with scipy": {numpy_name, scipy_name},
        "scipy undone": set(),
    }


def test_loading_it_before_numpy_is_enough(python, recorder, run):
    script = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); import numpy;"
        "a = numpy.ones((9, 9)); print((a @ a)[8, 8])"
    )
    result = run([python, "-c", script, recorder], FLEETBLAS_OFFLOAD="always")

    assert (result.stdout, result.stderr, result.count("took")) == ("9.0\n", "", 1)


def test_patching_under_ld_preload_changes_nothing(python, recorder, run):
    script = (
        "import ctypes, sys, numpy; l = ctypes.CDLL(sys.argv[1]);"
        "print(l.fleetblas_preload_patch() > 0, l.fleetblas_preload_unpatch())"
    )
    result = run([python, "-c", script, recorder], preload=recorder, LD_BIND_NOW=1)

    assert result.stdout == "True 0\n"


def test_forked_pools_compute_without_the_core(python, recorder, run, tmp_path):
    child_file = tmp_path / "children"
    result = run(
        [python, SCRIPTS / "pool.py"],
        preload=recorder,
        FLEETBLAS_OFFLOAD="always",
        CHILD_FILE=child_file,
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "0 wrong\n", "")
    assert result.count("took") == 2
    assert not child_file.exists()


def test_a_call_from_a_library_without_blas_finds_the_one_behind(python, recorder, run):
    result = run(
        [python, SCRIPTS / "tail_jump.py"],
        preload=recorder,
        FLEETBLAS_OFFLOAD="always",
        RECORD_TAKE=0,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert [words[0] for words in result.events] == ["loaded", "asked", "host"]


def test_numpy_and_scipy_are_right_on_four_virtual_devices(python, preload, run):
    result = run(
        [python, SCRIPTS / "products.py", 150],
        preload=preload,
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout) == (0, "")
    calls = where_calls_ran(result.stderr)
    assert {symbol for symbol, _, _ in calls} == names_called(python, "sdcz")
    assert {where for _, where, _ in calls} == {"devices"}
    assert max(devices for _, _, devices in calls) == 4


def test_loaded_libraries_are_patched_for_the_real_core_too(python, preload, run):
    result = run([python, SCRIPTS / "patched.py", preload], FLEETBLAS_VERBOSE=1, **HOST_DEVICES)

    assert result.returncode == 0, result.stderr
    calls = where_calls_ran(result.stderr)
    # Products of NumPy while it is patched: three; and one of SciPy.
    assert len(calls) == 4
    assert {where for _, where, _ in calls} == {"devices"}


def test_forked_pools_are_right_after_products_on_virtual_devices(python, preload, run):
    result = run(
        [python, SCRIPTS / "pool.py"],
        preload=preload,
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout) == (0, "0 wrong\n")
    assert [where for _, where, _ in where_calls_ran(result.stderr)] == ["devices"] * 2


def test_numpy_s_own_linalg_tests_pass_on_four_virtual_devices(python, preload, run, tmp_path):
    summary = tmp_path / "summary"
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain"]  # as in test_suites.py
    result = run(
        [python, "-m", "pytest", *options, *NUMPY_CASES, "--pyargs", "numpy.linalg.tests"],
        preload=preload,
        cwd=tmp_path,
        limit_s=900,
        one_core=True,
        PYTHONPATH=PLUGINS,
        FLEETBLAS_SUMMARY=summary,
        **HOST_DEVICES,
    )

    assert result.returncode == 0, result.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) > 300
    # The tests' matrices are tiny, but there are many.
    assert int(re.search(r"devices: (\d+)", summary.read_text())[1]) > 1000

# SPDX-License-Identifier: BSD-3-Clause
"""Other interposers, such as profilers, in front of ours and behind it: no call comes back to who
handed it on, none is lost, and the results are right. What each of them saw is in the record."""

import subprocess

import pytest
from conftest import HERE, HOST_DEVICES, compile_c, where_calls_ran

SCRIPTS = HERE / "scripts"
DEBIAN_PYTHON = "/usr/bin/python3"
# Sums of small integers, exact in any order; einsum uses no BLAS.
PRODUCT = (
    "import sys, numpy as np; n = int(sys.argv[1]);"
    "a = np.arange(n * n, dtype=float).reshape(n, n) % 7;"
    "assert (a @ (a + 1) == np.einsum('ij,jk->ik', a, a + 1)).all()"
)
ORDERS = ("front", "behind", "both")


@pytest.fixture(scope="session")
def interposers(tmp_path_factory):
    """name -> library."""
    folder = tmp_path_factory.mktemp("interposers")
    return {
        who: compile_c(
            "interposer.c",
            folder / f"{who}.so",
            ["-shared", "-fPIC", f'-DWHO="{who}"', "-Wl,-z,now", "-ldl"],
        )
        for who in ("front", "behind")
    }


@pytest.fixture(params=ORDERS)
def order(request):
    return request.param


@pytest.fixture
def around(interposers, order):
    """The value of LD_PRELOAD with a library of ours among the interposers."""

    def libraries(ours):
        before = [interposers["front"]] if order != "behind" else []
        after = [interposers["behind"]] if order != "front" else []
        return ":".join(map(str, [*before, ours, *after]))

    return libraries


def who_saw(result, name):
    """What happened to calls of that name, in order."""
    return [words[0] for words in result.events if words[1:2] == [name]]


def expected(order, ours, handed_on):
    """What is seen of one call that ours offers (or not, None), and hands on or takes."""
    front = ["front"] if order != "behind" else []
    behind = ["behind"] if order != "front" and handed_on else []
    return front + ours + behind


@pytest.mark.parametrize("offload", ["never", "auto"])
def test_a_small_call_passes_each_once(program, recorder, blas, around, order, run, offload):
    cblas = run([program("cblas_calls.c", *blas)], around(recorder), FLEETBLAS_OFFLOAD=offload)
    fortran = run(
        [program("threads.c", *blas), 1, 1, 20], around(recorder), FLEETBLAS_OFFLOAD=offload
    )

    assert (cblas.returncode, cblas.stdout, cblas.stderr) == (0, "", "")
    assert who_saw(cblas, "cblas_dgemm") == expected(order, [], handed_on=True)
    assert (fortran.returncode, fortran.stdout, fortran.stderr) == (0, "0\n", "")
    assert who_saw(fortran, "dgemm_") == expected(order, [], handed_on=True)


def test_a_call_that_the_core_takes_goes_no_further(program, recorder, blas, around, order, run):
    always = {"FLEETBLAS_OFFLOAD": "always"}
    cblas = run([program("cblas_calls.c", *blas)], around(recorder), **always)
    fortran = run([program("threads.c", *blas), 1, 1, 20], around(recorder), **always)

    assert (cblas.returncode, cblas.stdout) == (0, "")
    assert who_saw(cblas, "cblas_dgemm") == expected(order, ["took"], handed_on=False)
    assert (fortran.returncode, fortran.stdout) == (0, "0\n")
    assert who_saw(fortran, "dgemm_") == expected(order, ["took"], handed_on=False)


def test_a_call_that_the_core_refuses_goes_on_behind(program, recorder, blas, around, order, run):
    result = run(
        [program("cblas_calls.c", *blas)],
        around(recorder),
        FLEETBLAS_OFFLOAD="always",
        RECORD_TAKE=0,
    )

    assert (result.returncode, result.stdout) == (0, "")
    saw = [*expected(order, ["asked"], handed_on=True), "host"]
    assert who_saw(result, "cblas_dgemm") == saw


def test_calls_on_four_virtual_devices_are_right(program, preload, blas, around, run):
    result = run(
        [program("threads.c", *blas), 4, 2, 60],
        around(preload),
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert where_calls_ran(result.stderr) and {
        where for _, where, _ in where_calls_ran(result.stderr)
    } == {"devices"}


def test_every_name_is_right_where_there_is_no_blas_but_an_interposer(
    program, recorder, interposers, no_blas, run
):
    every_name = program("every_name.cpp", f"-L{recorder.parent}", "-lfleetblas_preload")

    result = run(
        [every_name, 12, 3],
        preload=f"{interposers['front']}:{recorder}",
        LD_LIBRARY_PATH=f"{no_blas}:{recorder.parent}",
        FLEETBLAS_OFFLOAD="never",
        FLEETBLAS_CPU_BLAS="",
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert who_saw(result, "cblas_dgemm64_")


def own_blas(python):
    """The OpenBLAS of an environment's NumPy and that of its SciPy, for an interposer that finds
    nothing behind it."""
    packages = python.parent.parent / "lib"
    found = [
        file
        for package in ("numpy", "scipy")
        for file in packages.glob(f"python3*/site-packages/{package}.libs/lib*openblas*.so")
    ]
    assert len(found) == 2
    return ":".join(map(str, found))


def names_of(python):
    """Those of dgemm in the wheels of NumPy and SciPy."""
    if "numpy2" in str(python):
        return "scipy_cblas_dgemm64_", "scipy_dgemm_"
    return "cblas_dgemm64_", "dgemm_"


def test_small_products_of_the_wheels_pass_each_once(python, recorder, around, order, run):
    result = run(
        [python, SCRIPTS / "products.py", 30], around(recorder), INTERPOSER_BLAS=own_blas(python)
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    for name in names_of(python):
        saw = who_saw(result, name)
        once = expected(order, [], handed_on=True)
        assert saw == once * (len(saw) // len(once)) and saw


def test_products_of_the_wheels_are_right_on_four_virtual_devices(
    python, preload, around, order, run
):
    result = run(
        [python, SCRIPTS / "products.py", 60],
        around(preload),
        INTERPOSER_BLAS=own_blas(python),
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout) == (0, "")
    calls = [symbol for symbol, where, _ in where_calls_ran(result.stderr) if where == "devices"]
    for name in names_of(python):
        assert who_saw(result, name) == calls.count(name) * expected(order, [], handed_on=False)


@pytest.fixture(scope="session")
def debian_python():
    """The interpreter of a distribution whose NumPy calls the libblas.so.3 of the machine."""
    tried = "import numpy, sys; sys.exit(not numpy.__file__.startswith('/usr/lib/python3/'))"
    try:
        found = subprocess.run([DEBIAN_PYTHON, "-I", "-c", tried], capture_output=True).returncode
    except OSError:
        found = 1
    if found:
        pytest.skip("the distribution's NumPy (python3-numpy) is not installed")
    return DEBIAN_PYTHON


def test_small_products_of_the_distribution_s_numpy_pass_each_once(
    debian_python, recorder, around, order, run
):
    result = run(
        [debian_python, "-c", PRODUCT, 50], around(recorder), INTERPOSER_BLAS="libblas.so.3"
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert who_saw(result, "cblas_dgemm") == expected(order, [], handed_on=True)


def test_products_of_the_distribution_s_numpy_are_right_on_four_virtual_devices(
    debian_python, preload, around, order, run
):
    result = run(
        [debian_python, "-c", PRODUCT, 150],
        around(preload),
        INTERPOSER_BLAS="libblas.so.3",
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert result.returncode == 0, result.stderr
    assert [call[:2] for call in where_calls_ran(result.stderr)] == [("cblas_dgemm", "devices")]
    assert who_saw(result, "cblas_dgemm") == expected(order, [], handed_on=False)


LATER = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL if sys.argv[2] == "global" else 0)
import numpy as np
if sys.argv[2] == "patched":
    assert library.fleetblas_preload_patch() > 0
a = np.ones((50, 50))
assert (a @ (a + 1) == 100).all()
"""


@pytest.mark.parametrize("how", ["global", "patched"])
def test_an_interposer_in_front_of_ours_that_is_loaded_later_gets_no_call_back(
    python, recorder, interposers, run, how
):
    result = run(
        [python, "-c", LATER, recorder, how],
        preload=interposers["front"],
        INTERPOSER_BLAS=own_blas(python),
    )

    assert (result.returncode, result.stderr) == (0, "")
    # Patched callers call ours, which knows what they would have called without that interposer.
    assert who_saw(result, names_of(python)[0]) == (["front"] if how == "global" else [])

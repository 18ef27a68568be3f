# SPDX-License-Identifier: BSD-3-Clause
"""SciPy's own tests of BLAS, LAPACK, solvers and decompositions, with every call on the devices.
One of these is left out; matrix functions, batches and sketches, which take minutes more, are not
run. test_python.py has NumPy's."""

import itertools
import json
import os
import re
import subprocess

from conftest import (
    HOST_DEVICES,
    LAPACK_NAMES,
    NUMPY_CASES,
    PLUGINS,
    SOURCE,
    where_calls_ran,
)

# 100 s of CPU time with NumPy 2, and 76 s with NumPy 1.26; without us 68 s and 56 s, with the same
# numbers of tests that pass, skip themselves and are marked as failing.
LIMIT_S = 900
# These call BLAS and LAPACK by each of their names: 9 s with NumPy 1.26.
BY_NAME = ("blas", "fblas", "cython_blas", "lapack", "decomp_cholesky", "decomp_lu")
# The others are about what SciPy makes of the same calls. The environments differ in the names
# that they call by, so the others run in the newer one; with FLEETBLAS_TEST_SCALE above 1 in both.
OTHERS = ("basic", "solvers", "procrustes", "decomp", "decomp_ldl", "decomp_polar", "decomp_update")
IN_BOTH = float(os.environ.get("FLEETBLAS_TEST_SCALE", 1)) > 1
# Eigenvalues of a pencil for which any number is one: rounding of QR factors turns an infinite one
# into a finite one, of a backward error of 1e-16, for which its absolute tolerance is too small.
NOT_RUN = "not (TestEig and test_singular)"
# Rewritten for better messages, their asserts take longer to import than many of the tests do to
# run; a plain one shows its line.
QUIET = ["-q", "-p", "no:cacheprovider", "--assert=plain"]
# What is printed below Python (our lines) must come through.
OPTIONS = [*QUIET, "--capture=sys", "-k", NOT_RUN]
# Of "12 passed, 2 skipped in 3s"; tests that fail with or without us are marked by SciPy (xfailed).
OUTCOME = re.compile(r"(\d+) (failed|passed|skipped|error)")
# (routine, type letter), of names such as scipy_cblas_dgemm64_
ROUTINE = re.compile(r"(?:scipy_)?(?:cblas_)?([sdcz])([a-z0-9]+?)(?:_|64_|_64_)?$")
LAPACK_LINE = re.compile(r"^(\w+) \S+ \S+TFLOPS by its parts$", re.M)
ALL_ROUTINES = {
    *itertools.product("sdcz", ("gemm", "symm", "syrk", "syr2k", "trmm", "trsm")),
    *itertools.product("cz", ("hemm", "herk", "her2k")),
}
ALL_FACTORIZATIONS = {
    *("getrf", "potrf", "geqrf", "getrs", "potrs", "gesv", "getri", "potri"),
    *("trtrs", "orgqr", "ungqr", "ormqr", "unmqr"),
}
# Tests of older versions never call it.
TRTRI_SINCE = (1, 17)
# Tests of newer versions have no inverse by it that is taken over.
GETRI_UNTIL = (1, 16)
# Only those of OTHERS call it.
NOT_BY_NAME = {"trtrs"}


def scipy_version(python):
    show = [python, "-c", "import scipy; print(scipy.__version__)"]
    version = subprocess.run(show, capture_output=True, text=True, check=True).stdout.split(".")
    return tuple(int(part) for part in version[:2])


def factorizations(python):
    """The names that the tests of the environment's SciPy call."""
    has_trtri = scipy_version(python) >= TRTRI_SINCE
    return ALL_FACTORIZATIONS | ({"trtri"} if has_trtri else set())


def test_scipy_s_own_linalg_tests_pass_on_four_virtual_devices(python, preload, run, tmp_path):
    has_all = IN_BOTH or "numpy2" in str(python)
    names = (*BY_NAME, *OTHERS) if has_all else BY_NAME
    modules = [f"scipy.linalg.tests.test_{name}" for name in names]
    result = run(
        [python, "-m", "pytest", *OPTIONS, "--pyargs", *modules],
        preload=preload,
        cwd=tmp_path,
        limit_s=LIMIT_S,
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    outcomes = {word: int(count) for count, word in OUTCOME.findall(result.stdout[-300:])}
    assert result.returncode == 0, result.stdout[-3000:]
    assert outcomes["passed"] > (3000 if has_all else 2000)
    calls = where_calls_ran(result.stderr)
    # A call of LAPACK has a line for each of its parts, under its own name or ours, and one of its
    # own.
    blas = [call for call in calls if call[0] not in LAPACK_NAMES and "fleet_" not in call[0]]
    assert {where for _, where, _ in blas} == {"devices"}
    assert {ROUTINE.match(symbol).groups() for symbol, _, _ in blas} == ALL_ROUTINES
    lapack = {ROUTINE.match(symbol)[2] for symbol in LAPACK_LINE.findall(result.stderr)}
    assert lapack >= factorizations(python) - (set() if has_all else NOT_BY_NAME)
    assert len(blas) > (5000 if has_all else 2500)


# The first expects the same bits of two functions of SciPy, of which one is replaced. The others
# are about singular values, which are NumPy's own; test_python.py has them on virtual devices.
NOT_TAKEN_OVER = "not test_gels and not (TestSVD or TestPinv or TestCond)"
LINALG_MODULES = [
    "numpy.linalg.tests",
    *(f"scipy.linalg.tests.test_{name}" for name in ("lapack", "decomp_cholesky", "decomp_lu")),
]


def test_their_tests_pass_with_every_factorization_taken_over(python, preload, run, tmp_path):
    """NumPy's tests too: their functions reach LAPACK through ours, whatever the size."""
    noting = tmp_path / "conftest.py"
    noting.write_text(
        "import atexit, collections, json\n"
        "from fleetblas import _lapack\n"
        "called, call = collections.Counter(), _lapack.call\n"
        "def counting(context, dtype, name, *values):\n"
        "    called[name] += 1\n"
        "    return call(context, dtype, name, *values)\n"
        "_lapack.call = counting\n"
        f"file = {str(tmp_path / 'called')!r}\n"
        "atexit.register(lambda: open(file, 'w').write(json.dumps(called)))\n"
    )
    result = run(
        [
            *(python, "-m", "pytest", *QUIET, "-p", "conftest", *NUMPY_CASES),
            *("-k", NOT_TAKEN_OVER, "--pyargs", *LINALG_MODULES),
        ],
        preload=preload,
        cwd=tmp_path,
        limit_s=LIMIT_S,
        one_core=True,
        PYTHONPATH=f"{SOURCE}/python/fleetblas/hooks:{SOURCE}/python:{tmp_path}:{PLUGINS}",
        FLEETBLAS_LIB_DIR=preload.parent,
        **HOST_DEVICES,
    )

    outcomes = {word: int(count) for count, word in OUTCOME.findall(result.stdout[-300:])}
    assert result.returncode == 0, result.stdout[-3000:]
    assert outcomes["passed"] > 2000
    counts = json.loads((tmp_path / "called").read_text())
    calls_getri = scipy_version(python) <= GETRI_UNTIL
    for name in (
        *(["getri"] if calls_getri else []),
        "getrf",
        "getrs",
        "potrf",
        "potri",
        "geqrf",
        "orgqr",
        "ormqr",
        "solve",
        "inverse",
        "slogdet",
    ):
        assert counts.get(name, 0) >= 4, counts

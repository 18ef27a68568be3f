# SPDX-License-Identifier: BSD-3-Clause
"""The summary of a process names what was computed in place of NumPy's and SciPy's functions."""

import importlib.util
import json
import re
import sys

import pytest

MATRICES = """
import os, sys, numpy as np
rng = np.random.default_rng(1)
a, b = rng.standard_normal((40, 40)) + 40 * np.eye(40), rng.standard_normal((40, 3))
"""
SOLVES = (
    MATRICES
    + """
import fleetblas
with fleetblas.offload():
    np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0])
    child = os.fork()
    if not child:
        np.linalg.solve(a, b)  # a child's calls are in no summary
        sys.exit()
assert os.waitpid(child, 0)[1] == 0
"""
)


def test_routines_are_named_where_a_program_is_run(cli):
    pytest.importorskip("scipy.linalg")
    code = """
import atexit, scipy.linalg
np.linalg.solve(a, b), np.linalg.solve(a, b), np.linalg.inv(a.astype("D")), np.linalg.qr(a)
np.linalg.slogdet(a.astype("F")), np.linalg.lstsq(a[:, :9], b, rcond=None)
scipy.linalg.cho_factor(a @ a.T), scipy.linalg.inv(a)
atexit.register(np.linalg.cholesky, a @ a.T)  # the last of all
"""
    done = cli("run", "--", sys.executable, "-c", MATRICES + code)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^  LAPACK +(\d+) calls +\S+ \w+  (\w+ \(.*\))$", done.stderr, re.M)
    has_inverse = importlib.util.find_spec("scipy.linalg._batched_linalg")  # from SciPy 1.17 on
    inverse = "dgetri (scipy.linalg.inv)" if has_inverse else "dgetri (scipy.linalg.lapack)"
    assert {name: int(calls) for calls, name in rows}.items() >= {
        ("dgesv (numpy.linalg.solve)", 2),
        ("zgesv (numpy.linalg.inv)", 1),
        ("dgeqrf (numpy.linalg.qr)", 1),
        ("dorgqr (numpy.linalg.qr)", 1),
        ("zgetrf (numpy.linalg.slogdet)", 1),  # NumPy computes in double
        ("dgelsd (numpy.linalg.lstsq)", 1),
        ("dpotrf (numpy.linalg.cholesky)", 1),
        ("dpotrf (scipy.linalg.lapack)", 1),
        (inverse, 1),
    }


def test_what_stays_with_numpy_is_not_named(cli):
    code = MATRICES + "np.linalg.solve(a, b), np.linalg.inv(a)"
    # A solution of 40 x 40 with 3 right sides has 52,267 flops; an inverse has 128,000.
    settings = {"FLEETBLAS_OFFLOAD": "auto", "FLEETBLAS_MIN_FLOPS": "100000"}
    done = cli("run", "--", sys.executable, "-c", code, **settings)
    assert "dgesv (numpy.linalg.inv)" in done.stderr, done.stderr
    assert "numpy.linalg.solve" not in done.stderr


def test_a_process_says_it_on_stderr(script):
    done = script(SOLVES, FLEETBLAS_SUMMARY="1")
    assert done.returncode == 0, done.stderr
    line = r"^fleetblas:   dgesv \(numpy\.linalg\.solve\): 2 calls, [\d.]+ ms$"
    assert re.search(line, done.stderr, re.M), done.stderr
    assert done.stderr.count("numpy.linalg") == 1


def test_a_file_has_it_beside_the_summary_of_the_library(script, tmp_path):
    done = script(SOLVES, FLEETBLAS_SUMMARY="calls.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "calls.linalg.json").read_text())["lapack"]
    assert row.pop("seconds") > 0
    assert row == {"symbol": "dgesv (numpy.linalg.solve)", "calls": 2, "behind": 0}
    assert json.loads((tmp_path / "calls.json").read_text())["calls"] == 2  # each one factorization

    done = script(SOLVES, FLEETBLAS_SUMMARY="%p.txt")
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.linalg.txt")
    assert "dgesv (numpy.linalg.solve): 2 calls" in file.read_text()


def test_a_file_that_cannot_be_written_is_no_error(script):
    done = script(SOLVES, FLEETBLAS_SUMMARY="nowhere/calls.json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_calls_of_many_threads_are_counted(script, tmp_path):
    code = """
import concurrent.futures, fleetblas
with fleetblas.offload(), concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: np.linalg.det(a), range(40)))
"""
    done = script(MATRICES + code, FLEETBLAS_SUMMARY="calls.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "calls.linalg.json").read_text())["lapack"]
    assert (row["symbol"], row["calls"]) == ("dgetrf (numpy.linalg.det)", 40)

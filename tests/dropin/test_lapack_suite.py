# SPDX-License-Identifier: BSD-3-Clause
"""The reference LAPACK's own tests of equations, with every call on the devices: what they print is
what they print without us. Debian has them as liblapack-test. The whole of them takes an hour, so
these are the families that have routines of ours, with fewer sizes."""

import glob
import os
import re

import pytest
from conftest import HOST_DEVICES
from test_lapack import lapack_in

LIMIT_S = 300
# The line that tells the time is the only one that may differ.
TIME = re.compile(r"Total time used.*\n")
INPUT = """Data file for testing LAPACK linear eqn. routines
6                      Number of values of M
0 1 2 5 10 50          Values of M (row dimension)
6                      Number of values of N
0 1 2 5 10 50          Values of N (column dimension)
2                      Number of values of NRHS
1 15                   Values of NRHS (number of right hand sides)
1                      Number of values of NB
20                     Values of NB (the blocksize)
1                      Values of NX (crossover point)
1                      Number of values of RANK
50                     Values of rank (as a % of N)
30.0                   Threshold value of test ratio
T                      Put T to test the LAPACK routines
T                      Put T to test the driver routines
T                      Put T to test the error exits
{t}GE   11               List types on next line if 0 < NTYPES < 11
{t}PO    9               List types on next line if 0 < NTYPES <  9
{t}TR    6               List types on next line if 0 < NTYPES < 18
1 2 3 4 5 6
{t}QR    8               List types on next line if 0 < NTYPES <  8
{t}LQ    2               List types on next line if 0 < NTYPES <  8
1 2
"""
TESTED = {
    *("getrf", "potrf", "geqrf", "getrs", "potrs", "gesv", "posv", "getri", "potri", "trtri"),
    *("trtrs", "orgqr", "ormqr", "larfb"),
}


def test_program(letter):
    folders = [os.environ.get("FLEETBLAS_LAPACK_TESTS", ""), *glob.glob("/usr/lib/*/lapack")]
    for folder in folders:
        if folder and os.path.exists(f"{folder}/xlintst{letter}"):
            return f"{folder}/xlintst{letter}"
    return pytest.skip("the tests of the reference LAPACK (liblapack-test) are not on this machine")


test_program.__test__ = False


@pytest.mark.parametrize("letter", "sdcz")
def test_lapack_s_own_tests_print_what_they_print_without_us(
    letter, preload, netlib, run, tmp_path
):
    tests = tmp_path / "run.sh"
    tests.write_text(f"exec {test_program(letter)} < {tmp_path}/input\n")
    (tmp_path / "input").write_text(INPUT.format(t=letter.upper()))
    # Of all the BLAS on this machine the reference is the one whose bits are not in question.
    # Their library of matrices (libtmglib3) is in the folder above them.
    folders = [os.path.dirname(netlib[0]), os.path.dirname(os.path.dirname(test_program(letter)))]
    settings = {"LD_LIBRARY_PATH": ":".join(folders)}

    reference = run(["sh", tests], **settings)
    ours = run(
        ["sh", tests],
        preload=preload,
        limit_s=LIMIT_S,
        FLEETBLAS_SUMMARY=tmp_path / "summary-%p.json",
        **settings,
        **HOST_DEVICES,
    )

    assert (ours.returncode, ours.stderr) == (reference.returncode, reference.stderr) == (0, "")
    assert reference.stdout.count("passed the t") == 7 + 7  # error exits, thresholds
    assert TIME.sub("", ours.stdout) == TIME.sub("", reference.stdout)
    (summary,) = tmp_path.glob("summary-*.json")
    done = lapack_in(summary)
    assert {re.sub("^un", "or", name[1:-1]) for name in done} >= TESTED
    assert all(row["behind"] == 0 for row in done.values())

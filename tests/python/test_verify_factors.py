# SPDX-License-Identifier: BSD-3-Clause
"""The verification of factors and solutions: right ones of SciPy pass, slightly wrong ones do not,
whether all elements are compared or products with vectors."""

import numpy as np
import pytest
from fleetblas import verify_factors
from fleetblas.verify_factors import Expectation, Factors, HostMatrix
from scipy.linalg import lapack

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
# Wrong elements that are this large have to be seen.
SLIGHT = {"s": 1.0, "d": 1e-8, "c": 1.0, "z": 1e-8}


def random(letter, rows, columns, seed=3):
    g = np.random.default_rng(seed)
    values = g.uniform(-1, 1, (rows, columns))
    if letter in "cz":
        values = values + 1j * g.uniform(-1, 1, (rows, columns))
    return np.asfortranarray(values.astype(TYPES[letter]))


def expectation(routine, a, uplo="l", b=None):
    b = None if b is None else HostMatrix(b)
    return Expectation(routine, HostMatrix(a), np.random.default_rng(7), uplo, b)


def verdicts(monkeypatch, expected, found):
    """As a whole, and by vectors."""
    whole = expected.judge(found)
    monkeypatch.setattr(verify_factors, "WHOLE_EDGE", 0)
    by_vectors = expected.judge(found)
    monkeypatch.undo()
    assert expected.judge(found, everything=True).error == pytest.approx(whole.error)
    return whole, by_vectors


def require(monkeypatch, expected, right, wrong):
    for verdict in verdicts(monkeypatch, expected, right):
        assert 0 <= verdict.error < 5
        assert 0 <= verdict.residual < 5
        assert verdict.ok
    for found in wrong:
        for verdict in verdicts(monkeypatch, expected, found):
            assert not verdict.ok


@pytest.mark.parametrize("letter", list(TYPES))
@pytest.mark.parametrize("uplo", ["l", "u"])
@pytest.mark.parametrize("n", [1, 300])
def test_cholesky_factors(monkeypatch, letter, uplo, n):
    a = random(letter, n, n)
    np.fill_diagonal(a, a.diagonal().real + 3 * n**0.5)
    factor, info = getattr(lapack, letter + "potrf")(a, lower=uplo == "l", clean=False)
    assert info == 0
    damaged = factor.copy()
    damaged[(n - 1, n // 3) if uplo == "l" else (n // 3, n - 1)] += SLIGHT[letter]
    expected = expectation("potrf", a, uplo)
    require(monkeypatch, expected, Factors(HostMatrix(factor)), [Factors(HostMatrix(damaged))])
    # The opposite triangle does not count.
    factor[(0, n - 1) if uplo == "l" else (n - 1, 0)] = np.nan if n > 1 else factor[0, 0]
    assert expected.judge(Factors(HostMatrix(factor))).ok


@pytest.mark.parametrize("letter", list(TYPES))
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (300, 300), (310, 70), (90, 290)])
def test_lu_factors(monkeypatch, letter, rows, columns):
    a = random(letter, rows, columns)
    factors, pivots, info = getattr(lapack, letter + "getrf")(a)
    assert info == 0
    pivots = pivots.astype(np.int64) + 1
    damaged = factors.copy()
    damaged[rows - 1, columns // 2] += SLIGHT[letter]
    wrong = [
        Factors(HostMatrix(damaged), pivots),
        Factors(HostMatrix(factors), pivots + 1),
        Factors(HostMatrix(factors), np.zeros_like(pivots)),
        Factors(HostMatrix(np.full_like(factors, np.nan)), pivots),
    ]
    right = Factors(HostMatrix(factors), pivots)
    require(monkeypatch, expectation("getrf", a), right, wrong)


@pytest.mark.parametrize("letter", list(TYPES))
@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (300, 300), (310, 70), (90, 290)])
def test_qr_factors(monkeypatch, letter, rows, columns):
    a = random(letter, rows, columns)
    factors, tau, _, info = getattr(lapack, letter + "geqrf")(a)
    assert info == 0
    damaged, longer = factors.copy(), tau.copy()
    damaged[0, columns - 1] += SLIGHT[letter]
    longer[len(tau) // 2] *= 1 + SLIGHT[letter] / 2
    wrong = [Factors(HostMatrix(damaged), tau=tau), Factors(HostMatrix(factors), tau=longer)]
    right = Factors(HostMatrix(factors), tau=tau)
    require(monkeypatch, expectation("geqrf", a), right, wrong)


@pytest.mark.parametrize("letter", list(TYPES))
def test_solutions(monkeypatch, letter):
    a, b = random(letter, 200, 200), random(letter, 200, 3, seed=4)
    _, _, x, info = getattr(lapack, letter + "gesv")(a, b)
    assert info == 0
    damaged = np.asfortranarray(x)
    damaged[7, 1] += SLIGHT[letter] * np.abs(x).max()
    expected = expectation("gesv", a, b=b)
    _, _, x, _ = getattr(lapack, letter + "gesv")(a, b)
    right, wrong = Factors(solution=HostMatrix(x)), Factors(solution=HostMatrix(damaged))
    require(monkeypatch, expected, right, [wrong])


def test_a_missing_update_of_a_large_factorization_in_single_precision_is_seen():
    """The norm of A hides it: LAPACK's error is small, the sharper one is not."""
    n, width = 1500, 64
    a = random("s", n, n)
    factors, pivots, _ = lapack.sgetrf(a)
    right = Factors(HostMatrix(factors.copy()), pivots.astype(np.int64) + 1)
    expected = expectation("getrf", a)
    assert expected.judge(right).ok
    factors[-width:, -width:] += random("s", width, width, seed=9)
    wrong = expected.judge(Factors(HostMatrix(factors), right.pivots))
    assert not wrong.ok
    assert wrong.error < wrong.residual

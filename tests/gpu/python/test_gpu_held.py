# SPDX-License-Identifier: BSD-3-Clause
"""Equations and determinants by LU factors that stay on the GPUs that made them."""

import fleetblas
import numpy as np
import pytest
from fleetblas import _lapack, linalg

HELD = "factors stay on devices"


def random_matrix(rows, cols, dtype, seed, order="C"):
    random = np.random.default_rng(seed)
    made = random.standard_normal((rows, cols))
    if np.dtype(dtype).kind == "c":
        made = made + 1j * random.standard_normal((rows, cols))
    return np.array(made, dtype, order=order)


def backward_error(a, b, x):
    residual = np.abs(a @ x - b).max()
    return residual / (np.abs(a).sum(1).max() * np.abs(x).max() * np.finfo(x.dtype).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("order", ["C", "F"])
def test_random_equations_are_solved_where_the_factors_are(gpus, dtype, columns, order):
    a = random_matrix(3000, 3000, dtype, 3, order)
    b = random_matrix(3000, columns, dtype, 4)

    x = linalg.solve(a, b)

    assert fleetblas.stats()["last"]["reason"] == HELD
    assert backward_error(a, b, x) < np.sqrt(len(a))


@pytest.mark.parametrize("trans", "ntc")
def test_factors_solve_turned_round(gpus, trans):
    context = fleetblas.Context(backend="cuda", offload="always")
    a = random_matrix(2500, 2500, "complex128", 5, "F")
    b = random_matrix(2500, 3, "complex128", 6, "F")
    x = np.empty_like(b)

    _lapack.call(context, a.dtype, "solve", trans, 2500, 3, a, b, x)

    assert context.stats()["last"]["reason"] == HELD
    turned = {"n": a, "t": a.T, "c": a.conj().T}[trans]
    assert backward_error(turned, b, x) < np.sqrt(len(a))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_determinants_are_those_of_numpy(gpus, dtype):
    a = random_matrix(2000, 2000, dtype, 7)

    sign, log = linalg.slogdet(a)

    assert fleetblas.stats()["last"]["reason"] == HELD
    expected_sign, expected_log = np.linalg.slogdet(a)
    assert abs(sign - expected_sign) < 1e-9
    assert abs(log - expected_log) < 1e-9 * abs(expected_log)

# SPDX-License-Identifier: BSD-3-Clause
"""Equations in mixed precision on GPUs that hold the matrix in both precisions."""

import fleetblas
import numpy as np
import pytest
from fleetblas import _lapack, linalg

HELD = "refined in double precision"


def backward_error(a, b, x):
    residual = np.abs(a @ x - b).max()
    return residual / (np.abs(a).sum(1).max() * np.abs(x).max() * np.finfo(x.dtype).eps)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [1, 7])
def test_random_equations_are_refined_where_the_matrix_is(gpus, dtype, columns):
    random = np.random.default_rng(3)
    a = random.standard_normal((3000, 3000)).astype(dtype)
    b = random.standard_normal((3000, columns)).astype(dtype)
    if dtype == "complex128":
        a += 1j * random.standard_normal(a.shape)

    x = linalg.solve(a, b, refine=True)

    assert fleetblas.stats()["last"]["reason"] == HELD
    assert backward_error(a, b, x) < np.sqrt(len(a))


@pytest.mark.parametrize("place", ["h", 0])
def test_random_equations_converge_soon(gpus, place):
    order = 4096
    random = np.random.default_rng(5)
    context = fleetblas.Context(backend="cuda", offload="always")
    a = context.empty((order * order,), "float64", place)
    before = np.asfortranarray(random.standard_normal((order, order)))
    context.copy(a, before.reshape(-1, order="F"))
    b = np.asfortranarray(random.standard_normal((order, 1)))
    x, pivots = np.empty_like(b), np.empty(order, np.int64)

    # Both are column-major.
    iterations, info = _lapack.call(
        context,
        np.dtype("float64"),
        "sgesv",
        order,
        1,
        a.reshape((order, order), order="F"),
        pivots,
        b,
        x,
    )

    assert info == 0
    assert 0 < iterations <= 8
    assert context.stats()["last"]["reason"] == HELD
    assert backward_error(before, b, x) < np.sqrt(order)

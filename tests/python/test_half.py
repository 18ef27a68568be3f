# SPDX-License-Identifier: BSD-3-Clause
"""float16, bfloat16 and TF32: values, roundings and what is refused, against NumPy."""

import fleetblas
import numpy as np
import pytest

ONE_ROUNDING = 2.0**-11  # of float16


def every_half():
    """All 65536 float16, as one row."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(1, -1)


def same(found, expected):
    """Equal, and not a number at the same places. A sum that begins with 0 is never -0."""
    return np.array_equal(found, expected, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("offload", ["always", "never"])
def test_every_half_times_any_number_is_rounded_as_numpy_rounds(offload):
    halves = every_half()
    factors = np.random.default_rng(1).standard_normal(40) * 2.0 ** np.arange(-30, 10)
    with fleetblas.Context(backend="host", devices="2", offload=offload) as context:
        for factor in (1.0, *factors.astype(np.float32)):
            one = np.ones((1, 1), np.float16)
            found = context.gemm(one, halves, alpha=float(factor))
            assert same(found, (halves.astype(np.float32) * np.float32(factor)).astype(np.float16))


@pytest.mark.filterwarnings("ignore")
def test_every_half_is_scaled_as_numpy_scales_it():
    for beta in (0.37, -3.0, 1e-4):
        c = every_half().copy()
        empty = np.ones((1, 0), np.float16), np.ones((0, 2**16), np.float16)
        found = fleetblas.gemm(*empty, c, beta=beta)
        assert same(found, (c.astype(np.float32) * np.float32(beta)).astype(np.float16))


@pytest.mark.parametrize("seed", range(12))
def test_gemm_of_halves_is_near_that_of_floats(seed):
    g = np.random.default_rng(seed)
    m, n, k = (int(edge) for edge in g.integers(1, 90, 3))
    transa, transb = g.choice(list("nt"), 2)
    a = g.uniform(-1, 1, (m, k) if transa == "n" else (k, m)).astype(np.float16)
    b = g.uniform(-1, 1, (k, n) if transb == "n" else (n, k)).astype(np.float16)
    c = np.asfortranarray(g.uniform(-1, 1, (m, n)).astype(np.float16))

    found = fleetblas.gemm(a, b, c, alpha=0.5, beta=-2, transa=transa, transb=transb)

    left, right = (
        (x if op == "n" else x.T).astype(np.float64) for x, op in ((a, transa), (b, transb))
    )
    expected = 0.5 * (left @ right) - 2 * c.astype(np.float64)
    size = 0.5 * (np.abs(left) @ np.abs(right)) + 2 * np.abs(c.astype(np.float64))
    assert found.dtype == np.float16
    # Steps of k are longer than this k: one rounding of the sum, and one where C is added.
    assert np.all(np.abs(found - expected) <= 3 * ONE_ROUNDING * size)


def test_matmul_of_stacks_of_halves_broadcasts():
    g = np.random.default_rng(3)
    a = g.integers(-3, 4, (5, 1, 6, 7)).astype(np.float16)
    b = g.integers(-3, 4, (4, 7, 8)).astype(np.float16)
    with fleetblas.Context(backend="host", devices="2", offload="always") as context:
        found = context.matmul(a, b)
        assert context.stats()["last"]["type"] == "h"
        assert context.stats()["last"]["where"] == "devices"
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, np.matmul(a, b))  # whole numbers below 2048: exact


def test_tf32_is_for_floats_and_on_a_cpu_the_same_product():
    g = np.random.default_rng(4)
    a, b = (g.standard_normal((70, 70)).astype(np.float32) for _ in range(2))
    with fleetblas.Context(backend="host", devices="2", offload="always") as context:
        for multiply in (context.gemm, context.matmul):
            as_tf32 = multiply(a, b, tf32=True)
            assert context.stats()["last"]["type"] == "tf32"
            np.testing.assert_array_equal(as_tf32, multiply(a, b))
            assert context.stats()["last"]["type"] == "s"


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.float16, np.int32])
def test_tf32_is_refused_for_other_types(dtype):
    a = np.ones((4, 4), dtype)
    with pytest.raises(TypeError, match="tf32 is a way to multiply float32"):
        fleetblas.matmul(a, a, tf32=True)


def test_bfloat16_is_rounded_once():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    g = np.random.default_rng(5)
    a, b = (g.integers(-3, 4, (60, 60)).astype(bfloat16) for _ in range(2))
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(bfloat16)
    for found in (fleetblas.gemm(a, b), fleetblas.matmul(a, b)):
        assert found.dtype == bfloat16
        np.testing.assert_array_equal(found, expected)

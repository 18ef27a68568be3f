# SPDX-License-Identifier: BSD-3-Clause
"""The verification of benchmarks: what it lets pass, and what it must not."""

import numpy as np
import pytest
from fleetblas import verify


def product(dtype=np.float64, transa="n", transb="n", m=90, n=80, k=70, alpha=1.0, beta=1.0):
    g = np.random.default_rng(1)

    def random(rows, columns):
        values = g.uniform(-1, 1, (rows, columns))
        if np.dtype(dtype).kind == "c":
            values = values + 1j * g.uniform(-1, 1, (rows, columns))
        return np.asfortranarray(values.astype(dtype))

    a = random(m, k) if transa == "n" else random(k, m)
    b = random(k, n) if transb == "n" else random(n, k)
    c0 = random(m, n)
    c = alpha * (verify.apply_op(transa, a) @ verify.apply_op(transb, b)) + beta * c0
    return verify.Product(transa, transb, alpha, a, b, beta, c0, c.astype(dtype))


def judged(p, everything=False):
    return verify.verify(p, np.random.default_rng(2), everything)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("ops", ["nn", "tn", "ct", "nc"])
@pytest.mark.parametrize("everything", [False, True])
def test_a_right_product_passes(dtype, ops, everything):
    verdict = judged(product(dtype, *ops, alpha=-2.0, beta=0.5), everything)
    assert verdict.ok
    assert 0 < verdict.error < 4


def test_one_wrong_element_anywhere_is_noticed_by_the_residual():
    p = product(m=300, n=300)
    rows = np.random.default_rng(3).integers(0, 300, 20)
    for row in rows:
        p.c[row, (7 * row) % 300] += 1e-9
        assert not judged(p).ok
        p.c[row, (7 * row) % 300] -= 1e-9


def test_a_missing_step_of_k_is_noticed_in_every_type():
    for dtype in (np.float32, np.complex128):
        p = product(dtype, beta=0.0)
        p.c = np.asfortranarray(p.a[:, :-1] @ p.b[:-1])
        verdict = judged(p, everything=True)
        assert not verdict.ok
        assert verdict.error > 100


def test_not_a_number_in_the_result_is_no_pass():
    p = product()
    p.c[3, 4] = np.nan
    assert not judged(p).ok


def test_c_before_the_product_does_not_count_when_beta_is_zero():
    p = product(beta=0.0)
    p.c0[...] = np.nan
    assert judged(p).ok


def test_the_error_is_in_units_of_eps_k_and_the_largest_elements():
    p = product(m=10, n=10, k=4, beta=0.0)
    p.a[...], p.b[...] = 2.0, 3.0
    p.c[...] = 24.0
    p.c[0, 0] += 5 * 4 * 2.0 * 3.0 * np.finfo(np.float64).eps * 16  # a multiple of eps at 24
    assert judged(p, everything=True).error == 80


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_empty_products_pass(shape):
    m, n, k = shape
    assert judged(product(m=m, n=n, k=k), everything=True).ok


def rounded(values, tf32):
    """To TF32's 11 significant bits, or as they are."""
    if not tf32:
        return values
    bits = values.view(np.uint32)
    return ((bits + np.uint32(2**12)) & np.uint32(2**32 - 2**13)).view(np.float32)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("everything", [False, True])
def test_coarser_types_pass_and_a_missing_tile_of_them_does_not(tf32, everything):
    g = np.random.default_rng(7)
    m = n = 150
    k, tile = 600, 150
    dtype = np.float32 if tf32 else np.float16
    a, b, c0 = (
        np.asfortranarray(g.uniform(-1, 1, shape).astype(dtype))
        for shape in ((m, k), (k, n), (m, n))
    )
    left, right = (rounded(x, tf32).astype(np.float64) for x in (a, b))
    scalars = (1.0, a, b, 0.5, c0)

    def verdict(c):
        p = verify.Product("n", "n", *scalars, np.asfortranarray(c.astype(dtype)))
        return verify.verify(p, np.random.default_rng(2), everything, tf32)

    assert verdict(left @ right + 0.5 * c0).ok
    missing = verdict(left[:, tile:] @ right[tile:] + 0.5 * c0)
    assert not missing.ok
    assert missing.error > 10 * missing.tolerance

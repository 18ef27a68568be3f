# SPDX-License-Identifier: BSD-3-Clause
"""gemm and matmul against NumPy: shapes, layouts, types, outputs, and what is refused."""

import fleetblas
import numpy as np
import pytest

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def random_array(generator, shape, dtype):
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def in_layout(generator, array):
    """The same values in memory as C, Fortran, strided, reversed, or with a longer row."""
    choice = generator.integers(6)
    if choice == 0:
        return np.ascontiguousarray(array)
    if choice == 1:
        return np.asfortranarray(array)
    if choice == 2:
        wide = np.full((*array.shape[:-1], array.shape[-1] + 3), np.nan, array.dtype)
        wide[..., :-3] = array
        return wide[..., :-3]
    if choice == 3:
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if choice == 4:
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    swapped = np.ascontiguousarray(array.swapaxes(-1, -2))
    return swapped.swapaxes(-1, -2)


def assert_near(found, expected, k):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = 20 * max(1, k) * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=4 * tolerance)


def apply(op, matrix):
    return {"n": matrix, "t": matrix.T, "c": matrix.conj().T}[op]


@pytest.mark.parametrize("seed", range(60))
def test_gemm_is_what_numpy_computes_in_every_layout_and_with_every_flag(seed):
    g = np.random.default_rng(seed)
    dtype = DTYPES[seed % 4]
    m, n, k = (int(edge) for edge in g.integers(0, 70, 3))
    transa, transb = g.choice(list("ntc"), 2)
    a = in_layout(g, random_array(g, (m, k) if transa == "n" else (k, m), dtype))
    b = in_layout(g, random_array(g, (k, n) if transb == "n" else (n, k), dtype))
    c = in_layout(g, random_array(g, (m, n), dtype))
    alpha, beta = (float(x) for x in g.choice([0, 1, -0.5, 2], 2))
    out = in_layout(g, np.full((m, n), np.nan, dtype)) if seed % 2 else None
    kept = [x.copy() for x in (a, b, c)]

    found = fleetblas.gemm(a, b, c, alpha=alpha, beta=beta, transa=transa, transb=transb, out=out)

    expected = alpha * (apply(transa, a) @ apply(transb, b)) + beta * c
    assert_near(found, expected.astype(dtype), k)
    assert out is None or found is out
    for before, after in zip(kept, (a, b, c)):
        np.testing.assert_array_equal(before, after)


def test_gemm_takes_complex_scalars():
    g = np.random.default_rng(1)
    a, b, c = (random_array(g, (9, 9), np.complex128) for _ in range(3))
    found = fleetblas.gemm(a, b, c, alpha=1 - 2j, beta=0.5j)
    assert_near(found, (1 - 2j) * (a @ b) + 0.5j * c, 9)


def test_gemm_updates_c_in_place_where_out_is_c():
    g = np.random.default_rng(2)
    a, b, c = (random_array(g, (30, 30), np.float64) for _ in range(3))
    expected = a @ b - c
    assert fleetblas.gemm(a, b, c, beta=-1, out=c) is c
    assert_near(c, expected, 30)


def test_gemm_may_write_over_its_own_operands():
    g = np.random.default_rng(3)
    a, b = (random_array(g, (40, 40), np.float64) for _ in range(2))
    expected = a @ b
    fleetblas.gemm(a, b, out=a)
    assert_near(a, expected, 40)


def test_gemm_writes_only_inside_a_strided_out():
    g = np.random.default_rng(4)
    a, b = (random_array(g, (20, 20), np.float64) for _ in range(2))
    board = np.full((30, 40), 7.0)
    fleetblas.gemm(a, b, out=board[5:25, 10:30])
    assert_near(board[5:25, 10:30].copy(), a @ b, 20)
    board[5:25, 10:30] = 7.0
    assert (board == 7.0).all()


def test_gemm_does_not_read_c_when_beta_is_zero():
    a = np.ones((8, 8))
    np.testing.assert_array_equal(fleetblas.gemm(a, a, np.full((8, 8), np.nan)), a @ a)


@pytest.mark.parametrize(
    ("arguments", "keywords", "exception"),
    [
        ((np.ones((2, 3)), np.ones((2, 3))), {}, ValueError),
        ((np.ones(3), np.ones((3, 3))), {}, ValueError),
        ((np.ones((3, 3), int), np.ones((3, 3))), {}, TypeError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"transa": "x"}, ValueError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"beta": 1}, ValueError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"alpha": 1j}, TypeError),
        ((np.ones((3, 3)), np.ones((3, 3)), np.ones((2, 3))), {"beta": 1}, ValueError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"out": np.ones((3, 2))}, ValueError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"out": np.ones((3, 3), np.float32)}, TypeError),
        ((np.ones((3, 3)), np.ones((3, 3))), {"out": [1]}, TypeError),
    ],
)
def test_gemm_refuses_what_makes_no_sense(arguments, keywords, exception):
    with pytest.raises(exception):
        fleetblas.gemm(*arguments, **keywords)


def test_gemm_refuses_a_read_only_out():
    out = np.zeros((3, 3))
    out.flags.writeable = False
    with pytest.raises(fleetblas.BadArgument, match="read-only"):
        fleetblas.gemm(np.ones((3, 3)), np.ones((3, 3)), out=out)


# ---- matmul -------------------------------------------------------------------------------------


SHAPES = [
    ((5, 7), (7, 3)),
    ((7,), (7, 3)),
    ((5, 7), (7,)),
    ((7,), (7,)),
    ((4, 5, 7), (7, 3)),
    ((5, 7), (4, 7, 3)),
    ((4, 5, 7), (4, 7, 3)),
    ((2, 1, 5, 7), (3, 7, 3)),
    ((2, 3, 5, 7), (2, 3, 7, 3)),
    ((2, 3, 5, 7), (3, 7, 1)),
    ((7,), (4, 7, 3)),
    ((4, 5, 7), (7,)),
    ((0, 5, 7), (7, 3)),
    ((4, 0, 7), (7, 3)),
    ((4, 5, 0), (0, 3)),
    ((1, 1), (1, 1)),
    ((3, 1, 1, 1), (1, 2, 1, 4)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_matmul_broadcasts_as_numpy_does(shapes, seed):
    g = np.random.default_rng(seed)
    dtype = DTYPES[seed % 4]
    a, b = (random_array(g, shape, dtype) for shape in shapes)
    a, b = (in_layout(g, x) if x.ndim > 1 and x.size else x for x in (a, b))

    found = fleetblas.matmul(a, b)

    expected = np.matmul(a, b)
    assert type(found) is type(expected)
    assert_near(found, expected, shapes[0][-1])


@pytest.mark.parametrize("seed", range(20))
def test_matmul_writes_into_out_whatever_its_layout(seed):
    g = np.random.default_rng(seed)
    stack = tuple(int(edge) for edge in g.integers(1, 4, g.integers(0, 3)))
    a = in_layout(g, random_array(g, (*stack, 6, 5), np.float64))
    b = in_layout(g, random_array(g, (5, 4), np.float64))
    out = in_layout(g, np.full((*stack, 6, 4), np.nan))

    assert fleetblas.matmul(a, b, out=out) is out

    assert_near(out.copy(), a @ b, 5)


def test_matmul_steps_through_transposed_stacks_without_mixing_items():
    g = np.random.default_rng(5)
    a = random_array(g, (6, 3, 2, 5), np.float64).transpose(2, 1, 3, 0)  # stacks of 5 x 6
    b = random_array(g, (3, 6, 4), np.float64)
    assert_near(fleetblas.matmul(a, b), a @ b, 6)


def test_matmul_may_write_over_its_own_operand():
    g = np.random.default_rng(6)
    a, b = (random_array(g, (3, 16, 16), np.float64) for _ in range(2))
    expected = a @ b
    fleetblas.matmul(a, b, out=b)
    assert_near(b, expected, 16)


def test_matmul_follows_numpy_in_mixed_types():
    g = np.random.default_rng(7)
    a, b = random_array(g, (4, 5), np.float32), random_array(g, (5, 6), np.complex64)
    for left, right in [(a, b), (a, b.real.astype(np.float64)), (a.astype(">f8"), b)]:
        assert_near(fleetblas.matmul(left, right), np.matmul(left, right), 5)
    assert fleetblas.matmul(a, np.ones((5, 2), int)).dtype == np.float64


def test_matmul_casts_into_out_as_numpy_does():
    a = np.arange(6.0).reshape(2, 3)
    narrow = np.zeros((2, 2), np.float32)
    fleetblas.matmul(a, a.T, out=narrow)
    np.testing.assert_array_equal(narrow, (a @ a.T).astype(np.float32))
    with pytest.raises(TypeError):
        fleetblas.matmul(a, a.T, out=np.zeros((2, 2), int))


def test_matmul_leaves_types_without_a_blas_product_to_numpy():
    whole = np.arange(12).reshape(3, 4)
    found = fleetblas.matmul(whole, whole.T)
    assert found.dtype == whole.dtype
    np.testing.assert_array_equal(found, whole @ whole.T)
    assert fleetblas.matmul(np.float16([[2]]), np.float16([[3]])).dtype == np.float16


def test_matmul_takes_lists():
    np.testing.assert_array_equal(
        fleetblas.matmul([[1.0, 2.0]], [[3.0], [4.0]]), np.array([[11.0]])
    )


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((), (3, 3)), ((2, 2, 3), (3, 3, 2)), ((3,), (4,))], ids=str
)
def test_matmul_refuses_the_shapes_that_numpy_refuses(shapes):
    a, b = (np.ones(shape) for shape in shapes)
    with pytest.raises(ValueError):
        np.matmul(a, b)
    with pytest.raises(ValueError):
        fleetblas.matmul(a, b)


def test_matmul_of_an_out_that_overlaps_itself_is_not_written_twice():
    a = np.arange(4.0).reshape(2, 2)
    board = np.zeros(3)
    out = np.lib.stride_tricks.as_strided(board, (2, 2), (8, 8))
    expected = board.copy()
    np.lib.stride_tricks.as_strided(expected, (2, 2), (8, 8))[...] = a @ a
    fleetblas.matmul(a, a, out=out)
    np.testing.assert_array_equal(board, expected)


def test_a_stack_of_products_is_one_call():
    before = fleetblas.stats()["calls"]
    fleetblas.matmul(np.ones((8, 30, 30)), np.ones((30, 30)))
    stats = fleetblas.stats()
    assert stats["calls"] == before + 1
    assert stats["last"]["batch"] == 8

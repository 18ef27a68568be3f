# SPDX-License-Identifier: BSD-3-Clause
"""fleetblas.linalg: values, types, shapes and errors of the functions that NumPy has too."""

import fleetblas
import numpy as np
import pytest
from fleetblas import linalg
from numpy.linalg import LinAlgError

TYPES = ("float32", "float64", "complex64", "complex128")
ORDERS = ("C", "F", "strided", "reversed", "swapped bytes")
N = 70  # more than one tile of copies, and no multiple of anything


def bound(dtype) -> float:
    """Of relative errors of the well conditioned matrices here."""
    return 2e-3 if np.dtype(dtype).name in ("float32", "complex64") else 1e-11


def random(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def square(dtype="float64", n=N, seed=0, stack=()):
    return random((*stack, n, n), dtype, seed) + n * np.eye(n, dtype=dtype)


def positive(dtype="float64", n=N, seed=0, stack=()):
    a = random((*stack, n, n), dtype, seed)
    return a @ np.swapaxes(a, -1, -2).conj() / n + np.eye(n, dtype=dtype)


def laid_out(a, order):
    """The same numbers in another order in memory."""
    if order in "CF":
        return np.array(a, order=order)
    if order == "swapped bytes":
        return a.astype(a.dtype.newbyteorder())
    if order == "reversed":
        return np.array(a[..., ::-1])[..., ::-1]
    wide = np.zeros((*a.shape[:-2], 2 * a.shape[-2], 3 * a.shape[-1]), a.dtype)
    wide[..., ::2, ::3] = a
    return wide[..., ::2, ::3]


def assert_near(found, expected, dtype):
    assert np.shape(found) == np.shape(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    assert np.max(np.abs(found - expected), initial=0) <= bound(dtype) * scale


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", TYPES)
class TestOrdersAndTypes:
    def test_solve(self, dtype, order):
        a, b = laid_out(square(dtype), order), random((N, 5), dtype, 1)
        kept = a.copy()
        for right in (b, np.asfortranarray(b), b[:, 0], b[:, ::2], b[::-1]):
            x = linalg.solve(a, right)
            assert x.dtype == dtype
            assert_near(x, np.linalg.solve(a, right), dtype)
        assert np.array_equal(a, kept)

    def test_solve_of_positive_definite_matrices_reads_one_triangle(self, dtype, order):
        a, b = positive(dtype), random((N, 5), dtype, 1)
        expected = np.linalg.solve(a, b)
        for lower in (False, True):
            half = np.tril(a) if lower else np.triu(a)
            half[np.triu_indices(N, 1) if lower else np.tril_indices(N, -1)] = np.nan
            half = laid_out(half, order)
            for right in (b, np.asfortranarray(b)):
                x = linalg.solve(half, right, assume_a="pos", lower=lower)
                assert_near(x, expected, dtype)

    def test_inv(self, dtype, order):
        a = laid_out(square(dtype), order)
        inverse = linalg.inv(a)
        assert inverse.dtype == dtype
        assert inverse.flags.c_contiguous
        assert_near(inverse, np.linalg.inv(a), dtype)

    def test_cholesky_reads_one_triangle_and_clears_the_other(self, dtype, order):
        a = positive(dtype)
        expected = np.linalg.cholesky(a)
        for upper in (False, True):
            half = np.triu(a) if upper else np.tril(a)
            half[np.tril_indices(N, -1) if upper else np.triu_indices(N, 1)] = np.nan
            factor = linalg.cholesky(laid_out(half, order), upper=upper)
            assert factor.dtype == dtype
            assert_near(factor, expected.conj().T if upper else expected, dtype)
            assert not np.any(np.tril(factor, -1) if upper else np.triu(factor, 1))

    def test_det_and_slogdet(self, dtype, order):
        a = laid_out(random((9, 9), dtype), order)
        assert_near(linalg.det(a), np.linalg.det(a), dtype)
        found, expected = linalg.slogdet(a), np.linalg.slogdet(a)
        assert_near(found.sign, expected[0], dtype)
        assert_near(found.logabsdet, expected[1], dtype)
        assert found.sign.dtype == dtype
        assert found.logabsdet.dtype == np.zeros(0, dtype).real.dtype


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
class TestRectangles:
    @pytest.mark.parametrize("shape", [(N, N), (N + 30, N), (N, N + 30)])
    def test_qr(self, dtype, order, shape):
        a = laid_out(random(shape, dtype), order)
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(a, mode)
            cols = shape[0] if mode == "complete" else min(shape)
            assert q.shape == (shape[0], cols)
            assert q.dtype == r.dtype == dtype
            assert_near(q @ r, a, dtype)
            assert_near(q.conj().T @ q, np.eye(cols), dtype)
            assert np.array_equal(r, np.triu(r))
        assert_near(linalg.qr(a, "r"), np.linalg.qr(a, "r"), dtype)
        for found, expected in zip(linalg.qr(a, "raw"), np.linalg.qr(a, "raw")):
            assert_near(found, expected, dtype)

    @pytest.mark.parametrize("shape", [(3 * N, N), (N, 3 * N), (N, N)])
    def test_lstsq(self, dtype, order, shape):
        a, b = laid_out(random(shape, dtype), order), random((shape[0], 4), dtype, 1)
        for right in (b, b[:, 0]):
            found, expected = linalg.lstsq(a, right), np.linalg.lstsq(a, right, rcond=None)
            assert found[2] == expected[2] == N
            for i in (0, 1, 3):
                assert_near(found[i], expected[i], dtype)
                assert found[i].dtype == expected[i].dtype


@pytest.mark.parametrize("dtype", ("float64", "complex64"))
class TestStacks:
    def test_solve_of_stacks(self, dtype):
        a, b = square(dtype, 6, stack=(2, 3)), random((2, 3, 6, 4), dtype, 1)
        assert_near(linalg.solve(a, b), np.linalg.solve(a, b), dtype)
        assert_near(linalg.solve(a, b[0, 0]), np.linalg.solve(a, b[0, 0]), dtype)
        assert_near(linalg.solve(a[0, 0], b), np.linalg.solve(a[0, 0], b), dtype)
        assert_near(
            linalg.solve(a, b[0, 0, :, 0]), np.linalg.solve(a, b[0, 0, :, :1])[..., 0], dtype
        )

    def test_functions_of_one_stack(self, dtype):
        a, p = square(dtype, 6, stack=(2, 3)), positive(dtype, 6, stack=(2, 3))
        assert_near(linalg.inv(a), np.linalg.inv(a), dtype)
        assert_near(linalg.det(p), np.linalg.det(p), dtype)
        assert_near(linalg.slogdet(a)[1], np.linalg.slogdet(a)[1], dtype)
        assert_near(linalg.cholesky(p), np.linalg.cholesky(p), dtype)

    @pytest.mark.parametrize("mode", ["reduced", "complete"])
    def test_qr_of_stacks(self, dtype, mode):
        a = random((2, 3, 9, 6), dtype)
        q, r = linalg.qr(a, mode)
        assert q.shape == (2, 3, 9, 9 if mode == "complete" else 6)
        assert_near(q @ r, a, dtype)


def test_copies_in_tiles_by_threads_are_exact():
    """Matrices of more than one tile, and of more bytes than one thread copies."""
    a, b = square(n=1100), random((1100, 600), seed=1)
    for turned in (a, np.asfortranarray(a)):
        assert np.max(np.abs(turned @ linalg.solve(turned, b) - b)) < 1e-10
        assert np.max(np.abs(turned @ linalg.inv(turned) - np.eye(1100))) < 1e-10
    p = positive(n=1100)
    for turned in (p, np.asfortranarray(p)):
        for upper in (False, True):
            factor = linalg.cholesky(turned, upper=upper)
            assert np.array_equal(factor, np.triu(factor) if upper else np.tril(factor))
            assert np.max(np.abs((factor.T @ factor if upper else factor @ factor.T) - p)) < 1e-10
    tall = random((1300, 900))
    q, r = linalg.qr(tall)
    assert np.max(np.abs(q @ r - tall)) < 1e-10
    assert np.array_equal(r, np.triu(r))


class TestRefinement:
    @pytest.mark.parametrize("dtype", TYPES)
    def test_refined_solutions_are_as_good_as_others(self, dtype):
        a, b = square(dtype), random((N, 5), dtype, 1)
        for right in (b, np.asfortranarray(b), b[:, 0]):
            x = linalg.solve(a, right, refine=True)
            assert x.dtype == dtype
            assert_near(x, np.linalg.solve(a, right), dtype)

    def test_what_single_precision_cannot_hold_is_solved_in_double(self):
        a, b = square() * 1e200, random((N, 2), seed=1)
        assert_near(linalg.solve(a, b, refine=True) * 1e200, linalg.solve(a / 1e200, b), "float64")

    def test_singular_matrices_raise(self):
        with pytest.raises(LinAlgError, match="Singular matrix"):
            linalg.solve(np.zeros((3, 3)), np.ones(3), refine=True)


class TestOverwriting:
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_solve_uses_the_memory_of_its_operands(self, order):
        a, b = np.array(square(), order=order), np.array(random((N, N), seed=1), order=order)
        expected, kept = np.linalg.solve(a, b), a.copy()
        x = linalg.solve(a, b, overwrite_a=True, overwrite_b=True)
        assert np.shares_memory(x, b)
        assert not np.array_equal(a, kept)
        assert_near(x, expected, "float64")

    def test_inv_uses_the_memory_of_its_operand(self):
        a = square()
        expected = np.linalg.inv(a)
        inverse = linalg.inv(a, overwrite_a=True)
        assert np.shares_memory(inverse, a)
        assert_near(inverse, expected, "float64")

    def test_read_only_operands_are_copied(self):
        a, b = square(), random((N, 2), seed=1)
        a.flags.writeable = b.flags.writeable = False
        x = linalg.solve(a, b, overwrite_a=True, overwrite_b=True)
        assert_near(a @ x, b, "float64")
        assert_near(linalg.inv(a, overwrite_a=True) @ a, np.eye(N), "float64")


class TestTypes:
    @pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "bool"])
    def test_integers_become_float64(self, dtype):
        a = np.array([[1, 0], [1, 1]], dtype)
        for found in (linalg.solve(a, a), linalg.inv(a), linalg.det(a), linalg.qr(a).R):
            assert found.dtype == np.float64
        assert_near(linalg.inv(a), [[1, 0], [-1, 1]], "float64")

    def test_the_wider_type_is_taken(self):
        a = square("float32")
        assert linalg.solve(a, random(N, "complex64")).dtype == np.complex64
        assert linalg.solve(a, random(N)).dtype == np.float64
        assert linalg.solve(a, random(N, "complex128")).dtype == np.complex128
        assert linalg.solve(a, np.ones(N, int)).dtype == np.float64

    @pytest.mark.parametrize("dtype", ["float16", "longdouble", "object", "datetime64[s]"])
    def test_others_are_refused_as_numpy_does(self, dtype):
        a = np.ones((2, 2)).astype(dtype)
        for function in (linalg.inv, linalg.det, linalg.cholesky, linalg.qr, linalg.slogdet):
            with pytest.raises(TypeError, match="is unsupported in linalg"):
                function(a)

    def test_lists_and_matrices(self):
        assert_near(linalg.solve([[2, 0], [0, 4]], [1, 1]), [0.5, 0.25], "float64")
        with pytest.warns(PendingDeprecationWarning):
            matrix = np.matrix(np.eye(2))
        assert isinstance(linalg.inv(matrix), np.matrix)

    def test_arrays_of_a_device_are_refused(self):
        class OnDevice:
            def __init__(self):
                self.__cuda_array_interface__ = {"shape": (2, 2), "typestr": "<f8", "data": (0, 0)}

        with pytest.raises(TypeError, match="arrays of the host"):
            linalg.inv(OnDevice())


class TestErrors:
    def test_singular_matrices(self):
        singular = np.ones((3, 3))
        for call in (lambda: linalg.solve(singular, np.ones(3)), lambda: linalg.inv(singular)):
            with pytest.raises(LinAlgError, match="Singular matrix"):
                call()
        assert linalg.det(singular) == 0
        assert linalg.slogdet(singular) == (0, -np.inf)

    def test_one_singular_matrix_of_a_stack(self):
        a = np.stack([np.eye(3), np.zeros((3, 3))])
        with pytest.raises(LinAlgError):
            linalg.inv(a)
        assert np.array_equal(linalg.det(a), [1, 0])

    def test_matrices_that_are_not_positive_definite(self):
        for call in (
            lambda: linalg.cholesky(-np.eye(3)),
            lambda: linalg.solve(-np.eye(3), np.ones(3), assume_a="pos"),
        ):
            with pytest.raises(LinAlgError, match="Matrix is not positive definite"):
                call()

    @pytest.mark.parametrize("function", [linalg.inv, linalg.det, linalg.slogdet, linalg.cholesky])
    def test_shapes(self, function):
        with pytest.raises(LinAlgError, match="must be square"):
            function(np.ones((2, 3)))
        with pytest.raises(LinAlgError, match="1-dimensional array given"):
            function(np.ones(3))

    def test_right_sides_that_do_not_fit(self):
        for right in (np.ones(4), np.ones((4, 3)), np.float64(1)):
            with pytest.raises(ValueError, match="incompatible"):
                linalg.solve(np.eye(3), right)
        with pytest.raises(LinAlgError, match="Incompatible dimensions"):
            linalg.lstsq(np.ones((4, 2)), np.ones(3))

    def test_words(self):
        with pytest.raises(ValueError, match="not a recognized matrix structure"):
            linalg.solve(np.eye(2), np.ones(2), assume_a="banded")
        with pytest.raises(ValueError, match="Unrecognized mode"):
            linalg.qr(np.eye(2), "full")

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_check_finite(self, bad):
        a = np.eye(600)
        a[555, 3] = bad
        for call in (
            lambda: linalg.inv(a, check_finite=True),
            lambda: linalg.solve(np.eye(600), a, check_finite=True),
            lambda: linalg.det(np.asfortranarray(a), check_finite=True),
        ):
            with pytest.raises(ValueError, match="infs or NaNs"):
                call()


class TestEmpty:
    def test_matrices_without_rows(self):
        empty = np.empty((0, 0))
        assert linalg.solve(empty, np.empty((0, 3))).shape == (0, 3)
        assert linalg.inv(empty).shape == linalg.cholesky(empty).shape == (0, 0)
        assert linalg.det(empty) == 1
        assert linalg.slogdet(empty) == (1, 0)
        assert linalg.lstsq(np.empty((0, 3)), np.empty(0))[0].shape == (3,)

    def test_nothing_on_the_right(self):
        assert linalg.solve(np.eye(3), np.empty((3, 0))).shape == (3, 0)
        assert linalg.solve(np.ones((2, 3, 3)) + np.eye(3), np.empty((3, 0))).shape == (2, 3, 0)
        with pytest.raises(LinAlgError, match="Singular matrix"):
            linalg.solve(np.zeros((3, 3), "f"), np.empty((3, 0)))

    def test_empty_stacks(self):
        assert linalg.inv(np.empty((0, 2, 2))).shape == (0, 2, 2)
        assert linalg.det(np.empty((0, 2, 2))).shape == (0,)

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
    def test_qr(self, shape):
        for mode in ("reduced", "complete"):
            for found, expected in zip(
                linalg.qr(np.empty(shape), mode), np.linalg.qr(np.empty(shape), mode)
            ):
                assert found.shape == expected.shape

    def test_results_of_single_matrices_are_scalars(self):
        assert isinstance(linalg.det(np.eye(2)), np.float64)
        assert isinstance(linalg.slogdet(np.eye(2, dtype="c16")).sign, np.complex128)


def test_a_matrix_of_low_rank_has_the_shortest_solution():
    for shape in ((90, 20), (20, 90)):
        a = random((shape[0], 3)) @ random((3, shape[1]), seed=1)
        b = random((shape[0], 2), seed=2)
        found, expected = linalg.lstsq(a, b), np.linalg.lstsq(a, b, rcond=None)
        assert found[2] == expected[2] == 3
        assert_near(found[0], expected[0], "float64")
        assert found[1].shape == expected[1].shape == (0,)


def test_threads_solve_at_the_same_time():
    from concurrent.futures import ThreadPoolExecutor

    problems = [(square(seed=seed), random((N, 3), seed=seed)) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda problem: linalg.solve(*problem), problems))
    for (a, b), x in zip(problems, found):
        assert_near(a @ x, b, "float64")


def test_arrays_of_a_device_are_refused():
    with fleetblas.Context(backend="host", devices=1) as context:
        a = context.empty((4, 4), location=0)
        for function in (linalg.inv, linalg.det, linalg.cholesky, linalg.qr, linalg.lu_factor):
            with pytest.raises(TypeError, match="takes arrays of the host, not OnDevice"):
                function(a)

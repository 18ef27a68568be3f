# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations that are kept: the functions of fleetblas.linalg that SciPy has, and what stands
in for SciPy's LAPACK functions within offload()."""

import warnings

import fleetblas
import numpy as np
import pytest
from fleetblas import _lapack, linalg
from fleetblas._errors import DeviceFailed, Error, NoMemory
from numpy.linalg import LinAlgError
from test_linalg import ORDERS, TYPES, N, assert_near, laid_out, positive, random, square

TRANS = {0: lambda a: a, 1: lambda a: a.T, 2: lambda a: a.conj().T}


def right_sides(dtype):
    b = random((N, 5), dtype, 1)
    return b, np.asfortranarray(b), b[:, ::2][:, 0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", TYPES)
class TestFunctions:
    def test_lu(self, dtype, order):
        a = laid_out(square(dtype), order)
        lu, piv = linalg.lu_factor(a)
        assert (lu.dtype, piv.dtype) == (dtype, np.int32)
        rows = np.arange(N)
        for i, other in enumerate(piv):
            rows[[i, other]] = rows[[other, i]]
        assert_near((np.tril(lu, -1) + np.eye(N)) @ np.triu(lu), a[rows], dtype)
        for trans, turn in TRANS.items():
            for b in right_sides(dtype):
                for stored in (lu, np.ascontiguousarray(lu)):
                    x = linalg.lu_solve((stored, piv), b, trans)
                    assert x.dtype == dtype
                    assert_near(turn(a) @ x, b, dtype)

    def test_cholesky(self, dtype, order):
        a = laid_out(positive(dtype), order)
        for lower in (False, True):
            c, is_lower = linalg.cho_factor(a, lower)
            assert is_lower == lower
            factor = np.tril(c) if lower else np.triu(c).conj().T
            assert_near(factor @ factor.conj().T, a, dtype)
            for b in right_sides(dtype):
                for stored in (np.asfortranarray(c), np.ascontiguousarray(c)):
                    assert_near(a @ linalg.cho_solve((stored, lower), b), b, dtype)

    @pytest.mark.parametrize("unit", [False, True])
    def test_triangles(self, dtype, order, unit):
        full = square(dtype) / N
        for lower in (False, True):
            triangle = np.tril(full) if lower else np.triu(full)
            garbage = np.where(triangle == 0, np.nan, triangle).astype(dtype)
            if unit:
                np.fill_diagonal(triangle, 1)
                np.fill_diagonal(garbage, np.nan)
            garbage = laid_out(garbage, order)
            for trans, turn in TRANS.items():
                for b in right_sides(dtype):
                    x = linalg.solve_triangular(
                        garbage, b, trans, lower=lower, unit_diagonal=unit, check_finite=False
                    )
                    assert x.dtype == dtype
                    assert_near(turn(triangle) @ x, b, dtype)


class TestStacks:
    def test_all(self):
        a, p, b = square(n=6, stack=(2, 3)), positive(n=6, stack=(2, 3)), random((2, 3, 6, 4))
        assert_near(a @ linalg.lu_solve(linalg.lu_factor(a), b), b, "float64")
        assert_near(p @ linalg.cho_solve(linalg.cho_factor(p, lower=True), b), b, "float64")
        assert_near(np.triu(a) @ linalg.solve_triangular(a, b), b, "float64")
        one = random(6)
        assert_near((a @ linalg.lu_solve(linalg.lu_factor(a), one)[..., None])[..., 0],
                    np.broadcast_to(one, (2, 3, 6)), "float64")  # fmt: skip


def test_rectangles_are_factored():
    for shape in ((5, 9), (9, 5)):
        a = random(shape)
        lu, piv = linalg.lu_factor(a)
        assert (lu.shape, piv.shape) == (shape, (5,))
        rows = np.arange(shape[0])
        for i, other in enumerate(piv):
            rows[[i, other]] = rows[[other, i]]
        lower = np.tril(lu[:, :5], -1) + np.eye(shape[0], 5)
        assert_near(lower @ np.triu(lu[:5]), a[rows], "float64")


class TestOverwriting:
    def test_what_is_in_fortran_order_is_used(self):
        a, b = np.asfortranarray(square()), np.asfortranarray(random((N, 3)))
        kept, right = a.copy(), b.copy()
        lu, piv = linalg.lu_factor(a, overwrite_a=True)
        assert np.shares_memory(lu, a)
        x = linalg.lu_solve((lu, piv), b, overwrite_b=True)
        assert np.shares_memory(x, b)
        assert_near(kept @ x, right, "float64")

    def test_nothing_else_is_changed(self):
        a, b = square(), random((N, 3))
        kept, right = a.copy(), b.copy()
        for c in (linalg.lu_factor(a), linalg.cho_factor(positive())):
            before = c[0].copy()
            (linalg.lu_solve if isinstance(c[1], np.ndarray) else linalg.cho_solve)(c, b)
            assert np.array_equal(c[0], before)
        linalg.solve_triangular(a, b)
        assert np.array_equal(a, kept)
        assert np.array_equal(b, right)


class TestErrors:
    def test_singular_matrices(self):
        with pytest.warns(RuntimeWarning, match="Diagonal number 2 is exactly zero"):
            linalg.lu_factor(np.ones((3, 3)))
        with pytest.raises(LinAlgError, match="resolution failed at diagonal 1"):
            linalg.solve_triangular(np.diag([1.0, 0.0, 1.0]), np.ones(3))
        with pytest.raises(LinAlgError, match="2-th leading minor"):
            linalg.cho_factor(np.diag([1.0, -1.0, 1.0]))

    def test_shapes(self):
        lu, c = linalg.lu_factor(np.eye(3)), linalg.cho_factor(np.eye(3))
        for call in (
            lambda: linalg.lu_solve(lu, np.ones(4)),
            lambda: linalg.cho_solve(c, np.ones((4, 3))),
            lambda: linalg.solve_triangular(np.eye(3), np.ones(4)),
            lambda: linalg.solve_triangular(np.ones((2, 3)), np.ones(2)),
            lambda: linalg.cho_factor(np.ones((2, 3))),
            lambda: linalg.lu_solve((lu[0], lu[1][:2]), np.ones(3)),
            lambda: linalg.lu_solve((lu[0], lu[1] * 1.0), np.ones(3)),
        ):
            with pytest.raises(ValueError):
                call()

    @pytest.mark.parametrize("row", [-1, 3])
    def test_pivots_that_name_no_row(self, row):
        with pytest.raises(ValueError, match="does not exist"):
            linalg.lu_solve((np.eye(3), np.array([0, 1, row])), np.ones(3))

    def test_words(self):
        with pytest.raises(ValueError, match="none of 0, 1, 2"):
            linalg.solve_triangular(np.eye(2), np.ones(2), trans="H")

    def test_numbers_that_are_not_finite(self):
        bad = np.eye(3)
        bad[1, 2] = np.inf
        for call in (
            lambda: linalg.lu_factor(bad),
            lambda: linalg.cho_factor(bad),
            lambda: linalg.solve_triangular(bad, np.ones(3)),
            lambda: linalg.lu_solve(linalg.lu_factor(np.eye(3)), bad),
        ):
            with pytest.raises(ValueError, match="infs or NaNs"):
                call()
        linalg.lu_factor(bad, check_finite=False)


def test_empty_matrices():
    empty = np.empty((0, 0))
    lu, piv = linalg.lu_factor(empty)
    assert (lu.shape, piv.shape) == ((0, 0), (0,))
    assert linalg.lu_solve((lu, piv), np.empty((0, 2))).shape == (0, 2)
    assert linalg.cho_solve(linalg.cho_factor(empty), np.empty(0)).shape == (0,)
    assert linalg.solve_triangular(np.eye(3), np.empty((3, 0))).shape == (3, 0)


# ---- SciPy's own functions ----------------------------------------------------------------------


@pytest.fixture
def called(monkeypatch):
    """The functions of lapack.h that are called."""
    names, call = [], _lapack.call

    def noting(context, dtype, name, *values):
        names.append(name)
        return call(context, dtype, name, *values)

    monkeypatch.setattr(_lapack, "call", noting)
    return names


def lapack_calls(dtype, order):
    """(routine, arguments, keywords) for each function that is replaced."""
    a, p = (laid_out(each(dtype), order) for each in (square, positive))
    b = laid_out(random((N, 5), dtype, 1), order)
    tall = laid_out(random((N, 30), dtype, 2), order)
    from scipy.linalg import lapack

    def own(name):
        return getattr(lapack, _lapack.letter_of(dtype) + name)

    lu, piv, _ = own("getrf")(a)
    qr, tau, _, _ = own("geqrf")(tall)
    factor, _ = own("potrf")(p)
    is_complex = np.dtype(dtype).kind == "c"
    adjoint = "C" if is_complex else "T"
    orgqr, ormqr = ("ungqr", "unmqr") if is_complex else ("orgqr", "ormqr")
    for words in ({}, {"overwrite_a": 1}):
        yield "getrf", (a,), words
        yield "getrf", (tall,), words
        yield "geqrf", (tall,), words
        yield "gesv", (a, b), words
        for lower in (0, 1):
            yield "potrf", (p,), {"lower": lower, **words}
            yield "potrf", (p,), {"lower": lower, "clean": 0, **words}
            yield "posv", (p, b), {"lower": lower, **words}
    for trans in (0, 1, 2):
        yield "getrs", (lu, piv, b), {"trans": trans}
        yield "trtrs", (a, b), {"trans": trans, "lower": 1}
        yield "trtrs", (a / N, b), {"trans": trans, "unitdiag": 1, "overwrite_b": 1}
    yield "potrs", (factor, b), {}
    yield "getri", (lu, piv), {}
    for lower in (0, 1):
        yield "potri", (np.tril(factor.conj().T) if lower else factor,), {"lower": lower}
        yield "lauum", (a,), {"lower": lower}
        yield "trtri", (a,), {"lower": lower}
    yield orgqr, (qr, tau), {}
    yield ormqr, ("L", adjoint, qr, tau, b, 64 * N), {}
    yield ormqr, ("R", "N", qr, tau, laid_out(np.array(b.T), order), 64 * N), {}


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", TYPES)
def test_stand_ins_give_what_scipy_gives(dtype, order, called):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    calls = list(lapack_calls(dtype, order))

    def copies(values):
        return [v.copy(order="K") if isinstance(v, np.ndarray) else v for v in values]

    def result_of(name, values, words):
        return getattr(lapack, _lapack.letter_of(dtype) + name)(*copies(values), **words)

    expected = [result_of(*each) for each in calls]
    for (name, values, words), results in zip(calls, expected):
        with fleetblas.offload():
            called.clear()
            found = result_of(name, values, words)
            assert called or name == "trtrs"
        assert len(found) == len(results)
        for i, (x, y) in enumerate(zip(found, results)):
            if i == len(results) - 2 and name in ("geqrf", "orgqr", "ungqr", "ormqr", "unmqr"):
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                continue  # a workspace
            assert np.asarray(x).dtype == np.asarray(y).dtype
            assert not isinstance(x, np.ndarray) or x.flags.f_contiguous
            assert_near(x, y, dtype)


def test_stand_ins_use_what_may_be_overwritten_and_nothing_else(called):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    a = np.asfortranarray(square())
    kept = a.copy()
    with fleetblas.offload():
        lapack.dgetrf(a)
        assert np.array_equal(a, kept)
        lu, _, _ = lapack.dgetrf(a, overwrite_a=True)
        assert np.shares_memory(lu, a)
    assert called == ["getrf"] * 2


def failing(monkeypatch, error, after=False):
    """The functions of lapack.h raise this, after they have done their work or before."""
    call = _lapack.call

    def function(*values):
        if after:
            call(*values)
        raise error

    monkeypatch.setattr(_lapack, "call", function)


@pytest.mark.parametrize("error", [DeviceFailed("lost"), Error("internal"), MemoryError()])
def test_errors_are_raised_where_an_operand_may_be_lost(monkeypatch, error):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    a = np.asfortranarray(square())
    expected = lapack.dgetrf(a)[0]
    failing(monkeypatch, error, after=True)
    with fleetblas.offload():
        for values, words in (((a.copy("F"), 1), {}), ((a.copy("F"),), {"overwrite_a": True})):
            with pytest.raises(type(error)):
                lapack.dgetrf(*values, **words)
        # In C order nothing can be overwritten.
        for matrix, overwrite in ((a, 0), (np.array(a, order="C"), 1)):
            assert_near(lapack.dgetrf(matrix, overwrite)[0], expected, "float64")


def test_scipy_computes_what_was_refused_of_operands_as_they_were(monkeypatch):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    factor = np.ascontiguousarray(lapack.zpotrf(positive("complex128"))[0])
    b = np.asfortranarray(random((N, 3), "complex128"))
    expected = lapack.zpotrs(factor, b)[0]
    failing(monkeypatch, NoMemory("full"))
    with fleetblas.offload():
        assert_near(lapack.zpotrs(factor, b, 0, 1)[0], expected, "complex128")


def test_workspaces_are_as_long_as_scipys(called):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    a, c = np.asfortranarray(random((N, 30))), np.asfortranarray(random((N, 3)))
    with fleetblas.offload():
        qr, tau, work, _ = lapack.dgeqrf(a)
        assert (work.shape, work[0]) == ((90,), 30)
        assert lapack.dgeqrf(a, lwork=50)[2].shape == lapack.dorgqr(qr, tau, 50)[1].shape == (50,)
        assert lapack.dormqr("L", "T", qr, tau, c, 33)[1].shape == (33,)
        assert called == ["geqrf", "geqrf", "orgqr", "ormqr"]
        with pytest.raises(Exception, match="lwork>=n"):
            lapack.dgeqrf(a, lwork=29)


def test_info_and_errors_are_scipys(called):
    lapack = pytest.importorskip("scipy.linalg.lapack")
    with fleetblas.offload():
        assert lapack.dgetrf(np.ones((3, 3)))[2] == 2
        assert lapack.dpotrf(-np.eye(3))[1] == 1
        assert lapack.dgesv(np.ones((3, 3)), np.ones((3, 1)))[3] == 2
        assert lapack.dtrtri(np.zeros((3, 3)))[1] == 1
        assert lapack.dtrtrs(np.diag([1.0, 0.0]), np.ones((2, 1)))[1] == 2
        assert lapack.dgeqrf(np.ones((3, 3)), lwork=-1)[2][0] >= 3

    def error_of(*values):
        with pytest.raises(Exception) as raised:
            lapack.dgetrs(*values)
        return raised.type, str(raised.value)

    for values in ((np.ones(3), 4, 5, 6), ("x",), (np.eye(3), np.zeros((2, 2)))):
        expected = error_of(*values)
        with fleetblas.offload():
            assert error_of(*values) == expected


def test_scipys_functions_are_served_and_undone(called):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    a, p, b = square(), positive(), random((N, 3))
    original = scipy_linalg.lapack.dgetrf
    with fleetblas.offload():
        assert_near(a @ scipy_linalg.lu_solve(scipy_linalg.lu_factor(a), b), b, "float64")
        assert_near(p @ scipy_linalg.cho_solve(scipy_linalg.cho_factor(p), b), b, "float64")
        q, r = scipy_linalg.qr(a)
        assert_near(q @ r, a, "float64")
        assert_near(
            scipy_linalg.solve_triangular(np.triu(a), b), np.linalg.solve(np.triu(a), b), "float64"
        )
        expected = {"getrf", "getrs", "potrf", "potrs", "geqrf", "orgqr"}
        assert expected <= set(called)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scipy_linalg.solve(a, b)
    called.clear()
    assert scipy_linalg.lapack.dgetrf is original
    scipy_linalg.lu_factor(a)
    assert not called


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", TYPES)
def test_scipys_solve_and_inv_are_served(dtype, order, called):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    a, p = (laid_out(each(dtype), order) for each in (square, positive))
    is_complex = np.dtype(dtype).kind == "c"
    for b in (random((N, 5), dtype, 1), np.asfortranarray(random((N, 5), dtype, 1)), a[0]):
        calls = [(a, b, {}), (a, b, {"assume_a": "gen"})]
        calls += [(p, b, {"assume_a": "pos", "lower": lower}) for lower in (False, True)]
        calls += [] if is_complex else [(a, b, {"transposed": True, "assume_a": "gen"})]
        for matrix, right, words in calls:
            expected = scipy_linalg.solve(matrix, right, **words)
            with fleetblas.offload():
                called.clear()
                found = scipy_linalg.solve(matrix, right, **words)
            assert called
            assert found.dtype == expected.dtype
            assert_near(found, expected, dtype)
    with fleetblas.offload():
        called.clear()
        assert_near(scipy_linalg.inv(a), np.linalg.inv(a), dtype)
        assert called


def test_what_scipy_warns_of_is_left_to_it():
    scipy_linalg = pytest.importorskip("scipy.linalg")
    ill = np.diag(np.logspace(0, -17, 30)) + 1e-30
    with fleetblas.offload():
        for structure in ("gen", "pos"):
            with pytest.warns(scipy_linalg.LinAlgWarning):
                scipy_linalg.solve(ill, np.ones(30), assume_a=structure)
        with pytest.raises(LinAlgError):
            scipy_linalg.solve(np.ones((9, 9)), np.ones(9))
        with pytest.raises(LinAlgError):
            scipy_linalg.inv(np.ones((9, 9)))
        for special in (np.diag(np.arange(1.0, 9)), np.tril(square(n=9)), positive(n=9)):
            right = np.ones(len(special))
            assert_near(special @ scipy_linalg.solve(special, right), right, "float64")
            assert_near(special @ scipy_linalg.inv(special), np.eye(len(special)), "float64")


def test_factors_of_a_stack_by_scipy_are_taken():
    scipy_linalg = pytest.importorskip("scipy.linalg")
    p, b = positive(stack=(3,)), random((N, 2))
    for lower in (False, True):
        try:
            factor = scipy_linalg.cho_factor(p, lower)
        except ValueError:
            pytest.skip("this SciPy takes no stacks")
        assert_near(p @ linalg.cho_solve(factor, b), np.broadcast_to(b, (3, N, 2)), "float64")


def test_stacks_in_any_order_may_be_overwritten():
    lu = linalg.lu_factor(square("float64"))
    c = linalg.cho_factor(positive("float64"))
    for solve in (
        lambda b: linalg.lu_solve(lu, b, overwrite_b=True),
        lambda b: linalg.cho_solve(c, b, overwrite_b=True),
    ):
        b = random((3, N, 4), "float64")
        expected = solve(b.copy())
        assert_near(solve(np.asfortranarray(b)), expected, "float64")

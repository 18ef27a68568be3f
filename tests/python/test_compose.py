# SPDX-License-Identifier: BSD-3-Clause
"""NumPy's functions on tracked matrices: those that are products are queued within compose()."""

import sys
import types

import fleetblas
import numpy as np
import pytest
from test_interop import CudaArray, torch, waits  # noqa: F401
from test_tracked import N, context, numbers  # noqa: F401

# ruff: noqa: F811 (fixtures are imported, and are arguments)

A, B, C = (numbers(*shape, seed=seed) for seed, shape in enumerate([(N, 50), (50, 30), (30, 40)]))
SQUARE = numbers(N, N, dtype="complex128", seed=4) / N

# What is computed of x (N x 50), y (50 x 30), z (30 x 40) and a complex square s.
PRODUCTS = {
    "dot": lambda x, y, z, s: np.dot(x, y),
    "matmul": lambda x, y, z, s: np.matmul(x, y),
    "inner": lambda x, y, z, s: np.inner(x, y.T),
    "multi_dot of two": lambda x, y, z, s: np.linalg.multi_dot([x, y]),
    "multi_dot": lambda x, y, z, s: np.linalg.multi_dot([x, y, z, z.T]),
    "multi_dot of a tuple": lambda x, y, z, s: np.linalg.multi_dot((z.T, y.T, x.T)),
    "power 1": lambda x, y, z, s: np.linalg.matrix_power(s, 1),
    "power 2": lambda x, y, z, s: np.linalg.matrix_power(s, 2),
    "power 3": lambda x, y, z, s: np.linalg.matrix_power(s, 3),
    "power 10": lambda x, y, z, s: np.linalg.matrix_power(s, 10),
    "power 0": lambda x, y, z, s: np.linalg.matrix_power(s, 0),
    "tensordot": lambda x, y, z, s: np.tensordot(x, y, 1),
    "tensordot of pairs": lambda x, y, z, s: np.tensordot(x, y, ([1], [0])),
    "tensordot of columns": lambda x, y, z, s: np.tensordot(x, y.T, (-1, 1)),
    "tensordot of rows": lambda x, y, z, s: np.tensordot(x.T, y, (0, [0])),
    "einsum": lambda x, y, z, s: np.einsum("ij,jk->ik", x, y),
    "einsum without a result": lambda x, y, z, s: np.einsum("ij, jk", x, y),
    "einsum, sorted": lambda x, y, z, s: np.einsum("kj,ji", x, y),
    "einsum of transposes": lambda x, y, z, s: np.einsum("ji,kj->ik", x.T, y.T),
    "einsum, transposed": lambda x, y, z, s: np.einsum("ij,jk->ki", x, y, optimize=True),
    "einsum of one": lambda x, y, z, s: np.einsum("ij->ji", x),
    "einsum of one, sorted": lambda x, y, z, s: np.einsum("ba", x),
    "einsum of itself": lambda x, y, z, s: np.einsum("ij->ij", x),
    "transpose": lambda x, y, z, s: np.transpose(x),
    "transpose by axes": lambda x, y, z, s: np.transpose(x, (-1, 0)),
    "transpose of nothing": lambda x, y, z, s: np.transpose(x, (0, 1)),
    "swapaxes": lambda x, y, z, s: np.swapaxes(x, 0, -1),
    "all": lambda x, y, z, s: np.transpose(np.dot(x, np.einsum("ij,jk", y, z))) @ x,
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_queued_and_are_what_numpy_computes(context, name):
    expected = PRODUCTS[name](A, B, C, SQUARE)
    tracked = [context.tracked(array) for array in (A, B, C, SQUARE)]
    with fleetblas.compose():
        result = PRODUCTS[name](*tracked)
    assert isinstance(result, fleetblas.Tracked)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=1e-10)


@pytest.mark.skipif(not hasattr(np, "matrix_transpose"), reason="NumPy 1")
def test_the_names_of_numpy_2(context):
    x, y = context.tracked(A), context.tracked(B)
    with fleetblas.compose():
        for result, expected in (
            (np.linalg.matmul(x, y), A @ B),
            (np.linalg.tensordot(x, y, axes=1), A @ B),
            (np.matrix_transpose(x), A.T),
            (np.linalg.matrix_transpose(x), A.T),
            (np.permute_dims(x, (1, 0)), A.T),
        ):
            assert isinstance(result, fleetblas.Tracked)
            np.testing.assert_allclose(np.asarray(result), expected, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in PRODUCTS if "power" not in name])
def test_a_plain_operand_beside_a_tracked_one(context, name):
    with fleetblas.compose():
        result = PRODUCTS[name](context.tracked(A), B, C, SQUARE)
        np.testing.assert_allclose(np.asarray(result), PRODUCTS[name](A, B, C, SQUARE), atol=1e-10)


# What is no product of matrices, or is none that BLAS has.
OTHERS = {
    "vdot": lambda x, s: np.vdot(x, x),
    "dot with a vector": lambda x, s: np.dot(x, np.ones(x.shape[1])),
    "inner with a vector": lambda x, s: np.inner(x, np.ones(x.shape[1])),
    "multi_dot with vectors": lambda x, s: np.linalg.multi_dot([np.ones(N), x, x.T]),
    "negative power": lambda x, s: np.linalg.matrix_power(s, -1),
    "tensordot of all": lambda x, s: np.tensordot(x, x, 2),
    "outer tensordot": lambda x, s: np.tensordot(x[:3], x[:3], 0),
    "trace": lambda x, s: np.einsum("ii", s),
    "elements": lambda x, s: np.einsum("ij,ij->ij", x, x),
    "sums": lambda x, s: np.einsum("ij,jk->i", x, x.T),
    "outer": lambda x, s: np.einsum("ij,kl->ijkl", x[:2], x[:2]),
    "batch": lambda x, s: np.einsum("ij,ik->ijk", x, x),
    "ellipsis": lambda x, s: np.einsum("...j,jk", x, x.T),
    "lists": lambda x, s: np.einsum(x, [0, 1], x, [2, 1], [0, 2]),
    "chain": lambda x, s: np.einsum("ij,jk,kl->il", x, x.T, x),
    "axis of one": lambda x, s: np.einsum("ij,jk->ik", np.ones((5, 1)), x),
    "of a type": lambda x, s: np.einsum("ij,kj", x, x, dtype="complex128"),
    "sum": lambda x, s: np.sum(x, axis=0),
    "quotient": lambda x, s: x / 2,
    "moved": lambda x, s: np.expand_dims(x, 0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_else_reads_its_operands(context, name):
    expected = OTHERS[name](A, SQUARE)
    with fleetblas.compose():
        # The operand is a result that is still being computed.
        x = context.tracked(A) @ context.tracked(np.eye(50))
        result = OTHERS[name](x, context.tracked(SQUARE))
    assert not isinstance(result, fleetblas.Tracked)
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_errors_are_those_of_numpy(context):
    x, s = context.tracked(A), context.tracked(SQUARE)
    with fleetblas.compose():
        for call, error in (
            (lambda: np.dot(x, x), ValueError),
            (lambda: np.einsum("ij,jk", x, x), ValueError),
            (lambda: np.linalg.multi_dot([x, x]), ValueError),
            (lambda: np.linalg.multi_dot([x]), ValueError),
            (lambda: np.linalg.matrix_power(x, 2), np.linalg.LinAlgError),
            (lambda: np.linalg.matrix_power(s, 1.5), TypeError),
            (lambda: np.transpose(x, (0, 0)), ValueError),
            (lambda: np.swapaxes(x, 0, 2), np.exceptions.AxisError),
            (lambda: np.tensordot(x, x, 1), ValueError),
        ):
            with pytest.raises(error):
                call()


def test_without_compose_functions_give_arrays(context):
    x = context.tracked(A)
    assert type(np.dot(x, B)) is type(np.transpose(x)) is np.ndarray
    with fleetblas.compose():
        assert type(np.dot(A, B)) is np.ndarray
    assert type(np.dot(x, B)) is np.ndarray


def test_results_in_a_tracked_out(context):
    x, y, out = context.tracked(A), context.tracked(B), np.full((N, 30), np.nan)
    z = context.tracked(out)
    assert np.matmul(x, y, out=z) is z
    assert z.array is out
    np.testing.assert_allclose(out, A @ B, atol=1e-11)
    with fleetblas.compose():
        for call in (
            lambda: np.dot(x, y, out=z),
            lambda: np.einsum("ij,jk", x, y, out=z),
            lambda: np.linalg.multi_dot([x, y], out=z),
            lambda: np.dot(A, y, z),
        ):
            with z.writing() as array:
                array[...] = np.nan
            assert call() is z
            np.testing.assert_allclose(np.asarray(z), A @ B, atol=1e-11)
    with pytest.raises(ValueError):
        np.matmul(x, y, out=context.tracked(np.empty((3, 3))))


def test_a_plain_out_is_complete_on_return(context):
    x, out = context.tracked(A), np.full((N, 30), np.nan)
    assert np.matmul(x, B, out=out) is out
    np.testing.assert_allclose(out, A @ B, atol=1e-11)
    out[...] = np.nan
    with fleetblas.compose():
        assert np.dot(x, B, out=out) is out
    np.testing.assert_allclose(out, A @ B, atol=1e-11)


def test_products_in_place(context):
    a, factor = numbers(N, N), numbers(N, N, seed=1)
    x = same = context.tracked(a.copy())
    x @= factor
    x @= context.tracked(factor)
    assert x is same
    np.testing.assert_allclose(np.asarray(x), a @ factor @ factor, atol=1e-9)
    np.matmul(factor, x.T, out=x)
    np.testing.assert_allclose(
        np.asarray(x), factor @ (a @ factor @ factor).T, rtol=1e-10, atol=1e-8
    )
    plain = same = a.copy()
    plain @= context.tracked(factor)
    assert plain is same
    np.testing.assert_allclose(plain, a @ factor, atol=1e-11)
    with pytest.raises(ValueError):
        x @= factor[:, :3]


def test_functions_that_write_to_a_tracked_matrix(context):
    a = numbers(N, N)
    x = same = context.tracked(a.copy())
    expected = a @ a
    x @= x
    for write in (
        lambda x: np.add(x, 1, out=x),
        lambda x: np.divmod(x, 3, out=(x, np.empty((N, N)))),
        lambda x: np.fill_diagonal(x, 5),
        lambda x: np.copyto(dst=x, src=7, where=np.asarray(x) > 6),
        lambda x: np.put(x, [0, 3], [1, 2]),
        lambda x: np.place(x, np.asarray(x) < -5, [0]),
        lambda x: np.putmask(x, np.asarray(x) < -4, -4),
        lambda x: np.put_along_axis(x, np.zeros((N, 1), int), 2.5, axis=1),
        lambda x: np.add.at(x, (0, [1, 1]), 1.5),
    ):
        write(x), write(expected)
    x += 1
    x *= context.tracked(expected)
    expected = (expected + 1) * expected
    assert x is same
    np.testing.assert_allclose(np.asarray(x), expected, atol=1e-8)
    np.testing.assert_allclose((x @ x).array, expected @ expected, atol=1e-4)


def test_an_error_names_its_call_wherever_it_is_read():
    with fleetblas.Context(
        backend="host", devices=1, offload="always", tile=16, cpu_share="off", inject="lost:0@3"
    ) as failing:
        y = failing.tracked(numbers(N, N))
        with fleetblas.compose():
            lost = np.dot(y, y, out=failing.tracked(shape=(N, N), place=0))
        later = lost.T @ y
        for read in (lost.wait, lambda: lost.array, lambda: np.asarray(later), lambda: later[0, 0],
                     lambda: np.linalg.norm(later), lambda: str(later)):  # fmt: skip
            with pytest.raises(fleetblas.DeviceFailed, match="fleet_dgemm_async"):
                read()
        later.wrote()
        assert later.shape == np.asarray(later).shape


def test_matrices_of_two_contexts(context):
    with fleetblas.Context(backend="host", devices=1, offload="always", tile=16) as other:
        x, y = context.tracked(A), other.tracked(B)
        product = x @ (y @ other.tracked(C))
        np.testing.assert_allclose(np.asarray(product), A @ B @ C, atol=1e-10)
        out = other.tracked(np.empty((N, 30)))
        assert np.matmul(x, y, out=out) is out
        np.testing.assert_allclose(np.asarray(out), A @ B, atol=1e-10)
        with pytest.raises(fleetblas.BadArgument, match="another context"):
            context.matmul(x, B, out=out)


# ---- other libraries ----------------------------------------------------------------------------


@pytest.fixture
def cupy(monkeypatch):
    """As much of CuPy as an array is asked for; its GPUs are virtual devices."""
    module = types.ModuleType("cupy")

    class Device:
        def __enter__(self):
            pass

        def __exit__(self, *exception):
            pass

    class ndarray(CudaArray):
        device = Device()
        ndim, shape = property(lambda self: self.host.ndim), property(lambda self: self.host.shape)

    ndarray.__module__ = "cupy"
    module.ndarray = ndarray
    module.empty = lambda shape, dtype: ndarray(np.full(shape, np.nan, dtype))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_arrays_of_cupy(cupy):
    x, y = fleetblas.tracked(cupy.ndarray(A)), cupy.ndarray(B, device=1)
    for product in (
        lambda: x @ B,
        lambda: np.matmul(x, y),
        lambda: np.einsum("ij,jk", x, y),
        lambda: np.linalg.multi_dot([x, y]),
        lambda: np.inner(x, fleetblas.tracked(y).T),
        lambda: np.tensordot(x, y, ([1], [0])),
        lambda: x.part(slice(0, N), slice(0, 50)) @ y,
    ):
        with fleetblas.compose():
            result = product()
        assert isinstance(result, fleetblas.Tracked)
        assert isinstance(result.array, cupy.ndarray)
        np.testing.assert_allclose(result.array.host, A @ B, atol=1e-11)
    with pytest.raises(TypeError, match="on a device"):
        x[0, 0] = 1
    with x.writing() as array:
        array.host[...] *= 2
    np.testing.assert_allclose((x @ y).array.host, 2 * A @ B, atol=1e-11)
    at_home = fleetblas.tracked(x, place="h")
    np.testing.assert_allclose(np.asarray(at_home), 2 * A)
    np.testing.assert_allclose(fleetblas.tracked(y, place=0)._view.view(np.ndarray), B)


@pytest.mark.parametrize(("device", "index"), [("cuda", 1), ("cpu", None)])
def test_tensors(torch, device, index):
    x = fleetblas.tracked(torch.Tensor(A, device, index))
    y = fleetblas.tracked(torch.Tensor(B, device, index))
    with fleetblas.compose():
        result = np.dot(x, y).T
        result = np.linalg.multi_dot([result.T, C, C.T])
    assert isinstance(result, fleetblas.Tracked)
    assert isinstance(result.array, torch.Tensor)
    np.testing.assert_allclose(result.array.host, A @ B @ C @ C.T, atol=1e-10)

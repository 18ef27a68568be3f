# SPDX-License-Identifier: BSD-3-Clause
"""axpy, dot, vdot and gemv of arrays: every stride and order, what is refused."""

import fleetblas
import numpy as np
import pytest

TYPES = ["float32", "float64", "complex64", "complex128"]


@pytest.fixture(scope="module", params=["devices", "cpu"])
def context(request):
    offload = "always" if request.param == "devices" else "never"
    with fleetblas.Context(backend="host", devices=3, offload=offload) as made:
        yield made


def random(dtype, *shape):
    generator = np.random.default_rng(7)
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def close(result, expected, dtype):
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("steps", [(1, 1), (2, -1), (-3, 2), (-1, -2)])
def test_axpy_and_dots_take_any_stride(context, dtype, steps):
    x = random(dtype, 900)[:: steps[0]][:300]
    y = random(dtype, 600)[:: steps[1]][:300]
    wide = np.result_type(dtype, "float64")
    before = y.copy()

    close(context.dot(x, y), np.dot(x.astype(wide), y.astype(wide)), dtype)
    close(context.vdot(x, y), np.vdot(x.astype(wide), y.astype(wide)), dtype)
    assert context.axpy(2.5, x, y) is y
    close(y, before + 2.5 * x, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("trans", "ntc")
@pytest.mark.parametrize("order", "CF")
def test_gemv_takes_any_order_and_flag(context, dtype, trans, order):
    a = np.array(random(dtype, 60, 40), order=order)
    op = {"n": a, "t": a.T, "c": a.conj().T}[trans]
    x, y = random(dtype, 2 * op.shape[1])[::2], random(dtype, op.shape[0])

    close(context.gemv(a, x, trans=trans), op @ x, dtype)
    expected = 2 * (op @ x) - 0.5 * y
    close(context.gemv(a, x, y, alpha=2, beta=-0.5, trans=trans), expected, dtype)
    out = y.copy()
    assert context.gemv(a, x, out, alpha=2, beta=-0.5, trans=trans, out=out) is out
    close(out, expected, dtype)


def test_gemv_does_not_read_y_without_a_beta(context):
    out = np.full(3, np.nan)

    context.gemv(np.ones((3, 4)), np.ones(4), out=out)

    assert out.tolist() == [4, 4, 4]


def test_empty_operands_give_zeros(context):
    assert context.dot(np.empty(0), np.empty(0)) == 0
    assert context.gemv(np.empty((3, 0)), np.empty(0)).tolist() == [0, 0, 0]
    assert context.gemv(np.empty((0, 3)), np.empty(3)).shape == (0,)


def test_vectors_may_lie_on_devices():
    with fleetblas.Context(backend="host", devices=2, offload="always") as context:
        x, values = context.empty(500, location=1), np.arange(500.0)
        context.copy(x, values)

        assert context.dot(x, values) == np.dot(values, values)
        y = context.axpy(1, x, np.ones(500))
        assert y.tolist() == (values + 1).tolist()


def test_results_may_share_memory_with_operands(context):
    a, x = random("float64", 9, 9), random("float64", 9)
    for out in (x, a[0], a[:, 2], x[::-1]):
        left, right = a.copy(), x.copy()
        expected = left @ right
        result = context.gemv(a, x, out=out)
        assert result is out and np.abs(out - expected).max() < 1e-13
        a[...], x[...] = left, right
    expected = a @ x + x
    context.gemv(a, x, x, beta=1, out=x)
    assert np.abs(x - expected).max() < 1e-13
    for source, target in ((slice(0, -1), slice(1, None)), (slice(1, None), slice(0, -1))):
        y = random("float64", 9)
        expected = 3 * y[source] + y[target]
        context.axpy(3, y[source], y[target])
        assert np.abs(y[target] - expected).max() < 1e-13
    columns = context.empty((9, 2), location=0)
    context.copy(columns, np.ones((9, 2)))
    context.axpy(1, columns[:, 0], columns[:, 1])  # neighbours, and no element of both
    assert (context.copy(np.empty((9, 2)), columns) == [1, 2]).all()
    y = random("float64", 9)
    doubled = 2 * y
    assert context.axpy(1, y, y) is y and (y == doubled).all()


def test_what_cannot_be_done_is_said(context):
    with pytest.raises(fleetblas.BadArgument, match="x has 3 elements, y 4"):
        context.dot(np.ones(3), np.ones(4))
    with pytest.raises(fleetblas.BadArgument, match="2 dimensions"):
        context.dot(np.ones((3, 3)), np.ones(3))
    with pytest.raises(TypeError, match="no routine with vectors"):
        context.dot(np.ones(3, "int64"), np.ones(3, "int64"))
    with pytest.raises(fleetblas.BadArgument, match="shape"):
        context.gemv(np.ones((3, 4)), np.ones(3))
    with pytest.raises(TypeError, match="complex"):
        context.axpy(1j, np.ones(3), np.ones(3))
    for call in (
        lambda: context.axpy(1, np.ones(2), [1.0, 2.0]),
        lambda: context.gemv(np.ones((2, 2)), np.ones(2), out=[0.0, 0.0]),
    ):
        with pytest.raises(TypeError, match="is a list, not a NumPy array"):
            call()
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(fleetblas.BadArgument, match="read-only"):
        context.axpy(1, np.ones(3), frozen)


def test_problems_have_texts():
    with fleetblas.Context(backend="sim", machine="h200x4", devices="auto") as context:
        plan = context.plan("daxpy n=1000000 x@0 y@0")
        assert plan["workers"] == [0]
        assert [left["device"] for left in plan["left_out"]] == [1, 2, 3]
        assert context.bound("dgemv m=4096 n=4096 a@h x@h y@h")["bound_s"] > 0

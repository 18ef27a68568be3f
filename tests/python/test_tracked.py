# SPDX-License-Identifier: BSD-3-Clause
"""Tracked matrices: queued calls, what waits for them, NumPy's functions on them."""

import gc

import fleetblas
import numpy as np
import pytest

N = 70


@pytest.fixture
def context():
    with fleetblas.Context(
        backend="host", devices=2, offload="always", tile=16, inject="poison"
    ) as made:
        yield made


def numbers(*shape, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def triangle(dtype="float64"):
    return (np.tril(numbers(N, N)) / N + np.eye(N)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_calls_that_follow_each_other(context, dtype, order):
    t, b, d, c = (
        np.array(x, dtype, order=order)
        for x in (triangle(), numbers(N, N, seed=1), numbers(N, N, seed=2), numbers(N, N, seed=3))
    )
    expected = d @ np.linalg.solve(t, b) + c
    x = context.tracked(b)
    y = context.trsm(context.tracked(t), x, uplo="l", out=x)
    z = context.gemm(context.tracked(d), y, c, beta=1.0, out=c)
    assert y is x
    assert isinstance(z, fleetblas.Tracked)
    assert z.array is c
    tolerance = 1e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(c, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    ran = context.stats()["ran"]
    assert [(one["where"], one["reason"], one["calls"]) for one in ran] == [
        ("devices", "queued", 2)
    ]


CALLS = {
    "gemmt": lambda x, a, b, c: x.gemmt(a, b, c, beta=0.5),
    "symm": lambda x, a, b, c: x.symm(a, b, c, beta=0.5, side="r", uplo="u"),
    "hemm": lambda x, a, b, c: x.hemm(a, b, c, beta=0.5),
    "syrk": lambda x, a, b, c: x.syrk(a, c, beta=0.5, trans="t"),
    "herk": lambda x, a, b, c: x.herk(a, c, beta=0.5, trans="c"),
    "syr2k": lambda x, a, b, c: x.syr2k(a, b, c, beta=0.5),
    "her2k": lambda x, a, b, c: x.her2k(a, b, c, alpha=1j, beta=0.5),
    "trmm": lambda x, a, b, c: x.trmm(a, b, uplo="u", transa="t"),
    "trsm": lambda x, a, b, c: x.trsm(a, b, side="r", diag="u"),
    "gemm": lambda x, a, b, c: x.gemm(a, b, c, beta=0.5, transa="c"),
    "matmul": lambda x, a, b, c: x.matmul(a, b),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_routine_gives_what_it_gives_on_arrays(context, name):
    arrays = [numbers(N, N, dtype="complex128", seed=seed) / N for seed in range(3)]
    expected = CALLS[name](context, *arrays)
    tracked = [context.tracked(array) for array in arrays]
    result = CALLS[name](context, *tracked)
    assert isinstance(result, fleetblas.Tracked)
    np.testing.assert_allclose(np.asarray(result), expected, atol=1e-11)
    for array, seed in zip(arrays, range(3)):
        assert (array == numbers(N, N, dtype="complex128", seed=seed) / N).all()


def test_operands_that_need_a_copy_are_waited_for(context):
    a, b = numbers(N, N), numbers(2 * N, N, seed=1)[::2].astype("float32")
    x = context.tracked(a)
    x = context.gemm(x, a, x, beta=1.0, out=context.tracked(np.empty((N, N))))
    product = x @ context.tracked(b)  # of another type
    np.testing.assert_allclose(product.array, (a @ a + a) @ b, rtol=1e-10, atol=1e-9)
    strided = context.tracked(np.asfortranarray(numbers(2 * N, N))[::2])
    np.testing.assert_allclose(np.asarray(strided @ x), strided.array @ x.array, atol=1e-9)


def test_operands_live_until_their_call_is_done(context):
    expected = numbers(N, N) @ numbers(N, N, seed=1) @ numbers(N, N, seed=2)
    for _ in range(20):
        product = context.tracked(numbers(N, N)) @ numbers(N, N, seed=1)
        product = product @ context.tracked(numbers(N, N, seed=2))
        context.tracked(numbers(N, N)) @ numbers(N, N)  # nobody keeps the result
        gc.collect()
        np.testing.assert_allclose(product.array, expected, atol=1e-10)


def test_what_reads_waits(context):
    a = numbers(N, N)
    x = context.tracked(a)
    product = context.matmul(x, x)
    expected = a @ a
    np.testing.assert_allclose(product[3], expected[3], atol=1e-11)
    assert repr(x @ x).startswith("Tracked(array(")
    np.testing.assert_allclose(np.linalg.norm(x @ x), np.linalg.norm(expected))
    np.testing.assert_allclose(x @ x + 1, expected + 1, atol=1e-11)
    np.testing.assert_allclose(np.stack([x @ x, x]), np.stack([expected, a]), atol=1e-11)
    np.testing.assert_allclose(np.from_dlpack(x @ x), expected, atol=1e-11)
    np.testing.assert_allclose(x @ a[0], a @ a[0], atol=1e-11)  # no matrix: at once
    np.testing.assert_allclose(list(x @ x)[2], expected[2], atol=1e-11)
    assert len(product) == N
    assert product.done()


def test_what_writes_waits_too(context):
    a = numbers(N, N)
    x = context.tracked(a.copy())
    first = x @ x
    x[0, :] = 0.0
    np.testing.assert_allclose(first.array, a @ a, atol=1e-11)
    a[0, :] = 0.0
    np.testing.assert_allclose((x @ x).array, a @ a, atol=1e-11)


def test_views_share_their_memory(context):
    a = numbers(N, N)
    x = context.tracked(a.copy())
    top, bottom = x.part(slice(0, 30), slice(None)), x.part(slice(30, N), slice(None))
    context.gemm(top, x.T, out=context.tracked(np.empty((30, N))))
    context.gemm(bottom.part(slice(0, 30), slice(0, 30)), top, top, beta=1.0, out=top)
    a[:30] += a[30:60, :30] @ a[:30]
    np.testing.assert_allclose(x.array, a, atol=1e-11)


def test_compose_queues_dot(context):
    x = context.tracked(numbers(N, N))
    assert isinstance(np.dot(x, x), np.ndarray)
    with fleetblas.compose():
        product = np.dot(x, x)
        assert isinstance(product, fleetblas.Tracked)
        assert isinstance(np.linalg.inv(x), np.ndarray)
        assert isinstance(np.dot(x.array, x.array), np.ndarray)
    assert isinstance(np.matmul(x, x), fleetblas.Tracked)
    np.testing.assert_allclose(product.array, x.array @ x.array, atol=1e-11)


def test_memory_of_the_library(context):
    a = numbers(N, N)
    for place in ("h", "p"):
        x = context.tracked(a, place=place)
        assert x.array is not a
        np.testing.assert_allclose((x @ x).array, a @ a, atol=1e-11)
    on_device = context.tracked(a, place=1)
    np.testing.assert_allclose((on_device @ on_device).array, a @ a, atol=1e-11)
    result = context.tracked(shape=(N, N), place=0)
    context.gemm(on_device, on_device, out=result)
    back = np.empty((N, N))
    context.copy(back, result.array)
    np.testing.assert_allclose(back, a @ a, atol=1e-11)
    with pytest.raises(TypeError, match="on a device"):
        np.asarray(result)
    assert "on a device" in repr(result)
    with pytest.raises(fleetblas.BadArgument):
        context.tracked()


def test_errors(context):
    x = context.tracked(numbers(N, N))
    with pytest.raises(fleetblas.BadArgument, match="is 70 x 70, but"):
        context.gemm(x, numbers(3, 3))
    with pytest.raises(TypeError):
        context.tracked(np.arange(3.0))
    with pytest.raises(TypeError):
        context.tracked(np.zeros((2, 2), int))
    with fleetblas.Context(
        backend="host", devices=1, offload="always", tile=16, cpu_share="off", inject="lost:0@3"
    ) as failing:
        y = failing.tracked(numbers(N, N))
        lost = failing.gemm(y, y, out=failing.tracked(shape=(N, N), place=0))
        with pytest.raises(fleetblas.DeviceFailed, match="fleet_dgemm_async"):
            lost.wait()


def test_a_matrix_may_be_read_when_its_context_is_closed():
    a = numbers(N, N)
    with fleetblas.Context(backend="host", devices=2, offload="always", tile=16) as context:
        product = context.tracked(a) @ context.tracked(a)
    np.testing.assert_allclose(product.array, a @ a, atol=1e-11)
    with pytest.raises(fleetblas.BadArgument, match="closed"):
        product @ product


def test_the_default_context():
    x = fleetblas.tracked(numbers(N, N))
    np.testing.assert_allclose((x @ x).array, x.array @ x.array, atol=1e-11)


def test_other_libraries(context):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(numbers(N, N))
    x = context.tracked(tensor)
    assert x.array is tensor
    product = context.matmul(x, x)
    np.testing.assert_allclose(product.array, (tensor @ tensor).numpy(), atol=1e-11)


def test_events_of_the_program_come_first(context):
    a, b = numbers(N, N), numbers(N, N, seed=1)
    x, arrived = context.tracked(np.zeros((N, N))), fleetblas.Event()
    x.after(arrived)
    context.set_priority(3)
    product = context.matmul(x, context.tracked(b))
    assert not product.done()
    x._view[:] = a
    arrived.set()
    arrived.wait()
    np.testing.assert_allclose(product.array, a @ b, rtol=0, atol=1e-12)


def test_events_that_fail_are_named(context):
    x, arrived = context.tracked(numbers(N, N)), fleetblas.Event()
    x.after(arrived)
    product = context.matmul(x, x)
    with pytest.raises(ValueError, match="expected one of ok, "):
        arrived.set("lost")
    arrived.set("unreachable")
    with pytest.raises(fleetblas.Unreachable, match="set the event to unreachable"):
        product.wait()
    with pytest.raises(fleetblas.Unreachable):
        np.asarray(x)


def test_an_event_that_is_lost_fails(context):
    x = context.tracked(numbers(N, N))
    x.after(fleetblas.Event())
    gc.collect()
    with pytest.raises(fleetblas.Unsupported, match="destroyed before it was set"):
        context.matmul(x, x).wait()


@pytest.mark.parametrize("place", ["c", "c1x2", "c2x1:16", "c:24"])
def test_block_cyclic_matrices(context, place):
    a, b = numbers(N, N), numbers(N, N, seed=1)
    x, y = (context.tracked(array, place=place) for array in (a, b))
    out = context.tracked(shape=(N, N), place=place)
    before = context.stats()["bytes_by_kind"]["h2d"]
    np.matmul(x, y, out=out)
    context.gemm(x, y, out, beta=1.0, out=out)
    np.testing.assert_allclose(out.gather(), 2 * a @ b, rtol=1e-12, atol=1e-12)
    assert context.stats()["bytes_by_kind"]["h2d"] == before
    part = out.part(slice(3, 30), slice(16, 48))
    np.testing.assert_allclose(part.gather(), (2 * a @ b)[3:30, 16:48], rtol=1e-12, atol=1e-12)
    part.scatter(np.ones((27, 32)))
    expected = 2 * a @ b
    expected[3:30, 16:48] = 1
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(x.T.gather(), a.T)


def test_matrices_are_distributed(context):
    a = np.asfortranarray(numbers(N, N))
    x = context.tracked(a)
    x.distribute("c1x2:16")
    np.testing.assert_allclose((x @ x).gather(), a @ a, rtol=1e-12, atol=1e-12)
    x.scatter(2 * a)
    np.testing.assert_array_equal(x.gather(), 2 * numbers(N, N))
    with pytest.raises(fleetblas.BadArgument, match="a part of a matrix"):
        x.part(slice(0, 8), slice(0, 8)).distribute("c")
    with pytest.raises(fleetblas.BadArgument, match="needs rows and columns"):
        context.tracked(a, place="c2")
    with pytest.raises(fleetblas.BadArgument, match="there are 2"):
        context.tracked(a, place="c2x2")
    with pytest.raises(ValueError, match="does not fill"):
        x.scatter(np.ones((3, 3)))


@pytest.mark.parametrize("give", ["by_place", "by_name"])
def test_a_result_goes_to_the_array_that_is_given(context, give):
    a, b, out = numbers(N, N), numbers(N, N, seed=1), np.zeros((N, N))
    x, y = context.tracked(a), context.tracked(b)
    context.matmul(x, y, out) if give == "by_place" else context.matmul(x, y, out=out)
    for _ in range(2):
        context.gemm(x, y).wait()
    context.tracked(out).wait()
    assert np.abs(out - a @ b).max() < 1e-12


def test_what_nobody_tracks_any_more_gives_its_memory_back():
    edge = 900
    gc.disable()  # no cycle may keep it
    try:
        with fleetblas.Context(
            backend="host", devices=1, offload="always", device_memory=15 * edge * edge
        ) as context:
            for seed in range(3):
                matrix = context.tracked(numbers(edge, edge, seed=seed), place=0)
                result = (matrix @ np.ones((edge, 2))).array
                assert np.isfinite(result).all()
                del matrix
    finally:
        gc.enable()

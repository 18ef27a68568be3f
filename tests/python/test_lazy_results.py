# SPDX-License-Identifier: BSD-3-Clause
"""Tracked matrices whose results stay on the devices, as copies of operands do, until the library
is told otherwise: nothing that is read is stale.
"""

import gc

import fleetblas
import numpy as np
import pytest
from test_tracked import N, context, numbers  # noqa: F401

# ruff: noqa: F811 (fixtures are imported, and are arguments)


def brought_home(context):
    """Bytes that have come from devices."""
    return context.stats()["bytes_by_kind"]["d2h"]


A, B, C = numbers(N, 20), numbers(20, 12, seed=1), numbers(N, 12, seed=2)


def near(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-9)


def test_results_are_on_the_devices_until_they_are_read(context):
    product = context.tracked(A.copy()) @ B.copy()
    product._memory.writers[0].wait()
    assert brought_home(context) == 0
    near(product, A @ B)
    assert brought_home(context) == (A @ B).nbytes
    near(product.T, (A @ B).T)
    near(product[3:5, ::2], (A @ B)[3:5, ::2])


def test_only_what_is_read_comes_home(context):
    product = context.tracked(A.copy()) @ B.copy()
    near(product.part(slice(5, 10), slice(0, 12)), (A @ B)[5:10])
    assert 0 < brought_home(context) < (A @ B).nbytes  # whole tiles
    near(product.part(slice(0, N), slice(0, 12, 5)), (A @ B)[:, ::5])  # no matrix of BLAS
    near(product, A @ B)


CHANGES = {
    "all": lambda x: x.__setitem__(Ellipsis, 3),
    "a row": lambda x: x.__setitem__(1, 3),
    "the last row": lambda x: x.__setitem__(-1, np.arange(20)),
    "an element": lambda x: x.__setitem__((2, 3), 3),
    "a column": lambda x: x.__setitem__((slice(None), 3), 3),
    "every third row, backwards": lambda x: x.__setitem__((slice(None, 5, -3), slice(2, -2)), 3),
    "a list of rows": lambda x: x.__setitem__([3, 1], 3),
    "a mask": lambda x: x.__setitem__(np.asarray(x) > 0, 3),
    "nothing": lambda x: x.__setitem__(slice(4, 4), 3),
    "a sum": lambda x: x.__iadd__(1),
    "a diagonal": lambda x: np.fill_diagonal(x, 3),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_written_through_a_tracked_matrix_counts(context, change, order):
    for is_result in (False, True):
        x, expected = context.tracked(np.array(A, order=order)), A.copy()
        if is_result:
            x = context.gemm(x, np.eye(20), out=context.tracked(np.empty((N, 20), order=order)))
        near(x @ B, A @ B)
        CHANGES[change](x)
        CHANGES[change](expected)
        near(x @ B, expected @ B)
        near(x, expected)


def test_what_the_program_writes_by_itself_counts_once_it_says_so(context):
    a = A.copy()
    x = context.tracked(a)
    near(x @ B, A @ B)
    a[0] = 1
    near(x @ B, A @ B)  # nobody said so: the library may use what it has
    x.wait()
    a[0] = 1
    x.part(slice(0, 1), slice(0, 20)).wrote()
    near(x @ B, a @ B)
    with x.writing() as array:
        array[1:4] = 2
    near(x @ B, a @ B)
    array = x.array
    array[5:, :3] = 4  # until the next call
    near(x @ B, a @ B)
    x.T.array[2] = 5
    near(x.T.T @ B, a @ B)


def test_what_is_read_only_is_not_written_behind_its_back(context):
    x = context.tracked(A.copy())
    for array in (np.asarray(x), x[1:3], next(iter(x)), np.asarray(x @ B)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
    copy = np.array(x)
    copy[...] = 1
    near(x, A)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x.T)[0] = 1


def test_plain_operands_may_change_after_each_result_was_read(context):
    x, plain, c = context.tracked(A.copy()), B.copy(), C.copy()
    for _ in range(3):
        result = context.gemm(x, plain, c, beta=1.0)
        near(result, A @ plain + c)
        plain += 1
        c *= 2


def test_a_plain_result_is_used_and_written_again(context):
    x, c = context.tracked(A.copy()), C.copy()
    for _ in range(3):
        context.gemm(x, B, c, beta=1.0, out=c)  # nobody keeps what is tracked
        gc.collect()
    near(context.tracked(c), C + 3 * (A @ B))
    c[...] = C
    near(context.gemm(x, B, c, beta=1.0), C + A @ B)


def test_results_of_plain_arrays_are_home_when_the_context_is_closed():
    c = C.copy()
    with fleetblas.Context(backend="host", devices=2, offload="always", tile=16) as context:
        context.gemm(context.tracked(A.copy()), B, c, beta=1.0, out=c)
        product = context.tracked(A.copy()) @ B
    near(c, C + A @ B)
    near(product, A @ B)


def test_memory_of_results_that_nobody_read_may_be_used_by_others(context):
    for _ in range(20):
        x = context.tracked(A.copy())
        near((x @ B.copy()) @ np.eye(12), A @ B)  # the first result is never read
        x @ B.copy()
        del x
        gc.collect()
    context.tracked(A).wait()
    assert len(context.handle.memories) < 10


def test_chains_in_memory_of_one_matrix(context):
    a = numbers(N, N)
    x = context.tracked(a.copy())
    top, rest = x.part(slice(0, 30), slice(None)), x.part(slice(30, N), slice(None))
    context.gemm(rest.part(slice(0, 30), slice(0, 30)), rest[:30], top, beta=1.0, out=top)
    a[:30] += a[30:60, :30] @ a[30:60]
    near(x, a)
    top.array[...] = 1
    a[:30] = 1
    near(context.gemm(rest, top.T), a[30:] @ a[:30].T)
    x @= x
    near(x, a @ a)

# SPDX-License-Identifier: BSD-3-Clause
"""Tracked matrices on a library that leaves results on the devices, and uses copies of operands
that it has there, until it is told otherwise: nothing that is read is stale.
"""

import ctypes
import gc

import fleetblas
import numpy as np
import pytest
from fleetblas import _matrices, _tracked
from test_tracked import N, context, numbers  # noqa: F401

# ruff: noqa: F811 (fixtures are imported, and are arguments)


class Devices:
    """As lazy as the library may be. What devices hold are bytes by address. A call uses those of
    its operands, whatever is at home; a result leaves garbage at home."""

    GARBAGE = 0xFF  # NaN, of each type

    def __init__(self):
        self.held: dict[int, int] = {}  # address -> byte
        self.unread: set[int] = set()  # addresses of bytes that are held here only
        self.read_bytes = 0

    @staticmethod
    def _addresses(block):
        item = fleetblas._types.TYPES[block.word].dtype.itemsize
        for column in range(block.cols):
            first = block.address + column * block.leading * item
            yield from range(first, first + block.rows * item)

    def _at(self, address):
        return ctypes.c_ubyte.from_address(address)

    def fetch(self, block):
        """Puts home what the devices have, and returns what was there."""
        home = {address: self._at(address).value for address in self._addresses(block)}
        for address, byte in home.items():
            self._at(address).value = self.held.setdefault(address, byte)
        return home

    def restore(self, home):
        for address, byte in home.items():
            self._at(address).value = byte

    def keep(self, block):
        for address in self._addresses(block):
            self.held[address] = self._at(address).value
            self._at(address).value = self.GARBAGE
            self.unread.add(address)

    def read(self, block):
        for address in self._addresses(block):
            if address in self.held:
                self._at(address).value = self.held[address]
                self.read_bytes += 1
                self.unread.discard(address)

    def wrote(self, block):
        for address in self._addresses(block):
            self.held.pop(address, None)
            self.unread.discard(address)


@pytest.fixture
def devices(monkeypatch):
    lazy = Devices()
    call, read, wrote = _tracked._Queue._call, _matrices.read, _matrices.wrote

    def lazy_call(self, word, name, flags, alpha, factors, beta, result):
        blocks = [_matrices.Block.of(word, *shape, *place) for shape, place in (*factors, result)]
        _matrices.note_operands(self.handle, blocks, self.memories)
        homes = [lazy.fetch(block) for block in blocks]
        call(self, word, name, flags, alpha, factors, beta, result)
        self.event.wait()
        for home in homes[:-1]:
            lazy.restore(home)
        lazy.keep(blocks[-1])

    def lazy_read(handle, block):
        read(handle, block)
        if block is not None:
            lazy.read(block)

    def lazy_wrote(handle, block):
        wrote(handle, block)
        if block is not None:
            lazy.wrote(block)

    monkeypatch.setattr(_tracked._Queue, "_call", lazy_call)
    monkeypatch.setattr(_matrices, "read", lazy_read)
    monkeypatch.setattr(_matrices, "wrote", lazy_wrote)
    return lazy


A, B, C = numbers(N, 20), numbers(20, 12, seed=1), numbers(N, 12, seed=2)


def near(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-9)


def test_results_are_on_the_devices_until_they_are_read(context, devices):
    product = context.tracked(A.copy()) @ B.copy()
    assert np.isnan(product._unread()).all()
    near(product, A @ B)
    near(product.T, (A @ B).T)
    near(product[3:5, ::2], (A @ B)[3:5, ::2])


def test_only_what_is_read_comes_home(context, devices):
    product = context.tracked(A.copy()) @ B.copy()
    near(product.part(slice(5, 10), slice(0, 12)), (A @ B)[5:10])
    assert devices.read_bytes == 5 * 12 * 8
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
def test_what_is_written_through_a_tracked_matrix_counts(context, devices, change, order):
    for is_result in (False, True):
        x, expected = context.tracked(np.array(A, order=order)), A.copy()
        if is_result:
            x = context.gemm(x, np.eye(20), out=context.tracked(np.empty((N, 20), order=order)))
        near(x @ B, A @ B)
        CHANGES[change](x)
        CHANGES[change](expected)
        near(x @ B, expected @ B)
        near(x, expected)


def test_what_the_program_writes_by_itself_counts_once_it_says_so(context, devices):
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


def test_plain_operands_may_change_after_each_result_was_read(context, devices):
    x, plain, c = context.tracked(A.copy()), B.copy(), C.copy()
    for _ in range(3):
        result = context.gemm(x, plain, c, beta=1.0)
        near(result, A @ plain + c)
        plain += 1
        c *= 2


def test_a_plain_result_is_used_and_written_again(context, devices):
    x, c = context.tracked(A.copy()), C.copy()
    for _ in range(3):
        context.gemm(x, B, c, beta=1.0, out=c)  # nobody keeps what is tracked
        gc.collect()
    near(context.tracked(c), C + 3 * (A @ B))
    c[...] = C
    near(context.gemm(x, B, c, beta=1.0), C + A @ B)


def test_results_of_plain_arrays_are_home_when_the_context_is_closed(devices):
    c = C.copy()
    with fleetblas.Context(backend="host", devices=2, offload="always", tile=16) as context:
        context.gemm(context.tracked(A.copy()), B, c, beta=1.0, out=c)
        product = context.tracked(A.copy()) @ B
    near(c, C + A @ B)
    near(product, A @ B)


def test_memory_of_results_that_nobody_read_may_be_used_by_others(context, devices):
    for _ in range(20):
        x = context.tracked(A.copy())
        near((x @ B.copy()) @ np.eye(12), A @ B)  # the first result is never read
        x @ B.copy()
        del x
        gc.collect()
    context.tracked(A).wait()
    assert len(context.handle.memories) < 10
    assert not devices.unread  # nothing comes home to memory that is no longer the matrix's


def test_chains_in_memory_of_one_matrix(context, devices):
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

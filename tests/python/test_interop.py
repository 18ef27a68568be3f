# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries: what speaks the CUDA array interface or DLPack, on virtual devices.

The stand-ins here have those attributes over memory of the host backend. CuPy and PyTorch
themselves: tests/gpu/python.
"""

import ctypes
import sys
import types

import fleetblas
import numpy as np
import pytest
from fleetblas import _interop
from fleetblas._routines import ROUTINES
from test_gemm import apply, assert_near, random_array
from test_level3 import assert_near as assert_close
from test_level3 import every_flags, expected, made, named, triangle


class CudaArray:
    """What CuPy gives away of an array. `host` may be read by the test, and by nobody else."""

    def __init__(self, values, device=0, stream=1, order="C", version=3):
        values = np.asarray(values)
        self.host = fleetblas.empty(values.shape, values.dtype, location=device, order=order)
        self.host[...] = values
        self._device, self._stream, self._version = device, stream, version
        self.readonly = False

    def sliced(self, *where):
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, host=self.host[where])
        return other

    @property
    def __cuda_array_interface__(self):
        interface = {
            "shape": self.host.shape,
            "typestr": self.host.dtype.str,
            "data": (self.host.ctypes.data, self.readonly),
            "strides": None if self.host.flags.c_contiguous else self.host.strides,
            "version": self._version,
        }
        if self._version >= 3:
            interface["stream"] = self._stream
        return interface

    def __dlpack_device__(self):
        return (_interop.CUDA, self._device)


class CapsuleArray:
    """A producer of DLPack capsules, and of nothing else."""

    def __init__(self, values, device=0, kind=_interop.CUDA, code=2):
        values = np.asarray(values)
        self.host = fleetblas.empty(values.shape, values.dtype, location=device)
        self.host[...] = values
        self._device, self._kind, self._code, self.asked = device, kind, code, []

    def __dlpack_device__(self):
        return (self._kind, self._device)

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        host, item = self.host, self.host.itemsize
        rank = host.ndim
        self._shape = (ctypes.c_int64 * rank)(*host.shape)
        self._strides = (ctypes.c_int64 * rank)(*(step // item for step in host.strides))
        # One element before the first, to see that the offset counts.
        self._tensor = _interop._DLTensor(
            data=host.ctypes.data - item,
            device_type=self._kind,
            device_id=self._device,
            ndim=rank,
            code=self._code,
            bits=8 * item,
            lanes=1,
            shape=self._shape,
            strides=self._strides,
            byte_offset=item,
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


@pytest.fixture
def waits(monkeypatch):
    """What streams a call waited for: (device, stream)."""
    seen = []
    original = fleetblas._native.library.fleet_wait_stream

    def wait(context, device, stream):
        seen.append((device, stream.value))
        return original(context, device, stream)

    stand_in = types.SimpleNamespace(fleet_wait_stream=wait)
    monkeypatch.setattr(_interop, "library", stand_in)
    return seen


def last_place():
    return fleetblas.stats()["last"]["place"]


@pytest.mark.parametrize("seed", range(24))
def test_gemm_takes_mixed_arrays_at_mixed_places(seed):
    g = np.random.default_rng(seed)
    dtype = [np.float32, np.float64, np.complex64, np.complex128][seed % 4]
    m, n, k = (int(edge) for edge in g.integers(1, 60, 3))
    transa, transb = g.choice(list("nt"), 2)
    a = random_array(g, (m, k) if transa == "n" else (k, m), dtype)
    b = random_array(g, (k, n) if transb == "n" else (n, k), dtype)
    c = random_array(g, (m, n), dtype)
    first = CudaArray(a, device=0, order="CF"[seed % 2])
    second = [b, CapsuleArray(b, 1, code=5 if a.dtype.kind == "c" else 2)][seed % 3 % 2]
    third = CudaArray(c, device=1, order="CF"[seed // 2 % 2])

    found = fleetblas.gemm(
        first, second, third, alpha=2, beta=-1, transa=transa, transb=transb, out=third
    )

    assert found is third
    assert_near(third.host.copy(), (2 * (apply(transa, a) @ apply(transb, b)) - c).astype(dtype), k)
    np.testing.assert_array_equal(first.host, a)


def test_each_operand_is_used_where_it_is():
    a, c = CudaArray(np.ones((8, 8)), device=1), CudaArray(np.zeros((8, 8)), device=0)
    fleetblas.gemm(a, np.ones((8, 8)), out=c)
    # The product of rows is done as the transposed one, so its first operand is b.
    assert last_place() == "p,1,0"
    assert (c.host == 8).all()


@pytest.mark.parametrize("op", ["n", "t", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_conjugates_on_a_device_work_where_a_flag_says_them(op, order):
    g = np.random.default_rng(5)
    a, b = (random_array(g, (20, 20), np.complex128) for _ in range(2))
    out = CudaArray(np.zeros((20, 20), complex), order=order)
    fleetblas.gemm(CudaArray(a, order=order), b, transa=op, out=out)
    assert_near(out.host.copy(), apply(op, a) @ b, 20)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("word", [word for word in ROUTINES if word != "gemm"])
def test_every_routine_takes_arrays_on_devices(word, order):
    routine, g = ROUTINES[word], np.random.default_rng(9)
    for flags in every_flags(routine):
        arrays, depth = made(g, routine, flags, np.complex128, 30, 24, 18)
        other = arrays["c"] if routine.triangular else arrays.get("b")
        wanted = expected(routine, flags, 2, -1, arrays["a"], other, arrays["c"])
        on_devices = [
            CudaArray(arrays[name], device=i % 2, order=order)
            for i, name in enumerate(routine.operands)
        ]
        words = {**named(routine, flags), "alpha": 2, "out": on_devices[-1]}
        if not routine.triangular:
            words["beta"] = -1
        assert getattr(fleetblas, word)(*on_devices, **words) is on_devices[-1]
        assert "h" not in last_place() and "p" not in last_place()
        found = on_devices[-1].host.copy()
        if routine.triangle:
            kept = triangle(arrays["c"], "u" if flags["uplo"] == "l" else "l")
            np.fill_diagonal(kept, 0)
            wanted = triangle(wanted, flags["uplo"]) + kept
        assert_close(found, wanted, depth)


def test_orders_that_no_flag_says_are_refused_on_a_device():
    square, tall = np.ones((4, 4), complex), np.ones((4, 3), complex)
    out = CudaArray(np.zeros((4, 3), complex), order="F")
    for call in (
        lambda: fleetblas.symm(CudaArray(square), CudaArray(tall), out=out),
        lambda: fleetblas.hemm(CudaArray(square), CudaArray(tall, order="F"), out=out),
        lambda: fleetblas.syr2k(CudaArray(tall), CudaArray(tall, order="F"), out=CudaArray(square)),
        lambda: fleetblas.herk(CudaArray(tall, order="F"), out=CudaArray(square)),
    ):
        with pytest.raises(fleetblas.BadArgument, match="another order of rows"):
            call()
    c = CudaArray(square)
    with pytest.raises(fleetblas.BadArgument, match="use c itself as out"):
        fleetblas.syrk(CudaArray(tall), c, beta=1, out=CudaArray(square))
    fleetblas.syrk(CudaArray(tall), c, beta=1, out=c)
    assert (c.host == np.tri(4) * 3 + 1).all()


def test_slices_are_used_in_place_and_nothing_else_is_touched():
    board = CudaArray(np.full((30, 40), 7.0))
    a, b = np.random.default_rng(6).standard_normal((2, 20, 20))
    fleetblas.gemm(
        CudaArray(a), CudaArray(b, device=1), out=board.sliced(slice(5, 25), slice(9, 29))
    )
    assert_near(board.host[5:25, 9:29].copy(), a @ b, 20)
    board.host[5:25, 9:29] = 7.0
    assert (board.host == 7.0).all()


def test_a_numpy_first_operand_gives_a_numpy_result():
    found = fleetblas.gemm(np.ones((4, 4)), CudaArray(np.ones((4, 4))))
    assert type(found) is np.ndarray
    assert (found == 4).all()


def test_beta_without_out_being_c_copies_c_first():
    out, c = CudaArray(np.zeros((6, 5))), CudaArray(np.arange(30.0).reshape(6, 5), device=1)
    fleetblas.gemm(np.ones((6, 2)), np.ones((2, 5)), c, beta=3, out=out)
    np.testing.assert_array_equal(out.host, 2 + 3 * np.arange(30.0).reshape(6, 5))
    assert c.host[0, 1] == 1


@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((4, 5), (5, 6)),
        ((3, 4, 5), (5, 6)),
        ((3, 4, 5), (3, 5, 6)),
        ((5,), (5, 6)),
        ((4, 5), (5,)),
        ((5,), (5,)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 4)),
    ],
)
def test_matmul_of_devices_is_what_numpy_computes(shape_a, shape_b):
    g = np.random.default_rng(7)
    a, b = g.standard_normal(shape_a), g.standard_normal(shape_b)
    expected = a @ b
    out = CudaArray(np.full(np.shape(expected), np.nan), device=1)
    assert fleetblas.matmul(CudaArray(a), CudaArray(b, device=1), out=out) is out
    np.testing.assert_allclose(out.host, expected, rtol=1e-12)


# ---- streams ------------------------------------------------------------------------------------


def test_each_stream_is_waited_for_once_on_its_device(waits):
    a, b = CudaArray(np.ones((4, 4)), 0, stream=1), CudaArray(np.ones((4, 4)), 1, stream=0xABC0)
    fleetblas.gemm(a, b, out=CudaArray(np.ones((4, 4)), 0, stream=1))
    assert sorted(waits) == [(0, 1), (1, 0xABC0)]


def test_no_stream_is_waited_for_where_the_producer_says_so(waits):
    quiet = CudaArray(np.ones((4, 4)), stream=None)
    out = CudaArray(np.ones((4, 4)), stream=None)
    fleetblas.gemm(quiet, np.ones((4, 4)), out=out)
    assert waits == []


def test_the_default_stream_is_waited_for_where_the_producer_says_nothing(waits):
    old = CudaArray(np.ones((4, 4)), device=1, version=2)
    fleetblas.gemm(old, np.ones((4, 4)), out=CudaArray(np.ones((4, 4)), stream=None))
    assert waits == [(1, _interop.LEGACY_STREAM)]


def test_a_default_stream_of_an_unknown_device_is_waited_for_on_all(waits, monkeypatch):
    monkeypatch.delattr(CudaArray, "__dlpack_device__")
    fleetblas.gemm(np.ones((4, 4)), np.ones((4, 4)), out=CudaArray(np.ones((4, 4))))
    assert sorted(waits) == [(0, 1), (1, 1)]


def test_dlpack_producers_are_asked_to_order_the_default_stream(waits):
    a = CapsuleArray(np.ones((4, 4)), device=1)
    found = fleetblas.gemm(np.ones((4, 4)), a)
    assert (found == 4).all()
    assert a.asked == [_interop.LEGACY_STREAM]
    assert waits == [(1, _interop.LEGACY_STREAM)]


def test_a_stream_of_a_device_that_the_context_has_not_is_refused():
    elsewhere = CudaArray(np.ones((4, 4)), device=1)
    elsewhere._device = 9
    with pytest.raises(fleetblas.BadArgument, match="no device 9"):
        fleetblas.gemm(elsewhere, elsewhere, out=CudaArray(np.ones((4, 4))))


# ---- what is refused ----------------------------------------------------------------------------


def ones(shape=(4, 4), dtype=float, **keywords):
    return CudaArray(np.ones(shape, dtype), **keywords)


def read_only():
    array = ones()
    array.readonly = True
    return array


@pytest.mark.parametrize(
    ("make", "exception", "words"),
    [
        (
            lambda: ((ones((4, 8)).sliced(slice(None), slice(None, None, 2)), ones()), {}),
            fleetblas.BadArgument,
            "strides",
        ),
        (
            lambda: ((ones().sliced(slice(None, None, -1)), ones()), {}),
            fleetblas.BadArgument,
            "negative",
        ),
        (lambda: ((ones(dtype=np.float32), ones()), {}), fleetblas.BadArgument, "float32"),
        (lambda: ((ones(dtype=int), ones(dtype=int)), {}), TypeError, "int64"),
        (lambda: ((ones(), ones()), {"out": ones(dtype=np.float32)}), TypeError, "float32"),
        (lambda: ((ones(), ones()), {"out": read_only()}), fleetblas.BadArgument, "read-only"),
        (lambda: ((ones(), ones()), {}), fleetblas.BadArgument, "give out"),
        (lambda: ((ones(), CapsuleArray(np.ones((4, 4)), kind=10)), {}), TypeError, "kind 10"),
        (lambda: ((CapsuleArray(np.ones((4, 4)), code=4), ones()), {}), TypeError, "known"),
    ],
)
def test_what_needs_a_copy_on_a_device_is_refused_with_its_reason(make, exception, words):
    operands, keywords = make()
    keywords.setdefault("out", ones() if words != "give out" else None)
    with pytest.raises(exception, match=words):
        fleetblas.gemm(*operands, **keywords)


def test_an_out_that_is_an_operand_is_refused_on_a_device():
    a = ones()
    with pytest.raises(fleetblas.BadArgument, match="part of an operand"):
        fleetblas.gemm(a, ones(), out=a)


def test_matmul_of_integers_on_a_device_is_refused():
    with pytest.raises(fleetblas.BadArgument, match="only"):
        fleetblas.matmul(ones(dtype=int), ones(dtype=int), out=ones(dtype=int))


def test_a_context_without_devices_refuses_arrays_on_devices():
    context = fleetblas.Context(backend="sim", machine="h200x4")
    with pytest.raises(fleetblas.Unsupported, match="no backend"):
        context.gemm(ones(), ones(), out=ones())


# ---- results like the first operand -------------------------------------------------------------


def test_the_result_of_cupy_arrays_is_made_by_cupy(monkeypatch, waits):
    cupy = types.ModuleType("cupy")

    class ndarray(CudaArray):
        class Current:
            def __enter__(self):
                cupy.entered += 1

            def __exit__(self, *exception):
                pass

        device = Current()

    ndarray.__module__ = "cupy"
    cupy.entered = 0
    cupy.empty = lambda shape, dtype: ndarray(np.full(shape, np.nan, dtype), 0, stream=0x77)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    a, b = np.random.default_rng(8).standard_normal((2, 9, 9))

    found = fleetblas.gemm(ndarray(a), b)

    assert type(found) is ndarray
    assert cupy.entered == 1
    assert_near(found.host.copy(), a @ b, 9)
    # Memory that is new to us may still be in use by what cupy queued before.
    assert (0, 0x77) in waits
    assert_near(fleetblas.matmul(ndarray(a), b).host.copy(), a @ b, 9)


@pytest.fixture
def torch(monkeypatch):
    """As much of PyTorch as a tensor is asked for; its GPUs are virtual devices."""
    module = types.ModuleType("torch")
    module.strided, module.sparse_coo, module.int16 = "strided", "sparse_coo", "int16"
    module.float64, module.complex128 = "torch.float64", "torch.complex128"

    class Tensor:
        layout = module.strided

        def __init__(self, values, device="cuda", index=0, conjugated=False):
            values = np.asarray(values)
            location = index if device == "cuda" else "p"
            self.host = fleetblas.empty(values.shape, values.dtype, location=location)
            self.host[...] = values
            self.device = types.SimpleNamespace(type=device, index=index)
            self.dtype, self.shape = f"torch.{values.dtype}", values.shape
            self.conjugated = conjugated

        def detach(self):
            return self

        resolve_neg = detach

        def resolve_conj(self):
            if not self.conjugated:
                return self
            return Tensor(self.host.conj(), self.device.type, self.device.index)

        def stride(self):
            return [step // self.host.itemsize for step in self.host.strides]

        def data_ptr(self):
            return self.host.ctypes.data

        def numpy(self):
            return self.host

        def __array__(self, *arguments, **keywords):
            raise AssertionError("a tensor was read behind PyTorch's back")

    def empty(shape, dtype, device):
        return Tensor(np.full(shape, np.nan, dtype.split(".")[1]), device.type, device.index)

    module.Tensor, module.empty = Tensor, empty
    stream = types.SimpleNamespace(cuda_stream=0)
    module.cuda = types.SimpleNamespace(current_stream=lambda device: stream)
    module.stream = stream
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.parametrize(("device", "index"), [("cuda", 1), ("cpu", None)])
def test_tensors_in_a_tensor_out(torch, waits, device, index):
    a, b = np.random.default_rng(9).standard_normal((2, 12, 12))
    found = fleetblas.gemm(torch.Tensor(a, device, index), b, transb="t")
    assert isinstance(found, torch.Tensor)
    assert (found.device.type, found.device.index) == (device, index)
    assert_near(found.host.copy(), a @ b.T, 12)
    # PyTorch calls the legacy default stream 0.
    assert set(waits) == ({(1, _interop.LEGACY_STREAM)} if device == "cuda" else set())


def test_the_current_stream_of_pytorch_is_waited_for(torch, waits):
    torch.stream.cuda_stream = 0x5500
    fleetblas.matmul(torch.Tensor(np.ones((3, 3))), np.ones((3, 3)))
    assert set(waits) == {(0, 0x5500)}


def test_delayed_conjugates_of_tensors_are_read_as_what_they_mean(torch):
    g = np.random.default_rng(10)
    a, b = (random_array(g, (7, 7), np.complex128) for _ in range(2))
    found = fleetblas.gemm(torch.Tensor(a, conjugated=True), torch.Tensor(b))
    assert_near(found.host.copy(), a.conj() @ b, 7)
    with pytest.raises(fleetblas.BadArgument, match="conjugate"):
        fleetblas.gemm(a, b, out=torch.Tensor(a, conjugated=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layout": "sparse_coo"}, "not strided"),
        ({"device": types.SimpleNamespace(type="mps", index=0)}, "neither"),
        ({"dtype": "torch.float8_e4m3fn"}, "unknown type"),
    ],
)
def test_tensors_that_no_product_takes_are_refused(torch, change, words):
    tensor = torch.Tensor(np.ones((3, 3)))
    vars(tensor).update(change)
    with pytest.raises(TypeError, match=words):
        fleetblas.gemm(tensor, np.ones((3, 3)))

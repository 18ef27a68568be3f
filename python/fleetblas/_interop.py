# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries: CuPy, PyTorch, and all that support
`__cuda_array_interface__` or DLPack. None of them is imported here.

An array on a device becomes an `OnDevice`: a NumPy array whose shape and strides may be read, but
not its elements. Knows no product.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

import numpy as np

from . import _types
from ._native import BadArgument, check, library

LEGACY_STREAM = 1  # the numbers that the array interface and DLPack give to the default streams
PER_THREAD_STREAM = 2
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLDataTypeCode; no others NumPy knows
DLPACK_BFLOAT = 4


class OnDevice(np.ndarray):
    """Memory of a device with NumPy's shape and strides. Reading an element crashes the process."""

    owner = None  # the array of another library whose memory it is, if results are to be like it


def is_on_device(array) -> bool:
    return isinstance(array, OnDevice)


class InFlight(np.ndarray):
    """Memory of a matrix that queued calls may be using."""

    owner = None


class Settled(InFlight):
    """An operand of a queued call that no other one uses: it may be copied into the result, but a
    copy of it would not live until the call is done."""


class Settle(Exception):
    """A queued call cannot do without a copy."""


def refuse_copy(array, why: str) -> None:
    """To be called where an array on the host would be copied: one on a device is refused."""
    if is_on_device(array):
        raise BadArgument(f"an array on a device {why}", "bad_argument")
    if isinstance(array, InFlight):
        raise Settle(why)


def _c_strides(shape: tuple, item: int) -> tuple:
    steps, step = [], item
    for edge in reversed(shape):
        steps.append(step)
        step *= max(1, edge)
    return tuple(reversed(steps))


def _view(address: int, shape, dtype, strides, readonly: bool) -> OnDevice:
    """`strides` in bytes, or None for C order."""
    dtype = np.dtype(dtype)
    shape = tuple(int(edge) for edge in shape)
    if strides is None:
        strides = _c_strides(shape, dtype.itemsize)
    if any(step < 0 for step in strides):
        raise BadArgument("an array on a device has negative strides", "bad_argument")
    inside = all(shape)
    span = dtype.itemsize + sum((n - 1) * step for n, step in zip(shape, strides)) if inside else 0
    memory = (ctypes.c_char * span).from_address(address if span else 0)
    array = np.ndarray.__new__(OnDevice, shape, dtype, buffer=memory, strides=tuple(strides))
    array.flags.writeable = not readonly
    return array


# ---- DLPack -------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


def _dlpack_view(value, capsule) -> OnDevice:
    """The capsule is not consumed: it releases the array when it is destroyed."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    kind = DLPACK_KINDS.get(tensor.code)
    if (tensor.code, tensor.bits, tensor.lanes) == (DLPACK_BFLOAT, 16, 1):
        dtype = _types.TYPES["bf16"].dtype
    elif kind is not None and tensor.lanes == 1:
        dtype = np.dtype(f"{kind}{tensor.bits // 8}")
    else:
        raise TypeError(f"{_name_of(value)} has an unknown type")
    shape = tensor.shape[: tensor.ndim]
    strides = None
    if tensor.strides:
        strides = [step * dtype.itemsize for step in tensor.strides[: tensor.ndim]]
    return _view((tensor.data or 0) + tensor.byte_offset, shape, dtype, strides, readonly=False)


# ---- the library of an array, and how to make one like it ---------------------------------------


def _name_of(value) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def _is_torch(value) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


class _Torch:
    """A tensor of PyTorch, on a GPU or on the CPU."""

    def __init__(self, tensor):
        self.torch = sys.modules["torch"]
        self.owner = tensor
        plain = tensor.detach()
        # PyTorch may defer conjugation and negation until the tensor is read, as it is here.
        self.tensor = plain.resolve_conj().resolve_neg()
        if tensor.layout != self.torch.strided:
            raise TypeError(f"a tensor is {tensor.layout}, not strided")

    def view(self) -> np.ndarray:
        tensor = self.tensor
        if tensor.device.type not in ("cpu", "cuda"):
            raise TypeError(f"a tensor is on {tensor.device}: neither the CPU nor a CUDA device")
        word = str(tensor.dtype).split(".")[-1]
        try:
            dtype = _types.TYPES["bf16"].dtype if word == "bfloat16" else np.dtype(word)
        except TypeError:
            raise TypeError(f"a tensor has the unknown type {tensor.dtype}") from None
        if tensor.device.type == "cpu":
            if word == "bfloat16":
                return tensor.view(self.torch.int16).numpy().view(dtype)
            return tensor.numpy()
        strides = [step * dtype.itemsize for step in tensor.stride()]
        return _view(tensor.data_ptr(), tensor.shape, dtype, strides, readonly=False)

    def queue(self) -> tuple[int, int] | None:
        if self.tensor.device.type == "cpu":
            return None
        stream = self.torch.cuda.current_stream(self.tensor.device)
        return self.tensor.device.index, stream.cuda_stream or LEGACY_STREAM

    def is_changed_view(self) -> bool:
        """True if the view is a copy, so that writing to it would not reach the owner."""
        return self.tensor.data_ptr() != self.owner.data_ptr()

    def empty(self, shape, dtype: np.dtype, zeroed: bool):
        kind = getattr(self.torch, dtype.name)
        make = self.torch.zeros if zeroed else self.torch.empty
        return make(tuple(shape), dtype=kind, device=self.tensor.device)


class _CudaArray:
    """Anything with `__cuda_array_interface__`: CuPy, Numba, ..."""

    def __init__(self, value):
        self.owner, self.interface = value, value.__cuda_array_interface__
        if self.interface.get("mask") is not None:
            raise TypeError(f"{_name_of(value)} has a mask")

    def view(self) -> np.ndarray:
        address, readonly = self.interface["data"]
        shape, strides = self.interface["shape"], self.interface.get("strides")
        return _view(address or 0, shape, self.interface["typestr"], strides, readonly)

    def queue(self) -> tuple[int | None, int] | None:
        # Without the key (before version 3) the default stream is customary; None means no wait.
        stream = self.interface.get("stream", LEGACY_STREAM)
        return None if stream is None else (_device_of(self.owner), int(stream))

    def is_changed_view(self) -> bool:
        return False

    def empty(self, shape, dtype: np.dtype, zeroed: bool):
        module = sys.modules.get(type(self.owner).__module__.split(".")[0])
        if getattr(module, "__name__", None) != "cupy":
            raise BadArgument(
                f"a result like {_name_of(self.owner)} cannot be made here: give out",
                "bad_argument",
            )
        with self.owner.device:
            return (module.zeros if zeroed else module.empty)(tuple(shape), dtype)


class _DLPack:
    """Anything else with DLPack on a CUDA device."""

    def __init__(self, value):
        self.owner = value
        self.device = int(value.__dlpack_device__()[1])
        # The producer makes this stream wait for its own stream.
        self.capsule = value.__dlpack__(stream=LEGACY_STREAM)

    def view(self) -> np.ndarray:
        return _dlpack_view(self.owner, self.capsule)

    def queue(self) -> tuple[int, int]:
        return self.device, LEGACY_STREAM

    def is_changed_view(self) -> bool:
        return False

    def empty(self, shape, dtype: np.dtype, zeroed: bool):
        raise BadArgument(
            f"a result like {_name_of(self.owner)} cannot be made here: give out", "bad_argument"
        )


class _Owned:
    """Memory of an array of another library, or a part of it."""

    def __init__(self, memory):
        self.memory, self.reader = memory, _foreign(memory.owner)
        self.queue, self.empty = self.reader.queue, self.reader.empty

    def view(self) -> np.ndarray:
        return self.memory

    def is_changed_view(self) -> bool:
        return False


def _device_of(value) -> int | None:
    """The device number as reported by the library of an array; None if it reports none."""
    if hasattr(value, "__dlpack_device__"):
        kind, number = value.__dlpack_device__()
        return int(number) if int(kind) in (CUDA, CUDA_MANAGED) else None
    number = getattr(getattr(value, "device", None), "id", None)
    return number if isinstance(number, int) else None


def _foreign(value):
    """The reader for an array of another library; None for what NumPy reads itself."""
    if isinstance(value, (OnDevice, InFlight)) and value.owner is not None:
        return _Owned(value) if _foreign(value.owner) is not None else None
    if value is None or isinstance(value, (np.ndarray, np.generic, int, float, complex, list)):
        return None
    if _is_torch(value):
        return _Torch(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _CudaArray(value)
    if hasattr(value, "__dlpack_device__"):
        kind = int(value.__dlpack_device__()[0])
        if kind in (CUDA, CUDA_MANAGED):
            return _DLPack(value)
        if kind not in (CPU, CUDA_HOST):
            raise TypeError(f"{_name_of(value)} is on a device of DLPack's kind {kind}, not CUDA")
    return None


class Guests:
    """The arrays of one call as NumPy arrays, and the streams and results of other libraries."""

    def __init__(self):
        self._readers: list = []  # kept until the call is over
        self._results: list = []
        self._first = None
        self._seen = False

    def view(self, value):
        """The array as a NumPy array: an OnDevice, a view, or the value itself."""
        reader = _foreign(value)
        if not self._seen:
            self._seen, self._first = True, reader
        if reader is None:
            return value
        self._readers.append(reader)
        return reader.view()

    def output(self, value):
        """The same for `out`."""
        if value is None:
            return None
        reader = _foreign(value)
        if reader is None:
            return value
        if reader.is_changed_view():
            raise BadArgument("out is a conjugate or negative view of a tensor", "bad_argument")
        self._readers.append(reader)
        view = reader.view()
        self._results.append((view, value))
        return view

    def empty(self, shape, dtype: np.dtype, order="C", zeroed: bool = False) -> np.ndarray:
        """A new array like the first of the call."""
        if self._first is None:
            return (np.zeros if zeroed else np.empty)(shape, dtype, order)
        if order == "C":
            return self.output(self._first.empty(shape, dtype, zeroed))
        return self.output(self._first.empty(tuple(reversed(shape)), dtype, zeroed).T)

    def wait(self, context) -> None:
        """Makes the next call of the context wait for the work queued on the arrays' streams."""
        queues = {reader.queue() for reader in self._readers} - {None}
        for device, stream in sorted(queues, key=str):
            for number in self._devices(context, device, stream):
                check(library.fleet_wait_stream(context.pointer, number, c_void_p(stream)))

    @staticmethod
    def _devices(context, device: int | None, stream: int) -> list[int]:
        """The devices of a stream: one if it is given by address, all for a default stream."""
        if device is not None:
            return [device]
        devices = context.config()["devices"] or [0]
        return devices if stream in (LEGACY_STREAM, PER_THREAD_STREAM) else devices[:1]

    def deliver(self, result):
        """The array that `result` is a view of, in its own library, or the result itself."""
        for view, owner in self._results:
            if result is view:
                return owner
        return result

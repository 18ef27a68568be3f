# SPDX-License-Identifier: BSD-3-Clause
"""Large arrays of NumPy from the pool of the preload library, by NumPy's hook for the memory of
arrays (NEP 49, from NumPy 1.22 on). The functions of the handler are in the library, which is never
unloaded; this module only sets it. Without NumPy, or with an older one, it does nothing."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char, c_char_p, c_uint8, c_void_p, py_object

# The functions of NumPy's C API by their places in its table, which do not change.
_SET_HANDLER, _GET_HANDLER = 304, 305
_FIRST_VERSION = (1, 22)
_CAPSULE = b"mem_handler"


class _Allocator(ctypes.Structure):
    """PyDataMemAllocator."""

    _fields_ = [(name, c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """PyDataMem_Handler."""

    _fields_ = [("name", c_char * 127), ("version", c_uint8), ("allocator", _Allocator)]


# By the address of the handler that each goes on to: its capsule, and all that has to stay as long
# as there are arrays, which is for good.
_handlers: dict[int, tuple] = {}


def _functions():
    """PyDataMem_SetHandler and PyDataMem_GetHandler; None where this NumPy has none."""
    numpy = sys.modules.get("numpy")
    try:
        if tuple(int(word) for word in numpy.__version__.split(".")[:2]) < _FIRST_VERSION:
            return None
        core = numpy._core if hasattr(numpy, "_core") else numpy.core
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = c_void_p, [py_object, c_char_p]
        table = ctypes.cast(pointer_of(core._multiarray_umath._ARRAY_API, None), POINTER(c_void_p))
        set_handler = ctypes.PYFUNCTYPE(py_object, py_object)(table[_SET_HANDLER])
        return set_handler, ctypes.PYFUNCTYPE(py_object)(table[_GET_HANDLER])
    except (AttributeError, ValueError):
        return None


def _handler_before(before, library):
    """The capsule of a handler that goes on to the one of the capsule `before`."""
    address = ctypes.pythonapi.PyCapsule_GetPointer(before, _CAPSULE)
    if address not in _handlers:
        then = _Handler.from_address(address)
        functions = {
            name: ctypes.cast(getattr(library, f"fleetblas_array_{name}"), c_void_p)
            for name in ("malloc", "calloc", "realloc", "free")
        }
        ours = _Handler(b"fleetblas", 1, _Allocator(ctypes.addressof(then.allocator), **functions))
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
        capsule = new_capsule(ctypes.addressof(ours), _CAPSULE, None)
        _handlers[address] = (capsule, ours, before)
    return _handlers[address][0]


def enter(library):
    """Sets the handler in this context of Python; returns what leave() takes.

    `library` is the preload library. It says whether there is a pool."""
    functions = _functions()
    if functions is None:
        return None
    library.fleetblas_pool.restype = c_void_p
    if not library.fleetblas_pool():
        return None
    set_handler, get_handler = functions
    before = get_handler()
    if any(capsule is before for capsule, *_ in _handlers.values()):
        return None  # in another block
    set_handler(_handler_before(before, library))
    return before


def leave(before) -> None:
    """Sets the handler that was there before; arrays keep theirs."""
    if before is not None:
        _functions()[0](before)

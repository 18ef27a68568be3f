# SPDX-License-Identifier: BSD-3-Clause
"""Levels 1 and 2 of arrays: axpy, dot, vdot and gemv. Knows no command line.

Vectors are used in place, whatever their stride; arrays may be from NumPy or any library that
_interop knows, each operand in host memory or on a device.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_void_p

import numpy as np

from . import _interop, _types
from ._arrays import layout, real_or_complex, require_array
from ._interop import is_on_device, refuse_copy
from ._native import BadArgument, check, library

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def _declare() -> None:
    """The argument types of the functions of fleetblas.h that this file uses."""
    scalars = {"s": ctypes.c_float, "d": ctypes.c_double, "c": c_void_p, "z": c_void_p}
    vector = [c_void_p, c_int64]
    functions = {}
    for letter, scalar in scalars.items():
        functions[letter + "axpy"] = [c_void_p, c_int64, scalar, *vector, *vector]
        functions[letter + "gemv"] = [
            *(c_void_p, c_int, c_int64, c_int64, scalar),
            *(c_void_p, c_int64, *vector, scalar, *vector),
        ]
        for dot in ("dot",) if letter in "sd" else ("dotu", "dotc"):
            functions[letter + dot] = [c_void_p, c_int64, *vector, *vector, c_void_p]
    for name, arguments in functions.items():
        function = getattr(library, "fleet_" + name)
        function.argtypes, function.restype = arguments, c_int


_declare()


def _vector(name: str, value, guests) -> np.ndarray:
    array = guests.view(value)
    array = array if is_on_device(array) else np.asarray(array)
    if array.ndim != 1:
        raise BadArgument(f"{name} has {array.ndim} dimensions instead of 1", "bad_argument")
    return array


def _common_type(*arrays: np.ndarray) -> np.dtype:
    dtype = np.result_type(*arrays).newbyteorder("=")
    if dtype.char not in _LETTERS:
        raise TypeError(
            f"no routine with vectors of {dtype}: float32, float64, complex64 and "
            "complex128 have one"
        )
    return dtype


def _readable(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array, or a copy if BLAS does not support its type or its strides."""
    if array.dtype == dtype and array.flags.aligned and _is_whole(array):
        return array
    refuse_copy(array, f"is of {array.dtype} with steps of {array.strides} bytes, not of {dtype}")
    return np.ascontiguousarray(array, dtype)


def _is_whole(vector: np.ndarray) -> bool:
    """Whether the stride is whole elements and not 0; a repeated element must be copied."""
    if vector.ndim != 1 or vector.size < 2:
        return True
    return vector.strides[0] % vector.itemsize == 0 and vector.strides[0] != 0


def _words(vector: np.ndarray) -> tuple[int, int]:
    """Lowest address and increment."""
    address = vector.ctypes.data
    if vector.size < 2:
        return address, 1
    step = vector.strides[0]
    return address + min(0, step * (vector.size - 1)), step // vector.itemsize


def _scalar(dtype: np.dtype, value):
    """The scalar as its function takes it: a complex one by pointer, which keeps it alive."""
    return value if dtype.kind == "f" else np.array([value], dtype).ctypes.data_as(c_void_p)


def _checked_target(name: str, array: np.ndarray, dtype: np.dtype, shape: tuple) -> None:
    if array.shape != shape:
        raise BadArgument(f"{name} has shape {array.shape}, not {shape}", "bad_argument")
    if array.dtype != dtype or not _is_whole(array) or not array.flags.aligned:
        raise BadArgument(f"{name} has to be an aligned vector of {dtype}", "bad_argument")
    if not array.flags.writeable:
        raise BadArgument(f"{name} is read-only", "bad_argument")


def call(context, word, routine, flags, edges, alpha, a, b, beta, c) -> None:
    """One C call of the type `word`, as in _level3.call; a, b and c are (address, leading dimension
    or increment), and c of a dot is the address of its result."""
    m, n, _ = edges
    dtype = _types.TYPES[word].dtype
    alpha, beta = _scalar(dtype, alpha), _scalar(dtype, beta)
    if routine.word == "gemv":
        arguments = [ord(flags["transa"]), m, n, alpha, *a, *b, beta, *c]
    elif routine.word == "axpy":
        arguments = [n, alpha, *a, *c]
    else:
        arguments = [n, *a, *b, c[0]]
    check(getattr(library, f"fleet_{routine.named(word)}")(context.pointer, *arguments))


def axpy(context, alpha, x, y):
    guests = _interop.Guests()
    source, target = _vector("x", x, guests), guests.output(y)
    require_array(target, "y")
    dtype = _common_type(target)
    _checked_target("y", target, dtype, source.shape)
    if not np.can_cast(source.dtype, dtype, "same_kind"):
        raise TypeError(f"x is of {source.dtype}, y of {dtype}")
    source = _readable(source, dtype)
    if np.shares_memory(source, target) and not _same(source, target):
        refuse_copy(source, "shares memory with y: it would have to be copied")
        source = source.copy()
    alpha = real_or_complex(dtype, "alpha", alpha)
    guests.wait(context)
    function = getattr(library, f"fleet_{_LETTERS[dtype.char]}axpy")
    check(
        function(
            context.pointer, source.size, _scalar(dtype, alpha), *_words(source), *_words(target)
        )
    )
    return y


def dot(context, x, y, conjugate):
    guests = _interop.Guests()
    x, y = _vector("x", x, guests), _vector("y", y, guests)
    if x.shape != y.shape:
        raise BadArgument(f"x has {x.size} elements, y {y.size}", "bad_argument")
    dtype = _common_type(x, y)
    x, y = _readable(x, dtype), _readable(y, dtype)
    result = np.zeros(1, dtype)
    guests.wait(context)
    ending = "" if dtype.kind == "f" else "c" if conjugate else "u"
    function = getattr(library, f"fleet_{_LETTERS[dtype.char]}dot{ending}")
    check(function(context.pointer, x.size, *_words(x), *_words(y), result.ctypes.data))
    return result[0]


def _stored(a: np.ndarray, trans: str) -> tuple[np.ndarray, str, int, int, int]:
    """The matrix as the library sees it: its flag, rows, columns and leading dimension."""
    if trans == "c" and a.dtype.kind != "c":
        trans = "t"
    found = layout(a)
    if found is None or (found[0] and trans == "c"):
        # C-ordered rows that must be conjugated are refused too: BLAS has no flag for it.
        refuse_copy(a, f"has strides {a.strides}, for which BLAS has no flag")
        a = np.array(a, order="F")
        found = (False, a.shape[0])
    transposed, leading = found
    if transposed:
        return a, "t" if trans == "n" else "n", a.shape[1], a.shape[0], leading
    return a, trans, *a.shape, leading


def gemv(context, a, x, y, alpha, beta, trans, out):
    guests = _interop.Guests()
    a, x = guests.view(a), _vector("x", x, guests)
    a = a if is_on_device(a) else np.asarray(a)
    trans = str(trans).lower()
    if trans not in ("n", "t", "c"):
        raise BadArgument(f"trans {trans!r} is none of 'n', 't', 'c'", "bad_argument")
    if a.ndim != 2 or x.shape != (a.shape[1 if trans == "n" else 0],):
        raise BadArgument(f"a has shape {a.shape}, x {x.shape}", "bad_argument")
    size = a.shape[0 if trans == "n" else 1]
    operands = [a, x]
    if y is not None:
        y = _vector("y", y, guests)
        operands.append(y)
    dtype = _common_type(*operands)
    alpha, beta = real_or_complex(dtype, "alpha", alpha), real_or_complex(dtype, "beta", beta)
    if beta != 0 and (y is None or y.shape != (size,)):
        raise BadArgument(f"beta is not 0, and y is no vector of {size} elements", "bad_argument")
    result = guests.empty((size,), dtype) if out is None else guests.output(out)
    require_array(result, "out")
    _checked_target("out", result, dtype, (size,))
    x = _readable(x, dtype)
    if a.dtype != dtype:
        refuse_copy(a, f"is of {a.dtype}, the product of {dtype}")
        a = a.astype(dtype)
    guests.wait(context)
    target = result
    if any(np.shares_memory(target, operand) for operand in (a, x)):
        refuse_copy(target, "shares memory with a or x: the result would have to be copied there")
        result = np.empty_like(target)
    if beta != 0 and not _same(result, y):
        refuse_copy(y, "is not out: it would have to be copied there")
        refuse_copy(result, "is not y: it would have to be copied there")
        np.copyto(result, y)
    if a.size == 0:  # the library, like the reference, does not write y
        refuse_copy(result, "is the product with an empty matrix")
        result[...] = beta * result if beta != 0 else 0
    else:
        _call_gemv(context, dtype, alpha, _stored(a, trans), x, beta, result)
    if result is not target:
        np.copyto(target, result)
    return out if out is not None else guests.deliver(result)


def _call_gemv(context, dtype, alpha, stored, x, beta, result) -> None:
    a, trans, rows, cols, leading = stored
    function = getattr(library, f"fleet_{_LETTERS[dtype.char]}gemv")
    check(
        function(
            *(context.pointer, ord(trans), rows, cols, _scalar(dtype, alpha)),
            *(a.ctypes.data, leading, *_words(x), _scalar(dtype, beta), *_words(result)),
        )
    )


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.ctypes.data == y.ctypes.data and x.strides == y.strides and x.shape == y.shape

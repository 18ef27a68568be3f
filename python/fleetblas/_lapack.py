# SPDX-License-Identifier: BSD-3-Clause
"""lapack.h by ctypes: each function by its name without prefix and type. Knows no layouts: matrices
are column-major arrays, and what info means is the caller's business.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_double, c_int, c_int64, c_void_p

import numpy as np

from . import _arrays, _native, _tracked
from ._native import check, library

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}

# f: a flag, n: a size, m: a matrix, v: a vector, i: a number that is returned.
_ARGUMENTS = {
    "potrf": "fnmi",
    "getrf": "nnmvi",
    "geqrf": "nnmv",
    "potrs": "fnnmm",
    "getrs": "fnnmvm",
    "getri": "nmvi",
    "potri": "fnmi",
    "gesv": "nnmvmi",
    "solve": "fnnmmmi",
    "inverse": "nmmi",
    "slogdet": "nmvv",
    "trtri": "ffnmi",
    "lauum": "fnm",
    "orgqr": "nnnmv",
    "ormqr": "ffnnnmvm",
    "sgesv": "nnmvmmii",
}
_TYPES = {
    "f": [c_int],
    "n": [c_int64],
    "m": [c_void_p, c_int64],
    "v": [c_void_p],
    "i": [POINTER(c_int64)],
}
_COMPLEX_NAMES = {"orgqr": "ungqr", "ormqr": "unmqr", "sgesv": "cgesv"}


def letter_of(dtype) -> str:
    """The letter of a type in LAPACK's names; KeyError if it has none."""
    return LETTERS[np.dtype(dtype).name]


@functools.cache
def _function(letter: str, name: str):
    own = _COMPLEX_NAMES.get(name, name) if letter in "cz" else name
    try:
        function = getattr(library, f"fleet_{letter}{own}")
    except AttributeError:
        reason = f"this libfleetblas.so has no {letter}{own}"
        raise _native.Unsupported(reason, "unsupported") from None
    function.argtypes = [c_void_p, *(each for kind in _ARGUMENTS[name] for each in _TYPES[kind])]
    function.restype = c_int
    return function


def matrix(array) -> tuple[int, int]:
    """Address and leading dimension of a column-major array, or of a tracked matrix, whose elements
    the library finds."""
    if isinstance(array, _tracked.Tracked):
        array = array._unread()
    leading = _arrays.leading_as(array, False)
    if leading is None:
        raise ValueError(f"strides {array.strides} are not those of a column-major matrix")
    return array.ctypes.data, leading


def call(context, dtype, name: str, *values) -> tuple[int, ...]:
    """One call: flags as letters, sizes, and arrays. Returns the numbers that the function returns.

    Raises the exception of its status.
    """
    kinds = _ARGUMENTS[name]
    given, returned, kept = [], [], iter(values)
    for kind in kinds:
        if kind == "i":
            returned.append(c_int64(0))
            given.append(ctypes.byref(returned[-1]))
            continue
        value = next(kept)
        if kind == "f":
            given.append(ord(value))
        elif kind == "n":
            given.append(value)
        elif kind == "m":
            given.extend(matrix(value))
        else:
            given.append(value.ctypes.data)
    check(_function(letter_of(dtype), name)(context.pointer, *given))
    return tuple(number.value for number in returned)


def trsm(context, flags: str, f: np.ndarray, x: np.ndarray) -> None:
    """x becomes op(f)^-1 x or x op(f)^-1, both column-major; flags: side, uplo, trans and diag."""
    letter = letter_of(x.dtype)
    one = np.ones(1, x.dtype)
    alpha = one.ctypes.data if x.dtype.kind == "c" else 1.0
    function = getattr(library, f"fleet_{letter}trsm")
    check(function(context.pointer, *map(ord, flags), *x.shape, alpha, *matrix(f), *matrix(x)))


class _DropinCore(ctypes.Structure):
    """The beginning of fleet_dropin_core, which is of the same build."""

    _fields_ = [("version", c_int), ("min_flops", c_double)]


def least_flops() -> float:
    """Calls of the default context with fewer flops are never faster on devices; infinite without
    devices."""
    library.fleet_dropin.argtypes, library.fleet_dropin.restype = [], POINTER(_DropinCore)
    return library.fleet_dropin().contents.min_flops

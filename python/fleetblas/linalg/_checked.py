# SPDX-License-Identifier: BSD-3-Clause
"""What the functions of this package share: arrays, types, shapes and stacks of their arguments,
and the errors about them, in NumPy's words. Computes nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from .._interop import is_on_device
from . import _storage

_SINGLE = ("float32", "complex64")
_KNOWN = (*_SINGLE, "float64", "complex128")


def context_of(context):
    """`context`, or the default one."""
    if context is not None:
        return context
    import fleetblas

    return fleetblas._default


def array_of(value) -> np.ndarray:
    """TypeError for arrays of a device, which NumPy cannot read."""
    if is_on_device(value) or hasattr(value, "__cuda_array_interface__"):
        kind = type(value).__name__
        raise TypeError(f"fleetblas.linalg takes arrays of the host, not {kind} on a device")
    return np.asarray(value)


def wrapped(value, result):
    """The result as NumPy gives it for this argument: a matrix for a matrix."""
    if type(value) is np.ndarray or not hasattr(value, "__array_wrap__"):
        return result
    return value.__array_wrap__(result)


def common_type(*arrays: np.ndarray) -> np.dtype:
    """The type in which is computed: integers are float64. TypeError for what NumPy refuses too."""
    is_single, is_complex = True, False
    for array in arrays:
        kind, name = array.dtype.kind, array.dtype.name
        if kind in "biu":
            name = "float64"
        elif name not in _KNOWN:
            raise TypeError(f"array type {name} is unsupported in linalg")
        is_single = is_single and name in _SINGLE
        is_complex = is_complex or kind == "c"
    return np.dtype(("F" if is_single else "D") if is_complex else ("f" if is_single else "d"))


def check_matrices(array: np.ndarray) -> None:
    if array.ndim < 2:
        raise LinAlgError(
            f"{array.ndim}-dimensional array given. Array must be at least two-dimensional"
        )


def check_square(array: np.ndarray) -> None:
    check_matrices(array)
    if array.shape[-1] != array.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")


def check_all_finite(is_asked: bool, *arrays: np.ndarray) -> None:
    if is_asked and not all(map(_storage.is_finite, arrays)):
        raise ValueError("array must not contain infs or NaNs")


def check_rows(name: str, a: np.ndarray, b: np.ndarray) -> None:
    """Whether b has a row for each of a; a vector is a column."""
    if b.ndim == 0 or (b.shape[0] if b.ndim == 1 else b.shape[-2]) != a.shape[-2]:
        raise ValueError(f"{name}: shapes of a {a.shape} and b {b.shape} are incompatible")


def target(shape, dtype, source: np.ndarray, overwrite: bool, order: str = "C") -> np.ndarray:
    """Where a result goes: `source` if it may be overwritten and LAPACK can use it; else new."""
    is_usable = (
        overwrite
        and source.shape == shape
        and source.dtype == dtype
        and source.flags.writeable
        and source.flags.aligned
        and (source.flags.c_contiguous or (source.ndim <= 2 and source.flags.f_contiguous))
    )
    return source if is_usable else np.empty(shape, dtype, order)


def stack_of(*arrays: np.ndarray) -> tuple[int, ...]:
    return np.broadcast_shapes(*(array.shape[:-2] for array in arrays))


def items(*arrays: np.ndarray):
    """The matrices of stacks that belong together, and their place in a stack of results."""
    stack = stack_of(*arrays)
    whole = [
        array if array.shape[:-2] == stack else np.broadcast_to(array, stack + array.shape[-2:])
        for array in arrays
    ]
    for place in np.ndindex(stack):
        yield place, *(array[place] for array in whole)
